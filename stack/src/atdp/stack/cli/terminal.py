"""Standard output and error on which no data acts: control characters in what is printed show.

Names and texts in results come from agents and tenants. While a command runs, both streams escape
the control characters in everything that is written (`escape_control_characters`), whoever writes
it. What acts on the terminal on purpose goes round that: styles of Rich (`data_console`), lines of
progress (`rewrite_line`), and data for programs (`write_data`).
"""

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

_CLEAR = "\r\x1b[K"


def escaped(text: str) -> str:
    """Return the text with its control characters escaped."""
    if text.replace("\n", "").isprintable():
        return text
    # Imported here, so that `atdp --help` is quick.
    from atdp.schemas import escape_control_characters

    return escape_control_characters(text)


class EscapingStream(io.TextIOBase):
    """A text stream that escapes control characters before it passes text on to `inner`."""

    def __init__(self, inner: TextIO) -> None:
        """Pass text on to `inner`, which stays open when this is closed."""
        self.inner = inner

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The encoding of the inner stream; Typer bypasses a stream without one."""
        return getattr(self.inner, "encoding", None) or "utf-8"

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, text: str) -> int:
        """Write escaped text; returns the number of characters of the text."""
        self.inner.write(escaped(text))
        return len(text)

    def flush(self) -> None:
        """Flush the inner stream."""
        self.inner.flush()

    def isatty(self) -> bool:
        """Return whether the inner stream is a terminal."""
        return self.inner.isatty()

    def fileno(self) -> int:
        """Return the descriptor of the inner stream."""
        return self.inner.fileno()


@contextmanager
def escaping_output() -> Iterator[None]:
    """Escape control characters in all that the block writes to standard output and error."""
    streams = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = map(EscapingStream, streams)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = streams


def acting_stream(stream: TextIO) -> TextIO:
    """Return the stream beneath, for text in which only our own control characters are left."""
    return stream.inner if isinstance(stream, EscapingStream) else stream


def write_data(text: str) -> None:
    """Write data for programs to standard output: unchanged to a file or a pipe.

    A terminal gets its control characters escaped.
    """
    stream = sys.stdout if sys.stdout.isatty() else acting_stream(sys.stdout)
    stream.write(text)
    stream.flush()


def rewrite_line(text: str = "", *, ends: bool = False) -> None:
    """Replace the last line on the terminal of standard error; `ends` begins a new one after it.

    A file or a pipe gets a line of its own each time.
    """
    stream = acting_stream(sys.stderr)
    live = stream.isatty()
    stream.write((_CLEAR if live else "") + escaped(text) + ("\n" if ends or not live else ""))
    stream.flush()
