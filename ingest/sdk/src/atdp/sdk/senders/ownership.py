"""One sender, one recorder: receipts of two shippers must not mix."""

from atdp.sdk.errors import ConfigurationError


class Ownership:
    """Whether a sender already belongs to a recorder."""

    def __init__(self, sender: str) -> None:
        """Name the sender for messages."""
        self._sender = sender
        self._claimed = False

    def claim(self) -> None:
        """Take the sender; raises ConfigurationError when it is taken."""
        if self._claimed:
            raise ConfigurationError(
                f"this {self._sender} already serves another Recorder; give each Recorder a sender of its own"
            )
        self._claimed = True
