"""Settings of `atdp learn`: what its trainer would refuse is refused before it starts."""

from typing import Any

import pytest

from atdp.stack.errors import LearningError
from atdp.stack.learning.settings import LearningSettings


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"training": {"learning_rate": 0.0}}, "learning rate"),
        ({"training": {"discount": 0.0}}, "discount"),
        ({"training": {"share_per_tenant": 0.0}}, "share of a tenant"),
        ({"training": {"share_per_tenant": 0.5}, "tenant": "acme"}, "single tenant"),
        ({"hold_out": 1.0}, "hold out"),
    ],
)
def test_settings_that_the_trainer_would_refuse_are_refused_at_once(
    given: dict[str, Any], says: str
) -> None:
    with pytest.raises(LearningError, match=says):
        LearningSettings(model="desk", training={}).changed(given)
