"""What can stop the demo."""


class DemoError(Exception):
    """The demo cannot go on; the message says at which step, why, and where to look."""
