"""The commented policies that the package ships for common cases."""

from importlib import resources
from typing import Final

from atdp.governance.errors import PolicyError

TEMPLATES: Final = {
    "customer-service": "conversations with customers",
    "coding-agents": "agents that write code",
    "health": "conversations about patients",
    "none": "no content is kept, only figures",
    "demo": "made-up data: every use is allowed",
}
"""The names, with the case that each is for."""


def template_text(name: str) -> str:
    """Return a template as YAML.

    Raises:
        PolicyError: there is no such template.
    """
    if name not in TEMPLATES:
        raise PolicyError(f"there is no template {name!r}; there are {', '.join(TEMPLATES)}")
    file = resources.files("atdp.governance.policy").joinpath("templates", f"{name}.yaml")
    return file.read_text(encoding="utf-8")
