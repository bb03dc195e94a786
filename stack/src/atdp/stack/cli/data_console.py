"""A Rich console that styles what it prints and escapes the control characters of data in it."""

import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions
from rich.segment import Segment

from atdp.stack.cli.terminal import acting_stream, escaped


class DataConsole(Console):
    """Prints to standard output, or error; only the styles of Rich act on the terminal."""

    def __init__(self, *, stderr: bool = False, **settings: Any) -> None:
        """Take Rich's settings; `file` is another stream than the standard ones."""
        stream = acting_stream(sys.stderr if stderr else sys.stdout)
        super().__init__(**{"file": stream, **settings})

    def render(self, renderable: Any, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render; what is not a control sequence of Rich itself is escaped."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(escaped(segment.text), segment.style)
