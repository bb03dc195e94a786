"""Invented personal values of 21 types, each with a sentence that names its type.

The values have correct checksums and lie outside the ranges that are reserved for examples, which
governance may use for its surrogates. `core` is the part of a value that identifies somebody, in
lower case without punctuation: the street and not the word "Street", the digits of a payment id and
not its prefix. A value is left when most of its core can still be read.
"""

import hashlib
import random
import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass

_GIVEN = ("mia", "noah", "kira", "omar", "lena", "yusuf", "ivan", "chen", "sofia", "aarav", "tomas")
_FAMILY = ("olsen", "nguyen", "haddad", "kovac", "moreno", "santos", "weber", "okafor", "tanaka")
_STREETS = ("Sunset", "Maple", "Chestnut", "Lincoln", "Harbor", "Willow", "Juniper", "Franklin")
_MORE_STREETS = ("Ridge", "Valley", "Meadow", "Spring", "Hollow", "Garden", "Summit", "Forest")
_SUFFIXES = ("Street", "Avenue", "Drive", "Road", "Lane", "Boulevard")
_MAIL_HOSTS = ("zedmail.com", "brightpost.net", "lumenbox.org", "mailhaus.de", "norwire.co.uk")
_MONTHS = ("January", "March", "April", "June", "August", "October", "December")
_AREA_CODES = ("212", "415", "312", "646", "206", "303", "617", "503")
_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


@dataclass(frozen=True, kw_only=True, slots=True)
class PersonalValue:
    """A value, the words that stand before it in a sentence, and names for its key and its URL."""

    kind: str
    text: str
    before: str
    keys: tuple[str, ...]
    core: str

    @property
    def digits(self) -> str:
        """The digits of the value."""
        return "".join(filter(str.isdecimal, self.text))


def personal_value(kind: str, chance: random.Random) -> PersonalValue:
    """Return a value of one of `VALUE_KINDS`."""
    before, keys, make = _KINDS[kind]
    text, core = make(chance)
    return PersonalValue(
        kind=kind, text=text, before=chance.choice(before), keys=keys, core=compact(core)
    )


def compact(text: str) -> str:
    """Return the letters and digits of a text in lower case."""
    return "".join(filter(str.isalnum, text.casefold()))


def _whole(make: Callable[[random.Random], str]) -> Callable[[random.Random], tuple[str, str]]:
    """Return a maker of values whose core is the whole value."""

    def value(chance: random.Random) -> tuple[str, str]:
        text = make(chance)
        return text, text

    return value


def _digits(chance: random.Random, count: int) -> str:
    return "".join(chance.choices(string.digits, k=count))


def _email(chance: random.Random) -> str:
    name = f"{chance.choice(_GIVEN)}{chance.choice('._-')}{chance.choice(_FAMILY)}"
    return f"{name}{chance.randrange(1, 999)}@{chance.choice(_MAIL_HOSTS)}"


def _phone(chance: random.Random) -> str:
    if chance.random() < 0.3:
        return f"+44 20 7{chance.randrange(100, 900)} {_digits(chance, 4)}"
    area, line = chance.choice(_AREA_CODES), _digits(chance, 4)
    exchange = f"{chance.choice('234678')}{chance.choice('234567')}{chance.choice('234567')}"
    form = chance.choice(("({0}) {1}-{2}", "{0}-{1}-{2}", "+1 {0}-{1}-{2}", "{0}.{1}.{2}"))
    return form.format(area, exchange, line)


def _card(chance: random.Random) -> str:
    body = chance.choice(("4539", "4716", "5412", "5285", "6011")) + _digits(chance, 11)
    doubled = [int(each) * (2 - place % 2) for place, each in enumerate(body)]
    check = -sum(each - 9 if each > 9 else each for each in doubled) % 10
    number = f"{body}{check}"
    groups = [number[start : start + 4] for start in range(0, 16, 4)]
    return chance.choice(("", " ", "-")).join(groups)


def _iban(chance: random.Random) -> str:
    country, account = chance.choice(
        (
            ("DE", _digits(chance, 18)),
            ("GB", chance.choice(("WEST", "BARC", "LOYD")) + _digits(chance, 14)),
            ("FR", _digits(chance, 23)),
        )
    )
    number = "".join(str(int(each, 36)) for each in f"{account}{country}00")
    iban = f"{country}{98 - int(number) % 97:02}{account}"
    form = chance.randrange(3)
    if form == 0:
        return " ".join(iban[start : start + 4] for start in range(0, len(iban), 4))
    return iban.lower() if form == 1 else iban


def _ipv4(chance: random.Random) -> str:
    return (
        f"84.{chance.randrange(100, 200)}.{chance.randrange(10, 250)}.{chance.randrange(10, 250)}"
    )


def _ipv6(chance: random.Random) -> str:
    groups = [f"{chance.randrange(0x1000, 0xFFFF):x}" for _ in range(4)]
    if chance.random() < 0.5:
        return f"2a02:8388:{groups[0]}:{groups[1]}::{groups[2]}:{groups[3]}"
    return f"2a02:8388:{groups[0]}:{groups[1]}:1a:2b:{groups[2]}:{groups[3]}"


def _mac(chance: random.Random) -> str:
    separator = chance.choice(":-")
    return separator.join(["3c", "22", "fb", *(f"{chance.randrange(256):02x}" for _ in range(3))])


def _bitcoin(chance: random.Random) -> str:
    payload = b"\x00" + chance.randbytes(20)
    check = hashlib.sha256(hashlib.sha256(payload).digest()).digest()[:4]
    number, text = int.from_bytes(payload + check), ""
    while number:
        number, place = divmod(number, 58)
        text = _BASE58[place] + text
    return f"1{text}"


def _ssn(chance: random.Random) -> str:
    parts = f"{chance.randrange(101, 660)}", f"{chance.randrange(11, 99)}"
    separator = chance.choice("-- .")
    return separator.join((*parts, f"{chance.randrange(1001, 9999)}"))


def _itin(chance: random.Random) -> str:
    separator = chance.choice("- ")
    return separator.join(
        (f"9{_digits(chance, 2)}", f"{chance.randrange(70, 88)}", _digits(chance, 4))
    )


def _passport(chance: random.Random) -> str:
    if chance.random() < 0.5:
        return f"{chance.choice('ACEGKX')}{chance.randrange(10_000_000, 99_999_999)}"
    return f"{chance.randrange(100_000_000, 999_999_999)}"


def _bank_account(chance: random.Random) -> str:
    return f"{chance.randrange(10**9, 10**12)}"


def _licence(chance: random.Random) -> str:
    return f"{chance.choice('BDFHMS')}{chance.randrange(1_000_000, 9_999_999)}"


def _nino(chance: random.Random) -> str:
    digits = _digits(chance, 6)
    pairs = " ".join((digits[:2], digits[2:4], digits[4:]))
    return f"{chance.choice(('AB', 'CE', 'HJ', 'PW'))} {pairs} {chance.choice('ABCD')}"


def _birth_date(chance: random.Random) -> str:
    year, month, day = (
        chance.randrange(1940, 2005),
        chance.randrange(1, 13),
        chance.randrange(1, 29),
    )
    form = chance.randrange(3)
    if form == 0:
        return f"{year}-{month:02}-{day:02}"
    return f"{month:02}/{day:02}/{year}" if form == 1 else f"{day} {chance.choice(_MONTHS)} {year}"


def _street(chance: random.Random) -> tuple[str, str]:
    number = chance.randrange(110, 9_900)
    name = f"{chance.choice(_STREETS)} {chance.choice(_MORE_STREETS)}"
    unit = chance.choice(("", f", Apt {chance.randrange(10, 99)}"))
    return f"{number} {name} {chance.choice(_SUFFIXES)}{unit}", f"{number} {name}"


def _postal_code(chance: random.Random) -> str:
    if chance.random() < 0.3:
        area = f"{chance.choice(('SW', 'NW', 'EC', 'LS'))}{chance.randrange(2, 9)}"
        return f"{area} {chance.randrange(1, 9)}{chance.choice(('AB', 'DE', 'JH', 'WX'))}"
    more = chance.choice(("", f"-{chance.randrange(1001, 9999)}"))
    return f"{chance.randrange(10_001, 99_000)}{more}"


def _user_id(chance: random.Random) -> str:
    number = chance.randrange(1_001, 9_999)
    return f"{chance.choice(_GIVEN)}_{chance.choice(_FAMILY)}_{number}"


def _payment_id(chance: random.Random) -> tuple[str, str]:
    number = f"{chance.randrange(1_000_001, 9_999_999)}"
    return f"{chance.choice(('credit_card', 'paypal', 'gift_card'))}_{number}", number


def _password(chance: random.Random) -> str:
    word = "".join(chance.choices(string.ascii_lowercase, k=7))
    return f"{word}{chance.randrange(10, 99)}{chance.choice('!#x')}{_digits(chance, 3)}Q"


def _token(chance: random.Random) -> str:
    def body(count: int) -> str:
        return "".join(chance.choices(string.ascii_letters + string.digits, k=count))

    aws = "AKIA" + "".join(chance.choices(string.ascii_uppercase + string.digits, k=16))
    return chance.choice((f"ghp_{body(36)}", aws, f"hf_{body(34)}", f"sk-proj-{body(40)}"))


_KINDS: Mapping[
    str,
    tuple[tuple[str, ...], tuple[str, ...], Callable[[random.Random], tuple[str, str]]],
] = {
    "email": (
        ("You can write to", "My e-mail is", "from"),
        ("customerEmail", "reply_to_email"),
        _whole(_email),
    ),
    "phone": (
        ("Please call", "My phone number is"),
        ("homePhone", "phone2", "work_phone"),
        _whole(_phone),
    ),
    "card": (("My card is", "charged to"), ("billing_card_number", "cardNumber"), _whole(_card)),
    "iban": (("Transfer it to", "IBAN"), ("payee_iban", "ibanTo"), _whole(_iban)),
    "ipv4": (("Login from", "host"), ("lastIp", "client_ip_address"), _whole(_ipv4)),
    "ipv6": (("Login from", "address"), ("lastIp", "client_ip_address"), _whole(_ipv6)),
    "mac": (("The device is", "MAC"), ("device_mac_address", "macAddress"), _whole(_mac)),
    "bitcoin": (("Send it to", "wallet"), ("btc_wallet_address", "payTo"), _whole(_bitcoin)),
    "ssn": (("SSN", "My social security number is"), ("customer_ssn", "ssn2"), _whole(_ssn)),
    "itin": (("ITIN", "My tax id is"), ("spouse_tax_id", "taxId"), _whole(_itin)),
    "passport": (
        ("passport number", "My passport is"),
        ("travelPassportNumber", "passport_number"),
        _whole(_passport),
    ),
    "bank account": (
        ("bank account number", "My bank account is"),
        ("customerBankAccount", "payout_bank_account_number"),
        _whole(_bank_account),
    ),
    "driver licence": (
        ("driver license", "My driver license is"),
        ("driver_license_number", "customerDriverLicense"),
        _whole(_licence),
    ),
    "nino": (("NINO", "national insurance number"), ("customer_nino", "nino"), _whole(_nino)),
    "birth date": (
        ("I was born on", "date of birth:"),
        ("customerDateOfBirth", "patient_dob"),
        _whole(_birth_date),
    ),
    "street": (("Ship it to", "I live at"), ("homeAddress", "shipping_street"), _street),
    "postal code": (
        ("zip code", "My postal code is"),
        ("shippingZip", "home_postal_code"),
        _whole(_postal_code),
    ),
    "user id": (("My user id is", "account"), ("accountUserId", "old_user_id"), _whole(_user_id)),
    "payment id": (
        ("refund it to", "paid with"),
        ("refundPaymentMethodId", "old_payment_id"),
        _payment_id,
    ),
    "password": (
        ("password:", "The password is", "passwd ="),
        ("db_password", "DB_PASSWORD", "userPassword", "new_password"),
        _whole(_password),
    ),
    "token": (
        ("The key is", "use", "token:"),
        ("aws_secret_access_key", "openai_api_key", "github_token"),
        _whole(_token),
    ),
}
"""Per type: words before a value, names of keys, and the maker of (value, core)."""

VALUE_KINDS = tuple(_KINDS)
NUMBER_KINDS = ("card", "ssn")
"""Types whose digits alone are found, so that they may not pass as numbers."""
