"""The routing table of the engines: a stable engine, and perhaps a canary with a share of sessions.

A new session goes to the canary when `hash(salt, tenant, session)` is below the canary's share.
This needs no state and gives the same result in every gateway. The chosen engine is stored with the
session (`session_store`), and the session stays with it as long as a route names that engine. A
change of the routes therefore moves new sessions only, and removing the canary moves its sessions
back to the stable engine. The table is a file that is replaced atomically.
"""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Self

from atdp.runtime import HttpProblem, SettingsError, write_durably

Track = Literal["stable", "canary"]


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineRoute:
    """An engine that sessions are sent to, with the weights that it should serve.

    `url` is a URL, or the name of an endpoint of the home (`inference-0`).
    """

    url: str
    version: str | None = None
    tokenizer_hash: str | None = None
    """SHA-256 (hex) of tokenizer.json; replaces the one that the engine reports."""
    template_hash: str | None = None
    """SHA-256 (hex) of the chat template; replaces the one that the engine reports."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CanaryShare:
    """An engine under trial, and its share (0 to 1) of the sessions, chosen by hash with `salt`."""

    engine: EngineRoute
    share: float
    salt: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Routes:
    """The routing table."""

    stable: EngineRoute
    canary: CanaryShare | None = None

    @classmethod
    def from_json(cls, document: Any) -> Self:
        """Read the body of `PUT /v1/routes`.

        Raises:
            HttpProblem: 422 naming the field that is wrong.
        """
        if not isinstance(document, dict):
            raise _wrong_field("the body", "an object")
        canary = document.get("canary")
        return cls(
            stable=_read_engine(document.get("stable"), "stable"),
            canary=None if canary is None else _read_canary(canary),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the table in the form that `from_json` reads."""
        canary = self.canary
        return {
            "stable": asdict(self.stable),
            "canary": canary
            and {**asdict(canary.engine), "share": canary.share, "salt": canary.salt},
        }

    def choose(self, tenant: str, session: str) -> tuple[Track, EngineRoute]:
        """Return track and engine of a new session."""
        canary = self.canary
        if canary is not None and _unit_hash(canary.salt, tenant, session) < canary.share:
            return "canary", canary.engine
        return "stable", self.stable

    def find(self, url: str) -> tuple[Track, EngineRoute] | None:
        """Return track and engine of the route with `url`; None when no route has it."""
        if self.stable.url == url:
            return "stable", self.stable
        if self.canary is not None and self.canary.engine.url == url:
            return "canary", self.canary.engine
        return None


class RoutesFile:
    """The routing table on disk, with the current one in memory."""

    def __init__(self, path: Path, default: EngineRoute) -> None:
        self._path = path
        self.current = self._load() or Routes(stable=default)

    def replace(self, routes: Routes) -> None:
        """Write `routes` durably, then use them."""
        write_durably(self._path, json.dumps(routes.to_json(), indent=1))
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


def _unit_hash(salt: str, tenant: str, session: str) -> float:
    """Return a number in [0, 1) that depends on nothing but the arguments."""
    digest = hashlib.sha256(f"{salt}\x1f{tenant}\x1f{session}".encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def _read_engine(document: Any, name: str) -> EngineRoute:
    if not isinstance(document, dict):
        raise _wrong_field(name, "an object with 'url' and 'version'")
    fields: dict[str, str | None] = {}
    for field in ("url", "version", "tokenizer_hash", "template_hash"):
        value = document.get(field)
        if value is not None and (not isinstance(value, str) or not value):
            raise _wrong_field(f"{name}.{field}", "text")
        fields[field] = value
    url = fields.pop("url")
    if url is None:
        raise _wrong_field(f"{name}.url", "a URL or the name of an endpoint")
    return EngineRoute(url=url.rstrip("/"), **fields)


def _read_canary(document: Any) -> CanaryShare:
    engine = _read_engine(document, "canary")
    share, salt = document.get("share"), document.get("salt")
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
        raise _wrong_field("canary.share", "a number from 0 to 1")
    if not isinstance(salt, str) or not salt:
        raise _wrong_field("canary.salt", "text (a new one draws new sessions)")
    return CanaryShare(engine=engine, share=float(share), salt=salt)


def _wrong_field(field: str, expected: str) -> HttpProblem:
    return HttpProblem(422, "bad_routes", f"{field} must be {expected}")
