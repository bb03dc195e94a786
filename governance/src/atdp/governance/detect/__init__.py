"""Detection: the personal and secret values in a decoded string."""

from atdp.governance.detect.detector import DetectedSpan, Detector

__all__ = ["DetectedSpan", "Detector"]
