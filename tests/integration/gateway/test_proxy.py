"""The recording proxy, used as agents use it: through the official `openai` package.

What holds for any engine runs against the fake one and against the embedded worker.
"""

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolUnionParam

from atdp.gateway.event_log import MemoryEventLog
from atdp.runtime.home import Home
from atdp.runtime.keys import KeyStore
from atdp.schemas import Action, Event, Gap, Generation, Observation, Outcome, fold_context, header

from .conftest import EngineUnderTest, GatewayUnderTest, start_gateway
from .fake_engine import DEEP, fake_engine
from .serving import TLS, serving

TOOLS: list[ChatCompletionToolUnionParam] = [
    {
        "type": "function",
        "function": {"name": "look", "description": "Look up.", "parameters": {"type": "object"}},
    }
]
HELLO: list[ChatCompletionMessageParam] = [{"role": "user", "content": "hello"}]


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A randomly initialised model directory, small enough to answer in milliseconds."""
    torch = pytest.importorskip("torch")
    from atdp.inference.tokenizer import train_tokenizer
    from atdp.trainer.model import ModelShape, new_model, save_model, save_tokenizer

    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("tiny")
    tokenizer = train_tokenizer(["hello there", "look up the order", "reply"], vocab_size=300)
    save_tokenizer(tokenizer, folder / "tokenizer", context=512)
    shape = ModelShape(
        hidden=32, layers=1, heads=2, kv_heads=1, head_dim=16, intermediate=64, context=512
    )
    save_model(
        new_model(shape, tokenizer, seed=0), folder / "model", tokenizer_from=folder / "tokenizer"
    )
    return folder / "model"


@pytest.fixture(params=["fake", "embedded"], scope="module")
def any_engine(request: pytest.FixtureRequest) -> Iterator[EngineUnderTest]:
    """Each engine in turn."""
    if request.param == "fake":
        app: Any = fake_engine()
    else:
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        from atdp.inference.worker.app import create_app
        from atdp.inference.worker.worker_state import WorkerOptions

        options = WorkerOptions(
            model_dir=request.getfixturevalue("tiny_model"), weight_version="v1"
        )
        app = create_app(options)
    with serving(app) as url:
        yield EngineUnderTest(url, "tiny", app)


@pytest.fixture
def any_gateway(tmp_path: Path, any_engine: EngineUnderTest) -> Iterator[GatewayUnderTest]:
    """A gateway in front of each engine in turn."""
    home, log = Home(tmp_path), MemoryEventLog()
    with KeyStore(home.keys_db) as keys, start_gateway(home, log, any_engine.url) as url:
        key, _ = keys.create("acme", "agent")
        with contextlib.ExitStack() as opened:
            yield GatewayUnderTest(
                url, log, home, keys, key, keys.ensure_operator(home.operator_key_file), opened
            )


def names(events: list[Event]) -> list[str]:
    return [event.body.type if isinstance(event.body, Action) else event.kind for event in events]


def generation_of(event: Event) -> Generation:
    assert isinstance(event.body, Action)
    assert event.body.generation is not None
    return event.body.generation


def test_an_unchanged_agent_is_recorded_with_tokens_logprobs_and_weights(
    any_gateway: GatewayUnderTest,
) -> None:
    client = any_gateway.openai(**{"X-ATDP-Session": "s1", "X-ATDP-Task": "task"})
    raw = client.chat.completions.with_raw_response.create(
        model="tiny", messages=HELLO, max_tokens=8, temperature=0.7
    )
    answer = raw.parse()
    assert raw.headers["x-atdp-trajectory"] == "s1"
    assert raw.headers["x-atdp-events"] == "3"
    assert raw.headers["x-atdp-weight-version"] == "v1"
    events = any_gateway.events("s1")
    assert names(events) == ["trajectory_started", "observation", "generation"]
    assert [event.seq for event in events] == [0, 1, 2]
    assert {event.task_id for event in events} == {"task"}
    generated = generation_of(events[-1])
    assert generated.prompt_token_ids
    assert generated.output_token_ids
    assert answer.usage is not None
    assert len(generated.prompt_token_ids) == answer.usage.prompt_tokens
    assert len(generated.output_token_ids) == answer.usage.completion_tokens
    assert generated.output_logprobs is not None
    assert len(generated.output_logprobs) == len(generated.output_token_ids)
    assert all(logprob < 0 for logprob in generated.output_logprobs)
    assert [(span.version, span.start, span.end) for span in generated.policy_versions] == [
        ("v1", 0, len(generated.output_token_ids))
    ]
    assert generated.sampling is not None
    assert (generated.sampling.temperature, generated.sampling.max_tokens) == (0.7, 8)
    assert generated.tokenizer_hash
    assert len(generated.tokenizer_hash) == 64
    assert generated.finish_reason == answer.choices[0].finish_reason
    assert events[-1].versions is not None
    assert events[-1].versions.weights == "v1"
    assert events[-1].latency_us is not None
    assert fold_context(events)[-1].text == (answer.choices[0].message.content or "")


def test_the_agent_gets_only_what_it_asked_for(
    any_gateway: GatewayUnderTest, any_engine: EngineUnderTest
) -> None:
    body = {"model": "tiny", "messages": HELLO, "max_tokens": 4, "seed": 1, "temperature": 0}
    direct = httpx.post(
        any_engine.url + "/v1/chat/completions", json=body, verify=TLS, timeout=60
    ).json()
    with any_gateway.http() as client:
        through = client.post("/v1/chat/completions", json=body).json()
        asking = client.post(
            "/v1/chat/completions",
            json={**body, "logprobs": True, "return_token_ids": True, "return_meta_info": True},
        ).json()
    assert through.keys() == direct.keys()
    assert through["choices"] == direct["choices"]
    assert asking["choices"][0].keys() >= {"response_token_ids", "meta_info"}
    assert asking["choices"][0]["logprobs"]["content"]


def test_a_conversation_is_recorded_once_message_by_message(any_gateway: GatewayUnderTest) -> None:
    client = any_gateway.openai(**{"X-ATDP-Session": "s1"})
    messages: list[Any] = [{"role": "system", "content": "be brief"}]
    for turn in range(4):
        messages.append({"role": "user", "content": f"turn {turn}"})
        answer = client.chat.completions.create(model="tiny", messages=messages, max_tokens=6)
        messages.append(answer.choices[0].message)
    events = any_gateway.events("s1")
    assert names(events) == ["trajectory_started", *["observation", "generation"] * 4]
    assert len(fold_context(events)) == len(messages)
    observed = [len(event.body.messages) for event in events if isinstance(event.body, Observation)]
    assert observed == [2, 1, 1, 1]
    assert [event.step for event in events if isinstance(event.body, Action)] == [0, 1, 2, 3]


def test_streaming_clients_get_the_same_answer_in_chunks(any_gateway: GatewayUnderTest) -> None:
    client = any_gateway.openai(**{"X-ATDP-Session": "s1"})
    stream = client.chat.completions.create(
        model="tiny",
        messages=HELLO,
        max_tokens=6,
        temperature=0,
        stream=True,
        stream_options={"include_usage": True},
    )
    text, reasons, usage = "", [], None
    for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            text += choice.delta.content or ""
            reasons.append(choice.finish_reason)
    assert reasons[-1] in {"stop", "length"}
    assert usage is not None
    events = any_gateway.events("s1")
    assert fold_context(events)[-1].text == text


def test_models_are_the_engines(any_gateway: GatewayUnderTest) -> None:
    assert any_gateway.openai().models.list().data


def tool_loop(client: openai.OpenAI) -> list[Any]:
    messages: list[Any] = [{"role": "user", "content": "where is order 7?"}]
    first = client.chat.completions.create(model="fake", messages=messages, tools=TOOLS)
    call = (first.choices[0].message.tool_calls or [])[0]
    messages += [
        first.choices[0].message,
        {"role": "tool", "tool_call_id": call.id, "content": "shipped"},
    ]
    second = client.chat.completions.create(model="fake", messages=messages, tools=TOOLS)
    return [*messages, second.choices[0].message]


def test_tool_calls_and_their_results_are_events_of_their_own(gateway: GatewayUnderTest) -> None:
    tool_loop(gateway.openai(**{"X-ATDP-Session": "s1"}))
    events = gateway.events("s1")
    assert names(events) == [
        *("trajectory_started", "observation", "generation", "tool_call", "outcome", "generation"),
    ]
    call, outcome = events[3].body, events[4].body
    assert isinstance(call, Action)
    assert call.tool_call is not None
    assert (call.tool_call.arguments, call.tool_call.arguments_json) == (
        '{"order": 7}',
        '{"order":7}',
    )
    assert isinstance(outcome, Outcome)
    assert outcome.call_id == call.tool_call.call_id
    assert events[4].caused_by == (events[3].event_id,)
    observation = events[1].body
    assert isinstance(observation, Observation)
    assert json.loads(observation.tools_json or "") == TOOLS


def test_a_session_key_needs_no_header_at_all(gateway: GatewayUnderTest) -> None:
    with gateway.http() as client:
        opened = client.post(
            "/v1/sessions", json={"task_id": "task", "tags": {"tier": "gold"}}
        ).json()
    tool_loop(gateway.openai(opened["api_key"]))
    events = gateway.events(opened["trajectory_id"])
    assert len(events) == 6
    assert {event.task_id for event in events} == {"task"}
    assert events[0].metadata_json == '{"tier": "gold"}'


def test_calls_without_a_session_are_trajectories_of_their_own(gateway: GatewayUnderTest) -> None:
    client = gateway.openai()
    found = {
        client.chat.completions.with_raw_response.create(model="fake", messages=HELLO).headers[
            "x-atdp-trajectory"
        ]
        for _ in range(3)
    }
    assert len(found) == 3
    assert {event.trajectory_id for event in gateway.events()} == found


@pytest.mark.parametrize(
    ("sent", "id_"),
    [
        ("order-17 (a/b)", "order-17 (a/b)"),
        ("%E4%BC%9A%E8%AF%9D-1", "会话-1"),
        ("100%25", "100%"),
        ("%C3%A9", "é"),
    ],
)
def test_ids_of_every_script_go_through_headers_percent_encoded(
    gateway: GatewayUnderTest, sent: str, id_: str
) -> None:
    raw = gateway.openai(**{"X-ATDP-Session": sent}).chat.completions.with_raw_response.create(
        model="fake", messages=HELLO
    )
    assert (raw.headers["x-atdp-session"], raw.headers["x-atdp-trajectory"]) == (sent, sent)
    assert {event.session_id for event in gateway.events()} == {id_}


def test_raw_utf_8_in_a_header_is_understood_and_a_body_holds_any_id(
    gateway: GatewayUnderTest,
) -> None:
    call = {"model": "fake", "messages": HELLO}
    with gateway.http() as client:
        raw = client.post(
            "/v1/chat/completions", json=call, headers={b"X-ATDP-Session": "会话-1".encode()}
        )
        key = client.post("/v1/sessions", json={"session_id": "会话-2"}).json()["api_key"]
    with gateway.http(key) as client:
        opened = client.post("/v1/chat/completions", json=call)
    assert [raw.status_code, opened.status_code] == [200, 200]
    assert opened.headers["x-atdp-session"] == "%E4%BC%9A%E8%AF%9D-2"
    assert {event.session_id for event in gateway.events()} == {"会话-1", "会话-2"}


def test_a_header_that_is_no_utf_8_is_refused(gateway: GatewayUnderTest) -> None:
    with gateway.http(**{"X-ATDP-Session": "%FF"}) as client:
        answer = client.post("/v1/chat/completions", json={"model": "fake", "messages": HELLO})
    assert answer.status_code == 422
    assert "percent-encoded UTF-8" in answer.text


@pytest.mark.parametrize(
    "template",
    [
        '{"model": "fake", "messages": [{"role": "user", "content": "x", "z": %s}]}',
        '{"model": "fake", "messages": [{"role": "user", "content": "x"}], "tools": [%s]}',
        '{"model": "fake", "messages": [{"role": "user", "content": "x"}], "z": %s}',
    ],
    ids=["message", "tools", "parameter"],
)
def test_a_request_nested_too_deeply_is_refused_before_the_engine_sees_it(
    gateway: GatewayUnderTest, engine: EngineUnderTest, template: str
) -> None:
    with gateway.http() as client:
        answer = client.post("/v1/chat/completions", content=(template % DEEP).encode())
    assert answer.status_code == 422
    assert answer.json()["error"]["code"] == "bad_messages"
    assert "254 levels" in answer.text
    assert engine.app.state.requests == []


def test_the_deepest_request_that_is_accepted_reaches_the_engine(
    gateway: GatewayUnderTest, engine: EngineUnderTest
) -> None:
    def answer_to(levels: int) -> int:
        deep = "[" * (levels - 1) + "]" * (levels - 1)
        content = f'{{"model": "fake", "messages": [{{"role": "user"}}], "z": {deep}}}'
        with gateway.http() as client:
            return client.post("/v1/chat/completions", content=content.encode()).status_code

    assert [answer_to(254), answer_to(255)] == [200, 422]
    assert len(engine.app.state.requests) == 1


def test_tool_arguments_nested_too_deeply_are_kept_as_text(gateway: GatewayUnderTest) -> None:
    client = gateway.openai(**{"X-ATDP-Session": "s1"})
    asked: list[ChatCompletionMessageParam] = [{"role": "user", "content": "deep"}]
    client.chat.completions.create(model="fake", messages=asked, tools=TOOLS)
    call = gateway.events("s1")[-1].body
    assert isinstance(call, Action)
    assert call.tool_call is not None
    assert (call.tool_call.arguments, call.tool_call.arguments_json) == (DEEP, None)


def test_an_engines_error_is_passed_on_and_recorded_as_a_gap(gateway: GatewayUnderTest) -> None:
    client = gateway.openai(**{"X-ATDP-Session": "s1"})
    with pytest.raises(openai.InternalServerError, match="engine broke"):
        client.chat.completions.create(model="fake", messages=[{"role": "user", "content": "fail"}])
    events = gateway.events("s1")
    assert names(events) == ["trajectory_started", "observation", "gap"]
    assert isinstance(events[-1].body, Gap)
    assert events[-1].body.code == "engine_error"


def test_an_engine_that_is_gone_is_a_502_that_says_so_and_a_gap(gateway: GatewayUnderTest) -> None:
    with gateway.http(gateway.operator_key) as client:
        client.put("/v1/routes", json={"stable": {"url": "http://127.0.0.1:9"}}).raise_for_status()
    with gateway.http(**{"X-ATDP-Session": "s1"}) as client:
        answer = client.post("/v1/chat/completions", json={"model": "fake", "messages": HELLO})
    assert answer.status_code == 502
    assert "cannot be reached" in answer.json()["error"]["message"]
    assert names(gateway.events("s1")) == ["trajectory_started", "observation", "gap"]


def test_no_answer_without_acknowledgement_and_nothing_is_skipped_afterwards(
    gateway: GatewayUnderTest,
) -> None:
    client = gateway.openai(**{"X-ATDP-Session": "s1"})
    gateway.log.available = False
    with pytest.raises(openai.InternalServerError, match="switched off"):
        client.chat.completions.create(model="fake", messages=HELLO)
    assert gateway.events() == []
    gateway.log.available = True
    client.chat.completions.create(model="fake", messages=HELLO)
    events = gateway.events("s1")
    assert [event.seq for event in events] == list(range(len(events)))
    assert names(events) == [
        *("trajectory_started", "observation", "generation", "observation", "generation"),
    ]
    marked = [header(record.headers, "atdp-redelivery") for record in gateway.log.records]
    assert marked == [b"1", b"1", b"1", None, None]


def test_after_a_restart_the_context_is_sent_in_full_under_a_new_producer(
    gateway: GatewayUnderTest, engine: EngineUnderTest
) -> None:
    messages = tool_loop(gateway.openai(**{"X-ATDP-Session": "s1"}))
    with (
        start_gateway(gateway.home, gateway.log, engine.url) as url,
        openai.OpenAI(
            base_url=url + "/v1",
            api_key=gateway.agent_key,
            default_headers={"X-ATDP-Session": "s1"},
        ) as client,
    ):
        client.chat.completions.create(
            model="fake", messages=[*messages, {"role": "user", "content": "thanks"}]
        )
    before, after = gateway.events("s1")[:6], gateway.events("s1")[6:]
    assert names(after) == ["observation", "generation"]
    assert (
        len({event.producer_id for event in after} | {event.producer_id for event in before}) == 2
    )
    assert [event.seq for event in after] == [0, 1]
    assert after[-1].step == 2
    assert len(fold_context([*before, *after])) == len(messages) + 2


def test_an_ended_session_takes_no_more_calls(gateway: GatewayUnderTest) -> None:
    client = gateway.openai(**{"X-ATDP-Session": "s1"})
    client.chat.completions.create(model="fake", messages=HELLO)
    with gateway.http() as http:
        http.post("/v1/sessions/s1/end", json={"status": "completed"}).raise_for_status()
    with pytest.raises(openai.ConflictError, match="has ended"):
        client.chat.completions.create(model="fake", messages=HELLO)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"messages": "hello"}, "messages is not a list"),
        ({"messages": [{"content": "x"}]}, "has no role"),
        ({"messages": [], "n": 2}, "make n calls"),
        ({"messages": [], "tools": {}}, "'tools' must be a list"),
    ],
)
def test_requests_that_cannot_be_recorded_are_refused(
    gateway: GatewayUnderTest, engine: EngineUnderTest, body: dict[str, Any], says: str
) -> None:
    with gateway.http() as client:
        answer = client.post("/v1/chat/completions", json={"model": "fake", **body})
    assert answer.status_code == 422
    assert says in answer.json()["error"]["message"]
    assert engine.app.state.requests == []


def test_a_session_keeps_its_engine_while_new_ones_follow_the_routes(
    gateway: GatewayUnderTest, engine: EngineUnderTest
) -> None:
    def track(session: str) -> str:
        raw = gateway.openai(**{"X-ATDP-Session": session}).chat.completions.with_raw_response
        return str(raw.create(model="fake", messages=HELLO).headers["x-atdp-weight-version"])

    def route(client: httpx.Client, share: float | None) -> None:
        canary = (
            None
            if share is None
            else {"url": canary_url, "version": "v2", "share": share, "salt": "x"}
        )
        answer = client.put(
            "/v1/routes", json={"stable": {"url": engine.url, "version": "v1"}, "canary": canary}
        )
        answer.raise_for_status()

    with serving(fake_engine("v2")) as canary_url, gateway.http(gateway.operator_key) as operator:
        assert track("old") == "v1"
        route(operator, 1.0)
        assert track("old") == "v1"
        assert track("new") == "v2"
        route(operator, 0.0)
        assert track("new") == "v2"
        assert track("newer") == "v1"
        route(operator, None)
        assert track("new") == "v1"


def test_shares_are_kept_and_a_session_always_falls_the_same_way() -> None:
    from atdp.gateway.engine_routes import CanaryShare, EngineRoute, Routes

    routes = Routes(
        stable=EngineRoute(url="a"),
        canary=CanaryShare(engine=EngineRoute(url="b"), share=0.2, salt="s"),
    )
    chosen = [routes.choose("acme", f"session {n}")[0] for n in range(5000)]
    assert chosen == [routes.choose("acme", f"session {n}")[0] for n in range(5000)]
    assert 0.17 < chosen.count("canary") / 5000 < 0.23
