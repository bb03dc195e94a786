"""The exit code of a command that fails: 1; but 3 for verbs whose codes 0, 1 and 2 are verdicts."""

import typer

ERROR = 1
ERROR_BESIDE_VERDICTS = 3
_KEY = "atdp.error_exit_code"


def codes_are_verdicts(context: typer.Context) -> None:
    """Declare, in a verb, that its exit codes are verdicts: 1 means FAIL and not an error."""
    context.meta[_KEY] = ERROR_BESIDE_VERDICTS


def error_exit_code(context: typer.Context) -> int:
    """Return the exit code of an error in the verb that ran in this context or in one below it.

    Contexts of one call share `meta`.
    """
    return int(context.meta.get(_KEY, ERROR))
