"""A judge over HTTP, and the scheduler of evaluations over a real store."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from .evaluator_rig import EvaluatorRig
from .fake_judge import FakeJudge


@pytest.fixture
def judge() -> Iterator[FakeJudge]:
    with FakeJudge().serving() as serving:
        yield serving


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[EvaluatorRig]:
    rig = EvaluatorRig(tmp_path)
    yield rig
    rig.close()
