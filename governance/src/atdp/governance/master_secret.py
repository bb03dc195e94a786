"""The home's master secret, and the keys that are derived from it.

One file, `secrets/governance.json` (mode 0600): `{"key_id": …, "master": 64 hex digits}`. From it
come, by HKDF-SHA256, one key per tenant for pseudonyms and one per tenant for quarantined payloads.
Losing it means that old pseudonyms cannot be continued and quarantine cannot be opened.
"""

import json
import os
import secrets
import stat
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from atdp.governance.errors import SecretsError
from atdp.governance.redact.pseudonyms import TenantKey

_BYTES = 32


@dataclass(frozen=True)
class MasterSecret:
    """32 secret bytes and the public id that quarantined records name."""

    key_id: str
    master: bytes = field(repr=False)

    def tenant_key(self, tenant: str) -> TenantKey:
        """The key of a tenant's pseudonyms."""
        return TenantKey(self._derive(f"atdp pseudonyms v1|{tenant}"))

    def quarantine_key(self, tenant: str) -> bytes:
        """The AES-256 key of a tenant's quarantined payloads."""
        return self._derive(f"atdp quarantine v1|{tenant}")

    def _derive(self, purpose: str) -> bytes:
        return HKDF(algorithm=SHA256(), length=_BYTES, salt=None, info=purpose.encode()).derive(
            self.master
        )


def load_master_secret(path: Path) -> MasterSecret:
    """The secret in `path`; made when the file is missing.

    Two processes that start at once agree: the file appears whole, and whoever comes second reads
    it.

    Raises:
        SecretsError: damaged, or readable by other users.
    """
    if not path.exists():
        _create(path)
    try:
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise SecretsError(f"{path} can be read by other users; run: chmod 600 {path}")
        content = json.loads(path.read_text("utf-8"))
        master = bytes.fromhex(content["master"])
        key_id = str(content["key_id"])
    except OSError as error:
        raise SecretsError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise SecretsError(
            f"{path} is damaged; restore it from your backup, pseudonyms depend on it"
        ) from error
    if len(master) != _BYTES:
        raise SecretsError(f"{path} is damaged: the master secret must have {_BYTES} bytes")
    return MasterSecret(key_id, master)


def _create(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    partial = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump({"key_id": secrets.token_hex(4), "master": secrets.token_hex(_BYTES)}, file)
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(partial, path)  # fails when another process was first
    except FileExistsError:
        pass
    finally:
        partial.unlink()
