"""The home's master keys, under which all other keys of governance are wrapped.

Every version is one file (mode 0600) that is never rewritten: `secrets/governance.json`,
`secrets/governance-2.json`, and so on: `{"key_id": …, "master": 64 hex digits, "made_at": …}`. The
highest version is the current one. A new version is made, and an old one is removed, under the lock
of the wrapped keys (`atdp.governance.wrapped_keys`). A key that is wrapped by a version that is
lost can never be used again.

In homes of the earlier form there was one master secret, without `made_at`: keys of quarantined
payloads were derived from it directly. It is version 1 here, and these payloads still open with it.
"""

import os
import re
import secrets
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from atdp.governance.errors import SecretsError
from atdp.governance.secret_files import create_once, is_destroyed, read_private

KEY_BYTES: Final = 32
NONCE_BYTES: Final = 12
_WRAPPING: Final = "atdp key wrapping v1"


@dataclass(frozen=True, kw_only=True, slots=True)
class MasterKey:
    """One version: 32 secret bytes, and the public id by which wrapped keys name it."""

    version: int
    key_id: str
    secret: bytes = field(repr=False)
    made_at: datetime | None
    """None: it is the master secret of the earlier form."""

    def derived(self, purpose: str) -> bytes:
        """Return the key for a purpose (HKDF-SHA256)."""
        return derived_key(self.secret, purpose)

    def wrapped(self, key: bytes, about: bytes) -> bytes:
        """Return a key under AES-256-GCM; `about` says which key it is, and is authenticated."""
        nonce = os.urandom(NONCE_BYTES)
        return nonce + _wrapping_cipher(self.secret).encrypt(nonce, key, about)

    def unwrapped(self, wrapped: bytes, about: bytes) -> bytes | None:
        """Return the key; None when it is another one, altered, or of another master key."""
        nonce, sealed = wrapped[:NONCE_BYTES], wrapped[NONCE_BYTES:]
        try:
            return _wrapping_cipher(self.secret).decrypt(nonce, sealed, about)
        except (InvalidTag, ValueError):
            return None


@dataclass(frozen=True, slots=True)
class MasterKeys:
    """The versions of a home, at least one, in ascending order."""

    versions: tuple[MasterKey, ...]

    @property
    def current(self) -> MasterKey:
        """The version under which new keys are made."""
        return self.versions[-1]

    def of_id(self, key_id: str) -> MasterKey | None:
        """Return the version with an id; None: this home has none."""
        return next((each for each in self.versions if each.key_id == key_id), None)

    def unwrapped(self, wrapped_by: str, wrapped: bytes, about: bytes) -> bytes | None:
        """Return a key; None when no version of this home unwraps it."""
        master = self.of_id(wrapped_by)
        return None if master is None else master.unwrapped(wrapped, about)

    def of_earlier_form(self, key_id: str) -> MasterKey | None:
        """Return the master secret of the earlier form, when it has this id."""
        found = self.of_id(key_id)
        return found if found is not None and found.made_at is None else None


@lru_cache(maxsize=16)
def _wrapping_cipher(secret: bytes) -> AESGCM:
    return AESGCM(derived_key(secret, _WRAPPING))


def derived_key(secret: bytes, purpose: str) -> bytes:
    """Return 32 bytes derived from a secret for one purpose (HKDF-SHA256)."""
    info = purpose.encode()
    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=info).derive(secret)


def load_master_keys(path: Path) -> MasterKeys | None:
    """Return the versions beside `path`, the file of version 1; None when there are none.

    Raises:
        SecretsError: a file is damaged, or readable by other users.
    """
    read = (_read(file, version) for version, file in sorted(_files(path).items()))
    versions = tuple(each for each in read if each is not None)
    return MasterKeys(versions) if versions else None


def make_master_key(path: Path, version: int, now: datetime) -> None:
    """Make a version, unless another process has made it meanwhile."""
    content = {
        "key_id": secrets.token_hex(4),
        "master": secrets.token_hex(KEY_BYTES),
        "made_at": now.isoformat(),
    }
    create_once(master_file(path, version), content)


def master_file(path: Path, version: int) -> Path:
    """Return the file of a version; `path` is that of version 1."""
    return path if version == 1 else path.with_name(f"{path.stem}-{version}.json")


def _files(path: Path) -> dict[int, Path]:
    form = re.compile(rf"{re.escape(path.stem)}(?:-([0-9]{{1,9}}))?\.json")
    found = ((form.fullmatch(file.name), file) for file in path.parent.glob(f"{path.stem}*.json"))
    return {int(match[1] or 1): file for match, file in found if match}


def _read(path: Path, version: int) -> MasterKey | None:
    """Return the version in a file; None: it is destroyed, or about to be."""
    try:
        if is_destroyed(path):
            return None
        content: dict[str, Any] = read_private(path)
        secret = bytes.fromhex(content["master"])
        key_id = str(content["key_id"])
        made_at = content.get("made_at")
        moment = None if made_at is None else datetime.fromisoformat(made_at)
    except OSError as error:
        raise SecretsError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SecretsError(
            f"{path} is damaged; restore it from your backup, because quarantine depends on it"
        ) from error
    if len(secret) != KEY_BYTES:
        raise SecretsError(f"{path} is damaged: a master key must have {KEY_BYTES} bytes")
    return MasterKey(version=version, key_id=key_id, secret=secret, made_at=moment)
