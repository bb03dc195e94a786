"""The generated reference pages agree with the contracts."""

import importlib.util
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[3]


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "generate_reference", ROOT / "docs/generate_reference.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_generated_pages_are_current() -> None:
    stale = [
        path.name
        for path, text in generator().pages().items()
        if path.read_text(encoding="utf-8") != text
    ]
    assert stale == [], "run: python docs/generate_reference.py"
