"""The settings file: defaults, and errors that name the place."""

from pathlib import Path

import pytest

from atdp.replay import ConfigError, GateSettings, read_gate_settings
from atdp.replay.gates.selections import selection_condition


def written(folder: Path, text: str) -> Path:
    file = folder / "gates.yaml"
    file.write_text(text, "utf-8")
    return file


def test_a_file_names_its_metrics(tmp_path: Path) -> None:
    settings = read_gate_settings(
        written(
            tmp_path,
            "alpha: 0.1\nlooks: 4\nmetrics:\n"
            "- {name: pass^4, kind: pass_k, k: 4}\n"
            "- {name: cost, kind: ratio, value: cost, critical: false}\n",
        )
    )
    assert [(gate.name, gate.critical) for gate in settings.metrics] == [
        ("pass^4", True),
        ("cost", False),
    ]
    assert settings.spent_alpha == 0.025


def test_without_a_file_the_reward_decides() -> None:
    assert [gate.name for gate in GateSettings().metrics if gate.critical] == ["reward"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("metrics: []", "gates.yaml:1:1: metrics"),
        ("metrics:\n- {name: a, kind: meen}", "gates.yaml:2:3: metrics.0"),
        ("metrics:\n- {name: a, kind: mean, margn: 1}", "gates.yaml:2:25: metrics.0.margn"),
        ("metrics:\n- {name: a, kind: mean, margin: -1}", "metrics.0.margin"),
        ("metrics:\n- {name: a, kind: mean, range: [1, 0]}", "lower and then a higher"),
        ("metrics:\n- {name: a, kind: mean, margin: 5}", "not below 1, the width of `range`"),
        ("metrics:\n- {name: a, kind: mean, margin: 2, range: [-1, 1]}", "not below 2"),
        ("metrics:\n- {name: a, kind: invariant, violation: x, max_rate: 0}", "max_rate"),
        ("metrics:\n- {name: a, kind: pass_k, k: 0}", "metrics.0.k"),
        (
            "metrics:\n- {name: a, kind: pass_k, k: 1}\n- {name: a, kind: pass_k, k: 2}",
            "several metrics are named a",
        ),
        ("metrics:\n- {name: a, kind: pass_k, k: 1, critical: false}", "no metric is critical"),
        ("alpha: 0.6", "alpha"),
        ("trajectory_url: 'javascript:alert(1)'", "must begin with http"),
        ("trajectory_url: 'https://a/{trace}'", "{tenant}, {trajectory} and {attempt}"),
        ("metrics: {", "not valid YAML"),
    ],
)
def test_wrong_files_are_named_with_the_place(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace("[", r"\[").replace("^", r"\^")):
        read_gate_settings(written(tmp_path, text))


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        read_gate_settings(tmp_path / "none.yaml")


@pytest.mark.parametrize("selection", ["", ":", "agent:", "where: ", "agnt:2"])
def test_wrong_selections_are_refused(selection: str) -> None:
    with pytest.raises(ConfigError, match="selects no trajectories"):
        selection_condition(selection)


def test_the_settings_in_the_guide_are_settings(tmp_path: Path) -> None:
    guide = Path(__file__).parents[4] / "docs/how-to/gate-a-release.md"
    text = guide.read_text("utf-8").partition("```yaml\n")[2].partition("```")[0]
    settings = read_gate_settings(written(tmp_path, text))
    assert {gate.kind for gate in settings.metrics} == {"mean", "pass_k", "invariant", "ratio"}
