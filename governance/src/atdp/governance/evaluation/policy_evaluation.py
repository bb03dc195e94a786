"""The evaluation of a policy on labelled texts: rows of precision, recall and F2.

The policy's scanner searches every text as prose, as the gate searches a message. Values that only
the keys of JSON or earlier events of a trajectory would reveal are not looked for.
"""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from atdp.governance.errors import PolicyError, Refusal, UnreadableLabels
from atdp.governance.evaluation.labelled_texts import LabelledSpan, LabelledText
from atdp.governance.evaluation.span_scores import ALL, Measure, SpanScores
from atdp.governance.policy.compiled import CompiledPolicy, compile_policy
from atdp.governance.policy.default_policy import default_policy_text
from atdp.governance.policy.document import PolicyDocument, parse_policy

_MEASURES: Mapping[Measure, int] = {"span": 0, "same entity": 1, "character": 2}


class SpanFinder(Protocol):
    """Something that finds personal values in a text."""

    @property
    def name(self) -> str:
        """Its name in the rows."""
        ...

    def find(self, text: str) -> Sequence[LabelledSpan]:
        """Return what it finds."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class EvaluationRow:
    """One line of the result. `labelled` and `predicted` count spans or characters."""

    detector: str
    measure: Measure
    entity: str
    labelled: int
    predicted: int
    precision: float | None
    recall: float | None
    f2: float | None


class PolicyFinder:
    """The detectors of a compiled policy."""

    def __init__(self, policy: CompiledPolicy) -> None:
        self.name = f"policy {policy.id}@{policy.version}"
        self._scanner = policy.scanner

    def find(self, text: str) -> Sequence[LabelledSpan]:
        """Return the spans that the policy would redact.

        Raises:
            Refusal: the policy would set an event with this text aside.
        """
        return [
            LabelledSpan.of(each.start, each.end, each.entity)
            for each in self._scanner.scan(text, prose=True)
        ]


def evaluate(
    finder: SpanFinder,
    texts: Sequence[LabelledText],
    progress: Callable[[int], None] = lambda _count: None,
) -> Sequence[EvaluationRow]:
    """Return the rows of one finder, those of all entities first.

    `progress` is called with the number of texts that are done.

    Raises:
        UnreadableLabels: a text cannot be searched.
    """
    scores = SpanScores()
    for number, labelled in enumerate(texts, 1):
        try:
            predicted = finder.find(labelled.text)
        except Refusal as refusal:
            raise UnreadableLabels(
                f"text {number} cannot be searched, as an event with it would be set aside: "
                f"{refusal}"
            ) from refusal
        scores.add(labelled.text, labelled.spans, predicted)
        progress(number)
    return sorted(
        _rows(finder.name, scores),
        key=lambda row: (row.entity != ALL, _MEASURES[row.measure], row.entity),
    )


def evaluate_policy(
    document: PolicyDocument,
    texts: Sequence[LabelledText],
    *,
    presidio: bool = True,
    progress: Callable[[str, int], None] = lambda _detector, _count: None,
) -> Iterator[EvaluationRow]:
    """Yield the rows of a policy, then those of plain Presidio with the policy's entities.

    `progress` is called with the name of the detector and the number of texts that are done.

    Raises:
        PolicyError: the policy cannot be used.
        UnreadableLabels: the policy would set an event with one of the texts aside.
    """
    compiled = compile_policy(document)
    finders: list[SpanFinder] = [PolicyFinder(compiled)]
    if presidio:
        from atdp.governance.evaluation.presidio_peers import presidio_peers

        finders += presidio_peers(list(compiled.operators))
    for finder in finders:
        yield from evaluate(finder, texts, functools.partial(progress, finder.name))


def read_policy(path: Path | None) -> PolicyDocument:
    """Return the policy of a file; without one, the default policy.

    Raises:
        PolicyError: the file cannot be read, or is no policy.
    """
    if path is None:
        text, where = default_policy_text(), "default policy"
    else:
        try:
            text, where = path.read_text(encoding="utf-8"), str(path)
        except (OSError, UnicodeDecodeError) as error:
            raise PolicyError(f"cannot read {path}: {error}") from error
    document = parse_policy(text, where=where)
    if not isinstance(document, PolicyDocument):
        raise PolicyError(f"{where} is of kind {document.kind}; expected GovernancePolicy")
    return document


def _rows(detector: str, scores: SpanScores) -> Iterator[EvaluationRow]:
    for (measure, entity), counts in scores.counts.items():
        yield EvaluationRow(
            detector=detector,
            measure=measure,
            entity=entity,
            labelled=counts.labelled,
            predicted=counts.predicted,
            precision=counts.precision,
            recall=counts.recall,
            f2=counts.f2,
        )
