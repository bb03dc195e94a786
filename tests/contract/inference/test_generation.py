"""Generation: tokens, log-probabilities, stops, batches, streams."""

import itertools
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from atdp.trainer.testing import EngineUnderTest, Reference

PROMPT = [10, 20, 30, 40]
CLOSE = 1e-4
QUESTION_TEXT = (
    "<|im_start|>system\ntools lookup(item)<|im_end|>"
    "<|im_start|>user\n7 rope?<|im_end|><|im_start|>assistant\n"
)


def pairs(entries: list[list[Any]]) -> tuple[list[float | None], list[int]]:
    return [entry[0] for entry in entries], [entry[1] for entry in entries]


@pytest.mark.parametrize("temperature", [0.5, 1.0, 1.7])
def test_output_logprobs_are_those_of_the_full_distribution_at_the_sampling_temperature(
    engine: EngineUnderTest, reference: Reference, temperature: float
) -> None:
    params = {"max_new_tokens": 12, "temperature": temperature, "ignore_eos": True}
    answer = engine.generate(input_ids=PROMPT, sampling_params=params, return_logprob=True)
    logprobs, ids = pairs(answer["meta_info"]["output_token_logprobs"])
    assert ids == answer["output_ids"]
    assert logprobs == pytest.approx(
        reference.logprobs(PROMPT + ids, temperature)[len(PROMPT) :], abs=CLOSE
    )


@pytest.mark.parametrize("restriction", [{"top_p": 0.5}, {"top_k": 5}, {"min_p": 0.2}])
def test_restricting_the_draw_does_not_renormalise_the_logged_probability(
    engine: EngineUnderTest, reference: Reference, restriction: dict[str, float]
) -> None:
    params = {"max_new_tokens": 8, "temperature": 1.0, "ignore_eos": True, **restriction}
    answer = engine.generate(input_ids=PROMPT, sampling_params=params, return_logprob=True)
    logprobs, ids = pairs(answer["meta_info"]["output_token_logprobs"])
    assert logprobs == pytest.approx(reference.logprobs(PROMPT + ids)[len(PROMPT) :], abs=CLOSE)


def test_temperature_zero_takes_the_most_likely_token_every_time(engine: EngineUnderTest) -> None:
    params = {"max_new_tokens": 10, "temperature": 0, "ignore_eos": True}
    answers = [
        engine.generate(input_ids=PROMPT, sampling_params=params, return_logprob=True)
        for _ in range(2)
    ]
    top = engine.generate(
        input_ids=PROMPT, sampling_params=params, return_logprob=True, top_logprobs_num=2
    )
    assert answers[0]["output_ids"] == answers[1]["output_ids"] == top["output_ids"]
    best = [position[0] for position in top["meta_info"]["output_top_logprobs"]]
    assert [entry[1] for entry in best] == top["output_ids"]


def test_a_low_temperature_draws_the_likely_token_more_often(engine: EngineUnderTest) -> None:
    def share(temperature: float) -> float:
        params = {"max_new_tokens": 1, "temperature": temperature, "n": 64, "ignore_eos": True}
        answers = engine.generate(input_ids=PROMPT, sampling_params=params)
        drawn = [answer["output_ids"][0] for answer in answers]
        return drawn.count(max(set(drawn), key=drawn.count)) / len(drawn)

    assert share(0.05) > share(5.0)


def test_scoring_a_logged_sequence_gives_its_logprobs_at_temperature_one_and_no_output(
    engine: EngineUnderTest, reference: Reference
) -> None:
    ids = [10, 20, 30, 40, 50, 60]
    answer = engine.generate(
        input_ids=ids,
        sampling_params={"max_new_tokens": 0, "temperature": 0.5},
        return_logprob=True,
        logprob_start_len=0,
    )
    logprobs, scored = pairs(answer["meta_info"]["input_token_logprobs"])
    assert scored == ids
    assert logprobs[0] is None
    assert logprobs[1:] == pytest.approx(reference.logprobs(ids)[1:], abs=CLOSE)
    assert answer["output_ids"] == []
    assert answer["meta_info"]["completion_tokens"] == 0


def test_scoring_can_start_inside_the_sequence(
    engine: EngineUnderTest, reference: Reference
) -> None:
    ids = [10, 20, 30, 40, 50, 60]
    params = {"max_new_tokens": 0}
    answer = engine.generate(
        input_ids=ids, sampling_params=params, return_logprob=True, logprob_start_len=2
    )
    logprobs, scored = pairs(answer["meta_info"]["input_token_logprobs"])
    assert scored == ids[2:]
    assert logprobs[0] is None
    assert logprobs[1:] == pytest.approx(reference.logprobs(ids)[3:], abs=CLOSE)


def test_a_sequence_scores_the_same_as_it_was_generated(engine: EngineUnderTest) -> None:
    params = {"max_new_tokens": 10, "temperature": 1.0, "ignore_eos": True}
    drawn = engine.generate(input_ids=PROMPT, sampling_params=params, return_logprob=True)
    scored = engine.generate(
        input_ids=PROMPT + drawn["output_ids"],
        sampling_params={"max_new_tokens": 0},
        return_logprob=True,
        logprob_start_len=0,
    )
    generated, _ = pairs(drawn["meta_info"]["output_token_logprobs"])
    again, _ = pairs(scored["meta_info"]["input_token_logprobs"])
    assert again[len(PROMPT) :] == pytest.approx(generated, abs=CLOSE)


def test_the_stopping_token_is_in_the_ids_and_not_in_the_text(engine: EngineUnderTest) -> None:
    greedy = {"max_new_tokens": 6, "temperature": 0}
    token = engine.generate(input_ids=PROMPT, sampling_params=greedy)["output_ids"][0]
    stopped = engine.generate(
        input_ids=PROMPT, sampling_params={**greedy, "stop_token_ids": [token]}
    )
    assert stopped["output_ids"] == [token]
    assert stopped["text"] == ""
    assert stopped["meta_info"]["finish_reason"] == {"type": "stop", "matched": token}


def test_ignoring_the_end_ignores_stopping_tokens_too(engine: EngineUnderTest) -> None:
    greedy = {"max_new_tokens": 6, "temperature": 0, "ignore_eos": True}
    token = engine.generate(input_ids=PROMPT, sampling_params=greedy)["output_ids"][0]
    answer = engine.generate(
        input_ids=PROMPT, sampling_params={**greedy, "stop_token_ids": [token]}
    )
    assert answer["meta_info"]["finish_reason"] == {"type": "length", "length": 6}


def test_the_end_of_turn_ends_a_reply_and_is_logged_with_its_probability(
    engine: EngineUnderTest, reference: Reference
) -> None:
    params = {"max_new_tokens": 64, "temperature": 0}
    answer = engine.generate(text=QUESTION_TEXT, sampling_params=params, return_logprob=True)
    end = reference.tokenizer.eos_token_id
    assert answer["output_ids"][-1] == end
    assert answer["meta_info"]["finish_reason"] == {"type": "stop", "matched": end}
    assert len(answer["meta_info"]["output_token_logprobs"]) == len(answer["output_ids"])
    assert "<|im_end|>" not in answer["text"]


def test_a_stop_string_ends_the_reply_before_itself(engine: EngineUnderTest) -> None:
    answer = engine.generate(
        text=QUESTION_TEXT,
        sampling_params={"max_new_tokens": 64, "temperature": 0, "stop": ["lookup"]},
    )
    assert answer["meta_info"]["finish_reason"] == {"type": "stop", "matched": "lookup"}
    assert answer["text"] == '<tool_call>\n{"name": "'


def test_a_batch_is_answered_in_order_and_each_prompt_keeps_its_id(engine: EngineUnderTest) -> None:
    prompts = [[10, 20], [30, 40, 50], [60]]
    params = {"max_new_tokens": 3, "temperature": 1.0, "ignore_eos": True}
    answers = engine.generate(input_ids=prompts, sampling_params=params, rid=["a", "b", "c"])
    assert [answer["meta_info"]["id"] for answer in answers] == ["a", "b", "c"]
    assert [answer["meta_info"]["prompt_tokens"] for answer in answers] == [2, 3, 1]
    assert all(len(answer["output_ids"]) == 3 for answer in answers)


def test_sixty_four_requests_at_once_are_each_answered_as_if_alone(
    engine: EngineUnderTest, reference: Reference
) -> None:
    prompts = [[10 + n % 7, 20 + n, *range(30, 30 + n % 5)] for n in range(64)]
    params = {"max_new_tokens": 16, "temperature": 1.0, "ignore_eos": True}

    def ask(prompt: list[int]) -> Any:
        return engine.generate(input_ids=prompt, sampling_params=params, return_logprob=True)

    with ThreadPoolExecutor(64) as pool:
        answers = list(pool.map(ask, prompts))
    for prompt, answer in zip(prompts, answers, strict=True):
        logprobs, ids = pairs(answer["meta_info"]["output_token_logprobs"])
        assert logprobs == pytest.approx(reference.logprobs(prompt + ids)[len(prompt) :], abs=CLOSE)


def test_a_stream_sends_cumulative_ids_and_ends_with_done(engine: EngineUnderTest) -> None:
    body = {"input_ids": PROMPT, "stream": True, "return_logprob": True}
    body["sampling_params"] = {"max_new_tokens": 6, "temperature": 1.0, "ignore_eos": True}
    with engine.http.stream("POST", "/generate", json=body) as answer:
        lines = [line.removeprefix("data: ") for line in answer.iter_lines() if line]
    assert lines[-1] == "[DONE]"
    states = [json.loads(line) for line in lines[:-1]]
    for before, after in itertools.pairwise(states):
        assert after["output_ids"][: len(before["output_ids"])] == before["output_ids"]
    assert len(states[-1]["output_ids"]) == 6
    assert states[-1]["meta_info"]["weight_versions"] == [
        {"version": "first", "start": 0, "end": 6}
    ]


def test_token_ids_outside_the_vocabulary_are_refused(engine: EngineUnderTest) -> None:
    if engine.kind == "sglang":
        pytest.skip(
            "our own promise: what SGLang does with such ids is not among its recorded answers"
        )
    answer = engine.http.post(
        "/generate", json={"input_ids": [1_000_000], "sampling_params": {"max_new_tokens": 1}}
    )
    assert answer.status_code == 400
    assert "input_ids must lie in" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "params",
    [
        {"top_p": 0},
        {"top_p": 1.5},
        {"min_p": 2},
        {"top_k": -5},
        {"max_new_tokens": -1},
        {"temperature": -1},
    ],
)
def test_a_parameter_out_of_range_is_refused_with_its_name(
    engine: EngineUnderTest, params: dict[str, float]
) -> None:
    answer = engine.http.post("/generate", json={"input_ids": PROMPT, "sampling_params": params})
    assert answer.status_code == 400
    assert next(iter(params)) in answer.json()["error"]["message"]
