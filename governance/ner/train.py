"""Trains the names model and writes it into the governance package (`make train-names`).

The same seed gives the same model on the same machine. Nothing is downloaded.
"""

import argparse
import sys
import time
from pathlib import Path
from typing import Final

import torch
from governance.ner.tagging import TAGS, TagNetwork, TrainingBatches
from governance.ner.word_tables import word_lists_of

from atdp.governance.names import WordLists
from atdp.governance.names.name_model import model_bytes

MODEL: Final = Path(__file__).parents[1] / "src/atdp/governance/names/names.npz"
_WIDTH: Final = 80
_BATCH_TEXTS: Final = 64
_LEARNING_RATE: Final = 3e-3
_WARM_UP: Final = 100
_REPORT_EVERY: Final = 100
_MAX_BYTES: Final = 5_000_000
_GRADIENT_NORM: Final = 1.0


def train(lists: WordLists, seed: int, steps: int) -> TagNetwork:
    """Return a trained network, and print its progress."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    network = TagNetwork(lists.rows, _WIDTH)
    optimizer = torch.optim.AdamW(network.parameters(), lr=_LEARNING_RATE, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, (step + 1) / _WARM_UP) * max(0.0, 1 - step / steps)
    )
    batches = torch.utils.data.DataLoader(
        TrainingBatches(lists, seed, steps=steps, batch_texts=_BATCH_TEXTS),
        batch_size=None,
        num_workers=1,
        prefetch_factor=8,
    )
    started = time.monotonic()
    sum_of_losses = 0.0
    for step, batch in enumerate(batches, start=1):
        loss = torch.nn.functional.cross_entropy(network(batch), batch.tags, ignore_index=-100)
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(network.parameters(), _GRADIENT_NORM)
        optimizer.step()
        schedule.step()
        sum_of_losses += loss.item()
        if step % _REPORT_EVERY == 0 or step == steps:
            elapsed_s = time.monotonic() - started
            left_s = elapsed_s / step * (steps - step)
            mean = sum_of_losses / (step % _REPORT_EVERY or _REPORT_EVERY)
            print(
                f"step {step} of {steps}  loss {mean:.4f}  {left_s / 60:.1f} min left", flush=True
            )
            sum_of_losses = 0.0
    return network.eval()


def main() -> int:
    """Train, write the model file, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=20261122)
    parser.add_argument("--steps", type=int, default=1_800)
    parser.add_argument("--out", type=Path, default=MODEL)
    options = parser.parse_args()
    print(f"{len(TAGS)} tags; collecting words from packages and generated text", flush=True)
    lists = word_lists_of(options.seed, with_reserved=False)
    network = train(lists, options.seed, options.steps)
    content = model_bytes(network.exported(), lists)
    if len(content) > _MAX_BYTES:
        print(f"the model has {len(content)} bytes, more than {_MAX_BYTES}", file=sys.stderr)
        return 1
    options.out.write_bytes(content)
    print(f"wrote {options.out} ({len(content) / 1e6:.2f} MB)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
