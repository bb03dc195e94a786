"""The effects of decisions: engines and routes are brought to the state that the events describe.

The state that should be in force is a function of the release line (`desired_routes`); `Effects`
compares and acts. It is idempotent and runs after every decision and at every start. So a process
that was killed between a decision and its effect, a restarted engine with other weights, and a
gateway that lost its table are handled in the same way. Weights come before routes, and a candidate
is loaded only into an engine that no route names. Rolling a canary back needs no engine; rolling
the live version back loads nothing while the version before is still on its engine.

Several processes may act at once, and one of them may still act for a decision that was overruled
while it waited for a load. The last decision ends up in force: the state is read again, under a
lock of the home, right before every load and every new table, and a process that finds a newer
decision starts again with that one. No lock on routes is held while weights are loaded, so that a
roll-back never waits for a load, unless it needs the very engine that is being loaded.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from atdp.control.errors import EffectFailed, EngineNotAnswering
from atdp.control.state import ReleaseState, Serving
from atdp.inference import lock_engine_weights
from atdp.runtime import locked


@dataclass(frozen=True, kw_only=True, slots=True)
class CanaryRoute:
    """A share of new sessions, in [0, 1].

    With share 0 only sessions that began there stay (draining).
    """

    serving: Serving
    share: float
    salt: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RouteTable:
    """The gateway's routes: the engine of the stable version, and that of the canary."""

    stable: Serving
    canary: CanaryRoute | None = None


class Fleet(Protocol):
    """The engines, by their names in the stack."""

    def serves(self, engine: str, model: str, version: str) -> bool:
        """Return True when the engine serves this version; False when it has no weights.

        Raises:
            EngineNotAnswering: the engine does not answer.
        """
        ...

    def load(self, engine: str, model: str, version: str) -> None:
        """Load this version into the engine.

        Raises:
            EffectFailed: the engine did not load it.
        """
        ...


class Router(Protocol):
    """The gateway's routing table."""

    def put(self, table: RouteTable) -> None:
        """Replace the table.

        Raises:
            EffectFailed: the gateway did not take the table.
        """
        ...


def desired_routes(state: ReleaseState) -> RouteTable | None:
    """Return the routes that should be in force; None before the first version is live."""
    if state.live is None:
        return None
    if state.canary is not None:
        canary = state.canary
        serving = Serving(version=canary.version, engine=canary.engine)
        return RouteTable(
            stable=state.live,
            canary=CanaryRoute(serving=serving, share=canary.share, salt=canary.salt),
        )
    if state.draining is not None and state.draining.engine != state.live.engine:
        return RouteTable(
            stable=state.live,
            canary=CanaryRoute(serving=state.draining, share=0.0, salt="draining"),
        )
    return RouteTable(stable=state.live)


class _Overruled(Exception):
    """A newer decision exists than the state that was read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Effects:
    """Acts on the engines and routes of one home. `locks` is the folder of the home's locks."""

    fleet: Fleet
    router: Router
    locks: Path

    def carry_out(self, read: Callable[[], ReleaseState]) -> ReleaseState:
        """Bring the state that `read` returns into force.

        This is repeated while `read` returns a newer state; the state that is in force is returned.
        A stable engine that does not answer keeps its route, and the gateway reports it. A stable
        engine that serves something else, or nothing yet, gets the right version first.

        Raises:
            EffectFailed: an effect failed; the other effects were carried out where possible.
        """
        while True:
            state = read()
            try:
                self._act(state, read)
            except _Overruled:
                continue
            except EffectFailed:
                if _is_overruled(state, read):
                    continue
                raise
            return state

    def _act(self, state: ReleaseState, read: Callable[[], ReleaseState]) -> None:
        table = desired_routes(state)
        if table is None:
            return
        stable, canary = table.stable, table.canary
        stable_alone = RouteTable(stable=stable)
        with lock_engine_weights(self.locks, stable.engine):
            try:
                self._load(stable, state, read)
            except EngineNotAnswering as error:
                self._put(stable_alone, state, read)
                raise EffectFailed(
                    f"new sessions are routed to {stable.engine}, but it does not answer; "
                    "see `atdp status`"
                ) from error
            if canary is None or not self._serves(canary.serving, state):
                self._put(stable_alone, state, read)
            elif canary.share == 0.0:
                self._put(table, state, read)
        if canary is None or canary.share == 0.0:
            return
        # The lock of the stable engine is released here: a roll-back needs that engine while the
        # canary's engine is being loaded.
        with lock_engine_weights(self.locks, canary.serving.engine):
            self._load(canary.serving, state, read)
            self._put(table, state, read)

    def _serves(self, serving: Serving, state: ReleaseState) -> bool:
        try:
            return self.fleet.serves(serving.engine, state.model, serving.version)
        except EngineNotAnswering:
            return False

    def _load(
        self, serving: Serving, state: ReleaseState, read: Callable[[], ReleaseState]
    ) -> None:
        if self.fleet.serves(serving.engine, state.model, serving.version):
            return
        if _is_overruled(state, read):
            raise _Overruled
        self.fleet.load(serving.engine, state.model, serving.version)

    def _put(
        self, table: RouteTable, state: ReleaseState, read: Callable[[], ReleaseState]
    ) -> None:
        with locked(self.locks / "routes.lock"):
            if _is_overruled(state, read):
                raise _Overruled
            self.router.put(table)


def _is_overruled(state: ReleaseState, read: Callable[[], ReleaseState]) -> bool:
    return read().number != state.number
