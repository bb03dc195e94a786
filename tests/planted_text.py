"""Text that acts on a page or a terminal where it is not escaped, and the search for it."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from html.parser import HTMLParser
from typing import Any

PLANTED = (
    "</title></text></style></script><script>alert(1)</script>"
    "\"><img src=x onerror='alert(1)'>$\\frac{$"
    "\x1b]0;owned\x07\x9b2J\r\u202e\u2066\u2028"
)


def plant(value: Any, *names: str) -> Any:
    """Return a value in which the fields and keys of these names begin with the planted text."""
    if is_dataclass(value) and not isinstance(value, type):
        planted = {
            each.name: _planted(each.name, getattr(value, each.name), names)
            for each in fields(value)
            if each.init
        }
        return replace(value, **planted)
    if isinstance(value, Mapping):
        return {key: _planted(key, each, names) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(plant(each, *names) for each in value)
    return value


def _planted(name: object, value: Any, names: tuple[str, ...]) -> Any:
    if name not in names:
        return plant(value, *names)
    if isinstance(value, str):
        return PLANTED + value
    if isinstance(value, Mapping):
        return {PLANTED + str(key): each for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_planted(name, each, names) for each in value)
    return plant(value, *names)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.acting: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in {"script", "img", "iframe", "object", "embed", "base", "form"}:
            self.acting.append(tag)
        self.acting += [name for name, _ in attrs if name.startswith("on")]
        self.acting += [
            value or ""
            for name, value in attrs
            if name in {"href", "xlink:href", "src"} and (value or "").startswith(("java", "data"))
        ]

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def shown_without_effect(page: str) -> int:
    """Return how often a page shows the planted text, which must do nothing in it."""
    reader = _Reader()
    reader.feed(page)
    reader.close()
    assert reader.acting == []
    shown = page.translate(dict.fromkeys(map(ord, "\n\t\u00a0\u202f")))
    assert [each for each in shown if not each.isprintable()] == []
    assert "default-src 'none'" in page
    return "".join(reader.texts).count("<script>alert(1)</script>")
