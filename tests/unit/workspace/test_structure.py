"""Rules on the form of the code that no linter has."""

import ast
import io
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[3]
QUESTION_WORDS = {"How", "What", "When", "Where", "Whether", "Which", "Who", "Whose", "Why"}


@cache
def sources() -> dict[str, ast.Module]:
    """Every module of every member: path relative to the checkout → syntax tree."""
    folders = [*ROOT.glob("*/src"), *ROOT.glob("ingest/*/src"), *ROOT.glob("examples/*/src")]
    files = sorted(file for folder in folders for file in folder.rglob("*.py"))
    assert len(files) > 300
    return {str(file.relative_to(ROOT)): ast.parse(file.read_text("utf-8")) for file in files}


def nodes() -> Iterator[tuple[str, ast.AST]]:
    for path, tree in sources().items():
        for node in ast.walk(tree):
            yield path, node


def test_a_class_name_stands_for_one_class() -> None:
    places = defaultdict(list)
    for path, node in nodes():
        if isinstance(node, ast.ClassDef):
            places[node.name].append(path)
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


def test_no_conditional_expression_holds_another() -> None:
    nested = [
        f"{path}:{node.lineno}"
        for path, node in nodes()
        if isinstance(node, ast.IfExp)
        and any(isinstance(inner, ast.IfExp) for inner in ast.walk(node) if inner is not node)
    ]
    assert nested == []


def test_dataclasses_have_slots() -> None:
    without = [
        f"{path}:{node.lineno} {node.name}"
        for path, node in nodes()
        if isinstance(node, ast.ClassDef)
        for decorator in node.decorator_list
        if ast.unparse(decorator).startswith(("dataclass", "dataclasses.dataclass"))
        and "slots=True" not in ast.unparse(decorator)
    ]
    assert without == []


def test_docstrings_begin_with_an_imperative_or_a_noun_phrase() -> None:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    questions = [
        f"{path}:{getattr(node, 'lineno', 1)} {text.splitlines()[0]}"
        for path, node in nodes()
        if isinstance(node, documented)
        and (text := ast.get_docstring(node))
        and text.split()[0] in QUESTION_WORDS
    ]
    assert questions == []


def test_code_in_prose_stands_in_single_backticks() -> None:
    double = []
    for path in sources():
        text = (ROOT / path).read_text("utf-8")
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            is_prose = token.type == tokenize.COMMENT or token.string.startswith('"""')
            if is_prose and "``" in token.string.replace("```", ""):
                double.append(f"{path}:{token.start[0]}")
    assert double == []


def test_every_member_is_a_portion_of_the_namespace_package() -> None:
    assert not [path for path in sources() if path.endswith("src/atdp/__init__.py")]
