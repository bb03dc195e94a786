"""The settings of a recorder's spool, with their defaults."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, get_args
from urllib.parse import quote

from atdp.sdk.errors import ConfigurationError
from atdp.sdk.spool import DEFAULT_LIMIT_BYTES

Durability: TypeAlias = Literal["memory", "process", "disk"]
OnFull: TypeAlias = Literal["block", "drop"]
MIN_LIMIT_BYTES = 4096  # less cannot hold one event


@dataclass(frozen=True, kw_only=True, slots=True)
class SpoolSettings:
    """The place and the manner in which events wait for delivery."""

    directory: Path | None = None
    """Root of the spools; default `$ATDP_HOME/spool`. Processes may share it."""
    durability: Durability = "process"
    """`process`: survives the death of the process. `disk`: also the loss of power. `memory`:
    neither."""
    limit_bytes: int = DEFAULT_LIMIT_BYTES
    """Undelivered bytes that this process may hold."""
    on_full: OnFull = "drop"
    """At the limit: `drop` new events and count them, or `block` the caller up to `block_s` first.
    """
    block_s: float = 30.0
    """Longest wait of one emit, in seconds, when `on_full` is `block`."""

    def __post_init__(self) -> None:
        """Refuse settings that cannot work."""
        for name, value, allowed in (
            ("durability", self.durability, get_args(Durability)),
            ("on_full", self.on_full, get_args(OnFull)),
        ):
            if value not in allowed:
                raise ConfigurationError(f"{name}={value!r}: choose one of {', '.join(allowed)}")
        if self.limit_bytes < MIN_LIMIT_BYTES:
            raise ConfigurationError(
                f"spool_limit_bytes={self.limit_bytes}: at least {MIN_LIMIT_BYTES} are needed"
            )
        if self.block_s < 0:
            raise ConfigurationError(f"block_s={self.block_s}: must not be negative")

    @property
    def wait_s(self) -> float:
        """The longest wait of one emit for room, in seconds."""
        return self.block_s if self.on_full == "block" else 0.0

    def root_of(self, tenant: str) -> Path:
        """Return the folder that the spools of one tenant share."""
        directory = self.directory or Path(os.environ.get("ATDP_HOME", ".atdp")) / "spool"
        return directory.absolute() / quote(tenant, safe="")
