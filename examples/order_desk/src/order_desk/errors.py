"""The error of the demo."""

from atdp.stack import StackError


class DemoError(StackError):
    """The demo cannot continue; the message names the step, the reason, and where to look."""
