"""OTLP documents of the tests: made-up ones with every attribute, and real traces as OTLP.

The real traces are stored in the form of Langfuse's export, which keeps the attributes of each span
and its content beside them. They are put back into the form in which they were sent.
"""

import json
from datetime import UTC, datetime
from typing import Any

TRACE = "0af7651916cd43dd8448eb211c80319c"
START = 1_772_359_200_123_456_789


def value(plain: Any) -> dict[str, Any]:
    match plain:
        case bool():
            return {"boolValue": plain}
        case str():
            return {"stringValue": plain}
        case int():
            return {"intValue": str(plain)}
        case float():
            return {"doubleValue": plain}
        case list():
            return {"arrayValue": {"values": [value(item) for item in plain]}}
        case None:
            return {}
        case _:
            return {"kvlistValue": {"values": attributes(plain)}}


def attributes(plain: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": value(item)} for key, item in plain.items()]


def span(number: int, name: str, plain: dict[str, Any], **more: Any) -> dict[str, Any]:
    parent = {} if number == 1 else {"parentSpanId": f"{1:016x}"}
    return {
        "traceId": TRACE,
        "spanId": f"{number:016x}",
        **parent,
        "name": name,
        "kind": 1,
        "startTimeUnixNano": str(START + number),
        "endTimeUnixNano": str(START + 1_500_000_001 + number),
        "attributes": attributes(plain),
        "status": {"code": 1},
        **more,
    }


def document(spans: list[dict[str, Any]], logs: list[dict[str, Any]] | None = None) -> Any:
    resource = {"attributes": attributes({"service.name": "shop", "service.version": "3"})}
    scope = {"name": "made.up", "version": "1", "attributes": []}
    made: dict[str, Any] = {
        "resourceSpans": [
            {
                "resource": resource,
                "scopeSpans": [
                    {"scope": scope, "spans": spans[:1], "schemaUrl": "https://x/1.43.0"},
                    {"scope": {"name": "other"}, "spans": spans[1:]},
                    {"scope": {"name": "empty"}, "spans": []},
                ],
                "schemaUrl": "",
            }
        ]
    }
    if logs is not None:
        made["resourceLogs"] = [
            {"resource": resource, "scopeLogs": [{"scope": scope, "logRecords": logs}]}
        ]
    return made


def from_langfuse(trace: Any, *, content: tuple[str, str] | None) -> Any:
    """Return a stored trace as OTLP; `content` names the attributes that held input and output."""
    spans = [_span(each, content) for each in trace["observations"]]
    metadata = _json(trace["observations"][0]["metadata"])
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": attributes(metadata["resourceAttributes"])},
                "scopeSpans": [{"scope": metadata["scope"], "spans": spans}],
            }
        ]
    }


def _span(stored: dict[str, Any], content: tuple[str, str] | None) -> dict[str, Any]:
    plain = {
        key: int(item) if isinstance(item, str) and item.isdigit() else item
        for key, item in ((_json(stored["metadata"]) or {}).get("attributes") or {}).items()
    }
    for name, key in zip(content or (), ("input", "output"), strict=False):
        if (held := _json(stored.get(key))) is not None:
            plain[name] = json.dumps(held)
    parent = stored["parentObservationId"]
    return {
        "traceId": stored["traceId"],
        "spanId": stored["id"],
        **({"parentSpanId": parent} if parent else {}),
        "name": stored["name"],
        "startTimeUnixNano": _nanos(stored["startTime"]),
        "endTimeUnixNano": _nanos(stored["endTime"]),
        "attributes": attributes(plain),
        "status": {},
    }


def _json(text: Any) -> Any:
    try:
        return json.loads(text) if isinstance(text, str) else text
    except ValueError:
        return text


def _nanos(iso: str) -> str:
    since = datetime.fromisoformat(iso).astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return str((since.days * 86_400 + since.seconds) * 10**9 + since.microseconds * 1000 + 789)
