"""Numbers that name a person do not pass as numbers of JSON, nor in numeric fields of an event."""

import json
from typing import Any

import pytest

from atdp.governance.detect.numbers import number_entity
from atdp.governance.errors import PolicyError, Refusal
from atdp.governance.policy import CompiledPolicy, PolicyDocument, compile_policy
from atdp.governance.tenant_governor import TenantGovernor
from atdp.governance.walk.string_governor import StringGovernor

from .governors import governor_of, with_entities
from .planted import NOW, address, record

SSN = 536904399
CARD = 4111111111111111


@pytest.fixture
def governor(default_policy: CompiledPolicy) -> TenantGovernor:
    document = default_policy.document
    any_value = document.rewards.model_copy(update={"ranges": {"*": [-1e18, 1e18]}})
    return governor_of(compile_policy(document.model_copy(update={"rewards": any_value})))


@pytest.mark.parametrize(
    ("number", "key", "entity"),
    [
        (SSN, "n", "US_SSN"),
        (-SSN, "n", "US_SSN"),
        (float(SSN), "total", "US_SSN"),
        (912701234, "n", "US_ITIN"),
        (SSN + 0.5, "n", None),
        (SSN, "size_bytes", None),
        (SSN, "durationMs", None),
        (SSN, "elapsed_ns", None),
        (666904399, "n", None),
        (536004399, "n", None),
        (536900000, "n", None),
        (901234567, "n", None),
        (53690439, "n", None),
        (5369043990, "n", None),
        (float("nan"), "n", None),
        (float("inf"), "n", None),
    ],
)
def test_nine_digits_are_a_number_of_a_person_unless_they_measure_something(
    number: float, key: str, entity: str | None
) -> None:
    assert number_entity(number, key, frozenset({"US_SSN", "US_ITIN"})) == entity


def test_a_policy_decides_whether_the_form_alone_counts(
    default_policy: CompiledPolicy, default_document: PolicyDocument
) -> None:
    assert default_policy.number_entities == {"US_SSN", "US_ITIN"}
    lenient = with_entities(default_document, US_SSN={"do": "replace", "min_score": 0.4})
    assert governor_of(lenient).strings.text(f'{{"n": {SSN}}}', "t").text == f'{{"n": {SSN}}}'
    with pytest.raises(PolicyError, match="numbers have no form of EMAIL_ADDRESS"):
        with_entities(default_document, EMAIL_ADDRESS={"do": "hash", "numbers": "find"})


@pytest.mark.parametrize("text", [f'{{"n": {SSN}}}', f"[{CARD}.0]", f'{{"a": [[-{SSN}]]}}'])
def test_numbers_of_documents(strings: StringGovernor, text: str) -> None:
    governed = strings.text(text, "t").text or ""
    json.loads(governed)
    assert str(SSN) not in governed
    assert str(CARD) not in governed


def _with(path: str, value: Any) -> dict[str, Any]:
    """Return a record of the body that `path` names, with the number `value` there."""
    first, _, rest = path.partition(".")
    kind = first if rest and first not in {"usage", "cost", "links"} else "action"
    event = record(kind, address)
    place: Any = event
    for name in path.split(".")[:-1]:
        place = place[name][0] if isinstance(place[name], list) else place[name]
    place[path.rpartition(".")[2]] = value
    return event


def _at(event: Any, path: str) -> Any:
    for name in path.split("."):
        event = event[name][0] if isinstance(event[name], list) else event[name]
    return event


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("trajectory_started.seed", SSN),
        ("action.generation.sampling.seed", CARD),
        ("usage.input_tokens", SSN),
        ("usage.output_tokens", CARD),
        ("cost.amount", float(SSN)),
        ("reward.value", float(CARD)),
        ("links.confidence", float(SSN)),
        ("observation.messages.parts.size_bytes", CARD),
        ("latency_us", CARD),
    ],
)
def test_numeric_fields_hold_no_number_of_a_person(
    governor: TenantGovernor, path: str, value: float
) -> None:
    governed = governor.govern(_with(path, value), NOW)
    after = _at(governed.record, path)
    assert after is None or isinstance(after, type(value))
    assert after != value
    assert path in {
        each.path.removeprefix("$.").replace("[*]", "") for each in governed.replacements
    }


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("trajectory_started.seed", 42),
        ("trajectory_started.seed", 3_141_592_653),
        ("usage.input_tokens", 128_000),
        ("cost.amount", 0.25),
        ("latency_us", SSN),
        ("occurred_at_nanos", SSN),
        ("observation.messages.parts.size_bytes", SSN),
    ],
)
def test_other_numbers_stay(governor: TenantGovernor, path: str, value: float) -> None:
    assert _at(governor.govern(_with(path, value), NOW).record, path) == value


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("seq", SSN),
        ("step", SSN),
        ("action.generation.policy_versions.end", SSN),
        ("action.generation.output_token_ids", [1, SSN]),
        ("action.generation.output_logprobs", [-0.5, float(-SSN)]),
    ],
)
def test_a_number_of_a_person_that_nothing_can_replace_is_refused(
    governor: TenantGovernor, path: str, value: Any
) -> None:
    with pytest.raises(Refusal) as refusal:
        governor.govern(_with(path, value), NOW)
    assert refusal.value.reason == "personal_number"
    assert str(SSN) not in str(refusal.value)
