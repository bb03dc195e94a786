"""The examples of how another system keeps the time name the right run."""

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

PAGE = (Path(__file__).parents[3] / "docs/how-to/schedule-evaluations.md").read_text("utf-8")


def example(section: str, language: str) -> str:
    text = PAGE.partition(f"### {section}\n")[2]
    match = re.search(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert match, section
    return match[1]


def asked(script: str, folder: Path, program: str, **environ: str) -> str:
    """Run a shell script in which `program` prints its arguments, one in a line."""
    stand_in = folder / program
    stand_in.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    stand_in.chmod(0o755)
    path = {"PATH": f"{folder}:{os.environ['PATH']}"}
    ended = subprocess.run(
        ["sh", "-ec", script], env=path | environ, capture_output=True, text=True, check=True
    )
    return ended.stdout


def test_the_job_of_kubernetes_asks_for_the_time_in_its_name(tmp_path: Path) -> None:
    pod = yaml.safe_load(example("Kubernetes", "yaml"))["spec"]["jobTemplate"]["spec"]["template"]
    [container] = pod["spec"]["containers"]
    job = "atdp-external-29739060"  # minutes since 1970 of 2026-07-18 03:00 UTC
    said = asked(container["args"][0], tmp_path, "curl", JOB=job, GATEWAY="http://g")
    assert '{"logical_time": "2026-07-18T03:00:00Z"}' in said.splitlines()
    assert f"Idempotency-Key: {job}" in said.splitlines()
    assert "http://g/v1/schedules/external/runs" in said.splitlines()


@pytest.mark.parametrize(("section", "language"), [("cron", "crontab"), ("systemd", "ini")])
def test_the_local_clocks_ask_for_the_minute_in_which_they_start(
    section: str, language: str, tmp_path: Path
) -> None:
    text = example(section, language)
    if section == "cron":
        script = text.partition("* * * ")[2].replace("\\%", "%").partition(">>")[0]
    else:
        [line] = re.findall(r"^ExecStart=/bin/sh -c '(.*)'$", text, re.MULTILINE)
        script = line.replace("%%", "%")
    script = script.replace("/srv/atdp/.venv/bin/atdp", "atdp")
    said = asked(script, tmp_path, "atdp").splitlines()
    assert said[:-1] == ["replay", "run", "--schedule", "external", "--logical-time"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:00Z", said[-1])


@pytest.mark.parametrize("section", ["Airflow", "Dagster"])
def test_the_programs_of_orchestrators_are_python(section: str) -> None:
    compile(example(section, "python"), section, "exec")
