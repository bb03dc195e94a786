"""The walk: every string of an event record, decoded as far as it goes, governed and written back."""

from atdp.governance.walk.record import RecordWalk

__all__ = ["RecordWalk"]
