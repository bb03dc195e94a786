"""Exit codes of calls that end with an error.

Most verbs: 1 for an error, 2 for a wrong call, 0 when the reader of the output has ended. Verbs
whose codes 0, 1 and 2 are verdicts: 3 for all of these, so that a misspelt option is not taken for
INCONCLUSIVE, nor output that nobody read for PASS.
"""

from typing import Any

import typer
from typer.core import TyperCommand

ERROR = 1
CLOSED_OUTPUT = 0
NO_VERDICT = 3
_KEY = "atdp.codes_are_verdicts"


class VerdictCommand(TyperCommand):
    """A verb whose exit codes are verdicts: 1 means FAIL and not an error."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Mark the call before its arguments are read; the contexts of one call share `meta`."""
        ctx.meta[_KEY] = True
        return super().parse_args(ctx, args)


def exit_code(context: typer.Context, usual: int) -> int:
    """Return `usual`, or `NO_VERDICT` in a call of a verb whose exit codes are verdicts."""
    return NO_VERDICT if context.meta.get(_KEY) else usual
