"""Scores a policy on logged decisions over SGLang's HTTP interface.

A logged sequence (prompt + output) is sent to `/generate` with `max_new_tokens=0`, `return_logprob`
and `logprob_start_len=0`; the engine answers with the log-probability of every input token at
temperature 1. Every answer is checked against what was asked: the weight version, the number of
tokens and the tokens themselves. A score that cannot be trusted is an error, never a guess.

Turns of one trajectory usually extend each other; a sequence that is a prefix of a later one is
read from that one's scores, because a causal model gives the same number. So a trajectory of k
turns costs about one forward pass, not k.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import httpx
import numpy as np

from atdp.replay.errors import ScoringError
from atdp.replay.estimators import Floats
from atdp.replay.records import Generation, Trajectory

log = logging.getLogger(__name__)

ATTEMPTS = 3
"""Tries per request when the connection fails or the engine answers 5xx; scoring is idempotent."""


class Scorer(Protocol):
    """Gives log-probabilities of logged tokens under one policy version."""

    def token_logprobs(self, sequences: Sequence[Sequence[int]]) -> list[Floats]:
        """Log-probability of each token given those before it, shape (len(sequence),); the first is NaN."""
        ...


@dataclass(frozen=True)
class HttpScorer:
    """Scores over HTTP; `version` must be what the engine says it serves, on every answer."""

    client: httpx.Client
    url: str
    version: str
    batch_size: int

    def token_logprobs(self, sequences: Sequence[Sequence[int]]) -> list[Floats]:
        """See `Scorer`. Raises `ScoringError` naming the engine and what to do."""
        scored: list[Floats] = []
        for start in range(0, len(sequences), self.batch_size):
            batch = [list(s) for s in sequences[start : start + self.batch_size]]
            answers = self._generate(batch)
            scored.extend(
                self._checked(ids, answer) for ids, answer in zip(batch, answers, strict=True)
            )
        return scored

    def _generate(self, batch: list[list[int]]) -> list[Any]:
        body = {
            "input_ids": batch,
            "sampling_params": {"max_new_tokens": 0, "temperature": 1.0},
            "return_logprob": True,
            "logprob_start_len": 0,
        }
        for attempt in range(1, ATTEMPTS + 1):
            try:
                response = self.client.post(f"{self.url}/generate", json=body)
            except httpx.TransportError as error:
                if attempt == ATTEMPTS:
                    raise ScoringError(
                        f"no answer from the engine at {self.url}: {error!r}. Is it up? See `atdp status`."
                    ) from error
                continue
            if response.status_code < 500 or attempt == ATTEMPTS:
                break
            log.info("engine %s answered %d, trying again", self.url, response.status_code)
        if response.status_code != httpx.codes.OK:
            raise ScoringError(
                f"the engine at {self.url} answered {response.status_code} to a batch of {len(batch)} sequences of up"
                f" to {max(map(len, batch))} tokens: {response.text[:300]}"
            )
        try:
            answers = response.json()
        except ValueError as error:
            raise ScoringError(
                f"the engine at {self.url} answered something that is not JSON"
            ) from error
        if not isinstance(answers, list) or len(answers) != len(batch):
            raise ScoringError(
                f"the engine at {self.url} did not answer a list of {len(batch)} results"
            )
        return answers

    def _checked(self, ids: list[int], answer: Any) -> Floats:
        try:
            meta = answer["meta_info"]
            version, rows = meta["weight_version"], meta["input_token_logprobs"]
            tokens = [int(row[1]) for row in rows]
            values = [float("nan") if row[0] is None else float(row[0]) for row in rows]
        except (KeyError, TypeError, IndexError, ValueError) as error:
            raise ScoringError(
                f"the engine at {self.url} answered without meta_info.weight_version or input_token_logprobs; it must"
                " speak SGLang's /generate (0.5.23)"
            ) from error
        if version != self.version:
            raise ScoringError(
                f"the engine at {self.url} serves weights {version!r}, but {self.version!r} is to be scored; load them"
                " with /update_weights_from_disk or give another URL"
            )
        if tokens != ids:
            raise ScoringError(
                f"the engine at {self.url} scored {len(tokens)} tokens that are not the {len(ids)} that were sent"
            )
        scores = np.array(values, dtype=np.float64)
        if not np.isfinite(scores[1:]).all() or (scores[1:] > 1e-6).any():
            raise ScoringError(
                f"the engine at {self.url} gave a log-probability that is not finite or above 0"
            )
        return scores


def _sequence(generation: Generation) -> tuple[int, ...]:
    return (*(generation.prompt_token_ids or ()), *(generation.output_token_ids or ()))


def covering_sequences(
    generations: Sequence[Generation],
) -> tuple[list[tuple[int, ...]], list[int]]:
    """The fewest sequences that contain every generation as a prefix, and which one serves each generation."""
    kept: list[tuple[int, ...]] = []
    serves: list[int] = []
    for sequence in reversed([_sequence(g) for g in generations]):
        found = next(
            (i for i, longer in enumerate(kept) if longer[: len(sequence)] == sequence), None
        )
        if found is None:
            kept.append(sequence)
            found = len(kept) - 1
        serves.append(found)
    return kept, serves[::-1]


def score(trajectories: Sequence[Trajectory], scorer: Scorer) -> list[tuple[Floats, ...]]:
    """Log-probability of every output token: per trajectory one array (output tokens,) per generation.

    Every decision must be covered (`atdp.replay.coverage.select`). All or nothing: one unanswered
    request raises.
    """
    plans = [covering_sequences(t.generations) for t in trajectories]
    scored: Iterator[Floats] = iter(scorer.token_logprobs([s for kept, _ in plans for s in kept]))
    result: list[tuple[Floats, ...]] = []
    for trajectory, (kept, serves) in zip(trajectories, plans, strict=True):
        arrays = [next(scored) for _ in kept]
        result.append(
            tuple(
                arrays[which][len(g.prompt_token_ids or ()) : len(_sequence(g))]
                for g, which in zip(trajectory.generations, serves, strict=True)
            )
        )
    return result
