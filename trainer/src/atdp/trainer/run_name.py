"""The name of a run, which follows from what decides its result.

That is the algorithm, the base version, the settings and the selection. So the same command, also
without a name given, finds the run that it began before it was killed, and continues it. The name
of a run that has published its last version is used up: the same command then begins another run,
`…-2`, since the data that it reads may have grown.
"""

from collections.abc import Callable

from atdp.trainer.registry import Published, TrainingKind, WeightRegistry

_DIGITS = 10
"""Hexadecimal digits of the settings' hash in a name: 40 bits identify a run of one model."""


def unpublished_name(
    registry: WeightRegistry,
    model: str,
    kind: TrainingKind,
    base: Published | None,
    settings: str,
    *,
    goes_on: Callable[[str], bool] = lambda _: False,
) -> str:
    """Return the first name for these settings that is not used up.

    `goes_on` says of the name of a run that has published whether it will publish more.
    """
    stem = f"{kind}-{base.version if base else 'new'}-{settings[:_DIGITS]}"
    name, number = stem, 1
    while registry.published_by(model, name) is not None and not goes_on(name):
        number += 1
        name = f"{stem}-{number}"
    return name
