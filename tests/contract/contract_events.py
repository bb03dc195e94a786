"""Events over every field and kind of the contract, made from its tree.

An event keeps every rule unless its recipe asks for damage. Fields of the same rule are made to
agree by the functions in `_AGREE`; a new rule that a record does not keep by chance needs an entry
there.

The strategy draws the kind, and a seed for the values: an event has up to 150 of them, which are
more than Hypothesis draws one by one in useful time.
"""

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from atdp.schemas import (
    KIND_OF_BODY,
    AvroArray,
    AvroEnum,
    AvroNullable,
    AvroPrimitive,
    AvroRecord,
    AvroType,
    contract_rules,
    newest,
)

Record = dict[str, Any]

TENANT = "acme"
CONTROL_TOKEN = -1
_LETTERS = "aZ0 '\"\\/%_\n\t\x00\x7fäß中\u2028\ufeff\U0001f600"
_NAME_LETTERS = "aZ0 '\"\\/%_äß中\ufeff\U0001f600"
_JSON = ("null", "[1, 2.50]", '"é\\u0000"', '{"b":1,"a":[]}', "1e400", " 0 ")
_OBJECTS = ("{}", '{"b": 1, "a": {"ä": null}}', '{"x":"\\ud83d\\ude00"}')
_DOUBLES = (0.0, -0.0, 1.0, -2.5, 0.1, 5e-324, -1.7976931348623157e308)
_FLOATS = (0.0, -0.5, -1.25, 3.4028234663852886e38, -(2.0**-149))
_FIRST_TIME = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Variant:
    """A kind of event, and for an action its type."""

    kind: str
    action: str | None = None


def variants() -> Iterator[Variant]:
    """Yield every kind of event, `action` once for each of its types."""
    for kind in KIND_OF_BODY.values():
        if kind == "action":
            yield from (Variant(kind, body) for body in _BODIES["Action"])
        else:
            yield Variant(kind)


@dataclass(frozen=True, slots=True)
class Recipe:
    """All that an event is made from; the event itself would be too large for a report."""

    variant: Variant
    seed: int
    full: bool
    """No field is null or empty."""
    damaged: bool = False
    """One of its records has the fields of a rule's bad example."""

    def record(self) -> Record:
        chance = random.Random(self.seed)
        event = _Maker(chance, self.full, self.variant).record(newest("event").tree)
        if self.damaged:
            _damage(event, chance)
        return event


def recipes(*, damaged: bool = False) -> st.SearchStrategy[Recipe]:
    """Return recipes of events of every variant that keep every rule, or that are damaged."""
    seeds = st.integers(0, (1 << 32) - 1)
    return st.builds(
        Recipe, st.sampled_from(list(variants())), seeds, st.booleans(), st.just(damaged)
    )


def _damage(event: Record, chance: random.Random) -> None:
    places = list(_records(newest("event").tree, event))
    names = {name for name, _ in places}
    rule = chance.choice([rule for rule in contract_rules() if rule.record in names])
    place = chance.choice([place for name, place in places if name == rule.record])
    example = chance.choice(rule.bad)
    place.update({name: _python_value(value) for name, value in example.items()})


def _python_value(value: Any) -> Any:
    """Return a value of the JSON form of events as the record form has it."""
    if isinstance(value, str) and _is_time(value):
        return datetime.fromisoformat(value)
    return value


def _is_time(text: str) -> bool:
    return text[:4].isdigit() and text[10:11] == "T"


def _records(node: AvroType, value: Any) -> Iterator[tuple[str, Record]]:
    """Yield the name and the fields of every record in a value, itself included."""
    match node:
        case AvroNullable(item) if value is not None:
            yield from _records(item, value)
        case AvroArray(items):
            for each in value:
                yield from _records(items, each)
        case AvroRecord() as record:
            yield record.name, value
            for field in record.fields:
                yield from _records(field.type, value[field.name])


def _fields_of_rules(*suffixes: str) -> set[tuple[str, str]]:
    return {
        (rule.record, name)
        for rule in contract_rules()
        if rule.id.split(".")[1] in suffixes
        for name in rule.fields
    }


def _action_bodies() -> Iterator[str]:
    """Yield the fields of the action that a type can name."""
    action = next(field.type for field in newest("event").tree.fields if field.name == "action")
    assert isinstance(action, AvroNullable)
    assert isinstance(action.item, AvroRecord)
    types = next(field.type for field in action.item.fields if field.name == "type")
    assert isinstance(types, AvroEnum)
    yield from (field.name for field in action.item.fields if field.name in types.symbols)


_ID_FIELDS = _fields_of_rules("ids", "optional_ids", "caused_by", "evidence")
_NAME_FIELDS = _ID_FIELDS | _fields_of_rules("names")
_COUNT_FIELDS = _fields_of_rules("not_negative")
_BODIES = {"Event": tuple(KIND_OF_BODY.values()), "Action": tuple(_action_bodies())}


@dataclass(frozen=True, slots=True)
class _Maker:
    """Makes the values of one event."""

    chance: random.Random
    full: bool
    variant: Variant

    def record(self, record: AvroRecord) -> Record:
        values = {
            field.name: self._value((record.name, field.name), field.type)
            for field in record.fields
            if field.name not in _BODIES.get(record.name, ())
        }
        if record.name in _BODIES:
            values |= self._bodies(record)
        return _AGREE.get(record.name, dict)(values)

    def _bodies(self, record: AvroRecord) -> Record:
        """Return the body that the variant names, and null for every other one."""
        tag = "kind" if record.name == "Event" else "type"
        named = self.variant.kind if record.name == "Event" else self.variant.action
        bodies: Record = {tag: named}
        for field in record.fields:
            if field.name not in _BODIES[record.name]:
                continue
            assert isinstance(field.type, AvroNullable)
            bodies[field.name] = None
            if field.name == named:
                bodies[field.name] = self._value((record.name, field.name), field.type.item)
            elif (field.name, named) == ("message", "generation"):
                bodies[field.name] = self._value((record.name, field.name), field.type)
        return bodies

    def _value(self, place: tuple[str, str], node: AvroType) -> Any:
        match node:
            case AvroNullable(item):
                absent = not self.full and self.chance.random() < 0.5
                return None if absent else self._value(place, item)
            case AvroArray(items):
                count = self.chance.randint(int(self.full), 2)
                return [self._value(place, items) for _ in range(count)]
            case AvroRecord():
                return self.record(node)
            case AvroEnum():
                return self.chance.choice(node.symbols)
            case AvroPrimitive():
                return self._primitive(place, node)

    def _primitive(self, place: tuple[str, str], node: AvroPrimitive) -> Any:
        chance = self.chance
        if node.logical_type is not None:
            return _FIRST_TIME + timedelta(microseconds=chance.randrange(8 * 10**14))
        match node.name:
            case "string":
                return self._text(place)
            case "boolean":
                return chance.random() < 0.5
            case "float" | "double":
                number = chance.choice(_FLOATS if node.name == "float" else _DOUBLES)
                return abs(number) if place in _COUNT_FIELDS else number
            case _:
                highest = (1 << (31 if node.name == "int" else 63)) - 1
                number = chance.choice((0, 1, 7, highest, -1, -highest - 1))
                return max(number, 0) if place in _COUNT_FIELDS else number

    def _text(self, place: tuple[str, str]) -> str:
        if place[1].endswith("_json"):
            objects = place[1] in {"ext_json", "metadata_json"}
            return self.chance.choice(_OBJECTS if objects else _JSON)
        letters = _NAME_LETTERS if place in _NAME_FIELDS else _LETTERS
        least = int(place in _ID_FIELDS)
        return "".join(self.chance.choices(letters, k=self.chance.randint(least, 6)))


def _event(record: Record) -> Record:
    _nanos(record, "occurred_at", "ended_at")
    start, end = record["occurred_at"], record["ended_at"]
    if start is not None and end is not None and start >= end:
        record |= {"occurred_at": end, "ended_at": start}
        if start == end:
            record |= {"occurred_at_nanos": None, "ended_at_nanos": None}
    record["tenant_id"] = TENANT
    stamp = record["governance"]
    if stamp is not None and stamp["token_fidelity"] not in {None, "exact", "unknown"}:
        stamp["token_fidelity"] = None  # the gate would believe it and remove the tokens
    return record


def _nanos(record: Record, *times: str) -> Record:
    for time in times:
        nanos = record[f"{time}_nanos"]
        record[f"{time}_nanos"] = None if None in (record[time], nanos) else nanos % 1000
    return record


def _unit(record: Record) -> Record:
    if record["confidence"] is not None:
        record["confidence"] = abs(record["confidence"]) % 1.0
    return record


def _ordered(record: Record, low: str, high: str) -> Record:
    if None not in (record[low], record[high]):
        record[low], record[high] = sorted((record[low], record[high]))
    return record


def _targeted(record: Record) -> Record:
    kind = "trajectory" if record["target_kind"] == "unknown" else record["target_kind"]
    step = abs(record["target_step"] or 0) % (1 << 31)
    return record | {
        "target_kind": kind,
        "target_event_id": (record["target_event_id"] or "e") if kind == "event" else None,
        "target_step": step if kind == "step" else None,
    }


def _reward(record: Record) -> Record:
    record = _unit(_ordered(_targeted(_nanos(record, "observed_at")), "range_min", "range_max"))
    if record["value"] is None:
        record["critique"] = record["critique"] or "too long"
    span = record["target_kind"] == "event" and record["token_start"] is not None
    start = abs(record["token_start"] or 0) % 1000
    record |= {"token_start": start if span else None, "token_end": start + 1 if span else None}
    return record | ({"compared_to": None} if record["target_kind"] == "step" else {})


def _feedback(record: Record) -> Record:
    record = _ordered(_targeted(record), "range_min", "range_max")
    low, high = record["range_min"], record["range_max"]
    if None not in (record["value"], low, high):  # the gate refuses a value beyond them
        record["value"] = min(max(record["value"], low), high)
    return record


def _generation(record: Record) -> Record:
    tokens = record["output_token_ids"]
    count = 0 if tokens is None else len(tokens)
    for name, filler in (("output_logprobs", -0.5), ("loss_mask", 1)):
        values = None if tokens is None else record[name]
        record[name] = None if values is None else (values + [filler] * count)[:count]
    record["loss_mask"] = record["loss_mask"] and [bit % 2 for bit in record["loss_mask"]]
    spans = record["policy_versions"][: count if tokens is not None else None]
    record["policy_versions"] = [
        span | {"start": at, "end": at + 1} for at, span in enumerate(spans)
    ]
    record["token_splices"] = []  # the gate's own
    # The gate removes a reference that no control token follows, since a value may begin in what it
    # refers to.
    refers = bool(record["prompt_token_ids"]) and record["prompt_prefix_tokens"] is not None
    if refers:
        record["prompt_token_ids"][0] = CONTROL_TOKEN
    return record | {
        "prompt_prefix_event_id": "e" if refers else None,
        "prompt_prefix_tokens": 7 if refers else None,
    }


def _action(record: Record) -> Record:
    """Return the action with the output ids of its message: the gate drops any others."""
    generation, message = record["generation"], record["message"]
    if generation is None or generation["output_token_ids"] is None:
        return record
    parts = () if message is None else message["parts"]
    written = "".join(map(_written, parts))
    generation["output_token_ids"] = [ord(letter) for letter in written]
    return record | {"generation": _generation(generation)}


def _written(part: Record) -> str:
    """Return what an engine writes for a part of a message."""
    text = part["text"] or ""
    if part["type"] in {"tool_call", "custom_tool_call"}:
        return f"<tool_call>{part['name'] or ''}{text}</tool_call>"
    return text


def _experts(record: Record) -> Record:
    return record | {"layers": 1, "experts_per_token": 1, "start_token": 7}


_AGREE: Mapping[str, Callable[[Record], Record]] = {
    "Event": _event,
    "Action": _action,
    "Link": _unit,
    "Cost": lambda record: record | {"currency": "EUR"},
    "InternalState": _unit,
    "Generation": _generation,
    "RoutedExperts": _experts,
    "Reward": _reward,
    "Feedback": _feedback,
    "Annotation": _targeted,
    "Gap": lambda record: _ordered(record, "from_seq", "to_seq"),
}
"""Record → a function that makes the fields of one rule agree."""
