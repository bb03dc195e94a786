"""The rule that a sender serves one recorder, since receipts of two shippers must not mix."""

from atdp.sdk.errors import ConfigurationError


class Ownership:
    """Remembers whether a sender belongs to a recorder."""

    def __init__(self, sender: str) -> None:
        """Name the sender for messages."""
        self._sender = sender
        self._claimed = False

    def claim(self) -> None:
        """Take the sender.

        Raises:
            ConfigurationError: another recorder has it.
        """
        if self._claimed:
            raise ConfigurationError(
                f"this {self._sender} already serves another Recorder; "
                "give each Recorder a sender of its own"
            )
        self._claimed = True
