"""For tests of engines and trainers: tiny models, a served application, and a plain reference.

The contract suite runs against every engine that speaks SGLang's HTTP API, also against one of the
user. `python -m atdp.trainer.testing FOLDER` writes the models.
"""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import torch
import uvicorn
from fastapi import FastAPI

from atdp.inference import (
    TURN_END,
    ChatTemplate,
    default_template,
    load_causal_lm,
    train_tokenizer,
    write_weights_manifest,
)
from atdp.trainer.model import new_model, save_model, save_tokenizer
from atdp.trainer.model_shape import ModelShape
from atdp.trainer.sft_loop import SftRules, train_on_rows
from atdp.trainer.sft_rows import conversation_row

TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "lookup",
            "description": "Price of an item.",
            "parameters": {
                "type": "object",
                "properties": {"item": {"type": "string"}},
                "required": ["item"],
            },
        },
    }
]
QUESTION: list[dict[str, Any]] = [{"role": "user", "content": "7 rope?"}]
ANSWER: dict[str, Any] = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {
            "id": "c1",
            "type": "function",
            "function": {"name": "lookup", "arguments": '{"item": "rope"}'},
        }
    ],
}


def make_tiny_models(folder: Path) -> tuple[Path, Path]:
    """Write the models `first` and `second` below `folder`.

    Both have the same tokenizer, and manifests that name them versions of `tiny`. The first was
    trained to answer QUESTION with ANSWER, the second is random.
    """
    template = ChatTemplate(default_template(), eos_token=TURN_END)
    tokenizer = train_tokenizer([template.render([*QUESTION, ANSWER], TOOLS)] * 3, vocab_size=300)
    save_tokenizer(tokenizer, folder, context=2048)
    row = conversation_row([*QUESTION, ANSWER], TOOLS, template, tokenizer)
    for seed, name in ((1, "first"), (2, "second")):
        model = new_model(ModelShape(layers=2), tokenizer, seed=seed)
        with torch.no_grad():
            for weight in model.parameters():
                if weight.dim() > 1:
                    weight.mul_(3)  # so that the distributions differ clearly from the uniform one
        if name == "first":
            train_on_rows(model, [row], SftRules(steps=40, batch=1, learning_rate=3e-3))
        save_model(model, folder / name, tokenizer_from=folder)
        write_weights_manifest(folder / name, {"model": "tiny", "version": name})
    return folder / "first", folder / "second"


def make_plain_model(folder: Path) -> Path:
    """Write a tiny model that answers `7 rope?` with a price in plain words, often a wrong one.

    Unlike a random model it writes hardly any bytes that are no text, which governance takes for
    names and cannot splice.
    """
    template = ChatTemplate(default_template(), eos_token=TURN_END)
    talks = [
        [
            {"role": "user", "content": f"{number} rope?"},
            {"role": "assistant", "content": f"that is {7 * number % 23} coins"},
        ]
        for number in range(40)
    ]
    tokenizer = train_tokenizer([template.render(talk, []) for talk in talks], vocab_size=300)
    save_tokenizer(tokenizer, folder, context=2048)
    rows = [conversation_row(talk, [], template, tokenizer) for talk in talks]
    model = new_model(ModelShape(layers=2), tokenizer, seed=3)
    train_on_rows(model, rows, SftRules(steps=100, batch=8, learning_rate=3e-3))
    save_model(model, folder / "plain", tokenizer_from=folder)
    return folder / "plain"


@dataclass(frozen=True, slots=True)
class EngineUnderTest:
    """A server under test, and the two models that the tests load into it."""

    kind: str
    http: httpx.Client
    first: Path
    second: Path

    def post(self, path: str, **body: Any) -> Any:
        """POST JSON and return the decoded answer; a status other than 200 is an AssertionError."""
        answer = self.http.post(path, json=body)
        if answer.status_code != 200:
            raise AssertionError(f"{path} answered {answer.status_code}: {answer.text}")
        return (
            answer.json()
            if answer.headers.get("content-type", "").startswith("application/json")
            else answer.text
        )

    def generate(self, **body: Any) -> Any:
        """POST to /generate."""
        return self.post("/generate", **body)

    def serve(self, model: Path, version: str) -> None:
        """Load the weights of a model, whose manifest names them `version`."""
        self.post("/update_weights_from_disk", model_path=str(model), weight_version=version)


class Reference:
    """The same weights under transformers, unbatched and without a cache."""

    def __init__(self, model_dir: Path) -> None:
        """Load the model for evaluation."""
        from transformers import AutoTokenizer

        self.model = load_causal_lm(model_dir, dtype=torch.float32).eval()
        self.tokenizer = AutoTokenizer.from_pretrained(model_dir)

    def logprobs(self, ids: list[int], temperature: float = 1.0) -> list[float | None]:
        """Return the log-probability of every token given those before it; None for the first."""
        with torch.inference_mode():
            logits = self.model(torch.tensor([ids])).logits[0].float() / temperature
        scores = torch.log_softmax(logits, dim=-1)
        return [None, *(scores[n, token].item() for n, token in enumerate(ids[1:]))]


@contextmanager
def served(app: FastAPI) -> Iterator[str]:
    """Serve `app` over HTTP on a free port for the duration of the block; yields its URL."""
    server = uvicorn.Server(
        uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning", ws="none")
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        if not thread.is_alive():
            raise AssertionError("the server did not start")
        thread.join(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(20)


if __name__ == "__main__":
    torch.set_num_threads(1)
    make_tiny_models(Path(sys.argv[1]))
