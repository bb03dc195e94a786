"""Identifiers in HTTP headers, which hold ASCII: percent-encoded UTF-8, so that ids of every script work.

An answer's ids are encoded as far as needed (`order-17` stays `order-17`), and a request's are
decoded, so that an answer's header can be sent back as it came. Raw UTF-8, as `curl` sends it, is
understood too.
"""

import string
from urllib.parse import quote, unquote

from atdp.runtime import HttpProblem

_AS_IT_IS = "".join(set(string.punctuation) - {"%"}) + " "


def to_header(value: str) -> str:
    """The header value of an identifier."""
    return quote(value, safe=_AS_IT_IS)


def from_header(value: str, name: str) -> str:
    """The identifier in a header value as the server decoded it (ISO 8859-1).

    Raises:
        HttpProblem: 422 when percent-encoding is not that of UTF-8.
    """
    raw = value.encode("latin-1")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        text = value
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError as error:
        raise HttpProblem(422, "bad_identifier", f"{name} must be percent-encoded UTF-8") from error
