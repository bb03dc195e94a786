"""The exact form of a JSON value: bytes that tell at once whether a value is the one of before.

Agents show the same messages and tool definitions with every call: the same objects, which may have
been changed in place, or equal copies. Equality of Python values does not tell that they are the
same, because `1`, `1.0` and `True` are equal and are written differently, and so are objects in
another order of their keys. The form has types and order in it. It is the output of `marshal` in
version 2, the last one that does not depend on how objects are shared, and costs less than a
microsecond for a message. Forms are compared within one process and are never stored or read.
"""

import marshal
from typing import Any

_VERSION = 2
_LEAVES = frozenset({str, int, float, bool, type(None)})


def form_of_json(value: Any) -> bytes:
    """Return the form of a value that a JSON parser made; equal forms are equal values."""
    return marshal.dumps(value, _VERSION)


def exact_form(value: Any) -> bytes | None:
    """Return the form of any value; None where it is not made of the types of JSON alone.

    Tuples count as such a type. A subclass of a type is another type.
    """
    try:
        form = marshal.dumps(value, _VERSION)
    except Exception:  # noqa: BLE001 - a value of the host may fail in any way, and so may audit hooks
        return None
    return form if _is_of_json_types(value) else None


def has_form(value: Any, form: bytes) -> bool:
    """Return whether a value of any types is exactly the one that `form` was made of."""
    try:
        # `form` has no byte strings in it, the only type whose form several types have.
        return marshal.dumps(value, _VERSION) == form
    except Exception:  # noqa: BLE001 - see `exact_form`
        return False


def _is_of_json_types(value: object) -> bool:
    pending: list[Any] = [value]
    for item in pending:
        kind = type(item)
        if kind is dict:
            pending.extend(item)
            pending.extend(item.values())
        elif kind is list or kind is tuple:
            pending.extend(item)
        elif kind not in _LEAVES:
            return False
    return True
