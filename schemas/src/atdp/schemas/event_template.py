"""The bytes that all events of one producer in one trajectory share, made once.

Of each event only the id, the numbers, the time, the body and the fields that it has for itself are
written, and no `Event` is made. What is written is proved by the rules of the contract in the same
pass. For an event that cannot be proved there are no bytes; the caller then makes the event as a
value, whose encoding and check give the bytes or name the broken rule. A property test compares the
two ways.
"""

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from atdp.schemas import _rule_predicates as predicates
from atdp.schemas._compiled_encoder import (
    LENGTHS,
    UnexpectedValue,
    latest_time,
    unsigned_varint,
    varint,
)
from atdp.schemas._event_encoder import proving_encoder
from atdp.schemas.contract_rule import ContractRule
from atdp.schemas.contract_tree import AvroField
from atdp.schemas.event import Body, Event, EventId

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EARLIEST_US: Final = (predicates.EARLIEST - _EPOCH) // timedelta(microseconds=1)
_TABLE_SIZE: Final = len(LENGTHS)
_ID_LENGTH: Final = LENGTHS[36]
_NUMBERS: Final = ("event_id", "seq", "step", "kind", "occurred_at")
"""Fields that every event has for itself."""
_MAX_LAYOUTS: Final = 64  # of one template; events with further sets of fields take twice the time
_LOW_BITS: Final = 21  # of a time, written as three bytes; the others change every second


def time_of_micros(micros: int) -> datetime:
    """Return the time that lies `micros` microseconds behind the epoch."""
    return _EPOCH + timedelta(microseconds=micros)


@dataclass(frozen=True, slots=True)
class _FieldForm:
    """One field of the envelope."""

    write: Callable[[Any], bytes]
    rules: tuple[ContractRule, ...]
    """The rules of the envelope that look at the field."""


@functools.cache
def _field_forms() -> Mapping[str, _FieldForm | None]:
    """Return the fields in the order of the wire; None stands for all bodies."""
    encoder = proving_encoder()
    rules = encoder.compiler.rules("Event")

    def forms(fields: Iterable[AvroField]) -> dict[str, _FieldForm | None]:
        return {
            field.name: _FieldForm(
                write=encoder.compiler.value(field.type),
                rules=tuple(rule for rule in rules if field.name in rule.fields),
            )
            for field in fields
        }

    return {**forms(encoder.before_body), "body": None, **forms(encoder.behind_body)}


@dataclass(frozen=True, slots=True)
class _Layout:
    """The pieces of events that have the same fields for themselves.

    What lies between these fields is one piece, so that few pieces are joined.
    """

    pieces: list[bytes]
    slots: Mapping[str, int]
    """The piece of each of the event's own fields."""
    numbers: tuple[int, int, int, int, int]
    """The pieces of event id, number, step, kind and time."""
    body: int


class EventTemplate:
    """Writes the events of one producer in one trajectory; used by one thread at a time."""

    __slots__ = ("_bodies", "_forms", "_layouts", "_prefix", "_sample", "_time_high")

    def __init__(self, sample: Event) -> None:
        """Share the fields of `sample`, an event of the producer.

        Raises:
            Exception: the sample cannot be proved; no event of the producer can.
        """
        encoder = proving_encoder()
        encoder.encode(sample)
        self._sample = sample
        self._prefix = encoder.prefix
        self._bodies = encoder.bodies
        self._forms = _field_forms()
        self._layouts: dict[tuple[str, ...], _Layout] = {}
        self._time_high = (-1, b"")

    def encode(
        self,
        body: Body,
        *,
        event_id: EventId,
        seq: int,
        step: int,
        at_us: int,
        fields: Mapping[str, Any],
    ) -> bytes | None:
        """Return the bytes of the event with these parts, or None where they cannot be proved.

        Args:
            body: the body.
            event_id: an id of `new_event_id`.
            seq: the number of the producer, 0 or more.
            step: the decision step.
            at_us: the present time in microseconds since the epoch. The time of the event, where
                `fields` have no `occurred_at`.
            fields: the fields of the envelope in which the event differs from the sample.
        """
        try:
            if type(step) is not int or step < 0 or at_us < _EARLIEST_US:
                return None
            form = self._bodies[type(body)]
            names = tuple(fields)
            layout = self._layouts.get(names) or self._new_layout(names)
            pieces = layout.pieces.copy()
            id_at, seq_at, step_at, kind_at, time_at = layout.numbers
            pieces[id_at] = _ID_LENGTH + event_id.encode()
            pieces[seq_at] = LENGTHS[seq] if seq < _TABLE_SIZE else varint(seq)
            pieces[step_at] = LENGTHS[step] if step < _TABLE_SIZE else _int32(step)
            pieces[kind_at] = form.kind
            pieces[time_at] = self._time_bytes(at_us)
            for name, value in fields.items():
                field = self._forms[name]
                if field is None:
                    return None
                pieces[layout.slots[name]] = field.write(value)
                for rule in field.rules:
                    self._prove(rule, fields, at_us)
            pieces[layout.body] = form.bytes_of(body)
            return b"".join(pieces)
        except Exception:  # noqa: BLE001 - the caller's other way names what is wrong
            return None

    def _new_layout(self, names: tuple[str, ...]) -> _Layout:
        own = {*_NUMBERS, *names}
        pieces, slots, body = [self._prefix], {}, 0
        for name, form in self._forms.items():
            if form is None:
                body = len(pieces)
                pieces += [b"", b""]
            elif name in own:
                slots[name] = len(pieces)
                pieces += [b"", b""]
            else:
                pieces[-1] += form.write(getattr(self._sample, name))
        id_at, seq_at, step_at, kind_at, time_at = (slots[name] for name in _NUMBERS)
        layout = _Layout(pieces, slots, (id_at, seq_at, step_at, kind_at, time_at), body)
        if len(self._layouts) < _MAX_LAYOUTS:
            self._layouts[names] = layout
        return layout

    def _prove(self, rule: ContractRule, fields: Mapping[str, Any], at_us: int) -> None:
        own = {"occurred_at": time_of_micros(at_us), **fields}
        values = [own[name] if name in own else getattr(self._sample, name) for name in rule.fields]
        if rule.latest:
            values.append(latest_time())
        if not rule.holds(*values):
            raise UnexpectedValue

    def _time_bytes(self, at_us: int) -> bytes:
        """Return a time in Avro's form of a nullable long."""
        rest = at_us << 1
        high, high_bytes = self._time_high
        if rest >> _LOW_BITS != high:
            high = rest >> _LOW_BITS
            high_bytes = unsigned_varint(high)
            self._time_high = (high, high_bytes)
        low = (2, rest & 127 | 128, rest >> 7 & 127 | 128, rest >> 14 & 127 | 128)
        return bytes(low) + high_bytes


def _int32(number: int) -> bytes:
    if number >= 1 << 31:
        raise UnexpectedValue
    return varint(number)
