"""The choice of the framework that the agent of the online demo is written with."""

from enum import StrEnum


class AgentFramework(StrEnum):
    """The frameworks that the agent is written with."""

    AGENTS_SDK = "agents-sdk"
    LANGGRAPH = "langgraph"

    @property
    def label(self) -> str:
        """The name of the framework."""
        return "LangGraph" if self is AgentFramework.LANGGRAPH else "the OpenAI Agents SDK"
