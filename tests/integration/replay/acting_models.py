"""Small random models that act: their weights, their engines, and their logs."""

import random
import zlib
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import httpx
import torch

from atdp.inference import bearer, write_weights_manifest
from atdp.inference.tokenizer import train_tokenizer
from atdp.inference.worker.app import create_app
from atdp.inference.worker.worker_state import WorkerOptions
from atdp.lakehouse.testing import SampleTrajectory
from atdp.schemas import (
    Action,
    Generation,
    Message,
    Part,
    Sampling,
    VersionSpan,
)
from atdp.trainer.model import new_model, save_model, save_tokenizer
from atdp.trainer.model_shape import ModelShape
from atdp.trainer.testing import served
from atdp.trainer.trained_on import write_trained_on
from atdp.trainer.trajectory import TrajectoryKey

TASKS, ATTEMPTS, TURNS, TOKENS = 40, 5, 2, 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Acted(SampleTrajectory):
    """A trajectory of real model calls: (prompt, output, log-probabilities) for each turn."""

    calls: tuple["Call", ...] = ()

    def _generation(self, step: int) -> Action:
        prompt, output, logprobs = self.calls[step]
        return Action(
            type="generation",
            message=Message(role="assistant", parts=(Part(text="…"),)),
            generation=Generation(
                model="tiny",
                prompt_token_ids=prompt,
                output_token_ids=output,
                output_logprobs=logprobs,
                policy_versions=(VersionSpan(version=self.weights, start=0, end=len(output)),),
                sampling=Sampling(temperature=1.0, top_p=1.0, top_k=-1, min_p=0.0),
                tokenizer_hash="a" * 64,
                finish_reason="length",
            ),
        )


def write_models(weights: Path) -> None:
    """v1: random; v2: a little different; v3: something else altogether; v4: a copy of v1."""
    torch.set_num_threads(1)
    tokenizer = train_tokenizer(["7 rope? the total is 42"] * 3, vocab_size=280)
    common = weights / "tokenizer"
    save_tokenizer(tokenizer, common, context=256)
    shape = ModelShape(
        hidden=32, layers=1, heads=2, kv_heads=1, head_dim=16, intermediate=64, context=256
    )
    for version, seed, noise in (("v1", 1, 0.0), ("v2", 1, 0.04), ("v3", 5, 0.0), ("v4", 1, 0.0)):
        model = new_model(shape, tokenizer, seed=seed)
        generator = torch.Generator().manual_seed(3)
        with torch.no_grad():
            for weight in model.parameters():
                if weight.dim() > 1:
                    weight.mul_(12 if version == "v3" else 4)
                    weight.add_(torch.randn(weight.shape, generator=generator), alpha=noise)
        save_model(model, weights / "tiny" / version, tokenizer_from=common)
        state_lineage(weights / "tiny" / version)


def state_lineage(
    version: Path,
    *,
    parent: str | None = None,
    trained_on: Mapping[TrajectoryKey, str | None] | None = None,
) -> None:
    """Write the files that the registry has beside the weights, as far as replay reads them."""
    write_trained_on(version, trained_on or {})
    write_weights_manifest(version, {"model": "tiny", "version": version.name, "parent": parent})


def serving(model: Path, token: str) -> AbstractContextManager[str]:
    """An engine that serves a version, and may load all versions of its model."""
    options = WorkerOptions(token=token, roots=(model.parent,), model_dir=model, seed=7)
    return served(create_app(options))


Call = tuple[tuple[int, ...], tuple[int, ...], tuple[float, ...]]
"""Prompt, output, and log-probabilities of the output."""


def generate(
    client: httpx.Client, url: str, histories: list[tuple[int, ...]], *, draw: str
) -> list[Call]:
    """Return one model call for each history; `draw` names the draws."""
    # Every draw has a seed of its own, because an engine's own draws depend on the requests that
    # share a batch. The comparison of prediction and result holds for nineteen draws in twenty.
    seeds = [zlib.crc32(f"{draw}/{i}".encode()) for i in range(len(histories))]
    body = {
        "input_ids": [list(history) for history in histories],
        "sampling_params": [
            {
                "max_new_tokens": TOKENS,
                "temperature": 1.0,
                "ignore_eos": True,
                "sampling_seed": seed,
            }
            for seed in seeds
        ],
        "return_logprob": True,
    }
    answers = client.post(f"{url}/generate", json=body).raise_for_status().json()
    return [
        (
            history,
            tuple(answer["output_ids"]),
            tuple(row[0] for row in answer["meta_info"]["output_token_logprobs"]),
        )
        for history, answer in zip(histories, answers, strict=True)
    ]


def act(url: str, token: str, *, version: str) -> list[Acted]:
    """Attempt every task several times, in two turns each.

    The reward depends on the very last token.
    """
    rng = random.Random(4)
    prompts = [tuple(rng.randrange(5, 250) for _ in range(4)) for _ in range(TASKS)]
    histories = [prompts[i // ATTEMPTS] for i in range(TASKS * ATTEMPTS)]
    turns: list[list[Call]] = []
    with httpx.Client(timeout=120, headers=bearer(token), trust_env=False) as client:
        for turn in range(TURNS):
            turns.append(generate(client, url, histories, draw=f"{version}/{turn}"))
            histories = [(*prompt, *output, 9) for prompt, output, _ in turns[-1]]
    return [
        Acted(
            tenant="acme" if i % 2 else "globex",
            name=f"t{i // ATTEMPTS}-{i % ATTEMPTS}",
            task=f"task-{i // ATTEMPTS}",
            turns=TURNS,
            weights=version,
            reward=float(calls[-1][1][-1] % 2),
            calls=tuple(calls),
        )
        for i, calls in enumerate(zip(*turns, strict=True))
    ]
