"""The peak of the demo's memory."""

from order_desk.memory_watch import MemoryWatch, resident_by_process


def test_the_memory_watch_keeps_the_peak_and_who_had_it() -> None:
    samples = iter([{"a": 5}, {"a": 7, "b": 4}])
    watch = MemoryWatch(sample=lambda: next(samples, {"a": 1}))
    with watch:
        watch.take_sample()
    assert watch.peak_bytes == 11
    assert watch.at_peak == {"a": 7, "b": 4}


def test_this_process_has_a_size() -> None:
    assert resident_by_process()["demo"] > 1_000_000
