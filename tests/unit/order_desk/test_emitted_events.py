"""The agents' own count of emitted events."""

from order_desk.emitted_events import EmittedEvents


def test_emitted_events_are_counted_by_tenant_and_by_channel() -> None:
    emitted = EmittedEvents()
    emitted.add("acme", "proxy", 4)
    emitted.add("acme", "sdk")
    emitted.add_ids("globex", "event-1", "event-2")
    assert emitted.total == 7
    assert emitted.known_ids == {"event-1", "event-2"}
    assert emitted.by_tenant() == {"acme": 5, "globex": 2}
    assert emitted.by_channel() == {"proxy": 4, "sdk": 3}
