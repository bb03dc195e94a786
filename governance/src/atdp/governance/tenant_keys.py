"""The keys of the tenants' pseudonyms and surrogates: one random key and one file per tenant.

A file is `secrets/tenant-keys/<tenant>.json` (mode 0600): `{"key_id": …, "key": …}`, the key as 64
hex digits. The first event of a tenant makes its file. Processes that need it at the same time get
the same key, because the complete file appears in one step and only the first one creates it.

Destroying a key is final: nobody can link what was written under it to its values any more, and the
tenant's values get other surrogates from the next transaction on. Destroy it in back-ups as well.
The content is overwritten before the file is removed, but a disk or file system that copies on
write may keep it.
"""

import os
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

from atdp.governance.errors import HomeUnavailable, Refusal, SecretsError
from atdp.governance.redact.pseudonyms import TenantKey
from atdp.governance.secret_files import create_once, read_private
from atdp.runtime import sync_directory, tenant_problem

_BYTES: Final = 32
_Stamp: TypeAlias = tuple[int, int]
"""Inode and time of change of a key file. A key file is never rewritten."""


@dataclass(slots=True)
class TenantKeyStore:
    """The tenant keys of a home. Not thread-safe; several processes may use one directory."""

    folder: Path
    _keys: dict[str, tuple[TenantKey, _Stamp]] = field(default_factory=dict, repr=False)
    _unreadable: set[str] = field(default_factory=set, repr=False)

    def key_of(self, tenant: str) -> TenantKey:
        """Return the tenant's key, which is created when it has none.

        Raises:
            HomeUnavailable: the file cannot be read or written, or is damaged. Nothing can be
                governed for the tenant until it is repaired.
            Refusal: no tenant can have this name.
        """
        known = self._keys.get(tenant)
        if known is not None:
            return known[0]
        if tenant_problem(tenant):
            raise Refusal("tenant_name", "the event's tenant has a name that no tenant can have")
        path = self._path(tenant)
        try:
            if not path.exists():
                content = {"key_id": secrets.token_hex(4), "key": secrets.token_hex(_BYTES)}
                create_once(path, content)
            key = _read(path)
            self._keys[tenant] = key, _stamp(path)
        except OSError as error:
            self._unreadable.add(tenant)
            raise HomeUnavailable(f"cannot use {path}: {error.strerror}") from error
        except SecretsError as error:
            self._unreadable.add(tenant)
            raise HomeUnavailable(str(error)) from error
        self._unreadable.discard(tenant)
        return key

    def refresh(self) -> bool:
        """Forget the keys whose files were destroyed or replaced; return whether there are any.

        Raises:
            HomeUnavailable: a key that could not be read still cannot.
        """
        for tenant in sorted(self._unreadable):
            self.key_of(tenant)
        gone = [
            tenant
            for tenant, (_, stamp) in self._keys.items()
            if _present_stamp(self._path(tenant)) != stamp
        ]
        for tenant in gone:
            del self._keys[tenant]
        return bool(gone)

    def destroy(self, tenant: str) -> bool:
        """Destroy the tenant's key; return whether it had one.

        Raises:
            SecretsError: the file cannot be removed.
        """
        if problem := tenant_problem(tenant):
            raise SecretsError(problem)
        path = self._path(tenant)
        self._keys.pop(tenant, None)
        try:
            with path.open("r+b") as file:
                file.write(b"\0" * path.stat().st_size)
                file.flush()
                os.fsync(file.fileno())
            path.unlink()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise SecretsError(f"cannot destroy {path}: {error.strerror}") from error
        sync_directory(path.parent)
        return True

    def _path(self, tenant: str) -> Path:
        return self.folder / f"{tenant}.json"


def _read(path: Path) -> TenantKey:
    try:
        key = bytes.fromhex(read_private(path)["key"])
    except (ValueError, KeyError, TypeError) as error:
        raise SecretsError(
            f"{path} is damaged; restore it from your backup, or destroy it with "
            "`atdp keys destroy-pseudonyms`"
        ) from error
    if len(key) != _BYTES:
        raise SecretsError(f"{path} is damaged: a tenant's key must have {_BYTES} bytes")
    return TenantKey(key)


def _stamp(path: Path) -> _Stamp:
    status = path.stat()
    return status.st_ino, status.st_mtime_ns


def _present_stamp(path: Path) -> _Stamp | None:
    try:
        return _stamp(path)
    except OSError:
        return None
