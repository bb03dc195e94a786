"""In-memory stand-ins for tests of evaluations: a policy with known probabilities, its log, and an engine for it.

`BigramPolicy` is the smallest model that is still a sequence model: the next token depends on the
last one. Its exact probabilities make every estimate checkable. `sglang_engine` answers like
SGLang's HTTP for it.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import httpx
import numpy as np

from atdp.replay.estimators import Floats


@dataclass(frozen=True, kw_only=True)
class SampledGeneration:
    """A generation as replay reads it, with the defaults of a decision that is covered."""

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
    token_fidelity: str | None = "exact"  # noqa: S105 (not a password)


@dataclass(frozen=True, kw_only=True)
class SampledTrajectory:
    """A trajectory as replay reads it."""

    tenant_id: str
    trajectory_id: str
    task_id: str | None
    reward: float | None
    generations: tuple[SampledGeneration, ...]
    attempt: int = 1


@dataclass(frozen=True, eq=False)
class BigramPolicy:
    """Next-token log-probabilities by last token, shape (vocabulary, vocabulary), rows normalised."""

    log_table: Floats

    @classmethod
    def preferring(cls, token: int, *, strength: float, vocabulary: int = 6) -> "BigramPolicy":
        """A policy that adds `strength` nats to one token's logit everywhere; 0 is the uniform policy."""
        logits = np.zeros((vocabulary, vocabulary))
        logits[:, token] = strength
        return cls(logits - np.logaddexp.reduce(logits, axis=1, keepdims=True))

    def token_logprobs(self, sequences: Sequence[Sequence[int]]) -> list[Floats]:
        """Score sequences, as `atdp.replay.scoring.Scorer`."""
        return [
            np.array([np.nan, *(self.log_table[a, b] for a, b in pairwise(s))]) for s in sequences
        ]

    def sample(
        self, last: int, length: int, rng: np.random.Generator
    ) -> tuple[tuple[int, ...], tuple[float, ...]]:
        """Sample `length` tokens after `last`, with their log-probabilities."""
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

    def log(
        self,
        *,
        tasks: int,
        attempts: int,
        turns: int = 2,
        tokens_per_turn: int = 2,
        winning: int = 0,
        tenants: Sequence[str] = ("acme",),
        version: str = "v1",
        seed: int = 0,
    ) -> list[SampledTrajectory]:
        """Act: the reward is 1 when the very last token is `winning`, so its mean is known in closed form."""
        rng = np.random.default_rng(seed)
        made: list[SampledTrajectory] = []
        for task in range(tasks):
            for attempt in range(attempts):
                history: tuple[int, ...] = (task % len(self.log_table),)
                generations: list[SampledGeneration] = []
                for turn in range(turns):
                    output, logprobs = self.sample(history[-1], tokens_per_turn, rng)
                    generations.append(
                        SampledGeneration(
                            event_id=f"{task}-{attempt}-{turn}",
                            prompt_token_ids=history,
                            output_token_ids=output,
                            output_logprobs=logprobs,
                            weight_version=version,
                        )
                    )
                    history = (*history, *output)
                made.append(
                    SampledTrajectory(
                        tenant_id=tenants[task % len(tenants)],
                        trajectory_id=f"t{task}-{attempt}",
                        task_id=f"task-{task}",
                        reward=float(history[-1] == winning),
                        generations=tuple(generations),
                    )
                )
        return made


def with_generation(trajectory: SampledTrajectory, **changes: object) -> SampledTrajectory:
    """The trajectory with its first generation changed."""
    first, *rest = trajectory.generations
    return replace(trajectory, generations=(replace(first, **changes), *rest))  # type: ignore[arg-type]


def sglang_engine(
    policy: BigramPolicy, *, version: str
) -> Callable[[httpx.Request], httpx.Response]:
    """A handler for `httpx.MockTransport` that scores like SGLang 0.5.23's `/generate`."""

    def answer(ids: list[int]) -> dict[str, object]:
        scores = policy.token_logprobs([ids])[0]
        rows = [
            [None if i == 0 else float(lp), token, None]
            for i, (lp, token) in enumerate(zip(scores, ids, strict=True))
        ]
        meta = {"prompt_tokens": len(ids), "weight_version": version, "input_token_logprobs": rows,
                "output_token_logprobs": [], "completion_tokens": 0}  # fmt: skip
        return {"text": "", "output_ids": [], "meta_info": meta}

    def handle(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/model_info":
            return httpx.Response(200, json={"weight_version": version})
        body = json.loads(request.content)
        asked = body.get("sampling_params", {})
        if (
            request.url.path != "/generate"
            or asked.get("max_new_tokens") != 0
            or body.get("logprob_start_len") != 0
        ):
            return httpx.Response(400, json={"error": {"message": "this engine only scores"}})
        ids = body["input_ids"]
        batched = bool(ids) and isinstance(ids[0], list)
        return httpx.Response(200, json=[answer(s) for s in ids] if batched else answer(ids))

    return handle
