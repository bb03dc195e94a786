"""Speed of the embedded worker: sampled tokens per CPU-second by batch size, for both decoders.

A model of 0.8 million weights, prompts of 100 tokens, 64 new tokens each, one thread, through the
engine (admission, drawing and log-probabilities included; no HTTP). Every prompt is different, so
the prefix cache does not help.
"""

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from atdp.inference.worker.decoder_choice import DecoderKind
from atdp.inference.worker.engine import DecodingEngine
from atdp.inference.worker.sampling import SamplingParameters
from atdp.inference.worker.sequence import Job
from atdp.inference.worker.served_model import ServedModel

PROMPT, NEW = 100, 64


def make_model(folder: Path) -> Path:
    from atdp.inference.tokenizer import train_tokenizer
    from atdp.trainer.model import new_model, save_model, save_tokenizer
    from atdp.trainer.model_shape import ModelShape

    tokenizer = train_tokenizer([], 261)
    save_tokenizer(tokenizer, folder, context=2048)
    save_model(new_model(ModelShape(), tokenizer, seed=0), folder / "model", tokenizer_from=folder)
    return folder / "model"


def measure(engine: DecodingEngine, kind: str, batch: int) -> dict[str, Any]:
    rng = np.random.default_rng(batch)
    jobs = [
        Job(
            rid=str(n),
            prompt=tuple(rng.integers(0, 261, PROMPT).tolist()),
            sampling=SamplingParameters(max_new_tokens=NEW, ignore_eos=True),
        )
        for n in range(batch)
    ]
    cpu, wall = time.process_time(), time.perf_counter()
    for future in [engine.submit(job) for job in jobs]:
        future.result()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return {
        "decoder": kind,
        "batch": batch,
        "cpu_s": cpu,
        "wall_s": wall,
        "new_tokens_per_cpu_s": batch * NEW / cpu,
        "cpu_ms_per_request": 1000 * cpu / batch,
    }


def run(repeats: int) -> dict[str, Any]:
    rows = []
    kinds: tuple[DecoderKind, ...] = ("light", "transformers")
    with tempfile.TemporaryDirectory() as folder:
        model = make_model(Path(folder))
        for kind in kinds:
            for batch in (1, 8, 64):
                engine = DecodingEngine(seed=0)
                engine.swap(ServedModel.open(model, version="v1", kind=kind)).result()
                found = [measure(engine, kind, batch)]
                for _ in range(repeats - 1):
                    engine.flush().result()
                    found.append(measure(engine, kind, batch))
                rows.append(min(found, key=lambda row: float(row["cpu_s"])))
                engine.close()
    machine = f"{os.cpu_count()} cores, {platform.platform()}, 1 thread"
    return {"machine": machine, "repeats": repeats, "prompt": PROMPT, "new": NEW, "rows": rows}


def main() -> None:
    """Measure and print a table, or JSON with `--json`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON only")
    parser.add_argument(
        "--repeats", type=int, default=3, help="runs of each case; the fastest counts"
    )
    arguments = parser.parse_args()
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    if (
        not threads.items() <= os.environ.items()
    ):  # read when NumPy is loaded, so it takes a fresh process
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **threads})
    result = run(arguments.repeats)
    if arguments.json:
        print(json.dumps(result, indent=1))
        return
    print(result["machine"])
    print(f"{'decoder':14}{'batch':>6}{'new tokens/CPU s':>18}{'CPU ms/request':>16}")
    for row in result["rows"]:
        print(
            f"{row['decoder']:14}{row['batch']:>6}{row['new_tokens_per_cpu_s']:>18,.0f}{row['cpu_ms_per_request']:>16.1f}"
        )


if __name__ == "__main__":
    main()
