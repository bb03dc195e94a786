"""The base of everything that a policy file holds."""

from pydantic import BaseModel, ConfigDict


class PolicyPart(BaseModel):
    """A part of a policy file. Unknown keys are errors: a misspelt key would be without effect."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)
