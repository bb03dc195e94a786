"""Weights change under a running server; every token knows which version drew it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from atdp.trainer.testing import EngineUnderTest

PROMPT = [10, 20, 30, 40]
LONG = 800
SCORE = {"sampling_params": {"max_new_tokens": 0}, "return_logprob": True, "logprob_start_len": 0}


def test_new_weights_change_the_version_the_span_and_the_probabilities(
    engine: EngineUnderTest,
) -> None:
    before = engine.generate(input_ids=PROMPT, **SCORE)
    engine.serve(engine.second, "second")
    after = engine.generate(input_ids=PROMPT, **SCORE)
    drawn = engine.generate(
        input_ids=PROMPT, sampling_params={"max_new_tokens": 3, "ignore_eos": True}
    )
    assert before["meta_info"]["weight_version"] == "first"
    assert after["meta_info"]["weight_version"] == "second"
    assert drawn["meta_info"]["weight_versions"] == [{"version": "second", "start": 0, "end": 3}]
    assert (
        before["meta_info"]["input_token_logprobs"][1:]
        != after["meta_info"]["input_token_logprobs"][1:]
    )
    assert engine.http.get("/model_info").json()["weight_version"] == "second"


def test_swapping_back_restores_the_probabilities(engine: EngineUnderTest) -> None:
    def scores() -> list[float]:
        answer = engine.generate(input_ids=PROMPT, **SCORE)
        return [entry[0] for entry in answer["meta_info"]["input_token_logprobs"][1:]]

    before = scores()
    engine.serve(engine.second, "second")
    engine.serve(engine.first, "first")
    assert scores() == pytest.approx(before, abs=1e-5)


def test_a_path_that_does_not_exist_is_refused_and_the_old_weights_stay(
    engine: EngineUnderTest,
) -> None:
    body = {"model_path": "/nonexistent/dir", "weight_version": "bad"}
    answer = engine.http.post("/update_weights_from_disk", json=body)
    assert answer.status_code == 400
    assert answer.json()["success"] is False
    assert answer.json()["message"]
    assert engine.http.get("/model_info").json()["weight_version"] == "first"
    assert engine.generate(input_ids=PROMPT, sampling_params={"max_new_tokens": 1})["output_ids"]


def test_a_generation_paused_over_a_swap_has_a_span_of_each_version(
    engine: EngineUnderTest,
) -> None:
    with long_generation(engine, "long") as states:
        next(states)
        engine.post("/pause_generation", mode="in_place")
        body = {"model_path": str(engine.second), "weight_version": "second", "flush_cache": False}
        engine.post("/update_weights_from_disk", **body)
        engine.post("/continue_generation")
        *_, answer = states
    spans = answer["meta_info"]["weight_versions"]
    assert [span["version"] for span in spans] == ["first", "second"]
    assert spans[0]["start"] == 0
    assert spans[0]["end"] == spans[1]["start"]
    assert spans[1]["end"] == len(answer["output_ids"]) == LONG


def test_an_abort_ends_a_generation_with_what_it_has(engine: EngineUnderTest) -> None:
    with long_generation(engine, "gone") as states:
        next(states)
        engine.http.post("/abort_request", json={"rid": "gone"})
        *_, answer = states
    assert answer["meta_info"]["finish_reason"]["type"] == "abort"
    assert len(answer["output_ids"]) < LONG


@contextmanager
def long_generation(engine: EngineUnderTest, rid: str) -> Iterator[Iterator[dict[str, Any]]]:
    """A streamed generation in flight: its states as they come."""
    params = {"max_new_tokens": LONG, "temperature": 1.0, "ignore_eos": True}
    body = {"input_ids": PROMPT, "sampling_params": params, "rid": rid, "stream": True}
    with engine.http.stream("POST", "/generate", json=body) as answer:
        lines = (line.removeprefix("data: ") for line in answer.iter_lines() if line)
        yield (json.loads(line) for line in lines if line != "[DONE]")
