"""Exit codes of calls that do not end as they should.

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
        """Declare it, also for a call that cannot be read; contexts of one call share `meta`."""
        ctx.meta[_KEY] = True
        return super().parse_args(ctx, args)


def exit_code(context: typer.Context, usual: int) -> int:
    """Return the exit code of a call whose code is the `usual` one where codes are no verdicts."""
    return NO_VERDICT if context.meta.get(_KEY) else usual
