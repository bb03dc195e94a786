"""Measures the shipped model on generated text, and writes the figures into its card.

Three sets, each of another seed than training: templates of training, held-out templates, and
held-out templates with names and places that training and its word lists leave out. The model of
the last set is the shipped one; the reserved words are on none of its lists.
"""

import argparse
import itertools
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from governance.ner.plain_text import source_files
from governance.ner.samples import SampleGenerator, heldout_samples
from governance.ner.word_lists import word_list

from atdp.governance.evaluation.labelled_texts import LabelledSpan, LabelledText
from atdp.governance.evaluation.policy_evaluation import EvaluationRow, evaluate
from atdp.governance.evaluation.span_scores import ALL
from atdp.governance.names import NameModel, shipped_model
from atdp.governance.walk.prose import is_prose

CARD: Final = Path(__file__).parents[2] / "docs/reference/names-model.md"
_MARKS: Final = ("<!-- figures -->", "<!-- end of figures -->")
_SEED: Final = 99
_SOURCE_CHARS: Final = 300_000


class ModelFinder:
    """The model alone, without patterns and keys of a policy."""

    name = "atdp:names"

    def __init__(self, model: NameModel) -> None:
        self._model = model

    def find(self, text: str) -> Sequence[LabelledSpan]:
        """Return the model's findings."""
        return [
            LabelledSpan.of(each.start, each.end, each.entity) for each in self._model.spans(text)
        ]


def with_known_entities(samples: Iterable[LabelledText]) -> Sequence[LabelledText]:
    """Return the samples with the spans alone whose entities the model knows."""
    known = frozenset(word_list("entities"))
    return [
        replace(sample, spans=tuple(each for each in sample.spans if each.entity in known))
        for sample in samples
    ]


def figures(model: NameModel, count: int) -> Iterator[str]:
    """Yield the lines of the card's tables."""
    generator = SampleGenerator(_SEED)
    sets: Mapping[str, Iterable[LabelledText]] = {
        "templates of training": itertools.islice(generator, count),
        "held-out templates": heldout_samples(_SEED, count, reserved=False),
        "held-out templates and names": heldout_samples(_SEED, count, reserved=True),
    }
    finder = ModelFinder(model)
    rows = {name: evaluate(finder, with_known_entities(each)) for name, each in sets.items()}
    yield f"Any entity, spans (IoU at least .75, labels ignored), {count} texts each:"
    yield ""
    yield "| text | precision | recall | F2 |"
    yield "| --- | --- | --- | --- |"
    for name, each in rows.items():
        row = next(row for row in each if row.entity == ALL and row.measure == "span")
        yield f"| {name} | {row.precision or 0:.3f} | {row.recall or 0:.3f} | {row.f2 or 0:.3f} |"
    yield ""
    yield "Recall by entity, characters (labels ignored):"
    yield ""
    yield f"| entity | {' | '.join(rows)} |"
    yield f"| --- |{' --- |' * len(rows)}"
    for entity in word_list("entities"):
        recalls = " | ".join(_recall(each, entity) for each in rows.values())
        yield f"| {entity} | {recalls} |"
    yield ""
    yield from source_figures(model)


def source_figures(model: NameModel) -> Iterator[str]:
    """Yield the line about program code: false alarms and time."""
    found = found_in_prose = chars = 0
    started = time.process_time()
    for path in source_files(evaluation=True)[::3]:
        text = path.read_text(encoding="utf-8", errors="replace")[:10_000]
        chars += len(text)
        count = len(model.spans(text))
        found += count
        found_in_prose += count if is_prose(text, named=False) else 0
        if chars >= _SOURCE_CHARS:
            break
    milliseconds = (time.process_time() - started) * 1_000
    yield (
        "False alarms in Python source of installed packages: "
        f"{found / chars * 10_000:.1f} per 10 kB by the model alone, "
        f"{found_in_prose / chars * 10_000:.1f} where only prose is read. "
        f"Time: {milliseconds / chars * 1_000:.2f} ms per kB of CPU time on one core."
    )


def _recall(rows: Sequence[EvaluationRow], entity: str) -> str:
    recalls = (each.recall for each in rows if (each.entity, each.measure) == (entity, "character"))
    recall = next(recalls, None)
    return "–" if recall is None else f"{recall:.3f}"


def main() -> None:
    """Print the figures, and write them into the card with --write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, default=1_000)
    parser.add_argument("--write", action="store_true", help="write the figures into the card")
    options = parser.parse_args()
    lines = list(figures(shipped_model(), options.texts))
    print("\n".join(lines))
    if options.write:
        before, _, rest = CARD.read_text(encoding="utf-8").partition(_MARKS[0])
        _, _, after = rest.partition(_MARKS[1])
        content = "\n".join((_MARKS[0], "", *lines, "", _MARKS[1]))
        CARD.write_text(before + content + after, encoding="utf-8")


if __name__ == "__main__":
    main()
