"""Groups of verbs, such as `atdp keys …`."""

import typer

from atdp.stack.cli.exit_codes import VerdictGroup


def make_group(name: str, summary: str) -> typer.Typer:
    """Return an empty group that shows its help when it is called without a verb."""
    return typer.Typer(
        name=name,
        help=summary,
        cls=VerdictGroup,
        no_args_is_help=True,
        rich_markup_mode=None,
        add_completion=False,
    )
