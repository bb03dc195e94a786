"""`atdp policy preview`: a draft beside the active policy, on real records."""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from atdp.stack.cli.callers import KeyOption, caller_of
from atdp.stack.cli.homes import existing_home
from atdp.stack.cli.output import (
    Format,
    FormatOption,
    JsonOption,
    choose_format,
    print_json,
    print_rows,
)
from atdp.stack.cli.output_files import writing
from atdp.stack.cli.terminal import rewrite_line

if TYPE_CHECKING:
    from atdp.governance import PreviewReport

_QUIET_S: Final = 2.0
"""Seconds after which a preview shows its progress."""
_ALL: Final = "all"


def preview(  # noqa: PLR0913 (one for each option of the command)
    policy: Annotated[
        str, typer.Argument(metavar="FILE|ID@VERSION", help="Policy file, or a drafted version.")
    ],
    tenant: Annotated[
        list[str] | None,
        typer.Option(help="Tenants whose records are sampled (default: all of the draft)."),
    ] = None,
    source: Annotated[
        list[str] | None,
        typer.Option("--from", help="raw, quarantine or lake; may be repeated (default: raw)."),
    ] = None,
    since: Annotated[
        str, typer.Option(help="Begin of the window: 90m, 24h, 7d ago, or a time with zone.")
    ] = "24h",
    until: Annotated[
        str | None, typer.Option(help="End of the window, in the same forms (default: now).")
    ] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(help="Count events of this kind only; may be repeated."),
    ] = None,
    sample: Annotated[
        str, typer.Option(metavar="N|all", help="Trajectories to draw from the window.")
    ] = "200",
    seed: Annotated[int, typer.Option(help="Seed of the draw.")] = 0,
    raw: Annotated[
        bool,
        typer.Option("--raw", help="Show texts before and after. Needs a role that may; recorded."),
    ] = False,
    html: Annotated[
        Path | None, typer.Option(help="Write one self-contained page.", dir_okay=False)
    ] = None,
    key: KeyOption = None,
    form: FormatOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Run a draft on real records beside the active policy. Nothing is written.

    The report says which records would be governed differently: by decision, entity, path and rule,
    with the share of trajectories that lose or gain training, of model calls that lose exact
    tokens, and the CPU cost of both sides. Shares of a sample have 95 % intervals. The same seed
    draws the same trajectories.

    Names of entities stand in place of texts. With `--raw` and the key of a steward the texts
    themselves are shown; the register records who asked for them.

    \b
    Example:
      atdp policy preview acme.yaml --since 7d --html preview.html
      atdp policy preview acme@15 --from raw --from quarantine --sample all
      atdp policy preview acme.yaml --raw --key "$STEWARD_KEY" --format json
    """
    from atdp.governance import render_preview_page
    from atdp.runtime import utc_now, write_durably
    from atdp.stack.previews.preview_question import PreviewQuestion

    question = PreviewQuestion.of_argument(
        policy,
        tenants=tenant or (),
        sources=source or ("raw",),
        kinds=kind or (),
        since=since,
        until=until,
        trajectories=_sample_size(sample),
        seed=seed,
        raw=raw,
    )
    home = existing_home()
    report = question.answer(home, caller_of(home, key), now=utc_now(), progress=_progress())
    if html is not None:
        with writing(html):
            write_durably(html, render_preview_page(report))
        typer.echo(f"wrote {html}", err=True)
    if choose_format(form, as_json) is Format.JSON:
        print_json(report.to_json())
    elif choose_format(form, as_json) is Format.CSV:
        _print_csv(report)
    else:
        _print_text(report)


def _sample_size(text: str) -> int | None:
    if text == _ALL:
        return None
    if not text.isdecimal() or int(text) == 0:
        raise typer.BadParameter(f"{text!r} is neither a number of trajectories nor `all`")
    return int(text)


def _progress() -> Callable[[int, int], None]:
    """Return a function that shows on standard error how far a long preview is."""
    started = shown = time.monotonic()

    def show(done: int, of: int) -> None:
        nonlocal shown
        now = time.monotonic()
        live = sys.stderr.isatty()
        if now - started < _QUIET_S or (now - shown < (1.0 if live else 10.0) and done < of):
            return
        shown = now
        line = f"governed {done} of {of} trajectories under both sides"
        rewrite_line(line, ends=done == of)

    return show


def _print_text(report: "PreviewReport") -> None:
    from atdp.stack.cli.preview_tables import preview_tables

    active = ", ".join(f"{each.id}@{each.version}" for each in report.active) or "no policy"
    typer.echo(f"{report.draft.id}@{report.draft.version} beside {active}: nothing was written.")
    if report.without_policy:
        typer.echo(
            f"No policy is active for {', '.join(report.without_policy)}: "
            "all of their records are quarantined now."
        )
    for sample in report.samples:
        for line in preview_tables(sample, seed=report.seed):
            typer.echo(line)


def _print_csv(report: "PreviewReport") -> None:
    from atdp.stack.cli.preview_tables import preview_rows

    rows = [row for sample in report.samples for row in preview_rows(sample)]
    print_rows(rows, ("source", "section", "name", "active", "draft"), Format.CSV)
