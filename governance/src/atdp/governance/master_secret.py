"""The home's master secret, and the keys that are derived from it.

The secret is one file, `secrets/governance.json` (mode 0600): `{"key_id": …, "master": 64 hex
digits}`. HKDF-SHA256 derives from it one key per tenant for quarantined payloads, and the key that
signs orders about them. If the file is lost, quarantined payloads cannot be opened. The keys of
pseudonyms and surrogates are files of their own (`atdp.governance.tenant_keys`).
"""

import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from atdp.governance.errors import SecretsError
from atdp.governance.secret_files import create_once, read_private

_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class MasterSecret:
    """32 secret bytes, and the public id by which quarantine records name them."""

    key_id: str
    master: bytes = field(repr=False)

    def quarantine_key(self, tenant: str) -> bytes:
        """Return the AES-256 key of a tenant's quarantined payloads."""
        return self._derived(f"atdp quarantine v1|{tenant}")

    @property
    def order_key(self) -> bytes:
        """The HMAC key of orders about quarantined records."""
        return self._derived("atdp quarantine orders v1")

    def _derived(self, purpose: str) -> bytes:
        info = purpose.encode()
        return HKDF(algorithm=SHA256(), length=_BYTES, salt=None, info=info).derive(self.master)


def load_master_secret(path: Path) -> MasterSecret:
    """Return the secret in `path`; a missing file is created with a new secret.

    Processes that start at the same time get the same secret: the complete file appears in one
    step, and only the first process creates it.

    Raises:
        SecretsError: the file is damaged, or readable by other users.
    """
    if not path.exists():
        create_once(path, {"key_id": secrets.token_hex(4), "master": secrets.token_hex(_BYTES)})
    try:
        content = read_private(path)
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
