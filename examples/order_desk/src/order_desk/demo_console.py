"""The output of the demo while it runs: numbered steps, remarks, progress bars.

On a terminal bars move; in a file or a pipe each finished bar leaves one line.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

Advance = Callable[[int], None]


class DemoConsole:
    """Prints the demo's steps and measures their durations."""

    def __init__(self, console: Console) -> None:
        """Print to `console`."""
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
        """Record the duration of the step."""
        if self._step is not None:
            title, began = self._step
            self.step_seconds[title] = self.step_seconds.get(title, 0.0) + time.monotonic() - began
            self._step = None

    def note(self, text: str, *, style: str = "") -> None:
        """Print a remark; `text` is data, not markup."""
        self.console.print(f"  {text}", style=style or None, markup=False, highlight=False)

    @contextmanager
    def bar(self, title: str, total: int) -> Iterator[Advance]:
        """Show a progress bar.

        Call the function it gives with the number of units done since the last call.
        """
        progress = Progress(
            TextColumn("  {task.description}"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self.console,
        )
        with progress:
            task = progress.add_task(f"{title:<44}", total=total)
            yield lambda done: progress.advance(task, done)
            # Fewer units than expected may have sufficed; the bar still ends full.
            progress.update(task, total=progress.tasks[task].completed)

    @contextmanager
    def bar_to(self, title: str, total: int) -> Iterator[Advance]:
        """Show a progress bar; call the function it gives with the number of units done so far."""
        reached = 0
        with self.bar(title, total) as advance:

            def advance_to(done: int) -> None:
                nonlocal reached
                advance(done - reached)
                reached = done

            yield advance_to

    def _clock(self) -> str:
        seconds = int(time.monotonic() - self._began)
        return f"{seconds // 60}:{seconds % 60:02d}"
