"""Detection: what in a decoded string is personal or secret."""

from atdp.governance.detect.finding import Detector, Finding

__all__ = ["Detector", "Finding"]
