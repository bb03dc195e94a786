"""The round trip of a document: to events, over the wire, and back."""

from collections.abc import Callable
from typing import Any

from hypothesis import given, strategies as st

from atdp.adapters import (
    UnreadableDocument,
    atif_from_events,
    events_from_atif,
    events_from_openinference,
    events_from_otel,
    openinference_from_events,
    otel_from_events,
)
from atdp.adapters.documents.remainder import same_json
from atdp.schemas import Event, check, decode, encode

from .odd_documents import ODD, places, with_odd_value

Converter = tuple[Callable[[object, str], list[Event]], Callable[[list[Event]], dict[str, Any]]]
OTEL: Converter = (events_from_otel, otel_from_events)
OPENINFERENCE: Converter = (events_from_openinference, openinference_from_events)


def only_atif_document(events: list[Event]) -> dict[str, Any]:
    (document,) = atif_from_events(events)
    return document


ATIF: Converter = (events_from_atif, only_atif_document)


def over_the_wire(events: list[Event]) -> list[Event]:
    return [decode(encode(event)) for event in events]


def assert_comes_back(source: Any, converter: Converter) -> list[Event]:
    """Return the events of a document that is equal after the round trip."""
    read, write = converter
    events = read(source, "acme")
    assert [violation for event in events for violation in check(event)] == []
    written = write(over_the_wire(events))
    assert same_json(written, source)
    assert read(written, "acme") == events
    return events


def assert_odd_values_come_back(sources: list[Any], converter: Converter) -> None:
    """Put odd values at places of the documents; each one comes back or is refused."""
    read, write = converter
    found = [(source, st.sampled_from(places(source))) for source in sources]

    @given(data=st.data(), odd=ODD)
    def comes_back(data: st.DataObject, odd: Any) -> None:
        source, where = data.draw(st.sampled_from(found))
        changed = with_odd_value(source, data.draw(where), odd)
        try:
            events = read(changed, "acme")
        except UnreadableDocument:
            return
        assert same_json(write(over_the_wire(events)), changed)

    comes_back()
