"""Words that are names and ordinary words at once, and words around names.

A learned name of `common_words.txt` (`Will`, `May`, `Brown`, `Reading`) counts only where the text
around it speaks of a name; see `learned_detector`. The list is short on purpose: it holds the given
names, surnames and cities that a dictionary of English has as well.
"""

from importlib import resources
from typing import Final

COMMON_WORDS: Final = frozenset(
    word
    for line in resources.files("atdp.governance.learned")
    .joinpath("common_words.txt")
    .read_text("utf-8")
    .splitlines()
    if not line.startswith("#")
    for word in line.split()
)

PLACEHOLDERS: Final = frozenset(
    (
        "a", "account", "address", "admin", "agent", "an", "and", "anonymous", "any", "api",
        "array", "assistant", "bar", "baz", "billing", "bool", "boolean", "bot", "char", "city",
        "code", "company", "contact", "country", "customer", "data", "date", "day", "default",
        "demo", "details", "dict", "email", "empty", "enum", "error", "example", "false", "field",
        "first", "float", "foo", "from", "full", "given", "guest", "home", "id", "int", "integer",
        "item", "key", "last", "line", "list", "login", "mail", "member", "middle", "missing",
        "mobile", "month", "na", "name", "new", "nil", "no", "none", "not", "null", "num", "number",
        "object", "of", "old", "on", "one", "optional", "or", "order", "other", "param", "password",
        "payment", "person", "phone", "placeholder", "postal", "primary", "required", "root",
        "sample", "secret", "service", "shipping", "state", "str", "street", "string", "support",
        "surname", "system", "tbd", "temp", "template", "test", "text", "the", "title", "to",
        "town", "true", "type", "undefined", "unit", "unknown", "unspecified", "user", "username",
        "usr", "value", "work", "xxx", "year", "yes", "you", "your", "zip", "zipcode",
    )
)  # fmt: skip
"""Words that stand where a value would stand. A value of such words alone is not learned."""

NAME_CONTEXT: Final = frozenset(
    (
        "mr", "mrs", "ms", "miss", "mx", "dr", "prof", "sir", "madam", "name", "named", "names",
        "called", "hi", "hello", "hey", "dear", "thanks", "regards", "sincerely", "cheers",
        "customer", "passenger", "guest", "patient", "client", "traveler", "traveller", "user",
    )
)  # fmt: skip
"""Words before a name."""

NAME_PHRASES: Final = frozenset(
    {("i", "am"), ("i", "m"), ("name", "is"), ("this", "is"), ("name", "s"), ("thank", "you")}
)
"""Two words before a name."""

PLACE_CONTEXT: Final = frozenset(
    (
        "in", "from", "to", "at", "near", "of", "city", "town", "via", "around", "outside",
        "between", "visit", "visiting",
    )
)  # fmt: skip
"""Words before a place."""
