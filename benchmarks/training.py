"""Training speed: packed rows against plain padding, on one thread, in tokens per CPU-second.

The workload is W1 of the notes: 64 trajectories (8 prompts, 8 attempts each), prompts of 150-400
tokens, completions log-normal (median 160, sigma 0.8, 16-896 tokens), model spans of 12-40 tokens
alternating with tool spans of 6-25; seeded. The padded peer is what trainers commonly do:
micro-batches of 8 in arrival order, padded to the longest row of the whole batch, the language
model's head over every position. Both do the same loss on the same tokens; the gradient norms are
compared. Runs are interleaved and the fastest of each arm counts, because other work on the machine
only ever slows things down.
"""

import argparse
import json
import os
import platform
import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from atdp.trainer.algo.losses import policy_loss
from atdp.trainer.algo.trust_region import Clip
from atdp.trainer.linearize import Row
from atdp.trainer.logprob import token_logprobs
from atdp.trainer.model import CausalLM
from atdp.trainer.packing import pack

W1 = {"vocab": 2048, "hidden": 256, "layers": 6, "heads": 4, "kv_heads": 2, "intermediate": 768}
SMALL = {"vocab": 512, "hidden": 128, "layers": 4, "heads": 4, "kv_heads": 2, "intermediate": 384}


def build(size: dict[str, int]) -> CausalLM:
    from transformers.models.qwen3.configuration_qwen3 import Qwen3Config
    from transformers.models.qwen3.modeling_qwen3 import Qwen3ForCausalLM

    torch.manual_seed(0)
    return Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=size["vocab"],
            hidden_size=size["hidden"],
            num_hidden_layers=size["layers"],
            num_attention_heads=size["heads"],
            num_key_value_heads=size["kv_heads"],
            head_dim=size["hidden"] // size["heads"],
            intermediate_size=size["intermediate"],
            max_position_embeddings=2048,
            tie_word_embeddings=True,
            use_cache=False,
        )
    )


def w1(vocab: int, seed: int = 0) -> tuple[list[Row], list[float]]:
    """The notes' workload: rows and advantages."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(8):
        prompt = rng.integers(0, vocab, int(rng.integers(150, 401)))
        for _ in range(8):
            size = int(np.clip(rng.lognormal(np.log(160), 0.8), 16, 896))
            spans: list[bool] = []
            while len(spans) < size:
                spans += [True] * int(rng.integers(12, 41)) + [False] * int(rng.integers(6, 26))
            trained = np.concatenate([np.zeros(len(prompt), bool), np.array(spans[:size])])
            tokens = np.concatenate([prompt, rng.integers(0, vocab, size)])
            logprobs = np.where(trained, -np.log(vocab), 0).astype(np.float32)
            rows.append(Row(tokens=tokens, trained=trained, logprobs=logprobs))
    return rows, rng.normal(size=len(rows)).tolist()


def desk(vocab: int, seed: int = 0) -> tuple[list[Row], list[float]]:
    """A GRPO step of the demo: 64 short episodes of three model turns."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(64):
        trained = np.concatenate(
            [np.zeros(11, bool), np.ones(6, bool), np.zeros(5, bool), np.ones(10, bool)]
        )
        trained = np.concatenate(
            [trained, np.zeros(int(rng.integers(5, 9)), bool), np.ones(4, bool)]
        )
        tokens = rng.integers(0, vocab, len(trained))
        logprobs = np.where(trained, -np.log(vocab), 0).astype(np.float32)
        rows.append(Row(tokens=tokens, trained=trained, logprobs=logprobs))
    return rows, rng.normal(size=64).tolist()


def packed(model: CausalLM, rows: list[Row], advantages: list[float]) -> int:
    """Forward and backward of one step; returns forwarded tokens."""
    model.set_attn_implementation("atdp_packed")
    total = sum(row.loss_tokens for row in rows)
    batches = pack(rows, advantages)
    for batch in batches:
        logp = token_logprobs(model, batch).logp
        loss = policy_loss(
            logp, batch.behaviour, batch.advantage, denominator=total, clip=Clip()
        ).loss
        torch.autograd.backward(loss)
    return sum(batch.tokens.numel() for batch in batches)


def padded(model: CausalLM, rows: list[Row], advantages: list[float]) -> int:
    """The same with padding."""
    model.set_attn_implementation("sdpa")
    total, width = sum(row.loss_tokens for row in rows), max(map(len, rows))
    for start in range(0, len(rows), 8):
        part = rows[start : start + 8]
        ids = torch.zeros(len(part), width, dtype=torch.long)
        mask = torch.zeros(len(part), width, dtype=torch.long)
        trained = torch.zeros(len(part), width, dtype=torch.bool)
        behaviour = torch.zeros(len(part), width)
        for n, row in enumerate(part):
            ids[n, : len(row)] = torch.from_numpy(row.tokens)
            mask[n, : len(row)] = 1
            trained[n, : len(row)] = torch.from_numpy(row.trained)
            behaviour[n, : len(row)] = torch.from_numpy(row.logprobs)
        logits = model(input_ids=ids, attention_mask=mask).logits[:, :-1]
        logp = torch.log_softmax(logits, -1).gather(2, ids[:, 1:, None])[..., 0][trained[:, 1:]]
        advantage = torch.tensor(advantages[start : start + 8])[:, None].expand(-1, width - 1)[
            trained[:, 1:]
        ]
        terms = policy_loss(
            logp, behaviour[:, 1:][trained[:, 1:]], advantage, denominator=total, clip=Clip()
        )
        torch.autograd.backward(terms.loss)
    return len(rows) * width


def measure(
    size: dict[str, int], rows: list[Row], advantages: list[float], repeats: int
) -> list[dict[str, Any]]:
    arms: dict[str, Callable[[CausalLM, list[Row], list[float]], int]] = {
        "packed": packed,
        "padded": padded,
    }
    model = build(size)
    found: dict[str, dict[str, Any]] = {}
    for _ in range(repeats):
        for name, arm in arms.items():
            model.zero_grad(set_to_none=True)
            cpu, wall = time.process_time(), time.perf_counter()
            forwarded = arm(model, rows, advantages)
            cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
            norm = float(
                torch.linalg.vector_norm(torch.stack([w.grad.norm() for w in model.parameters()]))
            )
            real = sum(map(len, rows))
            if name not in found or cpu < found[name]["cpu_s"]:
                found[name] = {
                    "arm": name,
                    "weights": sum(w.numel() for w in model.parameters()),
                    "real_tokens": real,
                    "forwarded_tokens": forwarded,
                    "padding": 1 - real / forwarded,
                    "cpu_s": cpu,
                    "wall_s": wall,
                    "tokens_per_cpu_s": real / cpu,
                    "grad_norm": norm,
                }
    for row in found.values():
        row["speedup"] = row["tokens_per_cpu_s"] / found["padded"]["tokens_per_cpu_s"]
    return list(found.values())


def run(repeats: int) -> dict[str, Any]:
    torch.set_num_threads(1)
    results = {
        "W1 (5.2 M weights)": measure(W1, *w1(W1["vocab"]), repeats),
        "order desk step (0.8 M weights)": measure(SMALL, *desk(SMALL["vocab"]), repeats),
    }
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    machine = f"{os.cpu_count()} cores, {platform.platform()}, torch {torch.__version__}, 1 thread"
    return {"machine": machine, "repeats": repeats, "peak_rss_mib": round(peak), "results": results}


def main() -> None:
    """Measure and print a table, or JSON with `--json`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON only")
    parser.add_argument(
        "--repeats", type=int, default=3, help="runs of each arm, interleaved; the fastest counts"
    )
    arguments = parser.parse_args()
    result = run(arguments.repeats)
    if arguments.json:
        print(json.dumps(result, indent=1))
        return
    print(result["machine"])
    heads = ("arm", "tokens", "forwarded", "padding", "CPU s", "tokens/CPU s", "x", "grad norm")
    for workload, rows in result["results"].items():
        print(f"\n{workload}\n" + f"{heads[0]:8}" + "".join(f"{head:>14}" for head in heads[1:]))
        for row in rows:
            print(
                f"{row['arm']:8}{row['real_tokens']:14,}{row['forwarded_tokens']:14,}{row['padding']:14.1%}{row['cpu_s']:14.2f}"
                f"{row['tokens_per_cpu_s']:14,.0f}{row['speedup']:14.2f}{row['grad_norm']:14.6f}"
            )
    print(f"\npeak memory of both arms together: {result['peak_rss_mib']:,} MiB")


if __name__ == "__main__":
    main()
