"""The quarantined records that have left quarantine, by partition of the raw topic.

A record leaves quarantine once. The transaction that lets it pass (or discards it) writes the note
that it is done with to the topic of orders, and later orders about it change nothing. The notes of
a partition are read when the first order of the partition is carried out; the topic keeps them
longer than the quarantine topic keeps its records.
"""

from collections.abc import Callable, Iterable

from atdp.governance.release.order import QuarantineOrder, QuarantinePlace

ReadOrders = Callable[[int], Iterable[QuarantineOrder]]
"""Returns the orders and notes of a partition that are committed."""


class DoneRecords:
    """The records that are done with. Not thread-safe."""

    def __init__(self, read: ReadOrders) -> None:
        self._read = read
        self._done: dict[int, set[QuarantinePlace]] = {}
        self._open: set[tuple[int, QuarantinePlace]] = set()

    def holds(self, partition: int, place: QuarantinePlace) -> bool:
        """Return whether a record is done with, also by the open transaction."""
        return (partition, place) in self._open or place in self._of(partition)

    def put(self, partition: int, place: QuarantinePlace) -> None:
        """Add a record within the open transaction."""
        self._open.add((partition, place))

    def commit(self) -> None:
        """Keep what was added: the transaction has committed."""
        for partition, place in self._open:
            self._of(partition).add(place)
        self.rollback()

    def rollback(self) -> None:
        """Forget what was added: the transaction was given up."""
        self._open.clear()

    def forget(self, partitions: Iterable[int]) -> None:
        """Forget partitions that are no longer, or newly, assigned."""
        for partition in partitions:
            self._done.pop(partition, None)

    def _of(self, partition: int) -> set[QuarantinePlace]:
        done = self._done.get(partition)
        if done is None:
            orders = self._read(partition)
            done = {order.place for order in orders if order.action == "done"}
            self._done[partition] = done
        return done
