"""Which engine serves which session: a stable one, and perhaps a canary with a share of the sessions.

A new session falls to the canary when `hash(salt, tenant, session)` lies under its share: no state,
the same answer in every gateway. Once chosen, the engine is written down with the session
(`sessions`), and kept to its end as long as any route still names that engine; a change of routes
moves new sessions only, and a roll-back of the canary moves its sessions back. Routes are a file,
replaced atomically.
"""

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Self

from atdp.runtime import HttpProblem, SettingsError

Track = Literal["stable", "canary"]


@dataclass(frozen=True, kw_only=True)
class Engine:
    """An engine.

    `url`, or the name of an endpoint of the home (`inference-0`), and the weights it should serve.
    """

    url: str
    version: str | None = None
    tokenizer_hash: str | None = None
    """Overrides what the engine says about its tokenizer; SHA-256 hex of tokenizer.json."""
    template_hash: str | None = None


@dataclass(frozen=True, kw_only=True)
class Canary:
    """An engine under trial: `share` of the sessions (0 to 1) goes there, chosen by hash with `salt`."""

    engine: Engine
    share: float
    salt: str


@dataclass(frozen=True, kw_only=True)
class Routes:
    """The routing table."""

    stable: Engine
    canary: Canary | None = None

    @classmethod
    def from_json(cls, document: Any) -> Self:
        """From the form of `PUT /v1/routes`.

        Raises:
            HttpProblem: 422 naming the field that is wrong.
        """
        if not isinstance(document, dict):
            raise _wrong("the body", "an object")
        canary = document.get("canary")
        return cls(
            stable=_engine(document.get("stable"), "stable"),
            canary=None if canary is None else _canary(canary),
        )

    def to_json(self) -> dict[str, Any]:
        """The form that `from_json` reads."""
        canary = self.canary
        return {
            "stable": asdict(self.stable),
            "canary": canary
            and {**asdict(canary.engine), "share": canary.share, "salt": canary.salt},
        }

    def choose(self, tenant: str, session: str) -> tuple[Track, Engine]:
        """Track and engine of a new session."""
        canary = self.canary
        if canary is not None and _unit(canary.salt, tenant, session) < canary.share:
            return "canary", canary.engine
        return "stable", self.stable

    def still(self, url: str) -> tuple[Track, Engine] | None:
        """Track and engine that carry `url` now; None when no route names it any more."""
        if self.stable.url == url:
            return "stable", self.stable
        if self.canary is not None and self.canary.engine.url == url:
            return "canary", self.canary.engine
        return None


class RoutesFile:
    """The routing table on disk, with the one in force in memory."""

    def __init__(self, path: Path, default: Engine) -> None:
        self._path = path
        self.current = self._load() or Routes(stable=default)

    def replace(self, routes: Routes) -> None:
        """Make `routes` durable, then put them in force."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        partial = self._path.with_suffix(".tmp")
        with partial.open("w", encoding="utf-8") as file:
            json.dump(routes.to_json(), file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(self._path)
        self.current = routes

    def _load(self) -> Routes | None:
        try:
            return Routes.from_json(json.loads(self._path.read_text("utf-8")))
        except FileNotFoundError:
            return None
        except (json.JSONDecodeError, HttpProblem) as error:
            raise SettingsError(
                f"{self._path} is no routing table ({error}); correct or remove it"
            ) from error


def _unit(salt: str, tenant: str, session: str) -> float:
    """A number in [0, 1) that depends on nothing but its arguments."""
    digest = hashlib.sha256(f"{salt}\x1f{tenant}\x1f{session}".encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def _engine(document: Any, name: str) -> Engine:
    if not isinstance(document, dict):
        raise _wrong(name, "an object with 'url' and 'version'")
    fields: dict[str, str | None] = {}
    for field in ("url", "version", "tokenizer_hash", "template_hash"):
        value = document.get(field)
        if value is not None and (not isinstance(value, str) or not value):
            raise _wrong(f"{name}.{field}", "text")
        fields[field] = value
    url = fields.pop("url")
    if url is None:
        raise _wrong(f"{name}.url", "a URL or the name of an endpoint")
    return Engine(url=url.rstrip("/"), **fields)


def _canary(document: Any) -> Canary:
    engine = _engine(document, "canary")
    share, salt = document.get("share"), document.get("salt")
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
        raise _wrong("canary.share", "a number from 0 to 1")
    if not isinstance(salt, str) or not salt:
        raise _wrong("canary.salt", "text (a new one draws new sessions)")
    return Canary(engine=engine, share=float(share), salt=salt)


def _wrong(where: str, what: str) -> HttpProblem:
    return HttpProblem(422, "bad_routes", f"{where} must be {what}")
