"""The lazy face of a part that agents install: a name is imported when it is first used.

`__init__.pyi` lists the public names with their modules, for type checkers and for this module.
`lazy_loader` does the same for the parts of services; agents are spared it and its own dependency
(docs/decisions/0014-parts-meet-at-faces.md).
"""

import ast
import importlib
import sys
from collections.abc import Callable
from pathlib import Path


def lazy_face(
    package: str, init_file: str
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package.

    Args:
        package: `__name__` of the package.
        init_file: `__file__` of the package. The file beside it with the ending `.pyi` consists of
            absolute imports `from module import name as name`.
    """
    stub = ast.parse(Path(init_file).with_suffix(".pyi").read_text("utf-8"))
    homes = {
        alias.name: f"{node.module}"
        for node in stub.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }

    def get_attribute(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(importlib.import_module(homes[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    def list_names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return get_attribute, list_names, sorted(homes)
