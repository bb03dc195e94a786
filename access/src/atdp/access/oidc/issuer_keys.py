"""The public keys of an issuer, from its discovery document.

They are kept for an hour. A token that names an unknown key leads to one new reading, at most every
30 seconds however many such tokens come, so that rotated keys are known at once and nobody can make
this service flood the issuer. A token may name no key where the issuer has one only. When the keys
are older than an hour and the issuer does not answer, no token can be checked.
"""

import json
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import httpx
import jwt

from atdp.access.oidc.settings import is_trusted_url
from atdp.runtime import HttpProblem

ALGORITHMS: Final = ("RS256", "ES256")
_MAX_AGE_S: Final = 3600.0
"""A key that the issuer has withdrawn is accepted for at most this long."""
_MIN_INTERVAL_S: Final = 30.0
_RETRY_S: Final = 5.0
"""Time after a reading that failed until the next one."""
_TIMEOUT_S: Final = 5.0
_MOST_BYTES: Final = 1024 * 1024
_MIN_RSA_BITS: Final = 2048


class IssuerKeys:
    """The keys of one issuer by key id. Safe to use from several threads."""

    def __init__(self, issuer: str, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        """Read nothing yet; the keys are read when the first token comes."""
        self._issuer = issuer
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._keys: Mapping[str | None, jwt.PyJWK] = {}
        self._read_at: float | None = None
        self._next_reading = float("-inf")
        self.readings = 0
        """Times that the keys were asked for."""

    def key(self, key_id: str | None, *, newer: bool = False) -> jwt.PyJWK | None:
        """Return a key; None when the issuer has no such key for signatures.

        `key_id` None asks for the only key of an issuer that has one. `newer` asks the issuer again
        although a key is known, at most every 30 seconds.

        Raises:
            HttpProblem: 503, the keys cannot be read and are not known well enough.
        """
        with self._lock:
            now = self._monotonic()
            fresh = self._read_at is not None and now - self._read_at < _MAX_AGE_S
            known = self._known(key_id)
            if fresh and known is not None and not newer:
                return known
            if now >= self._next_reading:
                self._next_reading = now + _RETRY_S
                self._keys, self._read_at = self._read(), now
                self._next_reading = now + _MIN_INTERVAL_S
            elif not fresh:
                raise self._unavailable("it did not answer a moment ago")
            return self._known(key_id)

    def _known(self, key_id: str | None) -> jwt.PyJWK | None:
        if key_id is None:
            return next(iter(self._keys.values())) if len(self._keys) == 1 else None
        return self._keys.get(key_id)

    def _read(self) -> Mapping[str | None, jwt.PyJWK]:
        self.readings += 1
        try:
            # A redirect could lead to a place that nobody trusts.
            with httpx.Client(timeout=_TIMEOUT_S, follow_redirects=False) as client:
                discovery = _object(
                    client, self._issuer.rstrip("/") + "/.well-known/openid-configuration"
                )
                if discovery.get("issuer") != self._issuer:
                    raise self._unavailable("its discovery document names another issuer")
                url = discovery.get("jwks_uri")
                if not isinstance(url, str) or not is_trusted_url(url):
                    raise self._unavailable("its discovery document names no https:// `jwks_uri`")
                keys = _object(client, url).get("keys")
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, TypeError) as error:
            raise self._unavailable(type(error).__name__) from error
        if not isinstance(keys, list):
            raise self._unavailable("its key set has no list `keys`")
        return {
            each.get("kid"): key
            for each in keys
            if isinstance(each, dict) and isinstance(each.get("kid"), str | None)
            if (key := _signature_key(each)) is not None
        }

    def _unavailable(self, why: str) -> HttpProblem:
        return HttpProblem(
            503,
            "issuer_unavailable",
            f"the keys of the issuer {self._issuer} cannot be read ({why}); try again, "
            "or use an API key",
            retry_after_s=int(_RETRY_S),
        )


def _object(client: httpx.Client, url: str) -> Mapping[str, Any]:
    """Return the JSON object at a URL.

    Raises:
        httpx.HTTPError: no answer, or another status than 200.
        ValueError, TypeError: it is no JSON object, or too large.
    """
    body = b""
    with client.stream("GET", url) as answer:
        if answer.status_code != httpx.codes.OK:
            raise httpx.HTTPError(f"status {answer.status_code}")
        for chunk in answer.iter_bytes():
            body += chunk
            if len(body) > _MOST_BYTES:
                raise ValueError("the answer is too large")
    document = json.loads(body)
    if not isinstance(document, dict):
        raise TypeError("the answer is no JSON object")
    return document


def _signature_key(document: Mapping[str, Any]) -> jwt.PyJWK | None:
    """Return a public key for RS256 or ES256; None for any other key."""
    kind, curve = document.get("kty"), document.get("crv")
    if kind == "RSA":
        algorithm = "RS256"
    elif kind == "EC" and curve == "P-256":
        algorithm = "ES256"
    else:
        return None
    if document.get("use", "sig") != "sig" or document.get("alg", algorithm) != algorithm:
        return None
    public = {
        name: document[name] for name in ("kty", "n", "e", "crv", "x", "y") if name in document
    }
    try:
        key = jwt.PyJWK(public, algorithm=algorithm)
    except (jwt.PyJWTError, ValueError, TypeError):
        return None
    if kind == "RSA" and key.key.key_size < _MIN_RSA_BITS:
        return None
    return key
