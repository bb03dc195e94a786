"""`atdp replay teacher`: a candidate's next action at every recorded step."""

from functools import partial
from typing import Annotated

import typer

from atdp.stack.cli.homes import existing_home
from atdp.stack.cli.output import FormatOption, JsonOption, choose_format
from atdp.stack.cli.replay.recording_options import (
    Candidate,
    CandidateUrl,
    Dataset,
    Model,
    SettingsFile,
    SystemPrompt,
    ToolsFile,
)
from atdp.stack.cli.replay.verdict_output import JUnitFile, ReportFile, VerdictFiles, end


def teacher(  # noqa: PLR0913 (one for each option of the command)
    dataset: Dataset,
    candidate: Candidate,
    model: Model,
    baseline: Annotated[
        str | None,
        typer.Option(help="Version to compare with, e.g. v1 (default: the recorded agent)."),
    ] = None,
    candidate_url: CandidateUrl = None,
    baseline_url: Annotated[
        str | None,
        typer.Option(help="Engine that serves the baseline (default: an engine of the stack)."),
    ] = None,
    settings: SettingsFile = None,
    system_prompt: SystemPrompt = None,
    tools: ToolsFile = None,
    report: ReportFile = None,
    junit: JUnitFile = None,
    form: FormatOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Compare a candidate's next action with the recorded one, at every recorded step.

    The candidate is shown the recorded prefix, so that one different action does not spoil the
    next. With --baseline, the log-likelihood of the recorded actions is compared too, where their
    token ids are exact. Exit code 0 PASS (the candidate acts as the baseline does), 2 INCONCLUSIVE,
    3 ERROR. --json prints the canonical report.

    \b
    Example:
      atdp replay teacher --dataset orders-7 --candidate v2 --baseline v1 --model orderdesk
    """
    from atdp.replay import (
        Counterfactual,
        RecordingRequest,
        force_recordings,
        read_cassette_settings,
        write_recording_report,
    )

    files = VerdictFiles(report, junit)
    with files.judging():
        result = force_recordings(
            existing_home(),
            RecordingRequest(
                dataset=dataset,
                model=model,
                candidate=candidate,
                candidate_url=candidate_url,
                baseline=baseline,
                baseline_url=baseline_url,
                settings=read_cassette_settings(settings),
                changes=Counterfactual.read(system_prompt, tools),
            ),
        )
    chosen = choose_format(form, as_json)
    end(result, chosen, files, partial(write_recording_report, result))
