"""What can stop the demo."""

from __future__ import annotations

from atdp.control.errors import ControlError


class DemoError(ControlError):
    """The demo cannot go on; the message says at which step, why, and where to look."""
