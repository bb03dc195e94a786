"""One connection to a broker for requests that the Kafka client does not offer.

It speaks what `KafkaSettings` can be configured with: with or without TLS, and SASL with PLAIN or
SCRAM (RFC 5802, RFC 7677).
"""

import base64
import hashlib
import hmac
import os
import socket
import ssl
import struct
from collections.abc import Mapping
from typing import Final, Self

from atdp.runtime.errors import PlatformError

_CLIENT: Final = b"atdp"
_MOST_BYTES: Final = 64 * 1024 * 1024
_HANDSHAKE, _AUTHENTICATE = 17, 36
_SCRAM: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}


class BrokerRefused(PlatformError):
    """The broker cannot be reached, or does not accept the connection or the request."""


class BrokerSocket:
    """A connection to one broker. Not thread-safe."""

    def __init__(
        self, host: str, port: int, security: Mapping[str, str], *, timeout_s: float
    ) -> None:
        """Connect and log in. `security` are librdkafka's properties.

        Raises:
            BrokerRefused: the broker does not accept it.
            OSError: the broker cannot be reached.
        """
        protocol = security.get("security.protocol", "PLAINTEXT").upper()
        self._socket = socket.create_connection((host, port), timeout_s)
        try:
            if protocol.endswith("SSL"):
                context = ssl.create_default_context(cafile=security.get("ssl.ca.location"))
                self._socket = context.wrap_socket(self._socket, server_hostname=host)
            if protocol.startswith("SASL"):
                self._log_in(security)
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ask(self, api: int, version: int, body: bytes) -> bytes:
        """Send one request; return the body of its answer.

        Raises:
            BrokerRefused: the broker closed the connection, or the answer is too large.
            OSError: the broker does not answer.
        """
        head = struct.pack(">hhih", api, version, 1, len(_CLIENT)) + _CLIENT
        self._socket.sendall(struct.pack(">i", len(head) + len(body)) + head + body)
        (size,) = struct.unpack(">i", self._exactly(4))
        if not 4 <= size <= _MOST_BYTES:
            raise BrokerRefused(f"the broker's answer has {size} bytes")
        return self._exactly(size)[4:]

    def _log_in(self, security: Mapping[str, str]) -> None:
        mechanism = security.get("sasl.mechanism", "").upper()
        user, password = security.get("sasl.username", ""), security.get("sasl.password", "")
        name = mechanism.encode()
        answer = self.ask(_HANDSHAKE, 1, struct.pack(">h", len(name)) + name)
        if struct.unpack_from(">h", answer)[0]:
            raise BrokerRefused(f"the broker does not offer {mechanism}")
        if mechanism == "PLAIN":
            self._authenticate(b"\0" + user.encode() + b"\0" + password.encode())
            return
        if mechanism not in _SCRAM:
            raise BrokerRefused(f"{mechanism} is not supported here")
        login = ScramLogin(user, password, _SCRAM[mechanism])
        challenge = self._authenticate(login.first())
        login.check(self._authenticate(login.final(challenge)))

    def _authenticate(self, data: bytes) -> bytes:
        answer = self.ask(_AUTHENTICATE, 0, struct.pack(">i", len(data)) + data)
        error, length = struct.unpack_from(">hh", answer)
        at = 4 + max(length, 0)
        if error:
            raise BrokerRefused("the broker refused the user or the password")
        (size,) = struct.unpack_from(">i", answer, at)
        return answer[at + 4 : at + 4 + size]

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            part = self._socket.recv(size - len(data))
            if not part:
                raise BrokerRefused("the broker closed the connection")
            data += part
        return bytes(data)


class ScramLogin:
    """The client's side of one SCRAM login, without channel binding."""

    def __init__(self, user: str, password: str, digest: str, nonce: str | None = None) -> None:
        self._password, self._digest = password.encode(), digest
        self._nonce = nonce or base64.b64encode(os.urandom(24)).decode()
        name = user.replace("=", "=3D").replace(",", "=2C")
        self._bare = f"n={name},r={self._nonce}"
        self._server = b""

    def first(self) -> bytes:
        """Return the first message."""
        return f"n,,{self._bare}".encode()

    def final(self, challenge: bytes) -> bytes:
        """Return the answer to the server's challenge.

        Raises:
            BrokerRefused: the challenge is not one for this login.
        """
        parts = dict(each.split("=", 1) for each in challenge.decode().split(","))
        if not parts.get("r", "").startswith(self._nonce) or not {"s", "i"} <= set(parts):
            raise BrokerRefused("the broker's challenge belongs to another login")
        salt, rounds = base64.b64decode(parts["s"]), int(parts["i"])
        salted = hashlib.pbkdf2_hmac(self._digest, self._password, salt, rounds)
        unproved = f"c=biws,r={parts['r']}"
        message = f"{self._bare},{challenge.decode()},{unproved}".encode()
        client = self._hmac(salted, b"Client Key")
        signature = self._hmac(hashlib.new(self._digest, client).digest(), message)
        proof = bytes(left ^ right for left, right in zip(client, signature, strict=True))
        self._server = self._hmac(self._hmac(salted, b"Server Key"), message)
        return f"{unproved},p={base64.b64encode(proof).decode()}".encode()

    def check(self, verdict: bytes) -> None:
        """Check that the server knows the password too.

        Raises:
            BrokerRefused: it does not.
        """
        if not hmac.compare_digest(verdict, b"v=" + base64.b64encode(self._server)):
            raise BrokerRefused("the broker does not know the password of this user")

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._digest)
