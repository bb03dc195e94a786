"""The lazy faces of the parts that agents install."""

import importlib
import pkgutil
import subprocess
import sys

import pytest

FACES = ["atdp.schemas", "atdp.sdk", "atdp.adapters"]


@pytest.mark.parametrize("package", FACES)
def test_every_listed_name_is_there(package: str) -> None:
    face = importlib.import_module(package)
    assert len(face.__all__) > 10
    for name in face.__all__:
        assert getattr(face, name) is getattr(face, name)
        assert name in dir(face)


@pytest.mark.parametrize("package", FACES)
def test_no_listed_name_is_that_of_a_module(package: str) -> None:
    """The import of the module would replace the name as an attribute of the package."""
    face = importlib.import_module(package)
    modules = {module.name for module in pkgutil.iter_modules(face.__path__)}
    assert modules.isdisjoint(face.__all__)


@pytest.mark.parametrize("package", FACES)
def test_a_name_that_is_not_listed_is_an_attribute_error(package: str) -> None:
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'Recoder'"):
        importlib.import_module(package).Recoder  # noqa: B018


@pytest.mark.parametrize(("package", "name"), [("atdp.schemas", "Event"), ("atdp.sdk", "observe")])
def test_names_are_imported_in_all_the_usual_ways(package: str, name: str) -> None:
    program = f"""
from {package} import *
assert {name}
import {package} as face
from {package} import {name} as again
assert face.{name} is again is {name}
"""
    subprocess.run([sys.executable, "-c", program], check=True)
