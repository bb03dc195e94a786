"""Consent that is withdrawn after a trajectory was read: no later step uses it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.unit.trainer.test_grpo_run import SHAPE, TOKENIZER, Crash, plan, start, trajectories

from atdp.trainer.errors import TrainingError
from atdp.trainer.linearize import Row
from atdp.trainer.model import new_model
from atdp.trainer.run_settings import Pace
from atdp.trainer.sft_loop import SftRules, train_on_rows
from atdp.trainer.source import MemorySource
from atdp.trainer.trajectory import TrajectoryKey


def names(keys: Any) -> set[str]:
    return {key.trajectory for key in keys}


def test_a_withdrawal_between_a_plan_and_its_step_makes_another_plan(tmp_path: Path) -> None:
    source = MemorySource(trajectories())
    gone = TrajectoryKey("t", "x01", 0)

    def withdraw(point: str) -> None:
        if point == "plan written":
            source.withhold([gone], "consent_withdrawn_since")

    result = start(tmp_path, source, on_point=withdraw).run(Pace(steps=100))
    assert "x01" not in names(result.trained)
    assert len(result.trained) == 31
    assert plan(tmp_path, 1).replaces is not None


def test_a_resumed_run_makes_its_plan_anew_without_what_was_withdrawn_meanwhile(
    tmp_path: Path,
) -> None:
    def crash(point: str) -> None:
        if point == "plan written":
            raise Crash

    with pytest.raises(Crash):
        start(tmp_path, MemorySource(trajectories()), on_point=crash).run(Pace(steps=4))
    assert "x01" in names(plan(tmp_path, 1).trained)
    source = MemorySource(trajectories())
    source.withhold([TrajectoryKey("t", "x01", 0)], "consent_withdrawn_since")
    assert "x01" not in names(start(tmp_path, source).run(Pace(steps=4)).trained)


def rows(count: int) -> list[Row]:
    return [
        Row(
            tokens=np.full(4, n + 1, np.int64),
            trained=np.ones(4, bool),
            logprobs=np.zeros(4, np.float32),
        )
        for n in range(count)
    ]


def test_supervised_training_uses_no_row_after_its_withdrawal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    used: list[set[int]] = []

    def note(_model: Any, _optimizer: Any, batch: list[Row], **_: Any) -> float:
        used.append({int(row.tokens[0]) - 1 for row in batch})
        return 0.0

    monkeypatch.setattr("atdp.trainer.sft_loop.likelihood_step", note)
    gone: list[int] = []

    def on_step(step: int, _metrics: Mapping[str, Any]) -> None:
        if step == 3:
            gone.extend([0, 2])

    model = new_model(SHAPE, TOKENIZER, seed=1)
    sft = SftRules(steps=9, batch=2)
    train_on_rows(model, rows(4), sft, on_step=on_step, withheld=lambda: gone)
    assert set().union(*used[:3]) == {0, 1, 2, 3}
    assert set().union(*used[3:]) == {1, 3}
    gone.extend([1, 3])
    with pytest.raises(TrainingError, match="may be used"):
        train_on_rows(model, rows(4), sft, withheld=lambda: gone)
