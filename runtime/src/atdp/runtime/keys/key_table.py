"""The table of keys: its columns, files of earlier versions, and its rows as values."""

import sqlite3
from typing import Any, Final

from atdp.runtime.keys.principals import Principal
from atdp.runtime.keys.session_binding import SessionBinding
from atdp.runtime.keys.stored_key import StoredKey

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS keys (
    key_id       TEXT PRIMARY KEY,
    tenant       TEXT NOT NULL,
    role         TEXT NOT NULL,
    public_key   BLOB,                      -- Ed25519; NULL in rows of earlier versions
    parent       TEXT REFERENCES keys,      -- set for session keys
    session      TEXT,                      -- JSON, set for session keys: the session
    versions     TEXT,                      -- JSON: versions of the agent that uses the key
    created_at   INTEGER NOT NULL,          -- microseconds since the epoch, UTC, as all times
    revoked_at   INTEGER,
    expires_at   INTEGER,
    last_used_at INTEGER
) STRICT;
"""
_ADDED: Final = {
    "versions": "TEXT",
    "public_key": "BLOB",
    "expires_at": "INTEGER",
    "last_used_at": "INTEGER",
}
"""Columns that files of earlier versions lack."""
_DROPPED: Final = "verifier"
"""Column of earlier versions with which whoever read the file could sign."""


def _earliest(column: str) -> str:
    """Return SQL: the earliest time in `column` of a key and the keys above it; NULL without."""
    return (
        "(WITH RECURSIVE line (parent, at) AS ("  # noqa: S608 - constant columns
        f"SELECT k.parent, k.{column} UNION ALL "
        f"SELECT up.parent, up.{column} FROM keys up JOIN line ON up.key_id = line.parent"
        ") SELECT min(at) FROM line)"
    )


SELECT: Final = (
    "SELECT k.key_id, k.tenant, k.role, k.session, k.versions, k.parent, k.public_key, "  # noqa: S608
    f"k.created_at, {_earliest('revoked_at')}, {_earliest('expires_at')}, k.last_used_at "
    "FROM keys k"
)
"""The columns that `stored_key` reads."""


def prepare_table(database: sqlite3.Connection) -> None:
    """Create the table, or take over that of an earlier version.

    Keys of a version whose store held secrets stay listed without them; nothing can use them.
    """
    database.execute("BEGIN IMMEDIATE")
    database.execute(_SCHEMA)
    columns = {row[1] for row in database.execute("PRAGMA table_info(keys)")}
    for name, kind in _ADDED.items():
        if name not in columns:
            database.execute(f"ALTER TABLE keys ADD COLUMN {name} {kind}")
    if _DROPPED in columns:
        database.execute(f"ALTER TABLE keys DROP COLUMN {_DROPPED}")
    database.execute("COMMIT")


def stored_key(row: tuple[Any, ...]) -> StoredKey:
    """Return the key of a row of `SELECT`."""
    key_id, tenant, role, session, versions, parent, *stored = row
    principal = Principal(
        key_id=key_id,
        tenant=tenant,
        role=role,
        session=None if session is None else SessionBinding.parse(session),
        versions=versions,
        parent=parent,
    )
    return StoredKey(principal, *stored)
