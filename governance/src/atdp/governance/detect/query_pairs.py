"""Parameters of URLs and forms: `?customerName=Mia%20Li&zip=19122`.

The key rules of JSON apply to their names. A value extends to the next parameter; it is read with
its codings decoded.
"""

from collections.abc import Sequence
from typing import Final

import regex

from atdp.governance.detect.detector import DetectedSpan, Reading
from atdp.governance.detect.key_names import KeyNames
from atdp.governance.errors import DetectorError
from atdp.governance.redact.pseudonyms import is_pseudonym

_PAIR: Final = regex.compile(
    r"(?P<before>[?&;](?:amp;)?|(?<![^\s\"'=(]))(?P<key>[A-Za-z_][\w.\[\]-]{0,79})="
    r"(?P<value>[^&;#\s\"'<>(){}\[\]]{1,4000})(?P<more>(?=&[\w.\[\]-]{1,80}=))?"
)


class QueryPairs:
    """The values of all parameters whose name has a rule."""

    entity: str | None = None
    context: frozenset[str] = frozenset()
    best_score = 1.0

    def __init__(self, names: KeyNames, timeout_s: float) -> None:
        self._names = names
        self._timeout_s = timeout_s

    def scan(self, text: str) -> Sequence[DetectedSpan]:
        """Return one span per value."""
        if "=" not in text or ("?" not in text and "&" not in text):
            return ()
        spans = []
        try:
            for match in _PAIR.finditer(text, timeout=self._timeout_s):
                # The first parameter of a form has only the others to show that it is one.
                if not match["before"] and match["more"] is None:
                    continue
                entity = self._names.entity_of(match["key"])
                start, end = match.span("value")
                if entity is not None and not is_pseudonym(match["value"]):
                    reading = Reading.DECODED if "%" in match["value"] else Reading.RAW
                    spans.append(DetectedSpan(start, end, entity, 1.0, "key-in-url", reading))
        except TimeoutError as error:
            raise DetectorError(
                f"the search for parameters ran longer than {self._timeout_s} s"
            ) from error
        return spans
