"""The log-probabilities that the engines gave in one run, recorded so that it can be repeated.

They are kept in the order in which they were asked for: one list for each scorer that was opened,
with one array for each sequence. A repetition asks in the same order. Token ids are not kept.
"""

import io
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from atdp.replay.config import ReplayConfig
from atdp.replay.errors import RepeatError, ScoringError
from atdp.replay.estimators import Floats
from atdp.replay.run import OpenScorer, PolicyVersion
from atdp.replay.scoring import Scorer


@dataclass(frozen=True, slots=True)
class RecordedScores:
    """The scores of one run: opened scorers, then sequences, then tokens."""

    opened: list[list[Floats]] = field(default_factory=list)

    def recording(self, open_scorer: OpenScorer) -> OpenScorer:
        """Return `open_scorer` with a record of every answer."""

        @contextmanager
        def open_recorded(policy: PolicyVersion, config: ReplayConfig) -> Iterator[Scorer]:
            answers: list[Floats] = []
            self.opened.append(answers)
            with open_scorer(policy, config) as scorer:
                yield _RecordingScorer(scorer, answers)

        return open_recorded

    def replaying(self) -> OpenScorer:
        """Return an opener of scorers that answer from the record, each once and in order."""
        left = iter(self.opened)

        @contextmanager
        def open_stored(_policy: PolicyVersion, _config: ReplayConfig) -> Iterator[Scorer]:
            yield _StoredScorer(iter(next(left, [])))

        return open_stored

    def to_bytes(self) -> bytes:
        """Return the record as a compressed NumPy archive."""
        arrays: dict[str, Floats] = {}
        for number, answers in enumerate(self.opened):
            arrays[f"lengths_{number}"] = np.array([len(answer) for answer in answers], np.float64)
            arrays[f"values_{number}"] = np.concatenate([np.empty(0), *answers])
        buffer = io.BytesIO()
        np.savez_compressed(buffer, allow_pickle=False, **arrays)
        return buffer.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Return the record that `to_bytes` wrote.

        Raises:
            RepeatError: the archive is damaged.
        """
        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as stored:
                return cls([_answers(stored, number) for number in range(len(stored.files) // 2)])
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise RepeatError(
                "the stored scores of the run are damaged; restore them from a backup"
            ) from error


@dataclass(frozen=True, slots=True)
class _RecordingScorer:
    scorer: Scorer
    answers: list[Floats]

    def token_logprobs(self, sequences: Sequence[Sequence[int]]) -> list[Floats]:
        scored = self.scorer.token_logprobs(sequences)
        self.answers.extend(scored)
        return scored


@dataclass(frozen=True, slots=True)
class _StoredScorer:
    answers: Iterator[Floats]

    def token_logprobs(self, sequences: Sequence[Sequence[int]]) -> list[Floats]:
        scored = [answer for _, answer in zip(sequences, self.answers, strict=False)]
        if [len(answer) for answer in scored] != [len(sequence) for sequence in sequences]:
            raise ScoringError("the stored scores are not those of the dataset's sequences")
        return scored


def _answers(stored: "np.lib.npyio.NpzFile", number: int) -> list[Floats]:
    lengths = stored[f"lengths_{number}"].astype(np.int64)
    values: Floats = stored[f"values_{number}"]
    return list(np.split(values, np.cumsum(lengths)[:-1])) if len(lengths) else []
