"""Structured logs: one JSON object per line on stderr.

Rule: no value of an event ever reaches a log, since logs are read by people whom governance never
asked. Log calls name counts, ids and places. Exceptions are logged by type and place; their message
only where the type is known not to quote data (our own errors, the operating system's, Kafka's). A
pydantic or JSON error quotes its input: type only.
"""

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from types import TracebackType

_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {
    "message",
    "asctime",
    "color_message",
    "taskName",
}


class JsonFormatter(logging.Formatter):
    """`{"time", "level", "service", "logger", "message", …extra, "error"}`.

    Extra is what `extra={…}` gave.
    """

    def __init__(self, service: str) -> None:
        super().__init__()
        self._service = service

    def format(self, record: logging.LogRecord) -> str:
        """One line, never raising: what is not JSON is shown by its type."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "service": self._service,
            "logger": record.name,
            "message": record.getMessage(),
        }
        line.update(
            {name: value for name, value in record.__dict__.items() if name not in _STANDARD}
        )
        if record.exc_info and record.exc_info[1] is not None:
            line["error"] = describe(record.exc_info[1])
            line["at"] = _places(record.exc_info[2])
        return json.dumps(
            line, default=lambda value: f"<{type(value).__name__}>", ensure_ascii=False
        )


def describe(error: BaseException) -> str:
    """Type of an exception, with its message only when that cannot quote event data."""
    module = type(error).__module__.partition(".")
    name = f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")
    quotable = module[0] in {"cimpl", "confluent_kafka", "sqlite3"} or isinstance(error, OSError)
    if quotable or type(error).__module__.startswith("atdp."):
        return f"{name}: {error}"
    return name


def setup_logging(service: str, level: int = logging.INFO) -> None:
    """Send every logger of the process to stderr as JSON lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter(service))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for noisy in ("httpx", "httpcore", "uvicorn.access"):  # they log request URLs at INFO
        logging.getLogger(noisy).setLevel(logging.WARNING)


def _places(trace: TracebackType | None) -> list[str]:
    return [
        f"{frame.filename}:{frame.lineno} {frame.name}"
        for frame in traceback.extract_tb(trace)[-8:]
    ]
