"""The options that `atdp replay cassette` and `atdp replay teacher` share."""

from pathlib import Path
from typing import Annotated

import typer

Dataset = Annotated[str, typer.Option(help="Pinned dataset (`atdp dataset list`).")]
Candidate = Annotated[str, typer.Option(help="Version to replay, e.g. v2.")]
Model = Annotated[str, typer.Option("--model", "-m", help="Model in the weight registry.")]
CandidateUrl = Annotated[
    str | None,
    typer.Option(help="Engine that serves the candidate (default: an engine of the stack)."),
]
SettingsFile = Annotated[
    Path | None,
    typer.Option(help="Settings (YAML): rules of tools, thresholds.", dir_okay=False),
]
SystemPrompt = Annotated[
    Path | None,
    typer.Option(help="Show this text in place of the recorded system prompt.", dir_okay=False),
]
ToolsFile = Annotated[
    Path | None,
    typer.Option(help="Show these tools (JSON) in place of the recorded ones.", dir_okay=False),
]
