"""The bytes that all events of one producer in one trajectory share, made once.

Of each event only the id, the numbers, the time, the body and the fields that it has for itself are
written, and no `Event` is made. What is written is proved by the rules of the contract in the same
pass. For an event that cannot be proved there are no bytes; the caller then makes the event as a
value, whose encoding and check give the bytes or name the broken rule. A property test compares the
two ways.
"""

import functools
from collections.abc import Callable, Mapping
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
from atdp.schemas.event import Body, Event, EventId

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EARLIEST_US: Final = (predicates.EARLIEST - _EPOCH) // timedelta(microseconds=1)
_TABLE_SIZE: Final = len(LENGTHS)
_ID_LENGTH: Final = LENGTHS[36]
_LOW_BITS: Final = 21  # of a time, written as three bytes; the others change every second


def time_of_micros(micros: int) -> datetime:
    """Return the time that lies `micros` microseconds behind the epoch."""
    return _EPOCH + timedelta(microseconds=micros)


@dataclass(frozen=True, slots=True)
class _FieldForm:
    """One field of the envelope."""

    slot: int
    write: Callable[[Any], bytes]
    rules: tuple[ContractRule, ...]
    """The rules of the envelope that look at the field."""


@functools.cache
def _field_forms() -> Mapping[str, _FieldForm]:
    """Return the fields of the envelope; their slots stand in the order of the wire."""
    encoder = proving_encoder()
    rules = encoder.compiler.rules("Event")
    slots = {field.name: index for index, field in enumerate(encoder.before_body, 1)}
    behind = len(slots) + 2
    slots |= {field.name: index for index, field in enumerate(encoder.behind_body, behind)}
    return {
        field.name: _FieldForm(
            slot=slots[field.name],
            write=encoder.compiler.value(field.type),
            rules=tuple(rule for rule in rules if field.name in rule.fields),
        )
        for field in (*encoder.before_body, *encoder.behind_body)
    }


class EventTemplate:
    """Writes the events of one producer in one trajectory; used by one thread at a time."""

    __slots__ = (
        "_bodies",
        "_body_slot",
        "_forms",
        "_id_slot",
        "_kind_slot",
        "_pieces",
        "_sample",
        "_seq_slot",
        "_step_slot",
        "_time_high",
        "_time_slot",
    )

    def __init__(self, sample: Event) -> None:
        """Share the fields of `sample`, an event of the producer.

        Raises:
            Exception: the sample cannot be proved; no event of the producer can.
        """
        encoder = proving_encoder()
        encoder.encode(sample)
        self._sample = sample
        self._bodies = encoder.bodies
        self._forms = forms = _field_forms()
        self._pieces = [encoder.prefix, *([b""] * (len(forms) + 1))]
        for name, form in forms.items():
            self._pieces[form.slot] = form.write(getattr(sample, name))
        self._body_slot = 1 + len(encoder.before_body)
        self._id_slot = forms["event_id"].slot
        self._kind_slot = forms["kind"].slot
        self._seq_slot = forms["seq"].slot
        self._step_slot = forms["step"].slot
        self._time_slot = forms["occurred_at"].slot
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
            pieces = self._pieces.copy()
            pieces[self._id_slot] = _ID_LENGTH + event_id.encode()
            pieces[self._seq_slot] = LENGTHS[seq] if seq < _TABLE_SIZE else varint(seq)
            pieces[self._step_slot] = LENGTHS[step] if step < _TABLE_SIZE else _int32(step)
            pieces[self._kind_slot] = form.kind
            pieces[self._time_slot] = self._time_bytes(at_us)
            for name, value in fields.items():
                field = self._forms[name]
                pieces[field.slot] = field.write(value)
                for rule in field.rules:
                    self._prove(rule, fields, at_us)
            pieces[self._body_slot] = form.bytes_of(body)
            return b"".join(pieces)
        except Exception:  # noqa: BLE001 - the caller's other way names what is wrong
            return None

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
