"""`init` takes what it is not given from the environment, or names everything that is missing."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import atdp.sdk as sdk
from atdp.schemas import Feedback
from atdp.sdk import ConfigurationError, GatewaySender, KafkaSender, MemorySender, Recorder
from atdp.sdk.environment import options_from_environment

MakeRecorder = Callable[..., Recorder]
KEY = "atdp_0123456789ab_secret-of-the-tests"
IDENTITY = {"ATDP_TENANT": "acme", "ATDP_API_KEY": KEY}
GATEWAY = {"ATDP_GATEWAY_URL": "http://127.0.0.1:8080"}
KAFKA = {"ATDP_KAFKA_BOOTSTRAP": "127.0.0.1:1"}
LOGIN = {"ATDP_KAFKA_SASL_USERNAME": "atdp-agent", "ATDP_KAFKA_SASL_PASSWORD": "secret"}


def test_a_recorder_can_be_made_from_the_environment_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in {**IDENTITY, **GATEWAY, "ATDP_AGENT": "order-desk"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("ATDP_HOME", str(tmp_path))
    monkeypatch.delenv("ATDP_KAFKA_BOOTSTRAP", raising=False)
    recorder = sdk.init(flush_at_exit_s=0)
    try:
        assert (recorder.tenant, recorder.agent.id) == ("acme", "order-desk")
        sdk.reward(1.0, trajectory_id="t-1")
        assert sdk.stats().emitted == 1
    finally:
        recorder.close(timeout_s=0)


def test_the_sender_follows_from_the_address_that_is_set(tmp_path: Path) -> None:
    home = {"ATDP_HOME": str(tmp_path)}
    made = options_from_environment({}, IDENTITY | GATEWAY | home)
    assert isinstance(made["sender"], GatewaySender)
    made = options_from_environment({}, IDENTITY | KAFKA | home)
    assert isinstance(made["sender"], KafkaSender)
    given = MemorySender()
    assert options_from_environment({"sender": given}, IDENTITY | KAFKA)["sender"] is given


def test_without_an_address_the_gateway_of_the_running_stack_is_used(tmp_path: Path) -> None:
    environment = {**IDENTITY, "ATDP_HOME": str(tmp_path)}
    with pytest.raises(ConfigurationError, match=f"no stack runs in {tmp_path}"):
        options_from_environment({}, environment)
    (tmp_path / "run").mkdir()
    published = tmp_path / "run" / "endpoints.json"
    for broken in ("", "[]", '{"gateway": 5}'):
        published.write_text(broken, "utf-8")
        with pytest.raises(ConfigurationError, match="set ATDP_GATEWAY_URL"):
            options_from_environment({}, environment)
    published.write_text(json.dumps({"gateway": "http://127.0.0.1:8080"}), "utf-8")
    assert isinstance(options_from_environment({}, environment)["sender"], GatewaySender)


def test_everything_that_is_missing_is_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as raised:
        options_from_environment({}, {"ATDP_HOME": str(tmp_path)})
    for part in (
        "set ATDP_TENANT",
        "set ATDP_API_KEY",
        "set ATDP_GATEWAY_URL",
        "tenant=",
        "sender=",
    ):
        assert part in str(raised.value)


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        (GATEWAY | KAFKA, "ATDP_GATEWAY_URL and ATDP_KAFKA_BOOTSTRAP are both set"),
        (
            KAFKA | LOGIN,
            "ATDP_KAFKA_SASL_USERNAME, ATDP_KAFKA_SASL_PASSWORD would not be used without SASL",
        ),
        (
            KAFKA | LOGIN | {"ATDP_KAFKA_SECURITY_PROTOCOL": "SSL"},
            "ATDP_KAFKA_SASL_PASSWORD would not be used without SASL",
        ),
        (
            KAFKA | {"ATDP_KAFKA_SECURITY_PROTOCOL": "SASL_SSL"},
            "ATDP_KAFKA_SASL_PASSWORD, which ATDP_KAFKA_SECURITY_PROTOCOL=SASL_SSL needs",
        ),
        (
            KAFKA | LOGIN | {"ATDP_KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT"},
            "set ATDP_KAFKA_SASL_MECHANISM, which",
        ),
        (KAFKA | {"ATDP_KAFKA_SSL_CA": "/ca.pem"}, "ATDP_KAFKA_SSL_CA would not be used"),
        ({"ATDP_GATEWAY_URL": "127.0.0.1:8080"}, "is not a URL like http://127.0.0.1:8080"),
        (KAFKA | {"ATDP_KAFKA_SECURITY_PROTOCOL": "TLS"}, "librdkafka refuses the configuration"),
    ],
)
def test_variables_that_contradict_each_other_are_refused(
    environment: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigurationError) as raised:
        options_from_environment({}, IDENTITY | environment)
    assert message in str(raised.value)
    assert "secret" not in str(raised.value)


def test_an_unknown_option_is_refused_before_the_environment_is_read() -> None:
    with pytest.raises(TypeError, match="'tenat'; see InitOptions"):
        sdk.init(tenat="acme")  # type: ignore[call-arg]


# Judgements by id.


def test_feedback_by_id_needs_no_trajectory_object(
    recorder: Recorder, sender: MemorySender
) -> None:
    recorder.feedback("thumbs", trajectory_id="t-9", attempt=2, value=1.0, session_id="s")
    recorder.feedback("comment", trajectory_id="t-9", text="late", target_event_id="e-1")
    assert recorder.flush().complete
    thumbs, comment = sender.events
    assert isinstance(thumbs.body, Feedback)
    assert isinstance(comment.body, Feedback)
    assert (thumbs.trajectory_id, thumbs.attempt, thumbs.session_id) == ("t-9", 2, "s")
    assert (thumbs.body.target_kind, thumbs.body.value) == ("trajectory", 1.0)
    assert (comment.body.target_kind, comment.body.target_event_id) == ("event", "e-1")
    assert thumbs.producer_id != comment.producer_id


def test_module_functions_judge_the_ambient_trajectory_or_one_by_id(
    tmp_path: Path, sender: MemorySender
) -> None:
    recorder = sdk.init(tenant="acme", api_key=KEY, sender=sender, spool_dir=tmp_path)
    try:
        with sdk.trajectory(trajectory_id="t-1"):
            sdk.feedback("accept")
            with pytest.raises(ConfigurationError, match="together with attempt="):
                sdk.feedback("accept", attempt=1)
        sdk.feedback("reject", trajectory_id="t-2", attempt=1)
        with pytest.raises(ConfigurationError, match="feedback: no trajectory is running here"):
            sdk.feedback("accept")
        assert sdk.flush().complete
    finally:
        recorder.close()
    given = [event for event in sender.events if isinstance(event.body, Feedback)]
    assert [(each.trajectory_id, each.attempt) for each in given] == [("t-1", 0), ("t-2", 1)]


def test_a_judgement_with_a_field_that_does_not_exist_is_counted_as_failed(
    recorder: Recorder,
) -> None:
    recorder.feedback("comment", trajectory_id="t", txt="typo")  # type: ignore[call-arg]
    recorder.reward(1.0, trajectory_id="t", valu=1)  # type: ignore[call-arg]
    assert recorder.flush(0).failed == 2
