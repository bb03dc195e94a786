"""`atdp replay cassette`: a candidate live against recordings, with their tool results."""

from enum import StrEnum
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


class DivergencePolicy(StrEnum):
    """The meaning of a call that the recording does not hold; see `CassetteSettings.divergence`."""

    stop_score_prefix = "stop_score_prefix"
    fail = "fail"
    pooled_exact = "pooled_exact"
    normalised = "normalised"
    nearest = "nearest"


def cassette(  # noqa: PLR0913 (one for each option of the command)
    dataset: Dataset,
    candidate: Candidate,
    model: Model,
    candidate_url: CandidateUrl = None,
    settings: SettingsFile = None,
    divergence: Annotated[
        DivergencePolicy | None,
        typer.Option(help="What a call means that is not recorded (default: stop_score_prefix)."),
    ] = None,
    system_prompt: SystemPrompt = None,
    tools: ToolsFile = None,
    report: ReportFile = None,
    junit: JUnitFile = None,
    form: FormatOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Run a candidate live against recordings; its tools answer from the recording.

    No tool is executed, and the process reaches no address but the engine's. Exit code 0 PASS (the
    candidate acts as the recorded agent does), 1 FAIL (only with --divergence fail), 2
    INCONCLUSIVE, 3 ERROR. --json prints the canonical report.

    \b
    Example:
      atdp replay cassette --dataset orders-7 --candidate v2 --model orderdesk --report v2.html
      atdp replay cassette --dataset orders-7 --candidate v1 --model orderdesk --divergence fail
      atdp replay cassette --dataset orders-7 --candidate v1 --model orderdesk \
        --system-prompt shorter.txt --settings cassette.yaml
    """
    from atdp.replay import (
        Counterfactual,
        RecordingRequest,
        read_cassette_settings,
        replay_cassettes,
        write_recording_report,
    )

    files = VerdictFiles(report, junit)
    with files.judging():
        result = replay_cassettes(
            existing_home(),
            RecordingRequest(
                dataset=dataset,
                model=model,
                candidate=candidate,
                candidate_url=candidate_url,
                settings=read_cassette_settings(
                    settings, divergence=None if divergence is None else divergence.value
                ),
                changes=Counterfactual.read(system_prompt, tools),
            ),
        )
    chosen = choose_format(form, as_json)
    end(result, chosen, files, partial(write_recording_report, result))
