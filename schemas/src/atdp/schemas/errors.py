"""Errors of the contracts."""


class SchemaError(Exception):
    """Base of all errors of this distribution."""


class UnknownSchema(SchemaError):
    """The bytes carry no schema fingerprint, or one that no released version has."""


class InvalidRecord(SchemaError):
    """The bytes or the mapping do not fit the schema they claim.

    The message names the place, the expected type and the type found. It never quotes a value, nor
    a key that is not the schema's, because it reaches logs and answers that governance has not
    cleaned.
    """
