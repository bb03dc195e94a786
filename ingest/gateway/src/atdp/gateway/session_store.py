"""The lasting state of sessions: identity, engine, and whether start and end are recorded.

The contexts of trajectories stay in memory (`trajectory_writer`), because they can be sent again in
full. The state here cannot be derived again: rewards may come weeks later under nothing but a
session id, a session keeps its engine, and `trajectory_started` is recorded once. The id and the
time of that event are stored with the row, before the first attempt to send it, and it is sent
under the same id until it is acknowledged.

One row per (tenant, trajectory, attempt) in sqlite (WAL): one write at the first call, one after
its acknowledgement, one at the end.
"""

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from atdp.gateway.errors import SessionStoreError
from atdp.schemas import new_event_id

_SCHEMA = """
CREATE TABLE IF NOT EXISTS sessions (
    tenant TEXT NOT NULL, trajectory_id TEXT NOT NULL, attempt INTEGER NOT NULL,
    session_id TEXT NOT NULL, task_id TEXT, agent_id TEXT NOT NULL, tags TEXT NOT NULL,
    started_event_id TEXT NOT NULL, started_at TEXT NOT NULL, started INTEGER NOT NULL DEFAULT 0,
    engine TEXT, ended INTEGER NOT NULL DEFAULT 0, made_by TEXT NOT NULL,
    PRIMARY KEY (tenant, trajectory_id, attempt)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_session ON sessions (tenant, session_id, started_at);
"""
_INSERT = """
INSERT INTO sessions (tenant, trajectory_id, attempt, session_id, task_id, agent_id, tags,
    started_event_id, started_at, made_by)
VALUES (?,?,?,?,?,?,?,?,?,?) ON CONFLICT DO NOTHING
"""
_COLUMNS = """tenant, trajectory_id, attempt, session_id, task_id, agent_id, tags,
    started_event_id, started_at, started, engine, ended, made_by"""
_BY_TRAJECTORY = "tenant = ? AND trajectory_id = ? AND attempt = ?"
_BY_SESSION = "tenant = ? AND session_id = ?"


@dataclass(frozen=True, kw_only=True, slots=True)
class NewSession:
    """A trajectory attempt to open, as a caller names it."""

    tenant: str
    trajectory_id: str
    attempt: int
    session_id: str
    task_id: str | None
    agent_id: str
    tags: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionRow:
    """One trajectory attempt that the gateway knows."""

    tenant: str
    trajectory_id: str
    attempt: int
    session_id: str
    task_id: str | None
    agent_id: str
    tags: str
    """JSON object that the caller gave."""
    started_event_id: str
    started_at: datetime
    started: bool
    """`trajectory_started` was acknowledged."""
    engine: str | None
    """`url` of the route that was chosen at the first model call."""
    ended: bool
    start_tried: bool
    """An earlier process may have sent `trajectory_started` already."""


class SessionStore:
    """Sessions in one sqlite file, used from the gateway's event loop only."""

    def __init__(self, path: Path) -> None:
        self._process = uuid4().hex
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._db = sqlite3.connect(
                path, timeout=10, isolation_level=None, check_same_thread=False
            )
            self._db.row_factory = sqlite3.Row
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.executescript(_SCHEMA)
        except sqlite3.Error as error:
            raise SessionStoreError(
                f"cannot open the session store {path}: {error}; check the disk"
            ) from error

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def open(self, new: NewSession, now: datetime) -> SessionRow:
        """Return the row of a trajectory attempt; it is created when there is none.

        An existing row is returned unchanged.
        """
        self._db.execute(
            _INSERT,
            (
                new.tenant,
                new.trajectory_id,
                new.attempt,
                new.session_id,
                new.task_id,
                new.agent_id,
                json.dumps(new.tags),
                new_event_id(int(now.timestamp() * 1000)),
                now.isoformat(),
                self._process,
            ),
        )
        row = self.find(new.tenant, new.trajectory_id, new.attempt)
        assert row is not None
        return row

    def find(self, tenant: str, trajectory_id: str, attempt: int) -> SessionRow | None:
        """Return the row of a trajectory attempt; None when it is unknown."""
        return self._newest(_BY_TRAJECTORY, tenant, trajectory_id, attempt)

    def of_session(self, tenant: str, session_id: str) -> SessionRow | None:
        """Return the newest trajectory attempt of a session; None when it is unknown."""
        return self._newest(_BY_SESSION, tenant, session_id)

    def set_engine(self, row: SessionRow, engine: str) -> None:
        """Store the engine of a trajectory attempt."""
        self._update(row, "engine = ?", engine)

    def set_started(self, row: SessionRow) -> None:
        """Store that `trajectory_started` was acknowledged."""
        self._update(row, "started = 1")

    def set_ended(self, row: SessionRow) -> None:
        """Store that `trajectory_ended` was acknowledged."""
        self._update(row, "ended = 1")

    def _update(self, row: SessionRow, assignment: str, *values: str) -> None:
        update = f"UPDATE sessions SET {assignment} WHERE {_BY_TRAJECTORY}"  # noqa: S608 - constant
        self._db.execute(update, (*values, row.tenant, row.trajectory_id, row.attempt))

    def _newest(self, where: str, *values: str | int) -> SessionRow | None:
        query = f"SELECT {_COLUMNS} FROM sessions WHERE {where}"  # noqa: S608 - constant text
        row = self._db.execute(f"{query} ORDER BY started_at DESC LIMIT 1", values).fetchone()
        if row is None:
            return None
        columns: dict[str, Any] = dict(row)
        made_by = columns.pop("made_by")
        columns["started_at"] = datetime.fromisoformat(columns["started_at"]).astimezone(UTC)
        columns["started"] = bool(columns["started"])
        columns["ended"] = bool(columns["ended"])
        return SessionRow(**columns, start_tried=made_by != self._process)
