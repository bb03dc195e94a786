"""The conditions under which a text can be scanned at all."""

from atdp.governance.errors import Refusal


def utf8(text: str) -> bytes:
    """Return the text in UTF-8.

    Raises:
        Refusal: the text holds half of a surrogate pair.
    """
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise Refusal("lone_surrogate", "a string holds half of a surrogate pair") from error


def check_length(text: str, limit_chars: int) -> None:
    """Check that the text is not longer than the policy allows.

    Raises:
        Refusal: it is longer.
    """
    if len(text) > limit_chars:
        raise Refusal("leaf_too_long", f"one string has more than {limit_chars} characters")
