"""The settings of the trust region of a policy update. This module does not load torch."""

from dataclasses import dataclass
from typing import Literal

Correction = Literal["bypass", "decoupled"]
"""The correction for data of an older policy; see `losses`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Clip:
    """The trust region of the importance ratio.

    The names of the fields are part of the hash of the settings, which runs have stored.
    """

    low: float = 0.2
    high: float = 0.28
    """Clip-higher, DAPO 2503.14476."""
    dual: float | None = 3.0
    """Bounds the loss of bad tokens that became much more likely (Ye et al. 1912.09729); None
    switches it off."""
    band: tuple[float, float] = (0.5, 5.0)
    """Decoupled only: keep tokens whose proximal/behaviour weight lies within, ends included."""
