"""The sessions that still run on an engine, for a process that wants to reuse the engine.

A session stays with the engine of its first call as long as a route names that engine. Weights that
are loaded into the engine meanwhile would answer the rest of the session.
"""

import sqlite3
from contextlib import closing
from pathlib import Path

from atdp.gateway.errors import SessionStoreError

SESSIONS_FILE_NAME = "sessions.sqlite"
"""Name of the session store in `home.gateway`."""

_COUNT = """
SELECT count(DISTINCT tenant || char(0) || session_id) FROM sessions
WHERE engine = ? AND ended = 0 AND called_at >= ?
"""


def count_open_sessions(gateway: Path, engine: str, *, called_since: float) -> int:
    """Return the number of sessions on `engine` that have not ended.

    `gateway` is the gateway's folder (`home.gateway`). Sessions without a call since `called_since`
    (seconds since the epoch) do not count, because not every client says that a session has ended.
    A gateway that has never run has no sessions. The store is only read, in another process than
    the gateway's: its event loop does not wait for the search.

    Raises:
        SessionStoreError: the store cannot be read.
    """
    file = gateway / SESSIONS_FILE_NAME
    if not file.exists():
        return 0
    try:
        with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True, timeout=10)) as database:
            return int(database.execute(_COUNT, (engine, called_since)).fetchone()[0])
    except sqlite3.Error as error:
        raise SessionStoreError(f"cannot read the session store {file}: {error}") from error
