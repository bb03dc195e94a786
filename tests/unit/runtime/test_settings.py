import json
from pathlib import Path

import pytest

from atdp.runtime.errors import SettingsError
from atdp.runtime.home import Home
from atdp.runtime.kafka_settings import KafkaSettings


def test_the_home_is_where_the_environment_says(tmp_path: Path) -> None:
    assert Home.from_env({"ATDP_HOME": str(tmp_path)}) == Home(tmp_path)
    assert Home.from_env({}).root == Path(".atdp").resolve()


def test_everything_lies_inside_the_home(tmp_path: Path) -> None:
    home = Home(tmp_path)
    paths = [
        getattr(home, name)
        for name in dir(type(home))
        if isinstance(getattr(type(home), name), property)
    ]
    assert len(paths) > 15
    assert len(set(paths)) == len(paths)
    assert all(path.is_relative_to(tmp_path) for path in paths)


def test_a_home_without_a_stack_has_no_endpoints(tmp_path: Path) -> None:
    assert Home(tmp_path).endpoints() == {}


@pytest.mark.parametrize("text", ["{", "[]", '{"kafka": 1}'])
def test_a_broken_endpoints_file_is_an_error_that_says_what_to_do(
    tmp_path: Path, text: str
) -> None:
    home = Home(tmp_path)
    home.run.mkdir()
    home.endpoints_file.write_text(text)
    with pytest.raises(SettingsError, match="atdp down"):
        home.endpoints()


def test_the_environment_names_the_broker_and_its_security(tmp_path: Path) -> None:
    settings = KafkaSettings.from_env(
        Home(tmp_path),
        {
            "ATDP_KAFKA_BOOTSTRAP": "b:1",
            "ATDP_KAFKA_SASL_PASSWORD": "hush",
            "ATDP_KAFKA_SSL_CA": "/ca.pem",
        },
    )
    config = settings.config(group_id="g", **{"linger.ms": 5})
    assert config == {
        "bootstrap.servers": "b:1",
        "metadata.recovery.strategy": "none",
        "sasl.password": "hush",
        "ssl.ca.location": "/ca.pem",
        "group.id": "g",
        "linger.ms": 5,
    }
    assert "hush" not in repr(settings)


def test_without_the_environment_the_running_stack_is_used(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.run.mkdir()
    home.endpoints_file.write_text(json.dumps({"kafka": "127.0.0.1:5"}))
    assert KafkaSettings.from_env(home, {}).bootstrap == "127.0.0.1:5"


def test_no_broker_anywhere_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="atdp up"):
        KafkaSettings.from_env(Home(tmp_path), {})
