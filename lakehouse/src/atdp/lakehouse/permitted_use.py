"""The trajectories that may not be used now: by consent and retention, and by permissions.

Training, replay and export ask the authorizer whether the caller may do that with the data (see
`atdp.access.Authorizer`). Trajectories with the same stamps get the same answer, so it is asked
once for each different stamp. One stamp that is denied withholds the whole trajectory, all attempts
included. Every error denies.

A caller of None is the platform itself, which acts for the operator of the home: the trainer, the
evaluators and replays.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Protocol

from atdp.access import RESTRICTED_ACTIONS, Authorizer
from atdp.lakehouse.duckdb_sql import sql_literal
from atdp.lakehouse.lake import Lake
from atdp.lakehouse.queries import query
from atdp.lakehouse.stamped_data import STAMP, stamped_data
from atdp.lakehouse.withheld import Select, UseQuestion, Withheld
from atdp.runtime import ANY_TENANT, Principal

PLATFORM: Final = Principal(key_id="platform", tenant=ANY_TENANT, role="operator")
"""The platform's own services, as access policies name them: `Principal::"key:platform"`."""

NOT_PERMITTED: Final = "not_permitted"
"""Reason of a trajectory that the rules of access policies deny. Where a guard denies, or an error,
its code is the reason."""
_BY_RULES: Final = frozenset({"policy_forbids", "no_policy_permits"})


class Question(Protocol):
    """A question for what is withheld."""

    @property
    def tenants(self) -> Collection[str] | None:
        """The tenants whose data it is about; None: all tenants of the rows."""
        ...

    def ask(self, select: Select) -> Withheld:
        """Return what is withheld."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class PermissionQuestion:
    """The question for what consent, retention or permissions withhold."""

    use: UseQuestion
    authorizer: Authorizer
    caller: Principal

    @property
    def tenants(self) -> Collection[str] | None:
        """See `Question`."""
        return self.use.tenants

    def ask(self, select: Select) -> Withheld:
        """See `Question`."""
        withheld = self.use.ask(select)
        # Events that do not allow the purpose refuse their trajectory by themselves.
        allows = f"list_contains(governance.purposes, {sql_literal(self.use.purpose)})"
        stamps = select(query("stamps", condition=f"{self.use.named} AND {allows}"))
        denied = _Denials(self, {_identity(stamp): stamp for stamp in stamps})
        return withheld.joined(denied.withheld(select))


class _Denials:
    """The decisions about the different stamps of some data."""

    def __init__(
        self, question: PermissionQuestion, stamps: Mapping[object, Mapping[str, Any]]
    ) -> None:
        self._named = question.use.named
        self._allowed: set[str] = set()
        """Tenants with a stamp that is allowed."""
        self._conditions: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
        """Tenant → reason → conditions of its denied stamps."""
        use = question.use
        for stamp in stamps.values():
            decision = question.authorizer.authorize(
                question.caller, use.purpose, stamped_data(stamp), use.now
            )
            tenant = stamp["tenant_id"]
            if decision.allowed:
                self._allowed.add(tenant)
            else:
                reason = NOT_PERMITTED if decision.reason in _BY_RULES else decision.reason
                self._conditions[tenant][reason].append(_condition(stamp))

    def withheld(self, select: Select) -> Withheld:
        """Return the trajectories with a denied stamp; rows are read only where one is denied."""
        tenants: dict[str, str] = {}
        trajectories: dict[str, dict[str, str]] = {}
        for tenant, by_reason in self._conditions.items():
            if tenant not in self._allowed and len(by_reason) == 1:
                (tenants[tenant],) = by_reason
                continue
            found = trajectories.setdefault(tenant, {})
            for reason, conditions in by_reason.items():
                stamps = " OR ".join(conditions)
                for row in select(
                    query(
                        "with_stamps",
                        named=self._named,
                        tenant=sql_literal(tenant),
                        stamps=stamps,
                    )
                ):
                    found.setdefault(row["trajectory_id"], reason)
        return Withheld(tenants=tenants, trajectories=trajectories)


def use_question(
    lake: Lake,
    *,
    purpose: str,
    tenants: Collection[str] | None,
    now: datetime,
    caller: Principal | None = None,
    named: str = "true",
) -> Question:
    """Return the question for what a caller may not use for a purpose now.

    The register is read once, for consent, retention and access policies. `named` is an SQL
    condition over `events` that limits the trajectories.

    Raises:
        RulesUnreadable: the register cannot be read.
    """
    rules = lake.use_rules()
    use = UseQuestion(rules=rules, tenants=tenants, purpose=purpose, now=now, named=named)
    if purpose not in RESTRICTED_ACTIONS:
        return use
    return PermissionQuestion(
        use=use, authorizer=lake.authorizer.using(rules), caller=caller or PLATFORM
    )


def _identity(stamp: Mapping[str, Any]) -> object:
    return (stamp["tenant_id"], *(repr(stamp[name]) for name in STAMP))


def _condition(stamp: Mapping[str, Any]) -> str:
    """Return an SQL condition that holds for the events with this stamp."""
    return " AND ".join(
        f"{expression} IS NOT DISTINCT FROM {_literal(stamp[name])}"
        for name, expression in STAMP.items()
    )


def _literal(value: str | int | Sequence[str] | None) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return sql_literal(value)
    if isinstance(value, int):
        return str(value)
    return f"[{', '.join(map(sql_literal, value))}]::VARCHAR[]"
