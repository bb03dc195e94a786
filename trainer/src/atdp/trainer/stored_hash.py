"""The hash of settings and plans, which run names, checkpoints and plans have stored."""

import hashlib
import json
from typing import Any


def stored_hash(content: Any) -> str:
    """Return the SHA-256 (hex) of values that JSON can hold.

    The JSON form has spaces after its separators, unlike `atdp.schemas.canonical_json`. It must not
    change: a killed run is found and continued under the hash that it has stored.
    """
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=list).encode()).hexdigest()
