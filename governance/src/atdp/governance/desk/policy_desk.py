"""The desk at which policies are drafted, approved, activated and rolled back.

Every caller is a principal with the permission `govern`. A decision that is already in the register
is not written twice, so every call may be repeated.
"""

import builtins
from collections.abc import Callable, Sequence
from datetime import datetime

from atdp.access import (
    ActivatedContent,
    ApprovedContent,
    DraftedContent,
    PolicyLog,
    PolicySettings,
)
from atdp.governance.desk.decision_writer import DecisionWriter
from atdp.governance.desk.policy_choice import (
    ContentChoice,
    check_decides,
    check_single,
    chosen_draft,
    earlier_draft,
    visible_drafts,
)
from atdp.governance.desk.policy_scope import PolicyScope
from atdp.governance.desk.policy_text import PolicyText
from atdp.governance.desk.policy_views import (
    DecisionLine,
    PolicySummary,
    PolicyVersionDetails,
    details,
    history,
    summaries,
)
from atdp.governance.errors import PolicyDecisionRefused
from atdp.runtime import Principal, Register, utc_now


class PolicyDesk:
    """The policies of one register. Safe to use from several threads."""

    def __init__(
        self,
        register: Register,
        check: Callable[[PolicyText], None],
        *,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        """Take a register that nobody else reads from.

        `check` raises `PolicyDecisionRefused` for a policy that must not be activated; see
        `PolicyChecks.check_for_activation`.
        """
        self._writer = DecisionWriter(register, now)
        self._check = check

    def list(self, caller: Principal) -> Sequence[PolicySummary]:
        """Return the policies that the caller may see."""
        scope = PolicyScope(caller)
        with self._writer.lock:
            return [*summaries(self._read(scope), scope)]

    def show(self, caller: Principal, choice: ContentChoice) -> PolicyVersionDetails:
        """Return a version.

        Raises:
            PolicyUnknown: there is none that the caller may see.
        """
        scope = PolicyScope(caller)
        with self._writer.lock:
            log = self._read(scope)
            return details(log, chosen_draft(log, scope, choice))

    def current(self, caller: Principal, policy_id: str) -> PolicyVersionDetails:
        """Return the active version, else the last draft.

        Raises:
            PolicyUnknown: there is none that the caller may see.
        """
        shown = self.versions(caller, policy_id)
        return next((each for each in shown if each.state == "active"), shown[-1])

    def versions(self, caller: Principal, policy_id: str) -> builtins.list[PolicyVersionDetails]:
        """Return all contents of a policy that the caller may see, by version.

        Raises:
            PolicyUnknown: there is none.
        """
        scope = PolicyScope(caller)
        with self._writer.lock:
            log = self._read(scope)
            return [details(log, draft) for draft in visible_drafts(log, scope, policy_id)]

    def in_force(self, caller: Principal, content: DraftedContent) -> PolicyVersionDetails | None:
        """Return what a content would take the place of; None: nothing that the caller may see.

        That is the active version of its id, else the policy that applies to its first tenant.
        """
        scope = PolicyScope(caller)
        with self._writer.lock:
            log = self._read(scope)
            active = log.active.get(content.id) or log.active_for(
                content.tenants[0], content.document_kind
            )
            if active is None or not scope.may_see(active.content.tenants):
                return None
            return _details_of(log, active.content)

    def history(self, caller: Principal, policy_id: str) -> Sequence[DecisionLine]:
        """Return the decisions about a policy, refused ones among them.

        Raises:
            PolicyUnknown: there is no policy of this id that the caller may see.
        """
        scope = PolicyScope(caller)
        with self._writer.lock:
            log = self._read(scope)
            visible_drafts(log, scope, policy_id)
            return history(log, scope, policy_id)

    def two_person(self, caller: Principal) -> bool:
        """Return whether the two-person rule is on."""
        with self._writer.lock:
            return self._read(PolicyScope(caller)).two_person

    def set_two_person(self, caller: Principal, on: bool) -> None:
        """Turn the two-person rule on or off, for all tenants.

        Raises:
            PolicyDecisionDenied: the caller is no operator.
        """
        scope = PolicyScope(caller)
        scope.check_operates()
        with self._writer.lock:
            if self._read(scope).two_person != on:
                self._writer.write(caller, PolicySettings(two_person=on))

    def draft(self, caller: Principal, text: PolicyText) -> PolicyVersionDetails:
        """Register a content for approval.

        Raises:
            PolicyDecisionDenied: the caller may not decide about this policy.
            PolicyDecisionRefused: the version is not higher than the active one, or was approved
                with other content.
        """
        scope = PolicyScope(caller)
        with self._writer.lock:
            log = self._read(scope)
            check_decides(log, scope, text.content)
            known = log.find(text.content)
            if known is None:
                self._writer.write(caller, text.content)
            elif log.state_of(known) in ("replaced", "passed over"):
                raise PolicyDecisionRefused(
                    f"{text.content.id}@{text.content.version} is {log.state_of(known)} by a later "
                    "version, and versions only rise; "
                    f"use version {log.next_version(text.content.id)} or a higher one"
                )
            return _details_of(log, text.content)

    def approve(self, caller: Principal, choice: ContentChoice) -> PolicyVersionDetails:
        """Approve a content.

        Raises:
            PolicyUnknown: it was not drafted.
            PolicyDecisionDenied: the caller may not decide about this policy.
            PolicyDecisionRefused: the caller drafted it under the two-person rule, or a higher
                version is active, or several contents could be meant.
        """
        scope = PolicyScope(caller)
        with self._writer.lock:
            log = self._read(scope)
            draft = chosen_draft(log, scope, choice)
            check_decides(log, scope, draft.content)
            check_single(log, scope, choice)
            body = ApprovedContent(id=choice.id, version=choice.version, hash=draft.content.hash)
            self._writer.check(caller, body)
            if caller.actor not in draft.approvals and not log.is_active(body):
                self._writer.write(caller, body)
            return details(log, draft)

    def activate(
        self, caller: Principal, choice: ContentChoice, *, reason: str = ""
    ) -> PolicyVersionDetails:
        """Activate an approved content after lint, its tests and its floor of recall.

        Raises:
            PolicyUnknown: it was not drafted.
            PolicyDecisionDenied: the caller may not decide about this policy.
            PolicyDecisionRefused: a check fails, it is not approved, a higher version is active, or
                another policy names one of its tenants.
        """
        scope = PolicyScope(caller)
        with self._writer.lock:
            log = self._read(scope)
            draft = chosen_draft(log, scope, choice)
            check_decides(log, scope, draft.content)
            text = PolicyText.parse(draft.content.text, where=f"{choice.id}@{choice.version}")
            body = text.activation(draft.content, reason)
            self._writer.check(caller, body)
            is_active = log.is_active(body)
        if not is_active:
            self._check(text)  # takes seconds, so not under the lock
        return self._put_in_force(caller, body)

    def roll_back(
        self, caller: Principal, policy_id: str, *, to: int | None = None
    ) -> PolicyVersionDetails:
        """Bring the content of an earlier version back as a new version.

        Without `to`, it is the version that was active before. With the two-person rule, the new
        version is drafted and waits for an approval; else it is active at the end.

        Raises:
            PolicyUnknown: there is no such version that was active.
            PolicyDecisionDenied: the caller may not decide about this policy.
            PolicyDecisionRefused: a check fails, or a rule of the register refuses it.
        """
        scope = PolicyScope(caller)
        with self._writer.lock:
            log = self._read(scope)
            earlier = earlier_draft(log, scope, policy_id, to)
            check_decides(log, scope, earlier.content)
            version, two_person = log.next_version(policy_id), log.two_person
        name = f"{policy_id}@{earlier.content.version}"
        reason = f"roll back to version {earlier.content.version}"
        text = PolicyText.parse(earlier.content.text, where=name).with_version(
            version, reason=reason
        )
        self._check(text)
        drafted = self.draft(caller, text)
        if two_person:
            return drafted
        self.approve(caller, ContentChoice(id=policy_id, version=version, hash=drafted.hash))
        return self._put_in_force(caller, text.activation(text.content, reason))

    def close(self) -> None:
        """Release the connections of the register."""
        with self._writer.lock:
            self._writer.close()

    def _put_in_force(self, caller: Principal, body: ActivatedContent) -> PolicyVersionDetails:
        """Activate a content that was checked."""
        scope = PolicyScope(caller)
        with self._writer.lock:
            log = self._read(scope)
            check_decides(log, scope, body)
            if not log.is_active(body):
                self._writer.write(caller, body)
            return _details_of(log, body)

    def _read(self, scope: PolicyScope) -> PolicyLog:
        scope.check_role()
        return self._writer.read()


def _details_of(log: PolicyLog, content: DraftedContent) -> PolicyVersionDetails:
    draft = log.find(content)
    assert draft is not None  # it was read before, or written just now
    return details(log, draft)
