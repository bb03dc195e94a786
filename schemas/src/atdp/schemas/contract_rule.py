"""One rule of the contract, as data.

A rule belongs to a record of the schema and looks at some of its fields. It names itself in every
refusal, so the id of a rule never changes. The examples of a rule are fields of its record, as they
stand in the JSON form of events: `atdp.schemas.rule_example` makes whole events of them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

Example: TypeAlias = Mapping[str, Any]
"""Fields of the rule's record, in the JSON form of events."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ContractRule:
    """One rule; a record keeps it when `holds` is true for the values of `fields`.

    A field `a.b` stands for the list of the `b` of each item of the list `a`. With `latest`, the
    newest time that is accepted follows the values.
    """

    id: str
    record: str
    fields: tuple[str, ...]
    sentence: str
    holds: Callable[..., bool]
    latest: bool = False
    good: tuple[Example, ...]
    bad: tuple[Example, ...]
