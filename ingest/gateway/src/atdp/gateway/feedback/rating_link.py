"""Rating links: a signed, expiring permission to say something about one trajectory.

A token holds its tenant, the target, the person, the dimension, the key that it was made with and
its end, and an HMAC-SHA-256 of them under a key that is derived from the home's secret. So a token
can be read by whoever has it and made by the gateway alone, nothing is stored for it, and 256 bits
cannot be guessed. When the key that made a link is revoked, the link ends with it.
"""

import base64
import hashlib
import hmac
import time
from dataclasses import astuple, dataclass
from urllib.parse import quote

import orjson
from fastapi import Request

from atdp.gateway.errors import GatewayError
from atdp.gateway.feedback.feedback_targets import FeedbackTarget
from atdp.gateway.session_store import SessionRow
from atdp.gateway.state import GatewayState
from atdp.runtime import Caller

DEFAULT_LIFE_S = 7 * 86_400
SHORTEST_LIFE_S, LONGEST_LIFE_S = 60, 90 * 86_400
# Ids have up to 512 characters each, in base64; a longer token was not made here.
_MAX_CHARACTERS = 8_192
_SIGNATURE_BYTES = 32


class LinkUnusable(GatewayError):
    """A token was not made by this home's gateway."""


@dataclass(frozen=True, slots=True)
class RatingLink:
    """The content of a token."""

    tenant: str
    trajectory_id: str
    attempt: int
    event_id: str | None
    step: int | None
    actor: str | None
    """Pseudonym of the person; None: whoever has the session."""
    dimension: str | None
    key_id: str
    expires_at: int
    """Seconds since the epoch, exclusive."""

    @classmethod
    def make(
        cls,
        target: FeedbackTarget,
        caller: Caller,
        *,
        life_s: int = DEFAULT_LIFE_S,
        actor: str | None = None,
        dimension: str | None = None,
    ) -> "RatingLink":
        """Return a link of a caller to a target."""
        return cls(
            tenant=target.row.tenant,
            trajectory_id=target.row.trajectory_id,
            attempt=target.row.attempt,
            event_id=target.event_id,
            step=target.step,
            actor=actor,
            dimension=dimension,
            key_id=caller.principal.key_id,
            expires_at=int(time.time()) + life_s,
        )

    def token(self, secret: bytes) -> str:
        """Return the text of the link."""
        content = orjson.dumps(astuple(self))
        return _text(_signature(secret, content) + content)

    @classmethod
    def read(cls, token: str, secret: bytes) -> "RatingLink":
        """Return the content of a token, expired or not.

        Raises:
            LinkUnusable: it was not made with this secret.
        """
        raw = _bytes(token)
        signature, content = raw[:_SIGNATURE_BYTES], raw[_SIGNATURE_BYTES:]
        # The text is compared, too: base64 has several texts for the same bytes.
        if not hmac.compare_digest(signature, _signature(secret, content)) or token != _text(raw):
            raise LinkUnusable("this link was not made here")
        return cls(*orjson.loads(content))


def link_url(gateway: GatewayState, request: Request, link: RatingLink) -> str:
    """Return the URL of a link: under the public URL of the gateway, else that of the request."""
    base = gateway.settings.public_url or str(request.base_url).rstrip("/")
    return f"{base}/rate/{quote(link.token(gateway.secret))}"


def offered_link(
    gateway: GatewayState, caller: Caller, request: Request, row: SessionRow
) -> str | None:
    """Return a link to a call's trajectory.

    None where the request does not ask for one, and for a session key: no session judges itself.
    """
    asked = request.headers.get("x-atdp-rating-link") == "1"
    if not asked or caller.principal.session is not None:
        return None
    return link_url(gateway, request, RatingLink.make(FeedbackTarget(row=row), caller))


def _signature(secret: bytes, content: bytes) -> bytes:
    key = hmac.digest(secret, b"rating links", hashlib.sha256)
    return hmac.digest(key, content, hashlib.sha256)


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")


def _bytes(token: str) -> bytes:
    try:
        if len(token) <= _MAX_CHARACTERS:
            return base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    except ValueError:
        pass
    raise LinkUnusable("this link was not made here")
