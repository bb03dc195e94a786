"""The agents of the online demo against a scripted endpoint: ordinary calls, nothing of ours."""

import ast
import asyncio
import inspect
import itertools
import json
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import openai
import openai._base_client
import pytest

from order_desk import agents_sdk_desk, langgraph_desk, shown_answer
from order_desk.agents_sdk_desk import AgentsSdkDesk
from order_desk.langgraph_desk import LangGraphDesk
from order_desk.order_task import CustomerOrder
from order_desk.shown_answer import ShownAnswer

ORDER = CustomerOrder(task_id="t", item="rope", quantity=7, price=4, message="7 rope?")
RIGHT = (("lookup", '{"item": "rope"}'), ("calc", '{"expression": "7*4"}'), "28")
DESKS = (AgentsSdkDesk, LangGraphDesk)

Turn = str | tuple[str, str]


class Endpoint:
    """An OpenAI-compatible endpoint that gives the turns of a script in order."""

    def __init__(self, turns: Sequence[Turn]) -> None:
        self.turns = itertools.chain(turns)
        self.requests: list[tuple[dict[str, str], dict[str, Any]]] = []
        httpx: Any = inspect.getmodule(openai.DefaultAsyncHttpxClient.__mro__[1])
        self._library = __import__(httpx.__name__.partition(".")[0])

    def client(self) -> openai.AsyncOpenAI:
        http = self._library.AsyncClient(transport=self._library.MockTransport(self._answer))
        return openai.AsyncOpenAI(base_url="http://gateway/v1", api_key="key", http_client=http)

    def _answer(self, request: Any) -> Any:
        self.requests.append((dict(request.headers), json.loads(request.content)))
        number, turn = len(self.requests), next(self.turns)
        message: dict[str, Any] = {"role": "assistant", "content": turn}
        if not isinstance(turn, str):
            name, arguments = turn
            call = {"id": f"call-{number}", "type": "function"}
            function = {"name": name, "arguments": arguments}
            message |= {"content": None, "tool_calls": [call | {"function": function}]}
        reason = "stop" if isinstance(turn, str) else "tool_calls"
        choice = {"index": 0, "finish_reason": reason, "message": message}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        document = {"id": f"answer-{number}", "object": "chat.completion", "created": 1}
        document |= {"model": "orderdesk", "choices": [choice], "usage": usage}
        return self._library.Response(200, json=document)


def serve(desk: type[AgentsSdkDesk | LangGraphDesk], endpoint: Endpoint) -> ShownAnswer:
    return asyncio.run(desk(endpoint.client(), "orderdesk").serve(ORDER))


@pytest.mark.parametrize("desk", DESKS)
def test_an_agent_uses_its_tools_and_shows_the_answer_with_its_response_id(
    desk: type[AgentsSdkDesk | LangGraphDesk],
) -> None:
    endpoint = Endpoint(RIGHT)
    assert serve(desk, endpoint) == ShownAnswer(text="28", response_id="answer-3")
    _, last = endpoint.requests[-1]
    roles = [message["role"] for message in last["messages"]]
    assert roles == ["user", "assistant", "tool", "assistant", "tool"]
    assert [m["content"] for m in last["messages"] if m["role"] == "tool"] == ["4", "28"]
    assert (last["temperature"], last.get("max_tokens", last.get("max_completion_tokens"))) == (
        1.0,
        32,
    )


@pytest.mark.parametrize("desk", DESKS)
@pytest.mark.parametrize("bad", [("lookup", "{not JSON"), ("nosuch", "{}"), ("calc", '"text"')])
def test_a_wrong_tool_call_is_an_answer_to_the_model_or_the_agent_gives_up(
    desk: type[AgentsSdkDesk | LangGraphDesk], bad: tuple[str, str]
) -> None:
    answer = serve(desk, Endpoint((bad, "5")))
    assert answer.text is None or answer == ShownAnswer(text="5", response_id="answer-2")


@pytest.mark.parametrize("desk", DESKS)
def test_an_agent_gives_up_after_its_turns(desk: type[AgentsSdkDesk | LangGraphDesk]) -> None:
    endpoint = Endpoint([RIGHT[0]] * 9)
    assert serve(desk, endpoint) == ShownAnswer(text=None, response_id="answer-4")
    assert len(endpoint.requests) == 4


@pytest.mark.parametrize("desk", DESKS)
def test_no_request_says_more_than_any_client_does(
    desk: type[AgentsSdkDesk | LangGraphDesk],
) -> None:
    endpoint = Endpoint(RIGHT)
    serve(desk, endpoint)
    for headers, body in endpoint.requests:
        own = [name for name in headers if "atdp" in name or "session" in name]
        assert own == []
        assert not body.keys() & {"user", "metadata", "prompt_cache_key", "previous_response_id"}


@pytest.mark.parametrize("module", [agents_sdk_desk, langgraph_desk, shown_answer])
def test_the_agents_import_nothing_of_the_platform(module: ModuleType) -> None:
    tree = ast.parse(inspect.getsource(module))
    imported = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    imported |= {
        name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names
    }
    assert not [name for name in imported if name.startswith("atdp")]
