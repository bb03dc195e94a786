import math
from pathlib import Path

import pytest

from atdp.replay import ConfigError, ReplayConfig, read_config


def test_a_file_gives_settings_and_options_come_first(tmp_path: Path) -> None:
    file = tmp_path / "gate.yaml"
    file.write_text("mode: non_inferiority\nmargin: 0.1\nmin_tasks: 20\nreward_max: 5\n")
    config = read_config(file, {"margin": 0.2, "alpha": None})
    assert config == ReplayConfig(mode="non_inferiority", margin=0.2, min_tasks=20, reward_max=5.0)
    assert read_config(None, {}) == ReplayConfig()


def test_an_empty_file_is_the_defaults(tmp_path: Path) -> None:
    file = tmp_path / "gate.yaml"
    file.write_text("# nothing yet\n")
    assert read_config(file, {}) == ReplayConfig()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("margin: 0.1\nmargni: 0.2\n", r"gate.yaml:2:1: there is no setting 'margni'; .*min_ess"),
        ("margin: wide\n", r"gate.yaml:1:1: margin: "),
        ("min_tasks: 2.5\n", r"gate.yaml:1:1: min_tasks: "),
        ("reward_max: .inf\n", r"gate.yaml:1:1: reward_max: "),
        ("mode: better\n", r"gate.yaml:1:1: mode: "),
        ("- margin\n", r"gate.yaml:1:1: the document: "),
        ("margin: [\n", r"not valid YAML"),
        ("margin: 1\nmargin: 2\n", r"'margin' occurs twice"),
        ("timeout_s: 1.0e+300\n", r"timeout_s must be > 0 and at most 86400"),
        ("seed: -1\n", r"seed must be at least 0"),
    ],
)
def test_a_wrong_file_is_refused_with_the_place(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "gate.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_config(file, {})


def test_a_value_outside_its_range_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="alpha must be in"):
        read_config(None, {"alpha": 0.7})
    for name in ("margin", "min_ess"):
        with pytest.raises(ConfigError, match=f"{name} must be .* finite"):
            read_config(None, {name: math.inf})
    with pytest.raises(ConfigError, match=r"cannot read .*none.yaml: No such file"):
        read_config(tmp_path / "none.yaml", {})
