"""All rules of the contract, in one order."""

import functools

from atdp.schemas.contract_rule import ContractRule
from atdp.schemas.general_rules import general_rules
from atdp.schemas.record_rules import RECORD_RULES


@functools.cache
def contract_rules() -> tuple[ContractRule, ...]:
    """Return every rule of the contract; no two have the same id."""
    return (*general_rules(), *RECORD_RULES)
