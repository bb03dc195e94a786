"""Surrogates of addresses in networks: e-mail, URL, domain, IP and MAC address.

Reserved ranges: `.example` (RFC 2606) for domains; 240.0.0.0/4 (RFC 1112, never assigned, 2**28
addresses where the three blocks for documentation together have 768) and 2001:db8::/32 (RFC 3849)
for IP addresses; locally administered addresses for MAC.
"""

import ipaddress
import re
from typing import Final

from atdp.governance.redact.surrogate_codes import in_places_of, same_shape
from atdp.governance.redact.surrogate_key import SurrogateKey
from atdp.governance.redact.surrogate_text import is_made_up, rewritten, rewritten_around
from atdp.governance.redact.surrogate_words import (
    SURROGATE_WORD,
    WORD_LETTERS,
    made_up_letters,
)

_LOCAL_CHARS: Final = 64
"""Longest local part of an e-mail address (RFC 5321)."""
_CLASS_E: Final = 0xF0000000
_IPV6: Final = 0x2001_0DB8_5A5A << 80
"""A third group that examples do not use tells surrogates from them."""
_IPV6_BITS: Final = 80

_EMAIL = re.compile(r"(?P<local>[^\s@<>,;:\"]+)@(?P<domain>[^\s@<>,;:\"]*[^\W_][^\s@<>,;:\"]*)")
_MAIL_WORDS: Final = frozenset({"mailto"})
_OWN_NUMBER = re.compile(r"(?<![^\W_])[0-9]")
_IS_DOMAIN = re.compile(rf"{SURROGATE_WORD}\.example", re.IGNORECASE)
_URL = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]*://)?(?P<host>[^/?#\s]+)(?P<rest>.*)", re.IGNORECASE | re.DOTALL
)
_IPV4 = re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.]*\w)")
_HEX_DIGIT = re.compile(r"[0-9a-fA-F]")
_MAC = re.compile(
    r"[0-9a-fA-F]{2}(?P<between>[:.-]?)(?:[0-9a-fA-F]{2}(?P=between)){4}[0-9a-fA-F]{2}"
)


def email(key: SurrogateKey, value: str) -> str:
    """Return the local part word by word, at a made-up domain below `example`."""

    def address(match: re.Match[str]) -> str:
        local = rewritten(key, match["local"], codes="none")
        if len(local) > _LOCAL_CHARS or local == match["local"]:
            local = made_up_letters(key, "local part", match["local"].lower(), WORD_LETTERS)
        return f"{local}@{_domain(key, match['domain'])}"

    return rewritten_around(key, _EMAIL, address, value, _MAIL_WORDS)


def is_email(text: str) -> bool:
    """Return True for an e-mail address that `email` has written, or other text of a mail field.

    Digits stand behind made-up words only; a number of its own could be of a value.
    """
    local, at, domain = text.rpartition("@")
    if not at:
        return _OWN_NUMBER.search(text) is None and is_made_up(text, _MAIL_WORDS, digits=True)
    return _IS_DOMAIN.fullmatch(domain) is not None and is_made_up(local, digits=True)


def url(key: SurrogateKey, value: str) -> str:
    """Return a URL or domain name with its scheme and a made-up host below `example`."""
    match = _URL.fullmatch(value)
    if match is None:
        return rewritten(key, value)
    user, at, host = match["host"].rpartition("@")
    name, colon, port = host.partition(":")
    before = (match["scheme"] or "", rewritten(key, user), at)
    return "".join((*before, _domain(key, name), colon, port, rewritten(key, match["rest"])))


def is_url(text: str) -> bool:
    """Return True for a URL or domain name that `url` has written."""
    match = _URL.fullmatch(text)
    return (
        match is not None
        and _IS_DOMAIN.fullmatch(match["host"].rpartition("@")[2].partition(":")[0]) is not None
        and (match["rest"] in {"", "/"} or is_made_up(match["rest"], digits=True))
    )


def ip_address(key: SurrogateKey, value: str) -> str:
    """Return an address of 240.0.0.0/4 or 2001:db8::/32 for each address."""
    text = value.strip()
    if ":" in text and "." not in text:
        try:
            packed = ipaddress.IPv6Address(text.partition("%")[0]).packed
        except ValueError:
            return rewritten(key, value, codes="upper")
        other = ipaddress.IPv6Address(_IPV6 + key.number("ip", packed.hex(), 2**_IPV6_BITS))
        return value.replace(text, str(other))
    return rewritten_around(key, _IPV4, lambda match: _ipv4(key, match[0]), value)


def is_ip_address(text: str) -> bool:
    """Return True for an address in the ranges that `ip_address` writes."""
    try:
        address = ipaddress.ip_address(text.strip())
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv4Address):
        return address.is_reserved
    return int(address) >> _IPV6_BITS == _IPV6 >> _IPV6_BITS


def mac_address(key: SurrogateKey, value: str) -> str:
    """Return a locally administered unicast address in the same spelling."""
    if _MAC.fullmatch(value) is None:
        return rewritten(key, value, codes="upper")
    plain = "".join(_HEX_DIGIT.findall(value)).lower()
    number = key.number("mac", plain, 2**48) & ~(1 << 40) | 1 << 41
    return in_places_of(value, f"{number:012x}", _HEX_DIGIT)


def _domain(key: SurrogateKey, domain: str) -> str:
    if _IS_DOMAIN.fullmatch(domain):
        return domain
    return made_up_letters(key, "domain", domain.lower().rstrip("."), WORD_LETTERS) + ".example"


def _ipv4(key: SurrogateKey, text: str) -> str:
    try:
        address = ipaddress.IPv4Address(text)
    except ValueError:
        return same_shape(key, text)
    # All but the last address, which is the broadcast address.
    return str(ipaddress.IPv4Address(_CLASS_E + key.number("ip", str(address), 2**28 - 1)))
