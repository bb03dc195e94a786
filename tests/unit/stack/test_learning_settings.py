"""Settings of `atdp learn`: wrong ones, and those that its trainer refuses, are errors at once."""

from pathlib import Path
from typing import Any

import pytest

from atdp.runtime import Home
from atdp.stack.errors import LearningError
from atdp.stack.learning.settings import LearningSettings
from atdp.stack.learning.train_options import train_options
from atdp.stack.learning.training_run import TrainingRun


def test_a_share_that_leaves_nothing_to_train_on_is_refused() -> None:
    with pytest.raises(LearningError, match="hold out"):
        LearningSettings(model="desk").changed({"hold_out": 1.0})


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"training": {"learning_rate": 0.0}}, "learning rate"),
        ({"training": {"learning_rate": "fast"}}, "not supported"),
        ({"training": {"discount": 0.0}}, "discount"),
        ({"training": {"share_per_tenant": 0.0}}, "share of a tenant"),
        ({"training": {"share_per_tenant": 0.5}, "tenant": "acme"}, "only acme"),
        ({"training": {"lerning_rate": 0.1}}, "lerning_rate"),
        ({"publish_every": 0}, "published every step at most"),
    ],
)
def test_settings_that_the_trainer_refuses_are_refused_for_learning(
    tmp_path: Path, given: dict[str, Any], says: str
) -> None:
    settings = LearningSettings(model="desk").changed(given)
    run = TrainingRun(number=1, base="v1", training_digest="", reason="")
    with pytest.raises(LearningError, match=f"Wrong settings of training.*{says}"):
        train_options(Home(tmp_path), settings, run)
