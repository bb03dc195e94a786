"""What can go wrong with a contract."""

from __future__ import annotations


class SchemaError(Exception):
    """Base of everything that this distribution raises."""


class UnknownSchema(SchemaError):
    """The bytes carry no schema fingerprint, or one that no released version has."""


class InvalidRecord(SchemaError):
    """The bytes or the mapping do not fit the schema they claim; the message names the field."""
