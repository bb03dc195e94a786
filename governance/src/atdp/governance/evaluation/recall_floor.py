"""The floor of recall that a policy states, compared with its recall on labelled texts.

Recall is that of characters: the share of the letters and digits labelled as an entity that the
policy redacts, under whatever entity. That is the part of the values that does not pass.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from atdp.governance.entity_names import entity_name
from atdp.governance.errors import UnreadableLabels
from atdp.governance.evaluation.labelled_texts import LabelledText, read_labelled_texts
from atdp.governance.evaluation.policy_evaluation import evaluate_policy
from atdp.governance.policy.document import PolicyDocument


@dataclass(frozen=True, kw_only=True, slots=True)
class RecallResult:
    """The recall of one entity. `recall` is None when no text is labelled with it."""

    entity: str
    floor: float
    recall: float | None
    labelled: int
    """Labelled letters and digits."""

    @property
    def is_met(self) -> bool:
        """True when the recall is known and reaches the floor."""
        return self.recall is not None and self.recall >= self.floor


def measure_recall(document: PolicyDocument, folder: Path) -> Sequence[RecallResult]:
    """Measure the recall of every entity of `min_recall` on the evaluation file in `folder`.

    Empty for a policy without a floor.

    Raises:
        PolicyError: the policy cannot be used.
        UnreadableLabels: the evaluation file is missing or cannot be read.
    """
    if not document.min_recall:
        return ()
    if document.evaluation is None:
        raise UnreadableLabels("the policy states min_recall but names no evaluation file")
    return recall_of(document, read_labelled_texts(folder / document.evaluation))


def recall_of(document: PolicyDocument, texts: Sequence[LabelledText]) -> Sequence[RecallResult]:
    """Measure the recall of every entity of `min_recall` on labelled texts.

    Raises:
        PolicyError, UnreadableLabels: see `evaluate_policy`.
    """
    rows = {
        row.entity: row
        for row in evaluate_policy(document, texts, presidio=False)
        if row.measure == "character"
    }
    results = []
    for entity, floor in sorted(document.min_recall.items()):
        row = rows.get(entity_name(entity))
        results.append(
            RecallResult(
                entity=entity,
                floor=floor,
                recall=None if row is None or not row.labelled else row.recall,
                labelled=0 if row is None else row.labelled,
            )
        )
    return results
