"""Scores of a policy on logged decisions, over SGLang's HTTP interface.

A logged sequence (prompt + output) is sent to the engine (`atdp.inference.EngineClient.score`),
which answers with the log-probability of every token at temperature 1. Every answer is checked
against the request: the weight version, the number of tokens and the tokens themselves. A score
that fails a check is an error.

Turns of one trajectory usually extend each other. The scores of a sequence that is a prefix of a
later one are read from the later one's scores, because a causal model gives the same numbers. So a
trajectory of k turns costs about one forward pass and not k.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import httpx
import numpy as np

from atdp.inference import EngineClient, EngineError, ScoredSequence
from atdp.replay.errors import ScoringError
from atdp.replay.estimators import Floats
from atdp.replay.records import LoggedGeneration, LoggedTrajectory


class Scorer(Protocol):
    """A source of log-probabilities of logged tokens under one policy version."""

    def token_logprobs(self, sequences: Sequence[Sequence[int]]) -> list[Floats]:
        """Return the log-probability of each token given those before it, for each sequence.

        The arrays have shape (len(sequence),); their first entry is NaN.
        """
        ...


@dataclass(frozen=True, slots=True)
class HttpScorer:
    """A scorer over HTTP. Every answer of the engine must name `version`."""

    client: httpx.Client
    url: str
    version: str
    batch_size: int
    token: str = field(default="", repr=False)
    """The token of the home's engines; empty: the engine is open to all."""

    def token_logprobs(self, sequences: Sequence[Sequence[int]]) -> list[Floats]:
        """See `Scorer`.

        Raises:
            ScoringError: the engine failed, or its answer does not fit the request.
        """
        engine = EngineClient(http=self.client, url=self.url, token=self.token)
        scored: list[Floats] = []
        for start in range(0, len(sequences), self.batch_size):
            batch = sequences[start : start + self.batch_size]
            try:
                answers = engine.score(batch)
            except EngineError as error:
                raise ScoringError(str(error)) from error
            scored.extend(
                self._checked(tuple(ids), answer)
                for ids, answer in zip(batch, answers, strict=True)
            )
        return scored

    def _checked(self, ids: tuple[int, ...], answer: ScoredSequence) -> Floats:
        if answer.weight_version != self.version:
            raise ScoringError(
                f"the engine at {self.url} serves weights {answer.weight_version!r}, "
                f"but {self.version!r} is to be scored; "
                "load them with /update_weights_from_disk or give another URL"
            )
        if answer.token_ids != ids:
            raise ScoringError(
                f"the engine at {self.url} scored {len(answer.token_ids)} tokens "
                f"that are not the {len(ids)} that were sent"
            )
        scores = np.array(answer.logprobs, dtype=np.float64)
        if not np.isfinite(scores[1:]).all() or (scores[1:] > 1e-6).any():
            raise ScoringError(
                f"the engine at {self.url} gave a log-probability that is not finite or above 0"
            )
        return scores


def _sequence(generation: LoggedGeneration) -> tuple[int, ...]:
    return (*(generation.prompt_token_ids or ()), *(generation.output_token_ids or ()))


def covering_sequences(
    generations: Sequence[LoggedGeneration],
) -> tuple[list[tuple[int, ...]], list[int]]:
    """Return the fewest sequences that contain every generation as a prefix.

    The second value is, for each generation, the index of the sequence that contains it.
    """
    kept: list[tuple[int, ...]] = []
    index_of: list[int] = []
    for sequence in reversed([_sequence(g) for g in generations]):
        index = next(
            (i for i, longer in enumerate(kept) if longer[: len(sequence)] == sequence), None
        )
        if index is None:
            kept.append(sequence)
            index = len(kept) - 1
        index_of.append(index)
    return kept, index_of[::-1]


def score(trajectories: Sequence[LoggedTrajectory], scorer: Scorer) -> list[tuple[Floats, ...]]:
    """Return the log-probability of every output token.

    Each trajectory has one array of shape (output tokens,) for each generation. Every decision must
    be covered (`atdp.replay.coverage.select`). One unanswered request fails the whole call.
    """
    plans = [covering_sequences(t.generations) for t in trajectories]
    scored: Iterator[Floats] = iter(scorer.token_logprobs([s for kept, _ in plans for s in kept]))
    result: list[tuple[Floats, ...]] = []
    for trajectory, (kept, index_of) in zip(trajectories, plans, strict=True):
        arrays = [next(scored) for _ in kept]
        result.append(
            tuple(
                arrays[index][len(g.prompt_token_ids or ()) : len(_sequence(g))]
                for g, index in zip(trajectory.generations, index_of, strict=True)
            )
        )
    return result
