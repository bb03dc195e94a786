"""Surrogates: other values of the same shape and type, one for each value, under a tenant's key.

A surrogate keeps a trajectory alive: an e-mail address stays one, digits stay as many digits, words
stay words, and where a range is reserved that belongs to nobody, the surrogate is from it. One
value has one surrogate in prose, arguments and results, in the spelling of each place, because
everything is keyed by what the spellings share. It is written word by word, so the parts of a value
agree with the whole (`surrogate_text`).

Shapes without a kind of their own here, and values that do not have the shape of their kind, are
rewritten word by word and digit by digit. Nothing that is a letter or digit stays except words of
structure; a value in which nothing could be replaced becomes one made-up word.

`is_surrogate` recognises surrogates by their form, without a key, so that text which was governed
before is left alone. A form counts only where no value of the world can have it. Where a shape has
no room for such a form (postal codes, cards, ids, telephone numbers), a text that is governed again
gets other surrogates: each value consistently another one, and never its own.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from atdp.governance.redact import (
    surrogate_accounts as accounts,
    surrogate_addresses as addresses,
    surrogate_dates as dates,
    surrogate_phones as phones,
    surrogate_places as places,
)
from atdp.governance.redact.structure_words import (
    AGE_WORDS,
    ID_WORDS,
    NAME_WORDS,
    ORGANIZATION_WORDS,
)
from atdp.governance.redact.surrogate_codes import same_shape
from atdp.governance.redact.surrogate_key import SurrogateKey
from atdp.governance.redact.surrogate_text import canonical, is_made_up, rewritten
from atdp.governance.redact.surrogate_words import WORD_LETTERS, is_surrogate_word, made_up_letters


@dataclass(frozen=True, slots=True)
class SurrogateKind:
    """The writing of surrogates of one shape, and their recognition."""

    write: Callable[[SurrogateKey, str], str]
    recognise: Callable[[str], bool]


def _words(structure: frozenset[str]) -> SurrogateKind:
    return SurrogateKind(
        lambda key, value: rewritten(key, value, structure),
        lambda text: is_made_up(text, structure),
    )


def _never(_: str) -> bool:
    return False


_NAME: Final = _words(NAME_WORDS)
_PLACE: Final = _words(frozenset())
_ORGANIZATION: Final = _words(ORGANIZATION_WORDS)
_SSN: Final = SurrogateKind(accounts.social_security_number, accounts.is_social_security_number)
_DATE: Final = SurrogateKind(dates.calendar_date, dates.is_calendar_date)
_URL: Final = SurrogateKind(addresses.url, addresses.is_url)
_POSTAL_CODE: Final = SurrogateKind(places.postal_code, places.is_postal_code)
_USER_ID: Final = SurrogateKind(
    lambda key, value: (addresses.email if "@" in value else _by_words)(key, value),
    lambda text: addresses.is_email(text) or is_made_up(text, ID_WORDS, digits=True),
)
_ID: Final = SurrogateKind(
    lambda key, value: rewritten(key, value, ID_WORDS, codes="upper"),
    lambda text: is_made_up(text, ID_WORDS),
)
_KINDS: Final[Mapping[str, SurrogateKind]] = {
    "PERSON": _NAME,
    "TITLE": _NAME,
    "CITY": _PLACE,
    "LOCATION": _PLACE,
    "GPE": _PLACE,
    "NRP": _PLACE,
    "ORGANIZATION": _ORGANIZATION,
    "ORG": _ORGANIZATION,
    "STREET_ADDRESS": SurrogateKind(places.street_address, places.is_street_address),
    "POSTAL_CODE": _POSTAL_CODE,
    "ZIP_CODE": _POSTAL_CODE,
    "EMAIL_ADDRESS": SurrogateKind(addresses.email, addresses.is_email),
    "URL": _URL,
    "DOMAIN_NAME": _URL,
    "IP_ADDRESS": SurrogateKind(addresses.ip_address, addresses.is_ip_address),
    "MAC_ADDRESS": SurrogateKind(addresses.mac_address, _never),
    "PHONE_NUMBER": SurrogateKind(phones.phone, _never),
    "USER_ID": _USER_ID,
    "CREDIT_CARD": SurrogateKind(accounts.card, _never),
    "CARD_LAST_DIGITS": SurrogateKind(same_shape, _never),
    "IBAN_CODE": SurrogateKind(accounts.iban, accounts.is_iban),
    "CRYPTO": SurrogateKind(accounts.crypto, accounts.is_crypto),
    "US_SSN": _SSN,
    "US_ITIN": _SSN,
    "UK_NINO": SurrogateKind(
        accounts.national_insurance_number, accounts.is_national_insurance_number
    ),
    "DATE_OF_BIRTH": _DATE,
    "DATE_TIME": _DATE,
    "AGE": SurrogateKind(lambda key, value: rewritten(key, value, AGE_WORDS), _never),
}


def surrogate(key: SurrogateKey, entity: str, value: str) -> str:
    """Return the surrogate of a value; a surrogate of the entity is returned as it is."""
    if is_surrogate(entity, value):
        return value
    text = canonical(value)
    written = _kind(entity).write(key, text)
    if written == text and text.replace("0", "").strip():
        return made_up_letters(key, "whole value", text.strip().lower(), WORD_LETTERS)
    return written


def is_surrogate(entity: str, text: str) -> bool:
    """Return True when the whole text has a form that only surrogates of the entity have."""
    return is_surrogate_word(text) or _kind(entity).recognise(text)


def _kind(entity: str) -> SurrogateKind:
    return _KINDS.get(entity) or (_NAME if entity.endswith("_NAME") else _ID)


def _by_words(key: SurrogateKey, value: str) -> str:
    return rewritten(key, value, ID_WORDS)
