"""Test doubles for evaluations: a policy with known probabilities, its log, and an engine for it.

`BigramPolicy` is the smallest sequence model: the next token depends on the last one. Its exact
probabilities make every estimate checkable. `sglang_engine` answers for it like SGLang's HTTP
interface.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import httpx
import numpy as np

from atdp.replay.estimators import Floats
from atdp.schemas import BrokenPrefix


@dataclass(frozen=True, kw_only=True, slots=True)
class SampledGeneration:
    """A `LoggedGeneration` whose defaults are those of a covered decision."""

    event_id: str
    prompt_token_ids: tuple[int, ...] | None
    output_token_ids: tuple[int, ...] | None
    output_logprobs: tuple[float, ...] | None
    weight_version: str | None = "v1"
    loss_mask: tuple[int, ...] | None = None
    temperature: float | None = 1.0
    top_p: float | None = 1.0
    top_k: int | None = -1
    min_p: float | None = 0.0
    sampling_altered_by: tuple[str, ...] = ()
    context_intact: bool = True
    broken_prefix: BrokenPrefix | None = None
    token_fidelity: str | None = "exact"  # noqa: S105 (not a password)


@dataclass(frozen=True, kw_only=True, slots=True)
class SampledTrajectory:
    """A `LoggedTrajectory` that a policy sampled."""

    tenant_id: str
    trajectory_id: str
    task_id: str | None
    reward: float | None
    generations: tuple[SampledGeneration, ...]
    attempt: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class LogPlan:
    """The size and the shape of a log that a policy samples."""

    tasks: int
    attempts: int
    turns: int = 2
    tokens_per_turn: int = 2
    winning: int = 0
    """The last token that is rewarded with 1; every other one is rewarded with 0."""
    tenants: tuple[str, ...] = ("acme",)
    """Tenants of the tasks, in turn."""
    version: str = "v1"
    seed: int = 0


@dataclass(frozen=True, eq=False, slots=True)
class BigramPolicy:
    """A policy given by next-token log-probabilities for each last token.

    `log_table` has shape (vocabulary, vocabulary), and its rows are normalised.
    """

    log_table: Floats

    @classmethod
    def preferring(cls, token: int, *, strength: float, vocabulary: int = 6) -> "BigramPolicy":
        """Return a policy that adds `strength` nats to the logit of one token.

        Strength 0 gives the uniform policy.
        """
        logits = np.zeros((vocabulary, vocabulary))
        logits[:, token] = strength
        return cls(logits - np.logaddexp.reduce(logits, axis=1, keepdims=True))

    def token_logprobs(self, sequences: Sequence[Sequence[int]]) -> list[Floats]:
        """See `atdp.replay.scoring.Scorer`."""
        return [
            np.array([np.nan, *(self.log_table[a, b] for a, b in pairwise(s))]) for s in sequences
        ]

    def sample(
        self, last: int, length: int, rng: np.random.Generator
    ) -> tuple[tuple[int, ...], tuple[float, ...]]:
        """Return `length` sampled tokens after the token `last`, with their log-probabilities."""
        tokens: list[int] = []
        for _ in range(length):
            tokens.append(
                int(
                    rng.choice(
                        len(self.log_table),
                        p=np.exp(self.log_table[tokens[-1] if tokens else last]),
                    )
                )
            )
        before = [last, *tokens[:-1]]
        return tuple(tokens), tuple(
            float(self.log_table[a, b]) for a, b in zip(before, tokens, strict=True)
        )

    def log(self, plan: LogPlan) -> list[SampledTrajectory]:
        """Act according to the plan.

        The reward is 1 when the very last token is `plan.winning`, so that its mean is known in
        closed form.
        """
        rng = np.random.default_rng(plan.seed)
        return [
            self._trajectory(plan, task, attempt, rng)
            for task in range(plan.tasks)
            for attempt in range(plan.attempts)
        ]

    def _trajectory(
        self, plan: LogPlan, task: int, attempt: int, rng: np.random.Generator
    ) -> SampledTrajectory:
        history: tuple[int, ...] = (task % len(self.log_table),)
        generations: list[SampledGeneration] = []
        for turn in range(plan.turns):
            output, logprobs = self.sample(history[-1], plan.tokens_per_turn, rng)
            generations.append(
                SampledGeneration(
                    event_id=f"{task}-{attempt}-{turn}",
                    prompt_token_ids=history,
                    output_token_ids=output,
                    output_logprobs=logprobs,
                    weight_version=plan.version,
                )
            )
            history = (*history, *output)
        return SampledTrajectory(
            tenant_id=plan.tenants[task % len(plan.tenants)],
            trajectory_id=f"t{task}-{attempt}",
            task_id=f"task-{task}",
            reward=float(history[-1] == plan.winning),
            generations=tuple(generations),
        )


def with_generation(trajectory: SampledTrajectory, **changes: object) -> SampledTrajectory:
    """Return the trajectory with its first generation changed."""
    first, *rest = trajectory.generations
    changed = replace(first, **changes)  # type: ignore[arg-type]
    return replace(trajectory, generations=(changed, *rest))


def sglang_engine(
    policy: BigramPolicy, *, version: str
) -> Callable[[httpx.Request], httpx.Response]:
    """Return a handler for `httpx.MockTransport` that scores like SGLang 0.5.23's `/generate`."""

    def answer(ids: list[int]) -> dict[str, object]:
        scores = policy.token_logprobs([ids])[0]
        rows = [
            [None if i == 0 else float(lp), token, None]
            for i, (lp, token) in enumerate(zip(scores, ids, strict=True))
        ]
        meta = {
            "prompt_tokens": len(ids),
            "weight_version": version,
            "input_token_logprobs": rows,
            "output_token_logprobs": [],
            "completion_tokens": 0,
        }
        return {"text": "", "output_ids": [], "meta_info": meta}

    def handle(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/model_info":
            return httpx.Response(200, json={"weight_version": version})
        body = json.loads(request.content)
        sampling = body.get("sampling_params", {})
        if (
            request.url.path != "/generate"
            or sampling.get("max_new_tokens") != 0
            or body.get("logprob_start_len") != 0
        ):
            return httpx.Response(400, json={"error": {"message": "this engine only scores"}})
        ids = body["input_ids"]
        batched = bool(ids) and isinstance(ids[0], list)
        return httpx.Response(200, json=[answer(s) for s in ids] if batched else answer(ids))

    return handle
