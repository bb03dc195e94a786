"""The content that a caller means, and whether the caller may decide about it."""

from collections.abc import Sequence
from dataclasses import dataclass

from atdp.access import DraftedContent, PolicyDraft, PolicyState
from atdp.governance.desk.policy_scope import PolicyScope
from atdp.governance.errors import PolicyDecisionRefused, PolicyUnknown


@dataclass(frozen=True, kw_only=True, slots=True)
class ContentChoice:
    """A version of a policy, and the beginning of the hash of its content (empty: any).

    Without a hash, the approved content is meant, else the one that was drafted last.
    """

    id: str
    version: int
    hash: str = ""


def visible_drafts(state: PolicyState, scope: PolicyScope, policy_id: str) -> Sequence[PolicyDraft]:
    """Return the contents of a policy that the caller may see, by version.

    Raises:
        PolicyUnknown: there is none.
    """
    drafts = [each for each in state.drafts(policy_id) if scope.may_see(each.content.tenants)]
    if not drafts:
        raise PolicyUnknown(
            f"there is no policy {policy_id!r} that you may see; `atdp policy list` shows them"
        )
    return drafts


def chosen_draft(state: PolicyState, scope: PolicyScope, choice: ContentChoice) -> PolicyDraft:
    """Return the content that is chosen.

    Raises:
        PolicyUnknown: there is none that the caller may see.
    """
    visible_drafts(state, scope, choice.id)
    contents = [
        each
        for each in state.contents(choice.id, choice.version)
        if scope.may_see(each.content.tenants) and each.content.hash.startswith(choice.hash)
    ]
    if not contents:
        with_hash = f" with a hash that begins with {choice.hash}" if choice.hash else ""
        raise PolicyUnknown(
            f"{choice.id} has no version {choice.version}{with_hash}; "
            f"`atdp policy history {choice.id}` shows its versions"
        )
    return contents[-1]


def check_single(state: PolicyState, scope: PolicyScope, choice: ContentChoice) -> None:
    """Check that it is clear what is approved under the two-person rule.

    Whoever approves has looked at one content. Another one may have been drafted since.

    Raises:
        PolicyDecisionRefused: the version has several contents, and no hash says which is meant.
    """
    contents = [
        each.content.hash
        for each in state.contents(choice.id, choice.version)
        if scope.may_see(each.content.tenants)
    ]
    if state.two_person and not choice.hash and len(contents) > 1:
        raise PolicyDecisionRefused(
            f"{choice.id}@{choice.version} was drafted with {len(contents)} contents; name the "
            f"hash of the one that you approve ({', '.join(each[:8] for each in contents)})"
        )


def earlier_draft(
    state: PolicyState, scope: PolicyScope, policy_id: str, version: int | None
) -> PolicyDraft:
    """Return the content of a version that was active; without `version`, the last such one.

    Raises:
        PolicyUnknown: there is none that the caller may see.
        PolicyDecisionRefused: it is the active one.
    """
    were_active = [each for each in visible_drafts(state, scope, policy_id) if each.activated_at]
    earlier = [each for each in were_active if not state.is_active(each.content)]
    if version is None:
        if not earlier:
            raise PolicyUnknown(f"no earlier version of {policy_id} was active")
        return earlier[-1]
    for each in were_active:
        if each.content.version == version:
            if each not in earlier:
                raise PolicyDecisionRefused(f"{policy_id}@{version} is the active version")
            return each
    raise PolicyUnknown(
        f"{policy_id}@{version} was never active; `atdp policy history {policy_id}` shows what was"
    )


def check_decides(state: PolicyState, scope: PolicyScope, content: DraftedContent) -> None:
    """Check that the caller may decide about this content, and about what it would replace.

    Raises:
        PolicyDecisionDenied: it may not.
    """
    tenants = set(content.tenants)
    for each in state.drafts(content.id):
        if state.state_of(each) in ("active", "approved"):
            tenants.update(each.content.tenants)
    scope.check_decides(content.id, tenants)
