"""The pure core: one decoded event in, the governed event out.

No clock, no broker, no files: time, keys, tokenizers and policy come in as arguments, so the same
event under the same policy gives the same bytes in any process. What must not pass is an exception
(`Refusal`, `EventDropped`), never a half-governed value.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from atdp.governance.byte_lru import Memory
from atdp.governance.consent import permission
from atdp.governance.errors import Refusal
from atdp.governance.fidelity import DROPPED, Tokenizers, govern_tokens, without_tokens
from atdp.governance.policy.compiled import CompiledPolicy
from atdp.governance.policy.document import TenantTerms
from atdp.governance.redact.operators import SEVERITY
from atdp.governance.redact.pseudonyms import TenantKey
from atdp.governance.walk.record import FIELD, RecordWalk
from atdp.governance.walk.strings import Found, Governed, StringGovernor, merged
from atdp.schemas import KIND_OF_BODY

_VALUED = frozenset({"reward", "feedback"})
_BODIES = tuple(KIND_OF_BODY.values())
_PATH = re.compile(r"\$[\w.\[\]*#{}<>…-]{1,400}|…")


@dataclass(frozen=True, kw_only=True)
class GovernedEvent:
    """The record after the gate.

    `found`: what this pass replaced. `changed`: whether it replaced or removed anything.
    """

    record: dict[str, Any]
    found: tuple[Found, ...]
    changed: bool


@dataclass(frozen=True, kw_only=True)
class TenantGate:
    """Everything that governs one tenant's events: build once, use for many."""

    tenant: str
    policy: CompiledPolicy
    terms: TenantTerms
    strings: StringGovernor
    tokenizers: Tokenizers

    @classmethod
    def of(
        cls,
        tenant: str,
        policy: CompiledPolicy,
        terms: TenantTerms,
        key: TenantKey,
        tokenizers: Tokenizers,
        memory: Memory[Governed] | None = None,
    ) -> "TenantGate":
        """The gate of a tenant under a policy.

        `memory`: shared with other tenants' gates; by default one of its own.
        """
        strings = StringGovernor(policy, key, memory)
        return cls(
            tenant=tenant, policy=policy, terms=terms, strings=strings, tokenizers=tokenizers
        )

    def govern(self, record: Mapping[str, Any], now: datetime) -> GovernedEvent:
        """Govern one event record (the mapping form of `atdp.schemas.decode_record`).

        Raises:
            Refusal: set it aside, under the refusal's reason.
            EventDropped: the policy drops it.
        """
        kind = record["kind"]
        if kind not in _BODIES or [name for name in _BODIES if record[name] is not None] != [kind]:
            raise Refusal(
                "bad_body", "the event does not have exactly the body that its kind names"
            )
        # As content, not as an attribute: a reward that is not a number is none, and every mean
        # that it enters would be none either. (Of log-probabilities that are not numbers only the
        # ids go: the conversation around them is worth as much as before.)
        value = record[kind].get("value") if kind in _VALUED else None
        if value is not None and not math.isfinite(value):
            raise Refusal("not_finite", f"$.{kind}.value is not a finite number")
        trajectory = self.strings.identifier(record["trajectory_id"]).text or ""
        walked, found = RecordWalk(self.policy, self.strings, trajectory).run(dict(record))
        fidelity = self._govern_tokens(record, walked, found)
        self._stamp(record, walked, found, fidelity, now)
        changed = bool(found) or fidelity[1]
        return GovernedEvent(record=walked, found=found, changed=changed)

    def _govern_tokens(
        self, record: Mapping[str, Any], walked: dict[str, Any], found: tuple[Found, ...]
    ) -> tuple[str | None, bool]:
        """The fidelity (`None` without a generation), and whether ids were removed."""
        action = walked["action"]
        generation = action and action["generation"]
        if not generation:
            return None, False
        claimed = record["governance"] and record["governance"]["token_fidelity"]
        written = tuple(
            one for one in found if one.path.startswith(("$.action.message", "$.action.tool_call"))
        )
        # Log-probabilities and masks mean nothing without their ids: where the policy drops those,
        # all go.
        cut = (
            record["action"]["generation"]["output_token_ids"] is not None
            and generation["output_token_ids"] is None
        )
        if cut:
            generation = without_tokens(generation)
        governed, fidelity = govern_tokens(
            generation,
            claimed=DROPPED if cut else claimed,
            message_changed=bool(written) or self.policy.drops_context,
            changes=self._changes,
            readings=self.tokenizers.readings,
        )
        action["generation"] = governed
        return fidelity, governed != generation

    def _changes(self, text: str) -> bool:
        return self.strings.text(text, "").text != text

    def _stamp(
        self,
        record: Mapping[str, Any],
        walked: dict[str, Any],
        found: tuple[Found, ...],
        fidelity: tuple[str | None, bool],
        now: datetime,
    ) -> None:
        before = record["governance"] or {}
        stamp = dict(walked["governance"] or _UNSTAMPED)
        allowed = permission(
            self.policy,
            self.terms,
            self.tenant,
            event_consent=before.get("consent", "unknown"),
            # A producer that names no purpose sets no limit; a stamp that names none allows none.
            event_purposes=before.get("purposes") or (() if before.get("policy_hash") else None),
            fidelity=fidelity[0],
        )
        earlier = self._earlier_findings(before)
        stamp.update(
            purposes=list(allowed.purposes),
            consent=allowed.consent,
            policy_id=self.policy.id,
            policy_version=self.policy.version,
            policy_hash=self.policy.content_hash,
            governed_at=now,
            findings=findings_records(merged((*earlier, *found))),
            training_eligible=allowed.eligible,
            eligibility_reason=allowed.reason,
            token_fidelity=fidelity[0],
        )
        walked["governance"] = stamp

    def _earlier_findings(self, before: Mapping[str, Any]) -> tuple[Found, ...]:
        """What an earlier pass under this very policy replaced; claims of any other kind are not carried on."""
        if before.get("policy_hash") != self.policy.content_hash:
            return ()
        return tuple(
            Found(one["path"], one["entity"], one["operator"], one["count"])
            for one in before["findings"]
            if (one["entity"] in self.policy.operators or one["entity"] == FIELD)
            and one["operator"] in SEVERITY
            and _PATH.fullmatch(one["path"])
            and self.strings.text(one["path"], "").text == one["path"]
        )


def findings_records(
    found: tuple[Found, ...], *, room_bytes: int = 200_000
) -> list[dict[str, Any]]:
    """Findings as the schemas have them, in at most about `room_bytes`.

    Long paths are cut in the middle. Beyond the room, or 500 places, the rest is added up by entity
    and operator under the path `…`.
    """
    shown = merged(Found(_cut(one.path), one.entity, one.operator, one.count) for one in found)
    kept = 0
    for one in shown[:_MAX_PLACES]:
        room_bytes -= len(one.path.encode()) + _ENTRY_BYTES
        if room_bytes < 0:
            break
        kept += 1
    rest = merged(Found(_REST, one.entity, one.operator, one.count) for one in shown[kept:])
    return [
        {"path": one.path, "entity": one.entity, "operator": one.operator, "count": one.count}
        for one in (*shown[:kept], *rest)
    ]


def _cut(path: str) -> str:
    return path if len(path) <= _PATH_CHARS else f"{path[: _PATH_CHARS - 61]}…{path[-60:]}"


_REST = "…"
_MAX_PLACES = 500
_PATH_CHARS = 300
"""Paths repeat the keys of nested JSON, up to 200 levels of them: uncut, the findings of one event
were 27 MB."""
_ENTRY_BYTES = 60
"""Entity, operator and count, about."""


_UNSTAMPED: Mapping[str, Any] = {
    "classification": "unclassified",
    "purposes": [],
    "consent": "unknown",
    "retention_class": None,
    "data_subjects": [],
    "replay_class": "unknown",
}
