"""An issuer of tokens on this machine: real HTTP, real keys, and tokens that are wrong on purpose.

It signs with joserfc, which shares no code with PyJWT, the library that checks the tokens.
"""

import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from joserfc import jws
from joserfc.jwk import ECKey, RSAKey

Key = RSAKey | ECKey


@cache
def rsa_key(key_id: str) -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": key_id, "use": "sig", "alg": "RS256"})


@cache
def ec_key(key_id: str) -> ECKey:
    return ECKey.generate_key("P-256", {"kid": key_id, "use": "sig", "alg": "ES256"})


class LocalIssuer:
    """Serves its discovery document and its keys; `requests` counts what was asked for."""

    def __init__(self) -> None:
        self.keys: list[Key] = [rsa_key("r1"), ec_key("e1")]
        self.discovery: dict[str, Any] = {}
        self.requests: dict[str, int] = {}
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.requests[self.path] = issuer.requests.get(self.path, 0) + 1
                documents = {
                    "/.well-known/openid-configuration": issuer.discovery,
                    "/keys": {"keys": [key.as_dict(private=False) for key in issuer.keys]},
                }
                document = documents.get(self.path)
                body = json.dumps(document).encode()
                self.send_response(404 if document is None else 200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self.discovery = {"issuer": self.url, "jwks_uri": f"{self.url}/keys"}
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def claims(self, **changed: Any) -> dict[str, Any]:
        """Return claims of a valid token; None removes one."""
        now = int(time.time())
        claims = {
            "iss": self.url,
            "aud": "atdp",
            "sub": "u-1",
            "exp": now + 600,
            "nbf": now,
            "iat": now,
            "org": "acme",
            "groups": ["data-stewards"],
        }
        return {name: value for name, value in (claims | changed).items() if value is not None}

    def token(self, key: Key | None = None, header: Mapping[str, Any] = {}, **changed: Any) -> str:
        key = key or self.keys[0]
        kind = {"alg": "ES256" if isinstance(key, ECKey) else "RS256", "kid": key.kid, "typ": "JWT"}
        payload = json.dumps(self.claims(**changed)).encode()
        whole = {name: value for name, value in (kind | dict(header)).items() if value is not None}
        return jws.serialize_compact(whole, payload, key)

    def stop(self) -> None:
        """Stop listening; a second call does nothing."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextmanager
def running_issuer() -> Iterator[LocalIssuer]:
    issuer = LocalIssuer()
    try:
        yield issuer
    finally:
        issuer.stop()
