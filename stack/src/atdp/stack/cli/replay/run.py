"""`atdp replay run`: its options, its output and its exit code.

The evaluation itself is `atdp.replay.evaluate_dataset`.
"""

from dataclasses import replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from atdp.stack.cli.homes import existing_home
from atdp.stack.cli.output import FormatOption, JsonOption, choose_format
from atdp.stack.cli.replay.repeated_run import repeat_stored
from atdp.stack.cli.replay.scheduled_run import refuse_further_options, run_scheduled
from atdp.stack.cli.replay.verdict_output import JUnitFile, ReportFile, VerdictFiles, end, show

if TYPE_CHECKING:
    from atdp.replay import ReplayConfig, ReplayReport
    from atdp.runtime import Home


class Mode(StrEnum):
    """The hypothesis that the candidate has to pass."""

    superiority = "superiority"
    non_inferiority = "non_inferiority"


class EstimatorName(StrEnum):
    """The off-policy estimator that decides."""

    cwpdis = "cwpdis"
    wis = "wis"
    wdr = "wdr"
    pdis = "pdis"
    dr = "dr"


class BoundKind(StrEnum):
    """Approximate bounds, or bounds that hold at any sample size."""

    approximate = "approximate"
    guaranteed = "guaranteed"


class MissingTreatment(StrEnum):
    """The treatment of trajectories with a reward and without a valid weight."""

    worst_case = "worst_case"
    ignorable = "ignorable"


def run(  # noqa: PLR0913 (one for each option of the command)
    context: typer.Context,
    dataset: Annotated[
        str | None, typer.Option(help="Pinned dataset (`atdp dataset list`).")
    ] = None,
    candidate: Annotated[str | None, typer.Option(help="Version to judge, e.g. v2.")] = None,
    baseline: Annotated[str | None, typer.Option(help="Version to compare with, e.g. v1.")] = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="Model in the weight registry.")
    ] = None,
    candidate_url: Annotated[
        str | None,
        typer.Option(help="Engine that serves the candidate (default: an engine of the stack)."),
    ] = None,
    baseline_url: Annotated[
        str | None,
        typer.Option(help="Engine that serves the baseline (default: an engine of the stack)."),
    ] = None,
    report: ReportFile = None,
    junit: JUnitFile = None,
    form: FormatOption = None,
    as_json: JsonOption = False,
    settings: Annotated[
        Path | None,
        typer.Option(help="YAML file of settings; the options below come first.", dir_okay=False),
    ] = None,
    mode: Annotated[
        Mode | None, typer.Option(help="Better than the baseline, or no worse [superiority].")
    ] = None,
    margin: Annotated[
        float | None,
        typer.Option(help="Least gain (superiority) or tolerated loss, in reward [0].", min=0),
    ] = None,
    alpha: Annotated[
        float | None, typer.Option(help="One-sided error of all looks together [0.05].")
    ] = None,
    look: Annotated[
        int | None,
        typer.Option(help="Number of this look [1; with --record, the next one].", min=1),
    ] = None,
    estimator: Annotated[
        EstimatorName | None, typer.Option(help="Estimator that decides [cwpdis].")
    ] = None,
    bound: Annotated[
        BoundKind | None,
        typer.Option(help="Approximate bounds, or wide ones that hold always [approximate]."),
    ] = None,
    missing: Annotated[
        MissingTreatment | None,
        typer.Option(help="Rewards of trajectories without a valid weight [worst_case]."),
    ] = None,
    min_ess: Annotated[
        float | None, typer.Option(help="Least effective sample size [30].", min=2)
    ] = None,
    min_tasks: Annotated[
        int | None, typer.Option(help="Least number of tasks [10].", min=2)
    ] = None,
    min_coverage: Annotated[
        float | None,
        typer.Option(help="Least share with a reward and valid weights [0.5].", min=0, max=1),
    ] = None,
    reward_min: Annotated[float | None, typer.Option(help="Lowest possible reward [0].")] = None,
    reward_max: Annotated[float | None, typer.Option(help="Highest possible reward [1].")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the resampling [0].")] = None,
    in_sample: Annotated[
        bool,
        typer.Option("--in-sample", help="Keep trajectories that the candidate was trained on."),
    ] = False,
    record: Annotated[
        bool,
        typer.Option("--record", help="Record the verdict for the release gate (`atdp control`)."),
    ] = False,
    schedule: Annotated[
        str | None,
        typer.Option(help="In place of all these: make the run of this schedule."),
    ] = None,
    logical_time: Annotated[
        str | None,
        typer.Option(help="With --schedule: the time of the run, e.g. 2026-11-22T03:00:00Z."),
    ] = None,
    repeat: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="In place of all these: repeat a run of this home."),
    ] = None,
) -> None:
    r"""Judge a candidate on logged trajectories, before it serves any session.

    Exit code 0 PASS, 1 FAIL, 2 INCONCLUSIVE, 3 ERROR. The code is 3 also when the verdict could
    not be recorded: that needs a running stack and a registered candidate. --json prints the
    canonical report. --settings takes every field of the configuration, such as
    `max_weight_share: 0.2`. Each recorded evaluation is a look at the candidate, and spends a part
    of --alpha.

    With --schedule, the scheduler of the stack makes the run, and the command waits for its end. A
    run that has been made is not made again: its verdict is given.

    With --repeat, a run is made again from what it read, without an engine, and gives the same
    bytes; RUN may be the beginning of its id (`atdp replay list`).

    \b
    Example:
      atdp replay run --dataset orders-7 --candidate v2 --baseline v1 --model orderdesk
      atdp replay run --schedule nightly --logical-time 2026-11-22T03:00:00Z
      atdp replay run --repeat 3f9c2a7d51e0b846 --report again.html
    """
    files, chosen = VerdictFiles(report, junit), choose_format(form, as_json)
    if schedule is not None:
        refuse_further_options(context)
        run_scheduled(schedule, logical_time, chosen)
    if repeat is not None:
        repeat_stored(context, repeat, files, chosen)
    dataset, candidate, baseline, model = _named(
        dataset=dataset, candidate=candidate, baseline=baseline, model=model
    )
    from atdp.control import ControlError
    from atdp.replay import ReplayRequest, evaluate_dataset, read_config, write_report

    home = existing_home()
    given = {
        "mode": mode and mode.value,
        "margin": margin,
        "alpha": alpha,
        "look": look,
        "estimator": estimator and estimator.value,
        "bound": bound and bound.value,
        "missing": missing and missing.value,
        "min_ess": min_ess,
        "min_tasks": min_tasks,
        "min_coverage": min_coverage,
        "reward_min": reward_min,
        "reward_max": reward_max,
        "seed": seed,
    }
    with files.judging():
        config = read_config(settings, given)
        if record and look is None:
            config = _with_next_look(config, model, candidate, baseline, dataset)
        result = evaluate_dataset(
            home,
            ReplayRequest(
                dataset=dataset,
                model=model,
                candidate=candidate,
                baseline=baseline,
                candidate_url=candidate_url,
                baseline_url=baseline_url,
                held_out=not in_sample,
            ),
            config=config,
        )
        write_page = partial(write_report, result)
        try:
            if record:
                _record(home, model, result)
        except ControlError:
            show(result, chosen, VerdictFiles(files.page), write_page)
            raise
    end(result, chosen, files, write_page)


def _named(**options: str | None) -> tuple[str, ...]:
    """Return the values of options that an evaluation needs.

    Raises:
        BadParameter: one is missing.
    """
    for name, value in options.items():
        if value is None:
            raise typer.BadParameter("it is missing", param_hint=f"--{name}")
    return tuple(value for value in options.values() if value is not None)


def _record(home: "Home", model: str, result: "ReplayReport") -> None:
    """Record the verdict for the release gate, then publish it.

    Raises:
        ControlError: it could not be recorded, or is recorded and not in force.
    """
    from atdp.replay import StoredRuns
    from atdp.stack.cli.control.release_flow import recording
    from atdp.stack.evaluations.publication import publish_recorded

    StoredRuns.of(home).write_page(result)
    with recording(model) as flow:
        publish_recorded(home, result, lambda: flow.record_gate(result))


def _with_next_look(
    config: "ReplayConfig", model: str, candidate: str, baseline: str, dataset: str
) -> "ReplayConfig":
    """Return the settings with the number of the look that the release flow will record."""
    from atdp.stack.cli.control.release_flow import recording

    with recording(model) as flow:
        return replace(config, look=flow.look_for(candidate, baseline=baseline, dataset=dataset))
