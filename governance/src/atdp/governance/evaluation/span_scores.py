"""Scores of predicted spans against labelled ones: precision, recall and F2.

Three measures, each a sum over all texts:

* *span*: labels are ignored. A labelled span is found when the predictions that overlap it cover it
  with an IoU (characters in both, by characters in either) of at least 0.75. A prediction is right
  when it took part in that. Before, spans with only white space and punctuation between them are
  joined, on both sides;
* *same entity*: the same for each entity alone, and the sum over all entities;
* *character*: letters and digits that are labelled, and predicted. Labels are ignored; the row of
  an entity has the recall of its labelled characters and the precision of its predicted ones.

These are the definitions of presidio-research 0.3 (`SpanEvaluator`, character-based) with one
difference: that one also skips words such as "the" and "street" between and at the ends of spans;
here only white space and punctuation are skipped. F2 weighs recall twice: 5·P·R / (4·P + R) (van
Rijsbergen 1979, with β = 2).
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from atdp.governance.evaluation.labelled_texts import LabelledSpan

Measure: TypeAlias = Literal["span", "same entity", "character"]

MIN_IOU: Final = 0.75
ALL: Final = "ALL"
"""Stands for all entities together."""
_ANY: Final = "*"
"""The one entity of all spans where labels are ignored."""
_EDGE = re.compile(r"[\W_]+")
_CHARACTER = re.compile(r"[^\W_]")


@dataclass(slots=True)
class ScoreCounts:
    """Counts of one row. `found` of `labelled` were found; `right` of `predicted` are right."""

    labelled: int = 0
    found: int = 0
    predicted: int = 0
    right: int = 0

    def add(self, other: "ScoreCounts") -> None:
        """Add the counts of another text or entity."""
        self.labelled += other.labelled
        self.found += other.found
        self.predicted += other.predicted
        self.right += other.right

    @property
    def precision(self) -> float | None:
        """The share of predictions that are right; None without predictions."""
        return self.right / self.predicted if self.predicted else None

    @property
    def recall(self) -> float | None:
        """The share of labels that were found; None without labels."""
        return self.found / self.labelled if self.labelled else None

    @property
    def f2(self) -> float | None:
        """F2; 0 where nothing was found or nothing is right, None where it is undefined."""
        if self.labelled and not self.found:
            return 0.0
        if self.precision is None or self.recall is None:
            return None
        if not self.right:
            return 0.0
        return 5 * self.precision * self.recall / (4 * self.precision + self.recall)


@dataclass(slots=True)
class SpanScores:
    """The sums over all texts, by measure and entity."""

    counts: dict[tuple[Measure, str], ScoreCounts] = field(default_factory=dict)

    def add(
        self, text: str, labelled: Sequence[LabelledSpan], predicted: Sequence[LabelledSpan]
    ) -> None:
        """Add one text. Spans of one side may overlap."""
        self._sum("span", ALL, span_counts(text, _unlabelled(labelled), _unlabelled(predicted)))
        for entity in sorted({each.entity for each in (*labelled, *predicted)}):
            counts = span_counts(text, _of(entity, labelled), _of(entity, predicted))
            self._sum("same entity", entity, counts)
            self._sum("same entity", ALL, counts)
        for entity, counts in _character_counts(text, labelled, predicted).items():
            self._sum("character", entity, counts)

    def _sum(self, measure: Measure, entity: str, counts: ScoreCounts) -> None:
        self.counts.setdefault((measure, entity), ScoreCounts()).add(counts)


def span_counts(
    text: str, labelled: Iterable[LabelledSpan], predicted: Iterable[LabelledSpan]
) -> ScoreCounts:
    """Return how many labelled spans are found and predictions right, whatever their entity."""
    labels, predictions = joined_spans(text, labelled), joined_spans(text, predicted)
    counts = ScoreCounts(labelled=len(labels), predicted=len(predictions))
    right: set[LabelledSpan] = set()
    for label in labels:
        overlapping = [
            each for each in predictions if each.start < label.end and label.start < each.end
        ]
        if _iou(label, overlapping) >= MIN_IOU:
            counts.found += 1
            right.update(overlapping)
    counts.right = len(right)
    return counts


def joined_spans(text: str, spans: Iterable[LabelledSpan]) -> Sequence[LabelledSpan]:
    """Return the spans without punctuation at their ends, neighbours and overlaps joined."""
    joined: list[LabelledSpan] = []
    for span in sorted(filter(None, (_trimmed(text, each) for each in spans))):
        last = joined[-1] if joined else None
        if last is not None and (
            span.start <= last.end or _EDGE.fullmatch(text, last.end, span.start)
        ):
            joined[-1] = LabelledSpan(last.start, max(last.end, span.end), last.entity)
        else:
            joined.append(span)
    return joined


def _trimmed(text: str, span: LabelledSpan) -> LabelledSpan | None:
    start, end = span.start, span.end
    while start < end and _EDGE.match(text[start]):
        start += 1
    while start < end and _EDGE.match(text[end - 1]):
        end -= 1
    return LabelledSpan(start, end, span.entity) if start < end else None


def _iou(label: LabelledSpan, predictions: Sequence[LabelledSpan]) -> float:
    """Return the characters in both by the characters in either. Predictions do not overlap."""
    both = sum(min(label.end, each.end) - max(label.start, each.start) for each in predictions)
    either = label.end - label.start + sum(each.end - each.start for each in predictions) - both
    return both / either


def _unlabelled(spans: Sequence[LabelledSpan]) -> Sequence[LabelledSpan]:
    return [LabelledSpan(each.start, each.end, _ANY) for each in spans]


def _of(entity: str, spans: Sequence[LabelledSpan]) -> Sequence[LabelledSpan]:
    return [each for each in spans if each.entity == entity]


def _character_counts(
    text: str, labelled: Sequence[LabelledSpan], predicted: Sequence[LabelledSpan]
) -> dict[str, ScoreCounts]:
    all_labels, all_predictions = _characters(text, labelled), _characters(text, predicted)
    counts = {ALL: _overlap(all_labels, all_predictions, all_labels, all_predictions)}
    for entity in sorted({each.entity for each in (*labelled, *predicted)}):
        labels = _characters(text, _of(entity, labelled))
        predictions = _characters(text, _of(entity, predicted))
        counts[entity] = _overlap(labels, predictions, all_labels, all_predictions)
    return counts


def _overlap(
    labels: set[int], predictions: set[int], all_labels: set[int], all_predictions: set[int]
) -> ScoreCounts:
    return ScoreCounts(
        labelled=len(labels),
        found=len(labels & all_predictions),
        predicted=len(predictions),
        right=len(predictions & all_labels),
    )


def _characters(text: str, spans: Sequence[LabelledSpan]) -> set[int]:
    """Return the places of the letters and digits within the spans."""
    return {
        place
        for span in spans
        for place in range(span.start, span.end)
        if _CHARACTER.match(text[place])
    }
