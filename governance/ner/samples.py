"""Samples: labelled texts that train the names model, with noise as people write.

Filled templates, sentences in which words became values, and text without any value are joined,
put in lower case, rid of punctuation and misspelt at random.
"""

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from governance.ner.plain_text import doc_sentences, source_text
from governance.ner.templates import TemplateFiller, joined, read_templates
from governance.ner.values import InventedValues
from governance.ner.word_lists import word_list

from atdp.governance.evaluation.labelled_texts import LabelledText

_SLOT_SHARE: Final = 0.22
"""Share of values among the words of a text of unrelated words."""


def recased(sample: LabelledText, case: Callable[[str], str]) -> LabelledText:
    """Return the text in another case, where that keeps all positions."""
    text = case(sample.text)
    return replace(sample, text=text) if len(text) == len(sample.text) else sample


def with_typing_errors(sample: LabelledText, rng: random.Random) -> LabelledText:
    """Return the text with some small letters replaced by others."""
    letters = list(sample.text)
    for at in range(1, len(letters)):
        if letters[at].isalpha() and letters[at].islower() and rng.random() < 0.03:
            letters[at] = rng.choice("abcdefghijklmnopqrstuvwxyz")
    return replace(sample, text="".join(letters))


def without_punctuation(sample: LabelledText) -> LabelledText:
    """Return the text with a space in place of each full stop, comma and exclamation mark."""
    return replace(sample, text=re.sub(r"[.,!?;](?=\s|$)", " ", sample.text))


class SampleGenerator:
    """An endless stream of labelled texts of one seed."""

    def __init__(self, seed: int, *, reserved: bool | None = False) -> None:
        self.filler = TemplateFiller(InventedValues(seed, reserved=reserved))
        self.rng = self.filler.values.rng
        self._templates = read_templates("training_templates")
        self._plain = read_templates("plain_templates")

    def __iter__(self) -> Iterator[LabelledText]:
        while True:
            yield self.sample()

    def sample(self) -> LabelledText:
        """Return one text: one to four pieces, mostly filled templates, with noise."""
        rng = self.rng
        sample = self._piece()
        while rng.random() < 0.35 and len(sample.text) < 600:
            gap = rng.choice([" ", " ", "\n", "\n\n"])
            sample = joined(sample, LabelledText(gap), self._piece())
        noise = rng.random()
        if noise < 0.12:
            sample = recased(sample, str.lower)
        elif noise < 0.15:
            sample = recased(sample, str.upper)
        if rng.random() < 0.06:
            sample = without_punctuation(sample)
        if rng.random() < 0.08:
            sample = with_typing_errors(sample, rng)
        return sample

    def _piece(self) -> LabelledText:
        rng = self.rng
        form = rng.random()
        if form < 0.52:
            return self.filler.fill(rng.choice(self._templates))
        if form < 0.60:
            return self._sentence_with_values()
        if form < 0.65:
            return self._salad()
        if form < 0.83:
            return LabelledText(self._plain_text())
        if form < 0.89:
            return LabelledText(rng.choice(doc_sentences()))
        return LabelledText(source_text(rng))

    def _plain_text(self) -> str:
        """Return a sentence without values, at times with capitals as in a heading."""
        text = self.filler.fill(self.rng.choice(self._plain)).text
        return text.title() if self.rng.random() < 0.08 and "`" not in text else text

    def _sentence_with_values(self) -> LabelledText:
        """Return a sentence of a docstring in which one or two words became values.

        The words around a value are then no help, so that its own form has to be learned.
        """
        rng = self.rng
        words = rng.choice(doc_sentences()).split(" ")
        for _ in range(rng.choice([1, 1, 2])):
            words[rng.randrange(len(words))] = rng.choice(word_list("slots_in_sentences"))
        return self.filler.fill(_without_template_marks(" ".join(words)))

    def _salad(self) -> LabelledText:
        """Return unrelated words with values among them."""
        rng = self.rng
        words = [
            rng.choice(word_list("slots_in_salads"))
            if rng.random() < _SLOT_SHARE
            else rng.choice(rng.choice(doc_sentences()).split(" "))
            for _ in range(rng.randint(3, 12))
        ]
        text = rng.choice([" ", " ", ", "]).join(words)
        return self.filler.fill(_without_template_marks(text))


def _without_template_marks(text: str) -> str:
    """Return the text without brackets that a template would read, slots left."""
    return re.sub(r"[\[\]|]", "", re.sub(r"\{(?!\w+\})|(?<!\w)\}", "", text))


def heldout_samples(seed: int, count: int, *, reserved: bool | None) -> list[LabelledText]:
    """Return texts of the templates that training does not use, a share of them in lower case."""
    filler = TemplateFiller(InventedValues(seed, reserved=reserved))
    rng = filler.values.rng
    templates = read_templates("heldout_templates")
    samples = []
    for at in range(count):
        sample = filler.fill(templates[at % len(templates)])
        samples.append(recased(sample, str.lower) if rng.random() < 0.08 else sample)
    return samples
