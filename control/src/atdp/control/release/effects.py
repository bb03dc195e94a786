"""Brings engines and routes to what the events say. Idempotent: run it after every decision, at every start.

What should be in force is a function of the line (`desired`); `reconcile` compares and acts. So a process killed between
a decision and its effect, a restarted engine that came up with other weights, or a gateway that lost its table are all
the same case. Order: weights before routes, and a candidate is loaded only into an engine that no route names. Rolling a canary
back touches no engine at all; rolling the live version back loads nothing where the version before still waits.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from atdp.control.release.errors import EffectFailed
from atdp.control.release.line import Line, Serving


@dataclass(frozen=True, kw_only=True)
class CanaryRoute:
    """A share of new sessions, in [0, 1]. With share 0 only sessions that began there stay (draining)."""

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

    def serving(self, engine: str) -> str | None:
        """Version that the engine serves; None when it does not answer."""
        ...

    def load(self, engine: str, directory: Path, version: str) -> None:
        """Make the engine serve these weights. Raises `EffectFailed`."""
        ...


class Router(Protocol):
    """The gateway's routing table."""

    def put(self, table: RouteTable) -> None:
        """Replace the table. Raises `EffectFailed`."""
        ...


def desired(line: Line) -> RouteTable | None:
    """What should be in force; None before the first version is live."""
    if line.live is None:
        return None
    if line.canary is not None:
        canary = line.canary
        serving = Serving(version=canary.version, engine=canary.engine)
        return RouteTable(
            stable=line.live, canary=CanaryRoute(serving=serving, share=canary.share, salt=canary.salt)
        )
    if line.draining is not None and line.draining.engine != line.live.engine:
        return RouteTable(
            stable=line.live, canary=CanaryRoute(serving=line.draining, share=0.0, salt="draining")
        )
    return RouteTable(stable=line.live)


def reconcile(line: Line, *, fleet: Fleet, router: Router, weights: Path) -> RouteTable | None:
    """Make `desired(line)` true; returns it. Raises `EffectFailed` after doing what could be done.

    `weights` is the registry's root. A stable engine that does not answer keeps its route (the gateway reports it);
    one that serves another version gets the right one first.
    """
    table = desired(line)
    if table is None:
        return None

    def ready(serving: Serving) -> None:
        if fleet.serving(serving.engine) != serving.version:
            fleet.load(serving.engine, weights / line.model / serving.version, serving.version)

    found = fleet.serving(table.stable.engine)
    if found is None:
        router.put(RouteTable(stable=table.stable))
        raise EffectFailed(
            f"new sessions are routed to {table.stable.engine}, but it does not answer; see `atdp status`"
        )
    ready(table.stable)
    canary = table.canary
    if canary is None:
        router.put(table)
    elif canary.share == 0.0:
        still = fleet.serving(canary.serving.engine) == canary.serving.version
        router.put(table if still else RouteTable(stable=table.stable))
    else:
        if fleet.serving(canary.serving.engine) != canary.serving.version:
            router.put(RouteTable(stable=table.stable))
            ready(canary.serving)
        router.put(table)
    return table
