"""The store of API keys, one sqlite file for all processes of a home.

A key reads `atdp_<key_id>_<secret>`. Only SHA-256 of the secret is stored: the *verifier*. The
secret has 256 bits of entropy, so a plain hash is enough: it can be neither guessed nor searched.
The verifier is also the HMAC key with which records are signed, so that governance can check a
record in the log without knowing a secret.

Guarantees: comparison takes constant time; an unknown role or permission is denied; a revoked key
stays in the store, so that governance can tell whose records it signed, but is never verified
again. A session key belongs to one session of a parent key, opens no further sessions, and is
revoked with the parent.

Reads are cached per store object; `PRAGMA data_version` changes when another process wrote, and
then the cache is cleared.
"""

import hmac
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Self

from atdp.runtime.durable_files import write_durably
from atdp.runtime.errors import KeyStoreError
from atdp.runtime.keys.api_key import ApiKey
from atdp.runtime.keys.principals import ANY_TENANT, ROLE_PERMISSIONS, Principal
from atdp.runtime.keys.session_binding import SessionBinding
from atdp.runtime.keys.stored_key import StoredKey
from atdp.runtime.keys.tenants import tenant_problem

_SCHEMA = """
CREATE TABLE IF NOT EXISTS keys (
    key_id     TEXT PRIMARY KEY,
    tenant     TEXT NOT NULL,
    role       TEXT NOT NULL,
    verifier   BLOB NOT NULL,             -- sha256(secret)
    parent     TEXT REFERENCES keys,      -- set for session keys
    session    TEXT,                      -- JSON, set for session keys: the session
    versions   TEXT,                      -- JSON: versions of the agent that uses the key
    created_at INTEGER NOT NULL,          -- microseconds since the epoch, UTC
    revoked_at INTEGER
) STRICT;
"""

_REVOKED_AT = """(
    WITH RECURSIVE line (parent, revoked_at) AS (
        SELECT k.parent, k.revoked_at
        UNION ALL
        SELECT up.parent, up.revoked_at FROM keys up JOIN line ON up.key_id = line.parent
    )
    SELECT min(revoked_at) FROM line
)"""
"""SQL: the earliest time at which a key or a key above it was revoked; NULL when none was."""

_COLUMNS = (
    "k.key_id, k.tenant, k.role, k.session, k.versions, k.parent, k.verifier, k.created_at, "
    f"{_REVOKED_AT}"
)

# Bounds memory when many session keys are in use. One lookup costs about 10 µs, so it does no harm
# to clear the cache now and then.
_CACHED_KEYS = 10_000


class KeyStore:
    """API keys in one sqlite file (WAL); safe to use from several threads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._cache: dict[str, StoredKey | None] = {}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(mode=0o600, exist_ok=True)
            self._db = sqlite3.connect(
                path, timeout=10, isolation_level=None, check_same_thread=False
            )
            self._db.execute("PRAGMA journal_mode=WAL")
            # A key is shown only once, so it must still exist after a power failure.
            self._db.execute("PRAGMA synchronous=FULL")
            self._db.execute(_SCHEMA)
            self._add_versions()
        except (OSError, sqlite3.Error) as error:
            raise KeyStoreError(
                f"cannot open the key store {path}: {error}; check the path and its permissions"
            ) from error
        self._seen_version = self._data_version()

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def create(
        self, tenant: str, role: str, *, versions: str | None = None
    ) -> tuple[ApiKey, Principal]:
        """Create a key for `tenant`; the returned text cannot be shown again.

        `versions` is a JSON object: the versions of the agent that uses the key.

        Raises:
            KeyStoreError: unknown role, bad tenant name, or a tenant that the role cannot have.
        """
        if role not in ROLE_PERMISSIONS:
            known = ", ".join(ROLE_PERMISSIONS)
            raise KeyStoreError(f"unknown role {role!r}; known roles: {known}")
        if role == "operator":
            if tenant != ANY_TENANT:
                raise KeyStoreError(
                    f"an operator acts for all tenants: use tenant '{ANY_TENANT}', not {tenant!r}"
                )
        elif (problem := tenant_problem(tenant)) is not None:
            raise KeyStoreError(problem)
        return self._insert(Principal(key_id="", tenant=tenant, role=role, versions=versions))

    def create_session_key(
        self, parent: Principal, *, tenant: str, session: SessionBinding
    ) -> tuple[ApiKey, Principal]:
        """Create a key of role `agent` for one session under a parent key.

        Raises:
            KeyStoreError: the parent may not emit for `tenant`, or is a session key itself.
        """
        if parent.session is not None:
            raise KeyStoreError(
                f"key {parent.key_id} is a session key and opens no further sessions; "
                "use the key that it was made with"
            )
        if not parent.may("emit") or not parent.may_act_for(tenant):
            raise KeyStoreError(
                f"key {parent.key_id} "
                f"(role {parent.role}) may not open sessions of tenant {tenant!r}"
            )
        return self._insert(
            Principal(key_id="", tenant=tenant, role="agent", session=session, parent=parent.key_id)
        )

    def verify(self, text: str) -> Principal | None:
        """Return the principal of a key; None when malformed, unknown, wrong or revoked."""
        key = ApiKey.parse(text)
        stored = self.get(key.key_id) if key is not None else None
        if key is None or stored is None:
            return None
        matches = hmac.compare_digest(key.verifier, stored.verifier)
        return stored.principal if matches and not stored.revoked else None

    def get(self, key_id: str) -> StoredKey | None:
        """Return the stored key of an id, revoked or not; None when unknown."""
        with self._lock:
            version = self._data_version()
            if version != self._seen_version:
                self._cache.clear()
                self._seen_version = version
            if key_id in self._cache:
                return self._cache[key_id]
            rows = self._select("WHERE k.key_id = ?", key_id)
            if len(self._cache) >= _CACHED_KEYS:
                self._cache.clear()
            stored = self._cache[key_id] = rows[0] if rows else None
            return stored

    def revoke(self, key_id: str) -> bool:
        """Revoke a key and the session keys under it; False when there is no such key."""
        with self._writing():
            update = self._db.execute(
                "UPDATE keys SET revoked_at = coalesce(revoked_at, ?) WHERE key_id = ?",
                (_now_us(), key_id),
            )
            return update.rowcount > 0

    def list(self, *, with_sessions: bool = False) -> Sequence[StoredKey]:
        """Return the keys, oldest first; session keys only with `with_sessions`."""
        with self._lock:
            return self._select("" if with_sessions else "WHERE k.parent IS NULL")

    def ensure_operator(self, key_file: Path) -> ApiKey:
        """Return the operator's key of this home.

        It is read from `key_file` (mode 0600), and created when the file is missing or holds no
        valid key.
        """
        if key_file.exists():
            text = key_file.read_text("utf-8").strip()
            if self.verify(text) is not None:
                return ApiKey(text)
        key, _ = self.create(ANY_TENANT, "operator")
        key_file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_durably(key_file, key + "\n", mode=0o600)
        return key

    def _insert(self, principal: Principal) -> tuple[ApiKey, Principal]:
        key = ApiKey.generate()
        with self._writing():
            self._db.execute(
                "INSERT INTO keys"
                " (key_id, tenant, role, verifier, parent, session, versions, created_at)"
                " VALUES (?,?,?,?,?,?,?,?)",
                (
                    key.key_id,
                    principal.tenant,
                    principal.role,
                    key.verifier,
                    principal.parent,
                    None if principal.session is None else principal.session.to_json(),
                    principal.versions,
                    _now_us(),
                ),
            )
        return key, replace(principal, key_id=key.key_id)

    def _select(self, where: str, *parameters: str) -> Sequence[StoredKey]:
        query = f"SELECT {_COLUMNS} FROM keys k {where}"  # noqa: S608 - constant text
        rows = self._db.execute(f"{query} ORDER BY k.created_at, k.key_id", parameters)
        return [
            StoredKey(
                Principal(
                    key_id=key_id,
                    tenant=tenant,
                    role=role,
                    session=None if session is None else SessionBinding.parse(session),
                    versions=versions,
                    parent=parent,
                ),
                verifier,
                created_at,
                revoked_at is not None,
                revoked_at,
            )
            for (
                key_id,
                tenant,
                role,
                session,
                versions,
                parent,
                verifier,
                created_at,
                revoked_at,
            ) in rows
        ]

    def _add_versions(self) -> None:
        """Add the column of the versions to a file that was made before there was one."""
        self._db.execute("BEGIN IMMEDIATE")
        columns = {row[1] for row in self._db.execute("PRAGMA table_info(keys)")}
        if "versions" not in columns:
            self._db.execute("ALTER TABLE keys ADD COLUMN versions TEXT")
        self._db.execute("COMMIT")

    def _data_version(self) -> int:
        return int(self._db.execute("PRAGMA data_version").fetchone()[0])

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with self._lock:
            try:
                yield
            except sqlite3.Error as error:
                raise KeyStoreError(
                    f"the key store {self.path} refused a write: {error}"
                ) from error
            finally:
                self._cache.clear()


def _now_us() -> int:
    return time.time_ns() // 1000
