"""The desk of consent: a steward's decisions become entries of the register.

The same desk serves the command line and HTTP. A person's id and a session's id enter the register
in their governed forms only. A person is known by two ids where a client gave the same name to the
SDK and to the proxy, which makes a pseudonym of it first; a decision is about both.
"""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from atdp.access import (
    AccessError,
    ConsentDecision,
    ConsentScope,
    RegisterRules,
    StandingDecision,
    UseRules,
)
from atdp.governance import GovernedIdentifiers
from atdp.lakehouse import Lake, LakehouseError, open_lake, withheld_by
from atdp.runtime import (
    Home,
    Principal,
    Register,
    open_register,
    tenant_problem,
)
from atdp.stack.consent.concerned_weights import ConcernedVersion, concerned_versions
from atdp.stack.consent.matching_trajectories import (
    MatchingTrajectories,
    matching_trajectories,
)
from atdp.stack.errors import StackError
from atdp.stack.sent_ids import sent_ids_of_person
from atdp.trainer import WeightRegistry

_TRAIN: Final = "train"
_TICK: Final = timedelta(microseconds=1)
"""A decision is newer than every earlier one, also when another machine's clock is ahead."""
_ATTEMPTS: Final = 3


class ConsentDenied(StackError):
    """The caller may not decide about, or read, the consent of this tenant."""


class ConsentQuestionWrong(StackError):
    """The question or decision about consent cannot be understood; nothing was written."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ConsentPlace:
    """Whom a decision or question is about: a tenant, or one subject or session of it."""

    tenant: str
    subject: str | None = None
    """As the platform knows it from outside, or its governed form."""
    session: str | None = None

    def __post_init__(self) -> None:
        """Check that it names one place."""
        if problem := tenant_problem(self.tenant):
            raise ConsentQuestionWrong(problem)
        if self.subject is not None and self.session is not None:
            raise ConsentQuestionWrong("name a subject or a session, not both")


@dataclass(frozen=True, kw_only=True, slots=True)
class ConsentChoice:
    """The decision and what it is about."""

    granted: bool
    purposes: Sequence[str] = ()
    """Empty: all."""
    expires_at: datetime | None = None
    reason: str = ""


class ConsentNotStanding(StackError):
    """A decision was overruled while it was written."""


class ConsentDesk:
    """Decides and answers about consent on the register of a home."""

    def __init__(
        self, home: Home, open_log: Callable[[], Register] | None = None, lake: Lake | None = None
    ) -> None:
        """Open the register (default: that of the home) at each use; nothing is opened yet."""
        self._home = home
        self._open = open_log or (lambda: open_register(home))
        self._lake = lake

    def decide(
        self, caller: Principal, place: ConsentPlace, terms: ConsentChoice, now: datetime
    ) -> list[StandingDecision]:
        """Write a decision and return it as it stands in the register.

        It is written again when another one with a later time was faster.

        Raises:
            ConsentDenied: the caller is no steward of the tenant.
            ConsentQuestionWrong: the rules would not understand it.
            ConsentNotStanding: others decide about the same all the time.
            PlatformError: the register cannot be written; it is not known to hold the decision.
            GovernanceError: the governed form of the subject or session cannot be made.
        """
        _check(caller, place.tenant)
        if terms.expires_at is not None and terms.expires_at <= now:
            raise ConsentQuestionWrong(
                f"a grant ends in the future, and {terms.expires_at.isoformat()} is over"
            )
        try:
            decisions = [
                ConsentDecision(
                    tenant=place.tenant,
                    scope=scope,
                    value=value,
                    purposes=tuple(sorted(set(terms.purposes))),
                    state="granted" if terms.granted else "withdrawn",
                    expires_at=terms.expires_at,
                    reason=terms.reason,
                )
                for scope, value in self._places(place)
            ]
        except AccessError as error:
            raise ConsentQuestionWrong(str(error)) from error
        for _ in range(_ATTEMPTS):
            before = [each.recorded_at for each in self.rules().decisions(place.tenant)]
            at = max([now, *(time + _TICK for time in before)])
            with closing(self._open()) as register:
                for decision in decisions:
                    register.append(decision.entry(caller.actor, at))
            standing = self.rules().decisions(place.tenant)
            found = [each for each in standing if each.decision in decisions]
            if len(found) == len(decisions):
                return found
        raise ConsentNotStanding(
            f"{_ATTEMPTS} times another decision about tenant {place.tenant!r} came in between; "
            "see `atdp consent list`, and decide again"
        )

    def standing(self, caller: Principal, tenant: str | None = None) -> list[StandingDecision]:
        """Return the decisions about tenants that the caller may see, oldest first.

        Raises:
            ConsentDenied: it may not see those of `tenant`.
            RulesUnavailable: the register cannot be read.
        """
        if tenant is not None:
            _check(caller, tenant)
        elif not caller.may("govern"):
            raise ConsentDenied("this key may not see consent; use one of the role steward")
        return [
            each
            for each in self.rules().decisions(tenant)
            if caller.may_act_for(each.decision.tenant)
        ]

    def answer(self, caller: Principal, place: ConsentPlace) -> list[StandingDecision]:
        """Return the decisions that concern a tenant, or one subject or session of it.

        Raises:
            ConsentDenied, RulesUnavailable, GovernanceError: see `decide` and `standing`.
        """
        _check(caller, place.tenant)
        wanted = {("tenant", None), *self._places(place)}
        return [
            each
            for each in self.rules().decisions(place.tenant)
            if (each.decision.scope, each.decision.value) in wanted
        ]

    def in_force(self, now: datetime) -> list[StandingDecision]:
        """Return the withdrawals of all tenants, and the grants that have ended.

        Raises:
            RulesUnavailable: the register cannot be read.
        """
        return [
            each
            for each in self.rules().decisions()
            if each.decision.state == "withdrawn" or each.decision.has_ended(now)
        ]

    def concerned(self, decisions: Sequence[StandingDecision]) -> list[ConcernedVersion]:
        """Return the weights that have learned from what these decisions alone withhold.

        Raises:
            LakehouseError: the lake cannot be read.
        """
        rules = UseRules()
        for each in decisions:
            rules.apply(each.decision.entry(each.actor, each.recorded_at))
        tenants = {each.decision.tenant for each in decisions}
        lake = self._lake or open_lake(self._home)
        withheld = withheld_by(lake, rules, purpose=_TRAIN, tenants=tenants)
        return concerned_versions(WeightRegistry(self._home.weights), withheld)

    def matching(self, decisions: Sequence[StandingDecision]) -> MatchingTrajectories | None:
        """Return how much of the lake the decisions about one place match; None: not known.

        The decisions stand, so a lake that cannot be read is no error here.
        """
        try:
            return matching_trajectories(self._lake or open_lake(self._home), decisions)
        except LakehouseError:
            return None

    def rules(self) -> UseRules:
        """Return the rules that hold now.

        Raises:
            RulesUnavailable: the register cannot be read.
        """
        opened: list[Register] = []

        def open_log() -> Register:
            opened.append(self._open())
            return opened[0]

        try:
            return RegisterRules(open_log).rules()
        finally:
            for register in opened:
                register.close()

    def _places(self, place: ConsentPlace) -> list[tuple[ConsentScope, str | None]]:
        """Return scope and governed value of a place, as `ConsentDecision` has them."""
        if place.subject is None and place.session is None:
            return [("tenant", None)]
        with closing(self._open()) as register:
            identifiers = GovernedIdentifiers(self._home, register)
            if place.session is not None:
                forms = identifiers.sessions(place.tenant, place.session)
                return [("session", form) for form in forms]
            raw = place.subject or ""
            governed = [
                form
                for sent in sent_ids_of_person(self._home, place.tenant, raw)
                for form in identifiers.subjects(place.tenant, sent)
            ]
            # A governed form that was given is its own form.
            own = [raw] if raw in governed else governed
            return [("subject", form) for form in own]


def _check(caller: Principal, tenant: str) -> None:
    """Raise `ConsentDenied` unless the caller governs the tenant."""
    if not caller.may("govern") or not caller.may_act_for(tenant):
        raise ConsentDenied(
            f"this key may not decide about consent of tenant {tenant!r}; "
            "use one of its role steward"
        )
