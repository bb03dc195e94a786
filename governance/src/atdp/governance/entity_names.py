"""Names of entities that differ between labelled sets, models and recognizers."""

from collections.abc import Mapping
from typing import Final

ENTITY_ALIASES: Final[Mapping[str, str]] = {
    "ADDRESS": "STREET_ADDRESS",
    "BIRTH_DATE": "DATE_OF_BIRTH",
    "CITY": "LOCATION",
    "DATE": "DATE_TIME",
    "DOMAIN_NAME": "URL",
    "EMAIL": "EMAIL_ADDRESS",
    "FAC": "LOCATION",
    "GPE": "LOCATION",
    "IBAN": "IBAN_CODE",
    "LOC": "LOCATION",
    "NORP": "NRP",
    "ORG": "ORGANIZATION",
    "PER": "PERSON",
    "PHONE": "PHONE_NUMBER",
    "SSN": "US_SSN",
    "TIME": "DATE_TIME",
    "ZIP_CODE": "POSTAL_CODE",
}
"""Other names, and the one that scores and findings of a user's model have."""


def entity_name(name: str) -> str:
    """Return the one name of an entity."""
    return ENTITY_ALIASES.get(name, name)
