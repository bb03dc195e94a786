"""The examples of a policy file: an event or a part of one, and what must become of it."""

from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import ConfigDict, Field, model_validator

from atdp.governance.decisions import DecisionName
from atdp.governance.policy.policy_part import PolicyPart
from atdp.governance.policy.rules import EntityName

JsonContent: TypeAlias = str | dict[str, Any] | list[Any]


class ExampleMessage(PolicyPart):
    """A message that the agent has read."""

    role: Literal["system", "user", "assistant", "tool"] = "user"
    """The role of its author."""
    content: str
    """Its text."""


class ExampleInput(PolicyPart):
    """An event, or the part of one that matters. Exactly one of the fields is given."""

    text: str | None = None
    """The text of one message of a user."""
    messages: Annotated[list[ExampleMessage], Field(min_length=1)] | None = None
    """Messages that the agent has read."""
    tool_arguments: JsonContent | None = None
    """The arguments of a tool call: an object, or the text that the model wrote."""
    tool_result: JsonContent | None = None
    """The result of a tool: a value, which is written as JSON, or text."""
    event: dict[str, Any] | None = None
    """A whole event in its JSON form (docs/reference/events.md). What every event has, such as ids
    and times, may be left out."""

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        fields = type(self).model_fields
        if sum(getattr(self, name) is not None for name in fields) != 1:
            raise ValueError(f"give exactly one of {', '.join(fields)}")
        return self


class PolicyExample(PolicyPart):
    """An example that the policy must treat as stated; at least one expectation is stated.

    Without `expect`, an event that is quarantined or dropped is a failure.
    """

    model_config = ConfigDict(
        coerce_numbers_to_str=True, validate_by_name=True, validate_by_alias=True
    )

    name: str = ""
    """Shown where the example fails."""
    given: Annotated[ExampleInput, Field(alias="in")]
    """The event that is governed."""
    expect: DecisionName | None = None
    """The decision about the event."""
    expect_absent: list[Annotated[str, Field(min_length=1)]] = []
    """Texts that may stand nowhere in the governed event."""
    expect_present: list[Annotated[str, Field(min_length=1)]] = []
    """Texts that must still stand in it."""
    expect_entities: list[EntityName] = []
    """Entities of which a value must be replaced; others may be, too."""

    @model_validator(mode="after")
    def _expects_something(self) -> Self:
        if not (self.expect or self.expect_absent or self.expect_present or self.expect_entities):
            raise ValueError(
                "the example expects nothing; state expect, expect_absent, expect_present "
                "or expect_entities"
            )
        return self
