"""The governed form of a case: everything that leaves governance for one raw record."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from atdp.governance.decisions import RawRecord
from atdp.governance.record_governor import RecordGovernor
from atdp.governance.tenant_keys import TenantKeyStore
from atdp.governance.testing import memory_secrets, policy_store
from atdp.governance.tokenizer_folder import TokenizerFolder
from atdp.runtime.keys import KeyStore
from atdp.schemas import SigningKey, decode_record, encode_record, record_key, signed_headers

from .cases import LeakCase
from .event_fields import NOW, TENANT
from .reader import is_left, readings


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """`reason` is that of a quarantine; a quarantined event shows nothing unless it is left."""

    left: bool
    reason: str | None


class Gate:
    """A home with the default policy. `governed=False` lets every record pass unread."""

    def __init__(self, home: Path, *, governed: bool = True) -> None:
        self._governed = governed
        store = KeyStore(home / "keys.sqlite")
        key, _ = store.create(TENANT, "agent")
        # The same surrogates in every run.
        secrets = memory_secrets(**{TENANT: b"k" * 32})
        self._key = SigningKey.parse(key)
        self._governor = RecordGovernor(
            keys=store.get,
            policies=policy_store(),
            secrets=secrets,
            tokenizers=TokenizerFolder(home / "tokenizers"),
            tenant_keys=TenantKeyStore(secrets),
        )

    def judge(self, case: LeakCase) -> Verdict:
        """Return whether the case's value can be read in what leaves governance."""
        if not self._governed:
            return Verdict(left=is_left(case.value, readings([case.record])), reason=None)
        value = encode_record("event", case.record)
        key = record_key(case.record["tenant_id"], case.record["trajectory_id"])
        raw = RawRecord(
            key=key,
            value=value,
            headers=signed_headers(self._key, "raw", key, value),
            topic="raw",
            partition=1,
            offset=case.number,
            timestamp=NOW,
        )
        decision = self._governor.decide(raw, NOW)
        outputs = [
            decode_record(each.value)[1]
            for each in (decision.governed, decision.quarantined, decision.audit)
            if each is not None
        ]
        keys = [
            each.key.decode(errors="replace")
            for each in (decision.governed, decision.quarantined, decision.audit)
            if each is not None and each.key is not None
        ]
        left = is_left(case.value, readings([*map(_own_text, outputs), keys]))
        return Verdict(
            left=left, reason=decision.reason if decision.decision == "quarantined" else None
        )


_WRITTEN_BY_GOVERNANCE: Sequence[str] = (
    "content_hash",
    "encryption_key_id",
    "policy_hash",
    "output_sha256",
    "payload_encrypted",
    "source_offset",
    "schema_fingerprint",
)
"""Digests, ciphertext, ids of keys and places in the log: their digits are no one's."""


def _own_text(output: Any) -> Any:
    """Return an output without the fields whose digits could be any value's by chance."""
    if isinstance(output, dict):
        return {
            name: _own_text(item)
            for name, item in output.items()
            if name not in _WRITTEN_BY_GOVERNANCE
        }
    return output
