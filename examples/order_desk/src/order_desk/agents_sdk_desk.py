"""The order desk as an agent of the OpenAI Agents SDK.

Changed for the platform: `base_url` and `api_key` of the client, which stand in the environment of
any deployment. The SDK's tracing is off, because it sends traces to its maker.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import openai
from agents import (
    Agent,
    FunctionTool,
    ModelBehaviorError,
    ModelResponse,
    ModelSettings,
    OpenAIChatCompletionsModel,
    RunConfig,
    RunContextWrapper,
    Runner,
)
from agents.exceptions import AgentsException, MaxTurnsExceeded

from order_desk.order_task import MAX_TURNS, CustomerOrder, call_tool
from order_desk.shown_answer import MAX_TOKENS, ShownAnswer, tool_parameters


class AgentsSdkDesk:
    """Serves users with an agent of the OpenAI Agents SDK."""

    def __init__(self, client: openai.AsyncOpenAI, model: str) -> None:
        """Use a client of an OpenAI-compatible endpoint."""
        self._agent: Agent[CustomerOrder] = Agent(
            name="order desk",
            tools=[_tool(name, *form) for name, form in tool_parameters().items()],
            model=OpenAIChatCompletionsModel(model, client),
            model_settings=ModelSettings(temperature=1.0, max_tokens=MAX_TOKENS),
        )
        self._config = RunConfig(tracing_disabled=True)

    async def serve(self, order: CustomerOrder) -> ShownAnswer:
        """See `ChatAgent`; the agent gives up when the model takes too many turns."""
        try:
            result = await Runner.run(
                self._agent,
                order.message,
                context=order,
                max_turns=MAX_TURNS,
                run_config=self._config,
            )
        except (MaxTurnsExceeded, ModelBehaviorError) as error:
            return ShownAnswer(text=None, response_id=_last_response(error))
        return ShownAnswer(
            text=str(result.final_output), response_id=_response_id(result.raw_responses)
        )


def _tool(name: str, description: str, parameters: dict[str, Any]) -> FunctionTool:
    return FunctionTool(
        name=name,
        description=description,
        params_json_schema=parameters,
        on_invoke_tool=_invocation(name),
        strict_json_schema=False,
    )


def _invocation(name: str) -> Callable[[RunContextWrapper[Any], str], Awaitable[str]]:
    async def invoke(context: RunContextWrapper[Any], arguments: str) -> str:
        return call_tool(context.context, name, arguments).text

    return invoke


def _last_response(error: AgentsException) -> str | None:
    return None if error.run_data is None else _response_id(error.run_data.raw_responses)


def _response_id(responses: list[ModelResponse]) -> str | None:
    """Return the id of the last answer, which the SDK keeps beside each item of it."""
    for response in reversed(responses):
        for item in response.output:
            data = getattr(item, "provider_data", None) or {}
            if "response_id" in data:
                return str(data["response_id"])
    return None
