"""Ids are valid UUIDv7, rise within a process, and share nothing with a forked child."""

import os
import threading
import uuid

import pytest

from atdp.schemas import new_event_id
from atdp.schemas.ids import EventIdSource

NOW_MS = 1_790_000_000_000


def test_ids_of_one_millisecond_count_up_and_are_valid() -> None:
    source = EventIdSource()
    ids = [source.next(NOW_MS) for _ in range(1_000)]
    assert ids == sorted(set(ids))
    for text in (ids[0], ids[-1]):
        value = uuid.UUID(text)
        assert (str(value), value.version, value.variant) == (text, 7, uuid.RFC_4122)
        assert value.int >> 80 == NOW_MS


def test_processes_have_73_random_bits_of_their_own() -> None:
    ids = [EventIdSource().next(NOW_MS) for _ in range(400)]
    assert len({text[15:] for text in ids}) == 400
    random_bits = [int(text.replace("-", ""), 16) for text in ids]
    varying = [bit for bit in range(128) if len({value >> bit & 1 for value in random_bits}) == 2]
    assert len(varying) == 73
    assert max(varying) < 76


def test_ids_rise_while_the_clock_is_set_back() -> None:
    source = EventIdSource()
    ids = [source.next(NOW_MS + ms) for ms in (0, 5, -3_600_000, 4, 5, 6)]
    assert ids == sorted(set(ids))
    assert [uuid.UUID(text).int >> 80 for text in ids] == [NOW_MS + ms for ms in (0, 5, 5, 5, 5, 6)]


def test_threads_never_get_the_same_id() -> None:
    source = EventIdSource()
    found: list[list[str]] = [[] for _ in range(4)]

    def make(ids: list[str]) -> None:
        ids.extend(source.next(NOW_MS + number // 100) for number in range(5_000))

    threads = [threading.Thread(target=make, args=(ids,)) for ids in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({text for ids in found for text in ids}) == 20_000
    assert all(ids == sorted(ids) for ids in found)


@pytest.mark.parametrize("hooks", [True, False], ids=["with the hook", "without the hook"])
def test_a_forked_child_makes_other_ids(hooks: bool) -> None:
    """Without the hook, the child's ids are the parent's: this shows what the hook is for."""
    source = EventIdSource()
    source.next(NOW_MS)
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        if hooks:
            source.renew()
        os.write(writer, source.next(NOW_MS).encode())
        os._exit(0)
    os.waitpid(pid, 0)
    childs = os.read(reader, 36).decode()
    os.close(reader)
    os.close(writer)
    own = [source.next(NOW_MS) for _ in range(2)]
    assert (childs in own) == (not hooks)


def test_the_ids_of_the_process_are_renewed_in_a_forked_child() -> None:
    before = new_event_id()
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writer, new_event_id().encode())
        os._exit(0)
    os.waitpid(pid, 0)
    childs = os.read(reader, 36).decode()
    os.close(reader)
    os.close(writer)
    assert childs[15:23] != before[15:23]
