"""Queries of the lake's own readers, as SQL files whose `{names}` are filled in.

What is filled in is SQL of callers who may run any SELECT on that connection anyway, or literals
quoted by `duck_types`.
"""

from importlib import resources


def query(name: str, **filled_in: str) -> str:
    """The text of `<name>.sql` without its comment lines, filled in."""
    template = resources.files(__package__).joinpath(f"{name}.sql").read_text("utf-8")
    lines = [line for line in template.splitlines() if not line.lstrip().startswith("--")]
    return "\n".join(lines).format(**filled_in)
