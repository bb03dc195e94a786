"""What can go wrong with a contract."""


class SchemaError(Exception):
    """Base of everything that this distribution raises."""


class UnknownSchema(SchemaError):
    """The bytes carry no schema fingerprint, or one that no released version has."""


class InvalidRecord(SchemaError):
    """The bytes or the mapping do not fit the schema they claim.

    The message says where, what was expected and which type was found. It never quotes a value or a
    key that is not the schema's: it is logged, answered and counted by people whom governance never
    asked.
    """
