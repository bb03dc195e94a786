"""The home's master secret, and the keys that are derived from it.

The secret is one file, `secrets/governance.json` (mode 0600): `{"key_id": …, "master": 64 hex
digits}`. HKDF-SHA256 derives from it one key per tenant for quarantined payloads. If the file is
lost, quarantined payloads cannot be opened. The keys of pseudonyms and surrogates are files of
their own (`atdp.governance.tenant_keys`).
"""

import json
import os
import secrets
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from atdp.governance.errors import SecretsError
from atdp.governance.redact.pseudonyms import TenantKey
from atdp.runtime import sync_directory, write_durably

_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class MasterSecret:
    """32 secret bytes, and the public id by which quarantine records name them."""

    key_id: str
    master: bytes = field(repr=False)

    def tenant_key(self, tenant: str) -> TenantKey:
        """Return the key of a tenant's pseudonyms where there are no key files (in tests)."""
        return TenantKey(self._derive(f"atdp pseudonyms v1|{tenant}"))

    def quarantine_key(self, tenant: str) -> bytes:
        """Return the AES-256 key of a tenant's quarantined payloads."""
        return self._derive(f"atdp quarantine v1|{tenant}")

    def _derive(self, purpose: str) -> bytes:
        return HKDF(algorithm=SHA256(), length=_BYTES, salt=None, info=purpose.encode()).derive(
            self.master
        )


def load_master_secret(path: Path) -> MasterSecret:
    """Return the secret in `path`; a missing file is created with a new secret.

    Processes that start at the same time get the same secret: the complete file appears in one
    step, and only the first process creates it.

    Raises:
        SecretsError: the file is damaged, or readable by other users.
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
            f"{path} is damaged; restore it from your backup, because quarantine depends on it"
        ) from error
    if len(master) != _BYTES:
        raise SecretsError(f"{path} is damaged: the master secret must have {_BYTES} bytes")
    return MasterSecret(key_id, master)


def _create(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fresh = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    content = {"key_id": secrets.token_hex(4), "master": secrets.token_hex(_BYTES)}
    write_durably(fresh, json.dumps(content), mode=0o600)
    try:
        # A link, because `write_durably` alone would replace the secret of a faster process.
        os.link(fresh, path)
    except FileExistsError:
        pass
    finally:
        fresh.unlink()
    sync_directory(path.parent)
