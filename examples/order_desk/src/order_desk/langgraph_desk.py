"""The order desk as a graph of LangGraph, with the chat model of `langchain-openai`.

Changed for the platform: `base_url` and `api_key` of the chat model.
"""

import json
from typing import Any

import openai
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph

from order_desk.order_task import MAX_TURNS, TOOLS, CustomerOrder, call_tool
from order_desk.shown_answer import MAX_TOKENS, ShownAnswer


class DeskState(MessagesState):
    """The state of the graph: the messages, and the order that the tools work on."""

    order: CustomerOrder


class LangGraphDesk:
    """Serves users with a graph of two nodes, the model and its tools."""

    def __init__(self, client: openai.AsyncOpenAI, model: str) -> None:
        """Use a client of an OpenAI-compatible endpoint."""
        chat = ChatOpenAI(
            model=model,
            async_client=client.chat.completions,
            root_async_client=client,
            api_key=lambda: client.api_key,
            base_url=str(client.base_url),
            temperature=1.0,
            max_completion_tokens=MAX_TOKENS,
            max_retries=0,
        )
        self._model = chat.bind_tools(list(TOOLS))
        graph = StateGraph(DeskState)
        graph.add_node("model", self._ask)
        graph.add_node("tools", _call_tools)
        graph.add_edge(START, "model")
        graph.add_conditional_edges("model", _next_node, {"tools": "tools", END: END})
        graph.add_conditional_edges("tools", _after_tools, {"model": "model", END: END})
        self._graph = graph.compile()

    async def serve(self, order: CustomerOrder) -> ShownAnswer:
        """See `ChatAgent`; the agent gives up when the model takes too many turns."""
        start: Any = {"messages": [HumanMessage(order.message)], "order": order}
        try:
            messages: list[AnyMessage] = (await self._graph.ainvoke(start))["messages"]
        except ValueError:  # arguments of a tool call that are JSON, and not an object
            return ShownAnswer(text=None, response_id=None)
        answers = [message for message in messages if isinstance(message, AIMessage)]
        text = None if _asks_for_tools(answers[-1]) else str(answers[-1].text)
        return ShownAnswer(text=text, response_id=answers[-1].response_metadata.get("id"))

    async def _ask(self, state: DeskState) -> dict[str, Any]:
        return {"messages": [await self._model.ainvoke(state["messages"])]}


def _asks_for_tools(message: AIMessage) -> bool:
    return bool(message.tool_calls or message.invalid_tool_calls)


def _next_node(state: DeskState) -> str:
    last = state["messages"][-1]
    return "tools" if isinstance(last, AIMessage) and _asks_for_tools(last) else END


def _after_tools(state: DeskState) -> str:
    turns = sum(isinstance(message, AIMessage) for message in state["messages"])
    return "model" if turns < MAX_TURNS else END


async def _call_tools(state: DeskState) -> dict[str, Any]:
    last = state["messages"][-1]
    assert isinstance(last, AIMessage)
    valid = [(call["id"], call["name"], json.dumps(call["args"])) for call in last.tool_calls]
    invalid = [
        (call["id"], call["name"] or "", call["args"] or "") for call in last.invalid_tool_calls
    ]
    return {
        "messages": [
            ToolMessage(call_tool(state["order"], name, arguments).text, tool_call_id=call_id or "")
            for call_id, name, arguments in (*valid, *invalid)
        ]
    }
