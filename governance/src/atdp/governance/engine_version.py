"""The versions of the code that decided.

Every audit record names them, so that a decision can be repeated with the same code.
"""

import functools
from importlib.metadata import version
from typing import Final

_DISTRIBUTIONS: Final = (
    "atdp-governance",
    "presidio-analyzer",
    "phonenumbers",
    "tldextract",
    "regex",
    "tokenizers",
)


@functools.cache
def engine_version() -> str:
    """Return for example `atdp-governance 0.1.0; presidio-analyzer 2.2.366; …`."""
    return "; ".join(f"{name} {version(name)}" for name in _DISTRIBUTIONS)
