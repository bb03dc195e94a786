"""The page on conformance lists the rules of sequences and the keys of a vector as they are."""

import json
import re
from pathlib import Path

from atdp.schemas import SEQUENCE_RULES, VECTOR_FILES, vector_text

PAGE = (Path(__file__).parents[3] / "docs/reference/conformance.md").read_text(encoding="utf-8")


def test_the_page_has_every_rule_of_sequences_with_its_sentence() -> None:
    section = PAGE.partition("## Rules of sequences")[2]
    rows = re.findall(r"^\| `([\w.]+)` +\| (.+?) +\|$", section, re.MULTILINE)
    assert rows == [(rule.id, rule.sentence) for rule in SEQUENCE_RULES]


def test_the_page_has_every_key_of_a_vector() -> None:
    section = PAGE.partition("## The vectors")[2].partition("## Rules of sequences")[0]
    rows = set(re.findall(r"^\| `(\w+)` ", section, re.MULTILINE))
    lines = [line for name in VECTOR_FILES for line in vector_text(name).splitlines()]
    assert rows == {key for line in lines for key in json.loads(line)}
