"""The first policy of a register, and policies that are put in force in one step."""

from datetime import datetime

from atdp.access import (
    REDACTION,
    ActivatedContent,
    ApprovedContent,
    DraftedContent,
    PolicyLog,
    policy_entry,
)
from atdp.governance.errors import PolicyDecisionRefused
from atdp.governance.policy.document import PolicyDocument, parse_policy
from atdp.runtime import Register


def install_first_policy(register: Register, text: str, *, actor: str, now: datetime) -> bool:
    """Activate a policy in a register that holds no policy yet; return whether it did.

    Several processes may do this at once: the same activation twice is one.

    Raises:
        PolicyError: the text is no policy.
        RegisterUnavailable: the register cannot be read or written.
    """
    log = PolicyLog()
    for entry in register.read():
        log.apply(entry)
    if log.ids():
        return False
    put_in_force(register, log, text, actor=actor, now=now)
    return True


def put_in_force(
    register: Register, log: PolicyLog, text: str, *, actor: str, now: datetime
) -> None:
    """Draft, approve and activate a policy in one step, by one principal.

    `log` is the fold over what `register` has given so far; it takes the new entries too. The
    policy's tests and its floor of recall are not run; `PolicyDesk.activate` does that.

    Raises:
        PolicyError: the text is no policy.
        PolicyDecisionRefused: the rules of the register refuse it (its version is not higher, say,
            or two persons are needed).
        RegisterUnavailable: the register cannot be read or written.
    """
    document = parse_policy(text, where="the policy")
    assert isinstance(document, PolicyDocument)
    name, version = document.metadata.id, document.metadata.version
    approved = ApprovedContent(id=name, version=version, hash=document.content_hash)
    drafted = DraftedContent(
        **approved.model_dump(),
        document_kind=REDACTION,
        tenants=tuple(document.applies_to.tenants),
        text=text,
    )
    activated = ActivatedContent(
        **drafted.model_dump(), retention=document.retention, reason=document.metadata.reason
    )
    for body in (drafted, approved, activated):
        register.append(policy_entry(body, actor=actor, recorded_at=now))
    refused = len(log.refused)
    for entry in register.read():
        log.apply(entry)
    if len(log.refused) > refused:
        raise PolicyDecisionRefused(f"{name}@{version}: {log.refused[refused].reason}")
