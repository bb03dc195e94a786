"""Settings of the gateway, read once at its entry point."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from atdp.runtime import Home, SettingsError
from atdp.schemas import topic


@dataclass(frozen=True, kw_only=True)
class GatewaySettings:
    """What a deployment may change about the gateway."""

    home: Home
    engine: str = "inference-0"
    """Engine for all sessions while no routes were set: a URL, or the name of an endpoint of this
    home."""
    topic: str = field(default_factory=lambda: topic("events_raw").name)
    """Topic that events are appended to."""
    max_body_bytes: int = 32 * 1024 * 1024
    """Largest request body; a larger one is refused with 413 before it is read to its end."""
    max_events: int = 5_000
    """Most events in one request."""
    max_event_bytes: int = 8 * 1024 * 1024 - 64 * 1024
    """Largest encoded event: the raw topic takes 8 MiB, less room for headers."""
    engine_timeout_s: float = 600.0
    """How long one model call may take."""
    ack_timeout_s: float = 20.0
    """How long to wait for Kafka before answering 503."""
    max_live_trajectories: int = 5_000
    """Trajectories whose context is held in memory.

    Beyond it the longest idle is forgotten and sent in full next.
    """
    idle_s: float = 3600.0
    """After this long without a call a trajectory's context is forgotten likewise."""

    @classmethod
    def from_env(cls, home: Home | None = None, environ: Mapping[str, str] | None = None) -> Self:
        """Defaults, with `ATDP_ENGINE_URL` and `ATDP_ENGINE_TIMEOUT_S` from the environment."""
        env = os.environ if environ is None else environ
        text = env.get("ATDP_ENGINE_TIMEOUT_S", "600")
        try:
            timeout_s = float(text)
        except ValueError as error:
            raise SettingsError(
                f"ATDP_ENGINE_TIMEOUT_S={text!r} is not a number of seconds"
            ) from error
        return cls(
            home=home or Home.from_env(env),
            engine=env.get("ATDP_ENGINE_URL") or cls.engine,
            engine_timeout_s=timeout_s,
        )
