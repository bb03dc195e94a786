"""What must outlive the gateway process about a session: its identity, its engine, whether its start was recorded.

Contexts stay in memory (`live`); they can be sent again in full. What is here cannot be made up
again: rewards may come weeks later under nothing but a session id, a session keeps its engine, and
`trajectory_started` is recorded once: its event (id and time) is fixed with the row, before the
first attempt to send it, and sent again under the same id until it was acknowledged.

One row per (tenant, trajectory, attempt); sqlite, WAL, one write at the first call, one after its
acknowledgement, one at the end.
"""

import json
import sqlite3
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
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
_COLUMNS = (
    "tenant, trajectory_id, attempt, session_id, task_id, agent_id, tags, started_event_id, started_at, started,"
    " engine, ended, made_by"
)


@dataclass(frozen=True, kw_only=True)
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
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.executescript(_SCHEMA)
        except sqlite3.Error as error:
            raise SessionStoreError(
                f"cannot open the session store {path}: {error}; check the disk"
            ) from error

    def close(self) -> None:
        """Release the file."""
        self._db.close()

    def open(
        self,
        *,
        tenant: str,
        trajectory_id: str,
        attempt: int,
        session_id: str,
        task_id: str | None,
        agent_id: str,
        tags: dict[str, object],
        now: datetime,
    ) -> SessionRow:
        """The row of a trajectory attempt, made when there is none; what was there first stays."""
        self._db.execute(
            "INSERT INTO sessions (tenant, trajectory_id, attempt, session_id, task_id, agent_id, tags,"
            " started_event_id, started_at, made_by) VALUES (?,?,?,?,?,?,?,?,?,?) ON CONFLICT DO NOTHING",
            (
                tenant,
                trajectory_id,
                attempt,
                session_id,
                task_id,
                agent_id,
                json.dumps(tags),
                new_event_id(int(now.timestamp() * 1000)),
                now.isoformat(),
                self._process,
            ),
        )
        row = self._one(
            "tenant = ? AND trajectory_id = ? AND attempt = ?", tenant, trajectory_id, attempt
        )
        assert row is not None
        return row

    def find(self, tenant: str, trajectory_id: str, attempt: int) -> SessionRow | None:
        """The row of a trajectory attempt."""
        return self._one(
            "tenant = ? AND trajectory_id = ? AND attempt = ?", tenant, trajectory_id, attempt
        )

    def of_session(self, tenant: str, session_id: str) -> SessionRow | None:
        """The newest trajectory attempt of a session."""
        return self._one("tenant = ? AND session_id = ?", tenant, session_id)

    def set_engine(self, row: SessionRow, engine: str) -> None:
        """Pin the engine."""
        self._update(row, "engine = ?", engine)

    def set_started(self, row: SessionRow) -> None:
        """The start was acknowledged."""
        self._update(row, "started = 1")

    def set_ended(self, row: SessionRow) -> None:
        """The end was acknowledged."""
        self._update(row, "ended = 1")

    def _update(self, row: SessionRow, assignment: str, *values: str) -> None:
        self._db.execute(
            f"UPDATE sessions SET {assignment} WHERE tenant = ? AND trajectory_id = ? AND attempt = ?",  # noqa: S608 - our own text
            (*values, row.tenant, row.trajectory_id, row.attempt),
        )

    def _one(self, where: str, *values: str | int) -> SessionRow | None:
        found = self._db.execute(
            f"SELECT {_COLUMNS} FROM sessions WHERE {where} ORDER BY started_at DESC LIMIT 1",  # noqa: S608 - our own text
            values,
        ).fetchone()
        if found is None:
            return None
        (
            tenant,
            trajectory_id,
            attempt,
            session_id,
            task_id,
            agent_id,
            tags,
            event_id,
            at,
            *rest,
        ) = found
        started, engine, ended, made_by = rest
        return SessionRow(
            tenant=tenant,
            trajectory_id=trajectory_id,
            attempt=attempt,
            session_id=session_id,
            task_id=task_id,
            agent_id=agent_id,
            tags=tags,
            started_event_id=event_id,
            started_at=datetime.fromisoformat(at).astimezone(UTC),
            started=bool(started),
            engine=engine,
            ended=bool(ended),
            start_tried=made_by != self._process,
        )
