"""Brings engines and routes to what the events say.

Idempotent: run it after every decision, at every start.

What should be in force is a function of the line (`desired`); `Effects` compares and acts. So a
process killed between a decision and its effect, a restarted engine that came up with other
weights, or a gateway that lost its table are all the same case. Order: weights before routes, and a
candidate is loaded only into an engine that no route names. Rolling a canary back touches no engine
at all; rolling the live version back loads nothing where the version before still waits.

Several processes may act at once, one of them perhaps for a decision that has been overruled while
it waited for a load. The last decision is what ends up in force: the line is read again, under a
lock of the home, right before every load and every new table; who finds a newer decision starts
over with that. No lock is held on routes while weights are loaded, so that a roll-back never waits
for a load, unless it needs the very engine that is being loaded.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from atdp.control.errors import EffectFailed, EngineNotAnswering
from atdp.control.state import ReleaseState, Serving
from atdp.inference import lock_engine_weights
from atdp.runtime import locked


@dataclass(frozen=True, kw_only=True)
class CanaryRoute:
    """A share of new sessions, in [0, 1].

    With share 0 only sessions that began there stay (draining).
    """

    serving: Serving
    share: float
    salt: str


@dataclass(frozen=True, kw_only=True)
class RouteTable:
    """Which engine answers whom."""

    stable: Serving
    canary: CanaryRoute | None = None


class Fleet(Protocol):
    """The engines, by their names in the stack."""

    def serves(self, engine: str, model: str, version: str) -> bool:
        """Whether the engine serves this version; False when it has no weights.

        Raises `EngineNotAnswering`.
        """
        ...

    def load(self, engine: str, model: str, version: str) -> None:
        """Make the engine serve this version. Raises `EffectFailed`."""
        ...


class Router(Protocol):
    """The gateway's routing table."""

    def put(self, table: RouteTable) -> None:
        """Replace the table. Raises `EffectFailed`."""
        ...


def desired_routes(line: ReleaseState) -> RouteTable | None:
    """What should be in force; None before the first version is live."""
    if line.live is None:
        return None
    if line.canary is not None:
        canary = line.canary
        serving = Serving(version=canary.version, engine=canary.engine)
        return RouteTable(
            stable=line.live,
            canary=CanaryRoute(serving=serving, share=canary.share, salt=canary.salt),
        )
    if line.draining is not None and line.draining.engine != line.live.engine:
        return RouteTable(
            stable=line.live, canary=CanaryRoute(serving=line.draining, share=0.0, salt="draining")
        )
    return RouteTable(stable=line.live)


class _Overruled(Exception):
    """Somebody has decided since the line was read."""


@dataclass(frozen=True, kw_only=True)
class Effects:
    """Acts on engines and routes of one home. `locks` is the folder of the home's locks."""

    fleet: Fleet
    router: Router
    locks: Path

    def carry_out(self, read: Callable[[], ReleaseState]) -> ReleaseState:
        """Make what `read` says true, and again if it says something newer by then; returns the line that is in force.

        Raises `EffectFailed` after doing what could be done. A stable engine that does not answer
        keeps its route (the gateway reports it); one that serves something else, or nothing yet,
        gets the right version first.
        """
        while True:
            line = read()
            try:
                self._act(line, read)
            except _Overruled:
                continue
            except EffectFailed:
                if _overruled(line, read):
                    continue
                raise
            return line

    def _act(self, line: ReleaseState, read: Callable[[], ReleaseState]) -> None:
        table = desired_routes(line)
        if table is None:
            return
        stable, canary = table.stable, table.canary
        alone = RouteTable(stable=stable)
        with lock_engine_weights(self.locks, stable.engine):
            try:
                self._load(stable, line, read)
            except EngineNotAnswering as error:
                self._put(alone, line, read)
                raise EffectFailed(
                    f"new sessions are routed to {stable.engine}, but it does not answer; see `atdp status`"
                ) from error
            if canary is None or not self._serves(canary.serving, line):
                self._put(alone, line, read)
            elif canary.share == 0.0:
                self._put(table, line, read)
        if canary is None or canary.share == 0.0:
            return
        # The lock of the stable engine is free again: a roll-back needs that one while this one is
        # being loaded.
        with lock_engine_weights(self.locks, canary.serving.engine):
            self._load(canary.serving, line, read)
            self._put(table, line, read)

    def _serves(self, serving: Serving, line: ReleaseState) -> bool:
        try:
            return self.fleet.serves(serving.engine, line.model, serving.version)
        except EngineNotAnswering:
            return False

    def _load(self, serving: Serving, line: ReleaseState, read: Callable[[], ReleaseState]) -> None:
        if self.fleet.serves(serving.engine, line.model, serving.version):
            return
        if _overruled(line, read):
            raise _Overruled
        self.fleet.load(serving.engine, line.model, serving.version)

    def _put(self, table: RouteTable, line: ReleaseState, read: Callable[[], ReleaseState]) -> None:
        with locked(self.locks / "routes.lock"):
            if _overruled(line, read):
                raise _Overruled
            self.router.put(table)


def _overruled(line: ReleaseState, read: Callable[[], ReleaseState]) -> bool:
    return read().number != line.number
