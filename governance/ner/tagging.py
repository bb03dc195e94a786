"""The network of `atdp.governance.names.network` in torch, and the batches that train it."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from governance.ner.samples import SampleGenerator
from governance.ner.word_lists import word_list
from numpy.typing import NDArray
from torch import Tensor, nn

from atdp.governance.evaluation.labelled_texts import LabelledText
from atdp.governance.names import TagWeights, Word, WordLists, split_words
from atdp.governance.names.network import DISTANCES

ENTITIES: Final = word_list("entities")
"""Entities that the model finds. E-mail, link and IP addresses have patterns of their own."""
TAGS: Final = ("O", *(f"{mark}-{entity}" for entity in ENTITIES for mark in "BI"))
_BORDER: Final = max(DISTANCES)
"""Empty places between two texts of a batch, so that no convolution sees both."""
_WORD_DROPOUT: Final = 0.5
_LIST_DROPOUT: Final = 0.25
_ORDINARY_DROPOUT: Final = 0.1


@dataclass(frozen=True, slots=True)
class TagBatch:
    """Texts one after the other.

    `rows` and `weights` (features,) with `offsets` (places,): the features of each place; `mask`
    (places, 1) is 0 between texts; `tags` (places,) is -100 there.
    """

    rows: Tensor
    weights: Tensor
    offsets: Tensor
    mask: Tensor
    tags: Tensor


class TagNetwork(nn.Module):
    """The network that is trained."""

    def __init__(self, rows: int, width: int) -> None:
        super().__init__()
        self.table = nn.EmbeddingBag(rows, width, mode="sum")
        nn.init.normal_(self.table.weight, std=0.1)
        self.kernels = nn.ModuleList(nn.Linear(3 * width, width) for _ in DISTANCES)
        self.output = nn.Linear(width, len(TAGS))
        self.dropout = nn.Dropout(0.1)

    def forward(self, batch: TagBatch) -> Tensor:
        """Return the scores of tags, shape (places, tags)."""
        state = self.table(batch.rows, batch.offsets, per_sample_weights=batch.weights)
        state = self.dropout(state) * batch.mask
        count = len(state)
        for distance, kernel in zip(DISTANCES, self.kernels, strict=True):
            padded = nn.functional.pad(state, (0, 0, distance, distance))
            around = torch.cat([padded[:count], state, padded[2 * distance :]], dim=1)
            state = (state + self.dropout(torch.relu(kernel(around)))) * batch.mask
        scores: Tensor = self.output(state)
        return scores

    def exported(self) -> TagWeights:
        """Return the weights for use, the table in 8 bits."""
        table = self.table.weight.detach().numpy()
        scales = np.maximum(np.abs(table).max(axis=1), 1e-8) / 127
        scales = scales.astype(np.float16).astype(np.float32) + np.float32(1e-12)
        return TagWeights(
            tags=TAGS,
            table=np.clip(np.rint(table / scales[:, None]), -127, 127).astype(np.int8),
            scales=scales,
            kernels=_half(torch.stack([each.weight.T for each in self._layers()])),
            biases=torch.stack([each.bias for each in self._layers()]).detach().numpy(),
            output=_half(self.output.weight.T),
            output_bias=self.output.bias.detach().numpy(),
        )

    def _layers(self) -> list[nn.Linear]:
        return [each for each in self.kernels if isinstance(each, nn.Linear)]


def _half(weights: Tensor) -> NDArray[np.float32]:
    """Return weights rounded to 16 bits, as the model file holds them."""
    return np.ascontiguousarray(weights.detach().half().float().numpy())


class BatchMaker:
    """Turns labelled texts into batches, with features left out at random.

    Names must be recognised by their form and place in the sentence, not only because they were
    read in training: half of them lose the row of their word, a quarter their lists. Ordinary
    words lose either more rarely, so that an unknown word is not taken for a name.
    """

    def __init__(self, lists: WordLists, seed: int) -> None:
        self._lists = lists
        self._rng = random.Random(seed)
        self._forms: dict[str, tuple[int, list[tuple[int, float]], int]] = {}

    def batch(self, samples: Sequence[LabelledText]) -> TagBatch:
        """Return one batch of all samples."""
        rows: list[int] = []
        weights: list[float] = []
        offsets: list[int] = []
        mask: list[float] = []
        tags: list[int] = []
        for sample in samples:
            words = split_words(sample.text)
            for word, tag in zip(words, word_tags(sample, words), strict=True):
                offsets.append(len(rows))
                features = self._features(word.text, entity=tag > 0)
                rows += [row for row, _ in features]
                weights += [weight for _, weight in features]
                rows.append(self._lists.gap_row(word.gap))
                weights.append(1.0)
                mask.append(1.0)
                tags.append(tag)
            offsets += [len(rows)] * _BORDER
            mask += [0.0] * _BORDER
            tags += [-100] * _BORDER
        return TagBatch(
            torch.tensor(rows),
            torch.tensor(weights),
            torch.tensor(offsets),
            torch.tensor(mask)[:, None],
            torch.tensor(tags),
        )

    def _features(self, word: str, *, entity: bool) -> list[tuple[int, float]]:
        known = self._forms.get(word)
        if known is None:
            lowered = word.lower()
            lists = self._lists
            known = (
                lists.word_row(lowered),
                lists.form_rows(word, lowered),
                lists.list_bits(lowered),
            )
            if len(self._forms) < 200_000:
                self._forms[word] = known
        row, form, bits = known
        if self._rng.random() < (
            _WORD_DROPOUT if entity and word[0].isalpha() else _ORDINARY_DROPOUT
        ):
            row = 0
        if self._rng.random() < (_LIST_DROPOUT if entity else _ORDINARY_DROPOUT):
            bits = 0
        return [(row, 1.0), *form, *self._lists.list_rows(bits)]


def word_tags(sample: LabelledText, words: Sequence[Word]) -> list[int]:
    """Return the number of the tag of each word of a sample's text."""
    tags: list[int] = []
    spans = iter(span for span in sample.spans if span.entity in ENTITIES)
    span = next(spans, None)
    begun = False
    for word in words:
        while span is not None and span.end <= word.start:
            span, begun = next(spans, None), False
        if span is None or span.start >= word.end:
            tags.append(0)
            continue
        tags.append(1 + 2 * ENTITIES.index(span.entity) + begun)
        begun = True
    return tags


class TrainingBatches(torch.utils.data.IterableDataset[TagBatch]):
    """A stream of batches; the same seed gives the same stream."""

    def __init__(self, lists: WordLists, seed: int, *, steps: int, batch_texts: int) -> None:
        self._lists = lists
        self._seed = seed
        self._steps = steps
        self._batch_texts = batch_texts

    def __iter__(self) -> Iterator[TagBatch]:
        generator = SampleGenerator(self._seed)
        maker = BatchMaker(self._lists, self._seed)
        for _ in range(self._steps):
            yield maker.batch([generator.sample() for _ in range(self._batch_texts)])
