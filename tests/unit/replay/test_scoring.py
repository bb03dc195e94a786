import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from atdp.replay import ScoringError
from atdp.replay.scoring import HttpScorer, covering_sequences, score
from atdp.replay.testing import BigramPolicy, LogPlan, SampledGeneration, sglang_engine

POLICY = BigramPolicy.preferring(0, strength=0.7)
FIXTURE = Path(__file__).parents[4] / "shared/fixtures/sglang_0.5.23/generate_score_only.json"
Handler = Callable[[httpx.Request], httpx.Response]


def scorer(handler: Handler, *, version: str = "v2", batch_size: int = 3) -> HttpScorer:
    return HttpScorer(
        client=httpx.Client(transport=httpx.MockTransport(handler)),
        url="http://engine",
        version=version,
        batch_size=batch_size,
    )


def test_scores_over_http_equal_the_policys_own_probabilities() -> None:
    log = POLICY.log(LogPlan(tasks=3, attempts=2, turns=3))
    for trajectory, scored in zip(
        log, score(log, scorer(sglang_engine(POLICY, version="v2"))), strict=True
    ):
        for generation, logprobs in zip(trajectory.generations, scored, strict=True):
            assert logprobs.tolist() == pytest.approx(generation.output_logprobs, rel=1e-12)


def test_turns_that_extend_each_other_are_scored_once() -> None:
    requests: list[int] = []

    def counting(request: httpx.Request) -> httpx.Response:
        requests.append(len(json.loads(request.content)["input_ids"]))
        return sglang_engine(POLICY, version="v2")(request)

    log = POLICY.log(LogPlan(tasks=5, attempts=1, turns=4))
    score(log, scorer(counting, batch_size=4))
    assert requests == [4, 1]  # five trajectories of four turns: five sequences


def test_a_turn_with_another_history_is_scored_on_its_own() -> None:
    turns = [
        SampledGeneration(
            event_id=str(i),
            prompt_token_ids=p,
            output_token_ids=o,
            output_logprobs=(-1.0,) * len(o),
        )
        for i, (p, o) in enumerate([((1,), (2, 3)), ((1, 2, 3, 4), (5,)), ((1, 9), (2,))])
    ]
    kept, serves = covering_sequences(turns)
    assert [kept[i] for i in serves] == [(1, 2, 3, 4, 5), (1, 2, 3, 4, 5), (1, 9, 2)]
    assert len(kept) == 2


def changed(change: Callable[[dict[str, Any]], None]) -> Handler:
    def handle(request: httpx.Request) -> httpx.Response:
        answers = sglang_engine(POLICY, version="v2")(request).json()
        change(answers[0])
        return httpx.Response(200, json=answers)

    return handle


@pytest.mark.parametrize(
    ("handler", "message"),
    [
        (sglang_engine(POLICY, version="v1"), "serves weights 'v1', but 'v2'"),
        (changed(lambda a: a["meta_info"].pop("input_token_logprobs")), "0.5.23"),
        (changed(lambda a: a["meta_info"]["input_token_logprobs"].pop()), "not the"),
        (
            changed(lambda a: a["meta_info"]["input_token_logprobs"][1].__setitem__(1, 99)),
            "not the",
        ),
        (
            changed(lambda a: a["meta_info"]["input_token_logprobs"][1].__setitem__(0, None)),
            "not finite",
        ),
        (
            changed(lambda a: a["meta_info"]["input_token_logprobs"][1].__setitem__(0, 0.5)),
            "above 0",
        ),
        (
            lambda _: httpx.Response(400, json={"error": {"message": "input too long"}}),
            "input too long",
        ),
        (lambda _: httpx.Response(503, text="busy"), "503"),
        (lambda _: httpx.Response(200, json=[]), "did not answer a list"),
        (lambda _: httpx.Response(200, text="<html>"), "not JSON"),
    ],
    ids=["version", "field", "short", "tokens", "null", "positive", "400", "503", "empty", "html"],
)
def test_an_answer_that_cannot_be_trusted_is_an_error(handler: Handler, message: str) -> None:
    with pytest.raises(ScoringError, match=message):
        score(POLICY.log(LogPlan(tasks=2, attempts=1)), scorer(handler))


def test_a_broken_connection_is_tried_again_and_then_named() -> None:
    calls = 0

    def flaky(request: httpx.Request) -> httpx.Response:
        nonlocal calls
        calls += 1
        if calls < 3:
            raise httpx.ConnectError("refused")
        return sglang_engine(POLICY, version="v2")(request)

    assert len(score(POLICY.log(LogPlan(tasks=1, attempts=1)), scorer(flaky))) == 1
    assert calls == 3

    def dead(_: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    with pytest.raises(ScoringError, match="http://engine"):
        score(POLICY.log(LogPlan(tasks=1, attempts=1)), scorer(dead))


@pytest.mark.skipif(not FIXTURE.exists(), reason="recorded answers of a real SGLang are not here")
def test_a_recorded_answer_of_a_real_engine_is_understood() -> None:
    recorded = json.loads(FIXTURE.read_text())
    asked = recorded["request"]["json"]

    def real(request: httpx.Request) -> httpx.Response:
        sent = json.loads(request.content)
        assert sent == {**asked, "input_ids": [asked["input_ids"]]}
        return httpx.Response(200, json=[recorded["response"]["body"]])

    logprobs = scorer(real, version="v0").token_logprobs([asked["input_ids"]])[0]
    assert np.isnan(logprobs[0])
    assert logprobs[1] == pytest.approx(-5.505950450897217)
    assert len(logprobs) == 5
