"""Attacks by records in the raw topic, with an ordinary key of an agent or without any."""

from dataclasses import replace
from typing import Any

from atdp.runtime.keys import ApiKey
from atdp.schemas import REDELIVERY, Reward

from .senders import RAW, Sent, event_of, rows_behind, send, signed
from .target import RIVAL, TENANT, Target

_BOMB_BYTES = 700 << 20
_KILOBYTE = 1 << 10


def stop_a_partition(target: Target) -> str | None:
    """Send 700 MB of zeros in a batch of some kilobytes, unsigned."""
    bomb = Sent(key=f"{TENANT}/bomb".encode(), value=bytes(_BOMB_BYTES))
    limits: dict[str, Any] = {"message.max.bytes": 1_000_000_000, "compression.codec": "zstd"}
    errors = send(target, bomb, **limits)
    if errors:
        return f"it could not be sent: {errors[0]}"
    try:
        rows_behind(target, [replace(bomb, event_id="none")], target.agent)
    except TimeoutError as error:
        return str(error)
    with target.http("governance") as governance:
        answer = governance.get("/readyz")
    return None if answer.status_code == 200 else f"governance is not ready: {answer.text[:80]}"


def write_another_trajectory(target: Target) -> str | None:
    """Sign an event of another trajectory with a session key, past the gateway."""
    record = signed(event_of(trajectory="of-another-session"), _session_key(target))
    return _landed(target, record)


def write_another_tenant(target: Target) -> str | None:
    """Sign an event of another tenant."""
    record = signed(event_of(RIVAL, "theirs"), target.agent)
    send(target, record)
    return _found(rows_behind(target, [record], target.rival))


def write_unsigned(target: Target) -> str | None:
    """Send an event without a signature."""
    return _landed(target, replace(signed(event_of(), target.agent), headers=()))


def copy_a_record(target: Target) -> str | None:
    """Send five verbatim copies of another agent's signed record."""
    record = signed(event_of(trajectory="copied"), target.agent)
    send(target, *[record] * 6)
    return _copies(rows_behind(target, [record], target.agent))


def copy_under_another_key(target: Target) -> str | None:
    """Send copies of a signed record under other Kafka keys, so to other partitions."""
    record = signed(event_of(trajectory="moved"), target.agent)
    elsewhere = [replace(record, key=f"{TENANT}/{number}".encode()) for number in range(8)]
    send(target, record, *elsewhere)
    for copy in elsewhere:
        rows_behind(target, [copy], target.agent)
    return _copies(rows_behind(target, [record], target.agent))


def change_the_mark(target: Target) -> str | None:
    """Send a copy of a signed record with the mark of a redelivery."""
    record = signed(event_of(trajectory="marked"), target.agent)
    marked = replace(record, headers=[*record.headers, (REDELIVERY, b"1")])
    return _landed(target, marked)


def copy_from_another_topic(target: Target) -> str | None:
    """Send a record that was signed for another topic."""
    return _landed(target, signed(event_of(), target.agent, for_topic=f"staging.{RAW}"))


def reward_oneself(target: Target) -> str | None:
    """Reward one's own trajectory with 1e308 as a human evaluator, with a session key."""
    with target.http("gateway", target.agent) as gateway:
        session = gateway.post("/v1/sessions", json={"task_id": "t"}).raise_for_status().json()
    key = ApiKey(session["api_key"])
    reward = Reward(value=1e308, source_name="human-evaluator", target_kind="trajectory")
    event = event_of(
        trajectory=session["trajectory_id"], session_id=session["session_id"], body=reward
    )
    record = signed(event, key)
    send(target, record)
    rows_behind(target, [record], target.agent)
    rows = target.rows("SELECT count(*) AS n FROM rewards WHERE value > 1e300")
    return None if rows[0]["n"] == 0 else "the reward landed"


def _session_key(target: Target) -> ApiKey:
    with target.http("gateway", target.agent) as gateway:
        answer = gateway.post("/v1/sessions", json={"task_id": "t"}).raise_for_status()
    return ApiKey(answer.json()["api_key"])


def _landed(target: Target, record: Sent) -> str | None:
    send(target, record)
    return _found(rows_behind(target, [record], target.agent))


def _found(rows: int) -> str | None:
    return f"{rows} rows landed" if rows else None


def _copies(rows: int) -> str | None:
    return None if rows == 1 else f"{rows} rows landed"


ATTACKS = (
    write_unsigned,
    write_another_tenant,
    write_another_trajectory,
    copy_a_record,
    copy_under_another_key,
    change_the_mark,
    copy_from_another_topic,
    reward_oneself,
    stop_a_partition,
)
