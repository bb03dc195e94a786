"""The glossary gives each word one meaning."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs/glossary.md"
ROW = re.compile(r"^\| (?P<words>\*\*.+?\*\*) +\|", re.MULTILINE)


def words() -> list[str]:
    """Every word that has an entry, in the order of the page."""
    rows = [row["words"] for row in ROW.finditer(PAGE.read_text(encoding="utf-8"))]
    return [word for row in rows for word in re.findall(r"\*\*(.+?)\*\*", row)]


def test_each_word_has_one_entry() -> None:
    assert len(words()) > 40
    assert sorted(set(words())) == sorted(words())


def test_entries_are_in_alphabetical_order() -> None:
    first_words = [word for word in words() if word != "release gate"]  # shares the entry of gate
    assert first_words == sorted(first_words)
