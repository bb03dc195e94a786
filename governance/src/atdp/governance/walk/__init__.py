"""The walk: every string of an event is decoded completely, governed and written back."""

from atdp.governance.walk.record_walk import RecordWalk

__all__ = ["RecordWalk"]
