"""The repetition of a run from what it read, to the same bytes.

The data comes from the pinned dataset, through the governed reader; the scores from the record of
the run. What consent, retention or a policy withholds by now is withheld here, too, so a run that
read it cannot be repeated, and the error says which input differs.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from atdp.lakehouse import LakehouseError, open_lake
from atdp.replay.config import ReplayConfig
from atdp.replay.errors import RepeatError, ReplayDataError
from atdp.replay.lake_dataset import pinned_dataset
from atdp.replay.lineage import trained_on
from atdp.replay.report import FORMAT, ReplayReport
from atdp.replay.run import PolicyVersion, replay
from atdp.replay.stored_runs import StoredRun, StoredRuns
from atdp.runtime import Home


def repeat_run(home: Home, run_id: str) -> ReplayReport:
    """Repeat a run of this home; `run_id` may be the beginning of its id.

    Raises:
        RepeatError: there is no such run, another version of atdp made it, no engine had answered,
            or an input is not as it was.
        ReplayDataError: the dataset does not exist or cannot be read.
        LineageError: the registry does not record what the candidate was trained on.
    """
    stored = StoredRuns.of(home).find(run_id)
    inputs = _inputs_to_repeat(stored)
    try:
        dataset = pinned_dataset(open_lake(home), inputs["dataset"]["name"])
    except LakehouseError as error:
        raise ReplayDataError(str(error)) from error
    candidate, baseline = (PolicyVersion(**inputs[role], url="") for role in _ROLES)
    learned = None
    if inputs["trained_on_sha256"] is not None:
        learned = trained_on(home.weights, candidate.model, candidate.version)
    report = replay(
        dataset,
        candidate=candidate,
        baseline=baseline,
        config=ReplayConfig(**inputs["config"]),
        trained_on=learned,
        open_scorer=stored.scores().replaying(),
    )
    if report.canonical() != stored.canonical:
        raise RepeatError(_what_differs(stored.run_id, inputs, report))
    return report


def is_repeatable(home: Home, run_id: str) -> bool:
    """Return whether everything is stored here with which this version of atdp repeats a run.

    Whether its data may still be read is found out by the repetition.
    """
    runs = StoredRuns.of(home)
    if not runs.is_kept(run_id):
        return False
    try:
        inputs = _inputs_to_repeat(runs.find(run_id))
    except RepeatError:
        return False
    return (home.datasets / f"{inputs['dataset']['name']}.json").exists()


_ROLES = ("candidate", "baseline")


def _inputs_to_repeat(stored: StoredRun) -> dict[str, Any]:
    """Return the inputs that a stored report names.

    Raises:
        RepeatError: another version of atdp made it, it is damaged, or nothing was scored.
    """
    try:
        inputs = dict(json.loads(stored.canonical)["inputs"])
    except (ValueError, LookupError, TypeError) as error:
        raise RepeatError(
            f"the report of run {stored.run_id[:16]} is damaged; restore it from a backup, "
            "or evaluate again"
        ) from error
    if inputs.get("format") != FORMAT:
        raise RepeatError(
            f"run {stored.run_id[:16]} is of format {inputs.get('format')}, this version of atdp "
            f"makes {FORMAT}; repeat it with the version that made it"
        )
    if inputs["failure"] is not None and inputs["scores_sha256"] is None:
        raise RepeatError(
            f"run {stored.run_id[:16]} ended with an error before anything was scored; "
            "evaluate again with `atdp replay run`"
        )
    return inputs


def _what_differs(run_id: str, inputs: Mapping[str, Any], report: ReplayReport) -> str:
    now = json.loads(report.canonical())["inputs"]
    names = sorted(set(_differences(inputs, now)) - {"failure"})
    return (
        f"run {run_id[:16]} cannot be repeated, because {', '.join(names) or 'the program'} "
        "is not as it was when it ran; "
        "what consent, retention or a policy withholds now is not read again"
    )


def _differences(old: Mapping[str, Any], new: Mapping[str, Any], path: str = "") -> Iterator[str]:
    for name in old.keys() | new.keys():
        before, after = old.get(name), new.get(name)
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            yield from _differences(before, after, f"{path}{name}.")
        elif before != after:
            yield f"{path}{name}"
