"""The ways in which a value is written: one function per coding.

A coding takes the value and returns its written form, or None where the coding would change
nothing. `WHOLE` codings take the whole sentence.
"""

import base64
import html
import random
from collections.abc import Callable, Mapping
from typing import TypeAlias
from urllib.parse import quote

from .personal_values import PersonalValue

Coding: TypeAlias = Callable[[PersonalValue, random.Random], str | None]
TextCoding: TypeAlias = Callable[[str, random.Random], str]

_WORDS_BEFORE = ("nr", "to", "is", "von", "at", "tel")
_WORDS_AFTER = ("then", "or", "is", "now", "please")
"""The glued side of no word is a hexadecimal digit, so that the border is known."""
_INVISIBLE = "\u200b\u200c\u200d\u2060\ufeff"


def _plain(value: PersonalValue, chance: random.Random) -> str:
    return value.text


def _percent(value: PersonalValue, chance: random.Random) -> str | None:
    form = chance.randrange(4)
    if form == 0:
        return "".join(f"%{byte:02X}" for byte in value.text.encode())
    once = quote(value.text, safe="")
    if once == value.text:
        return None
    return quote(once, safe="") if form == 1 else once


def _entities(value: PersonalValue, chance: random.Random) -> str:
    form = chance.choice(("&#{};", "&#x{:x};", "&#X{:04X};"))
    letters = chance.random() < 0.5
    return "".join(
        form.format(ord(each)) if letters or not each.isalnum() else each
        for each in html.escape(value.text)
    )


def _escapes(value: PersonalValue, chance: random.Random) -> str:
    form = chance.choice(("\\u{:04x}", "\\u{:04X}"))
    letters = chance.random() < 0.5
    return "".join(
        form.format(ord(each)) if letters or not each.isalnum() else each for each in value.text
    )


def _full_width(value: PersonalValue, chance: random.Random) -> str:
    return "".join(
        chr(ord(each) + 0xFEE0) if "!" <= each <= "~" else "\u3000" for each in value.text
    )


def _inserted(value: PersonalValue, what: str, chance: random.Random, count: int) -> str:
    text = value.text
    for place in sorted(chance.sample(range(1, len(text)), count), reverse=True):
        text = text[:place] + what + text[place:]
    return text


def _zero_width(value: PersonalValue, chance: random.Random) -> str:
    return _inserted(value, chance.choice(_INVISIBLE), chance, chance.randrange(1, 4))


def _soft_hyphen(value: PersonalValue, chance: random.Random) -> str:
    return _inserted(value, "\u00ad", chance, chance.randrange(1, 3))


def _line_break(value: PersonalValue, chance: random.Random) -> str:
    return _inserted(value, chance.choice(("\n", "\r\n", "\n  ")), chance, 1)


def _no_break_space(value: PersonalValue, chance: random.Random) -> str:
    space = chance.choice("\u00a0\u202f\u2007")
    return f"{space}{value.text.replace(' ', space)}{space}"


def _no_break_hyphen(value: PersonalValue, chance: random.Random) -> str | None:
    hyphen = chance.choice("\u2011\u2010\u2013\u2212")
    return value.text.replace("-", hyphen) if "-" in value.text else None


def _emphasis(value: PersonalValue, chance: random.Random) -> str:
    mark = chance.choice(("_", "*", "**", "__", "`", "~~", "***"))
    return f"{mark}{value.text}{mark}"


def _glued_before(value: PersonalValue, chance: random.Random) -> str:
    # Where the value begins with a letter, nobody could say where letters before it end.
    border = "_" if value.text[0].isalpha() and value.kind != "email" else ""
    return f"{chance.choice(_WORDS_BEFORE)}{border}{value.text}"


def _glued_after(value: PersonalValue, chance: random.Random) -> str:
    border = "_" if value.text[-1].isalpha() and value.kind != "email" else ""
    return f"{value.text}{border}{chance.choice(_WORDS_AFTER)}"


def _scheme(value: PersonalValue, chance: random.Random) -> str:
    text = value.text
    match value.kind:
        case "email":
            return f"mailto:{text}"
        case "phone":
            return f"tel:{text.replace(' ', '')}"
        case "ipv4":
            return f"http://{text}:8080/status"
        case "ipv6":
            return chance.choice((f"http://[{text}]:8080/", f"mailto:ops@[IPv6:{text}]"))
        case "iban":
            return f"payto://iban/{text.replace(' ', '')}"
        case "bitcoin":
            return f"bitcoin:{text}"
        case _:
            return f"urn:{value.keys[0]}:{text}"


CODINGS: Mapping[str, Coding] = {
    "plain": _plain,
    "url": _percent,
    "html": _entities,
    "full-width": _full_width,
    "zero-width": _zero_width,
    "soft hyphen": _soft_hyphen,
    "nbsp": _no_break_space,
    "u+2011": _no_break_hyphen,
    "newline": _line_break,
    "backslash-u": _escapes,
    "emphasis": _emphasis,
    "glued before": _glued_before,
    "glued after": _glued_after,
    "scheme": _scheme,
}


def _base64(text: str, chance: random.Random) -> str:
    encode = chance.choice((base64.b64encode, base64.urlsafe_b64encode))
    written = encode(text.encode()).decode()
    if chance.random() < 0.3:
        written = written.rstrip("=")
    if chance.random() < 0.2:
        return "\n".join(written[start : start + 76] for start in range(0, len(written), 76))
    return written


def _hex(text: str, chance: random.Random) -> str:
    written = text.encode().hex()
    return written.upper() if chance.random() < 0.3 else written


WHOLE: Mapping[str, TextCoding] = {"base64": _base64, "hex": _hex}
