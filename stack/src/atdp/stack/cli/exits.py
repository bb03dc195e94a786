"""What a command ends with when something goes wrong: 1; but 3 for verbs whose codes 0, 1 and 2 are verdicts."""

import typer

ERROR = 1
ERROR_BESIDE_VERDICTS = 3
_KEY = "atdp.error_exit_code"


def codes_are_verdicts(context: typer.Context) -> None:
    """Say, in a verb, that its exit codes are verdicts: 1 is FAIL and must not mean that something broke."""
    context.meta[_KEY] = ERROR_BESIDE_VERDICTS


def code_of_an_error(context: typer.Context) -> int:
    """The exit code of an error in the verb that ran in this context or in one below it (they share `meta`)."""
    return int(context.meta.get(_KEY, ERROR))
