"""The default policy, which `atdp up` activates in a register that holds none."""

from importlib import resources


def default_policy_text() -> str:
    """Return the default policy as YAML."""
    return (
        resources.files("atdp.governance")
        .joinpath("default_policy.yaml")
        .read_text(encoding="utf-8")
    )
