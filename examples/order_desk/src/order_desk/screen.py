"""What a person sees while the demo runs: numbered steps, remarks, progress bars.

On a terminal bars move; into a file or a pipe each finished bar leaves one line.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

Advance = Callable[[int], None]


class Screen:
    """The demo's voice."""

    def __init__(self, console: Console) -> None:
        """Speak to `console`."""
        self.console = console
        self._began = time.monotonic()
        self.step_seconds: dict[str, float] = {}
        self._step: tuple[str, float] | None = None

    def step(self, number: int, title: str) -> None:
        """Begin one of the demo's steps."""
        self.end_step()
        self._step = (title, time.monotonic())
        self.console.print(
            f"\n[bold cyan]{number}[/] [bold]{escape(title)}[/]  [dim]{self._clock()}[/]"
        )

    def end_step(self) -> None:
        """Note how long the step took."""
        if self._step is not None:
            title, began = self._step
            self.step_seconds[title] = self.step_seconds.get(title, 0.0) + time.monotonic() - began
            self._step = None

    def note(self, text: str, *, style: str = "") -> None:
        """A remark; `text` is data, not markup."""
        self.console.print(f"  {text}", style=style or None, markup=False, highlight=False)

    @contextmanager
    def bar(self, what: str, total: int) -> Iterator[Advance]:
        """A progress bar; call what you get with the number of units done since the last call."""
        progress = Progress(
            TextColumn("  {task.description}"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self.console,
        )
        with progress:
            task = progress.add_task(f"{what:<44}", total=total)
            yield lambda done: progress.advance(task, done)

    @contextmanager
    def bar_to(self, what: str, total: int) -> Iterator[Advance]:
        """The same for work that says how far it is, not how much it did since."""
        reached = 0
        with self.bar(what, total) as advance:

            def to(done: int) -> None:
                nonlocal reached
                advance(done - reached)
                reached = done

            yield to

    def _clock(self) -> str:
        seconds = int(time.monotonic() - self._began)
        return f"{seconds // 60}:{seconds % 60:02d}"
