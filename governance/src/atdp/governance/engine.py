"""Which code decided: named in every audit record, so that a decision can be repeated with the same versions."""

import functools
from importlib.metadata import version

_DISTRIBUTIONS = (
    "atdp-governance",
    "presidio-analyzer",
    "phonenumbers",
    "tldextract",
    "regex",
    "tokenizers",
)


@functools.cache
def engine_version() -> str:
    """For example `atdp-governance 0.1.0; presidio-analyzer 2.2.366; …`."""
    return "; ".join(f"{name} {version(name)}" for name in _DISTRIBUTIONS)
