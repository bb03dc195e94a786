"""OTLP documents as events and back, in each vocabulary."""

from collections.abc import Iterable
from typing import Any

from atdp.adapters.otlp.genai import GenAi
from atdp.adapters.otlp.openinference import OpenInference
from atdp.adapters.otlp.reading import events_from_otlp
from atdp.adapters.otlp.writing import otlp_from_events
from atdp.schemas import Event


def events_from_otel(document: object, tenant: str) -> list[Event]:
    """Return the events of an OTLP document with GenAI attributes for a tenant.

    Raises:
        UnreadableDocument: the value is no OTLP document, or it has no records.
    """
    return events_from_otlp(document, GenAi(), tenant)


def otel_from_events(events: Iterable[Event]) -> dict[str, Any]:
    """Return the document that `events_from_otel` made events of."""
    return otlp_from_events(events, GenAi())


def events_from_openinference(document: object, tenant: str) -> list[Event]:
    """Return the events of an OTLP document with OpenInference attributes for a tenant.

    Raises:
        UnreadableDocument: the value is no OTLP document, or it has no records.
    """
    return events_from_otlp(document, OpenInference(), tenant)


def openinference_from_events(events: Iterable[Event]) -> dict[str, Any]:
    """Return the document that `events_from_openinference` made events of."""
    return otlp_from_events(events, OpenInference())
