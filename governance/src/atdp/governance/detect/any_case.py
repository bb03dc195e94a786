"""A detector of codes that people also write in lower case."""

from collections.abc import Sequence

from atdp.governance.detect.detector import DetectedSpan, Detector


class AnyCase:
    """The spans of a detector in a text of upper case, as far as it finds them only there.

    Letters other than those of ASCII stay, so that every position stays.
    """

    def __init__(self, detector: Detector) -> None:
        self._detector = detector
        self.entity = detector.entity
        self.context = detector.context
        self.best_score = detector.best_score

    def scan(self, text: str) -> Sequence[DetectedSpan]:
        """Return the spans that hold a letter of lower case."""
        upper = text.upper() if text.isascii() else text.translate(_UPPER)
        if upper == text:
            return ()
        return [
            span
            for span in self._detector.scan(upper)
            if text[span.start : span.end] != upper[span.start : span.end]
        ]


_UPPER = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}
