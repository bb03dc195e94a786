"""Settings that are not settings are refused; a verdict never says more than was measured."""

from pathlib import Path

import pytest

from atdp.replay import ConfigError, Verdict
from atdp.replay.cassette.cassette_settings import CassetteSettings, read_cassette_settings
from atdp.replay.cassette.counterfactual import Counterfactual
from atdp.replay.cassette.recording_verdict import judge_agreement, judge_cassette_replay
from atdp.replay.cassette.replay_measures import Comparison, compare_by_task
from atdp.replay.intervals import Interval

SETTINGS = CassetteSettings()
FAIL = CassetteSettings(divergence="fail")


def comparison(lower: float, tasks: int = 40) -> Comparison:
    same = Interval(estimate=0.5, lower=0.4, upper=0.6)
    difference = Interval(estimate=lower + 0.03, lower=lower, upper=lower + 0.06)
    return Comparison(tasks=tasks, candidate=same, baseline=same, difference=difference)


def test_a_file_gives_settings_and_options_stand_before_it(tmp_path: Path) -> None:
    file = tmp_path / "cassette.yaml"
    file.write_text(
        "divergence: normalised\n"
        "tools:\n"
        "  find: {effect: read, arguments: {item: [strip, lower]}}\n"
        "margin: 0.1\n"
    )
    settings = read_cassette_settings(file)
    assert (settings.divergence, settings.margin) == ("normalised", 0.1)
    assert settings.tools["find"].arguments == {"item": ("strip", "lower")}
    assert read_cassette_settings(file, divergence="fail").divergence == "fail"
    assert read_cassette_settings(None) == SETTINGS
    file.write_text("# nothing yet\n")
    assert read_cassette_settings(file) == SETTINGS


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("divergance: fail", "settings are divergence"),
        ("divergence: sometimes", "divergence"),
        ("tools: {find: {effect: maybe}}", "tools.find.effect"),
        ("tools: {find: {effects: read}}", "tools.find.effects"),
        ("tools: {find: {arguments: {item: [upper]}}}", "tools.find.arguments.item"),
        ("margin: -1", "margin"),
        ("min_tasks: 1", "min_tasks"),
        ("[1, 2]", "dictionary"),
        ("divergence: [", "not valid YAML"),
    ],
)
def test_a_wrong_setting_is_an_error_that_names_it(tmp_path: Path, text: str, named: str) -> None:
    file = tmp_path / "cassette.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match="not usable settings") as refused:
        read_cassette_settings(file)
    assert named in str(refused.value)


def test_a_missing_file_and_tools_that_are_no_tools_are_errors(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        read_cassette_settings(tmp_path / "none.yaml")
    with pytest.raises(ConfigError, match="cannot read"):
        Counterfactual.read(tmp_path / "none.txt", None)
    tools = tmp_path / "tools.json"
    for text in (
        "{}",
        "[1]",
        '[{"function": {}}]',
        '{"function": {"name": "x"}}',
        "[",
        "[" * 100_000,
        '[{"function": {"name": "x", "strict": NaN}}]',
        '[{"function": {"name": "\\ud800"}}]',
        '[{"function": {"name": "x", "parameters": ' + "[" * 500 + "]" * 500 + "}}]",
    ):
        tools.write_text(text)
        with pytest.raises(ConfigError, match=r"tools\.json"):
            Counterfactual.read(None, tools)
    tools.write_text('[{"function": {"name": "a"}}, {"function": {"name": "a"}}]')
    with pytest.raises(ConfigError, match="twice"):
        Counterfactual.read(None, tools)


def verdict(
    statuses: dict[str, int], lower: float, settings: CassetteSettings = SETTINGS, tasks: int = 10
) -> str:
    judged, reasons = judge_cassette_replay(statuses, tasks, comparison(lower), settings)
    return f"{judged.value} {' '.join(reason.code for reason in reasons)}"


def test_the_verdict_follows_from_coverage_and_from_agreement_beside_the_baseline() -> None:
    half = {"completed": 5, "diverged": 5}
    assert verdict(half, -0.05) == "PASS as_the_recorded_agent"
    assert verdict(half, -0.06) == "INCONCLUSIVE agreement_below_baseline"
    assert verdict({"completed": 4, "diverged": 6}, 0.2) == "INCONCLUSIVE low_coverage"
    assert verdict({"simulated": 10}, 0.2) == "INCONCLUSIVE low_coverage"
    assert verdict({}, 0.2) == "INCONCLUSIVE nothing_replayable"


def test_only_the_policy_fail_gives_fail() -> None:
    assert verdict({"completed": 9, "diverged": 1}, 0.2, FAIL) == "FAIL diverged"
    assert verdict({"completed": 9, "out_of_steps": 1}, 0.2, FAIL) == "FAIL diverged"
    assert verdict({"completed": 10}, -1.0, FAIL) == "PASS no_divergence"
    assert verdict({}, 0.2, FAIL) == "INCONCLUSIVE nothing_replayable"


def test_few_recordings_show_that_something_changed_and_not_that_nothing_did() -> None:
    thin = verdict({"completed": 24}, 0.2, FAIL, tasks=9)
    assert thin == "INCONCLUSIVE few_tasks no_divergence"
    assert verdict({"completed": 1}, 0.2, FAIL, tasks=1) == thin
    assert verdict({"diverged": 1}, 0.2, FAIL, tasks=1) == "FAIL diverged"
    two = CassetteSettings(divergence="fail", min_tasks=2)
    assert verdict({"completed": 2}, 0.2, two, tasks=2) == "PASS no_divergence"


def test_without_a_baseline_on_enough_tasks_there_is_no_verdict() -> None:
    for measured in (None, comparison(0.2, tasks=9)):
        judged, (reason,) = judge_agreement(measured, SETTINGS)
        assert (judged, reason.code) == (Verdict.INCONCLUSIVE, "few_tasks")


def test_ratios_are_compared_on_the_tasks_that_both_have() -> None:
    ours = [(("a", f"{n}"), (3.0, 4.0)) for n in range(12)] + [(("a", None), (0.0, 9.0))]
    theirs = [(("a", f"{n}"), (1.0, 2.0)) for n in range(2, 14)]
    compared = compare_by_task(ours, theirs, SETTINGS)
    assert compared is not None
    assert compared.tasks == 10
    assert compared.candidate.estimate == pytest.approx(0.75)
    assert compared.baseline.estimate == pytest.approx(0.5)
    assert compared.difference.estimate == pytest.approx(0.25)
    assert compare_by_task(ours[:1], theirs, SETTINGS) is None


def test_equal_tasks_show_no_more_than_their_number() -> None:
    def lower(tasks: int) -> float:
        ratios = [(("a", f"{n}"), (5.0, 5.0)) for n in range(tasks)]
        compared = compare_by_task(ratios, ratios, SETTINGS)
        assert compared is not None
        assert compared.candidate.upper == 1.0
        return compared.difference.lower

    assert lower(12) == pytest.approx(0.05 ** (1 / 12) - 1)
    assert lower(58) < -SETTINGS.margin <= lower(59)
