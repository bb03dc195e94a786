"""`atdp learn` where it cannot learn: it says why, and leaves the home as it was."""

from pathlib import Path
from threading import Event

import pytest

from atdp.runtime import Home, KeyStore, try_lock
from atdp.stack.errors import LearningError
from atdp.stack.learning.learn import learn
from atdp.stack.learning.learning_files import LearningFiles
from atdp.stack.learning.settings import LearningSettings


@pytest.fixture
def files(tmp_path: Path) -> LearningFiles:
    home = Home(tmp_path)
    with KeyStore(home.keys_db) as keys:
        keys.ensure_operator(home.operator_key_file)
    return LearningFiles(home, "desk")


def learn_without_reports(files: LearningFiles) -> None:
    learn(files, LearningSettings(model=files.model), Event(), lambda _: None)


def test_a_model_that_nobody_has_put_live_leaves_no_settings(files: LearningFiles) -> None:
    with pytest.raises(LearningError, match="No version of desk is live"):
        learn_without_reports(files)
    assert not files.settings.exists()


def test_a_second_process_for_one_model_refuses_and_changes_nothing(files: LearningFiles) -> None:
    held = try_lock(files.lock)
    assert held is not None
    with held, pytest.raises(LearningError, match="Another `atdp learn` runs for desk"):
        learn_without_reports(files)
    assert not files.settings.exists()
