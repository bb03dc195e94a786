"""Queries of the lake's own readers, as SQL files with `{names}` to be filled in.

The values are SQL of callers who may run any SELECT on that connection anyway, or literals that
`duckdb_sql` has quoted.
"""

from importlib import resources


def query(name: str, **filled_in: str) -> str:
    """Return the text of `<name>.sql` without its comment lines, with its names filled in."""
    template = resources.files(__package__).joinpath(f"{name}.sql").read_text("utf-8")
    lines = [line for line in template.splitlines() if not line.lstrip().startswith("--")]
    return "\n".join(lines).format(**filled_in)
