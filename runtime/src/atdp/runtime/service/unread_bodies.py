"""Reads the rest of a request's body before the request is answered.

A request that is refused at once (without a key, over a quota) is answered before its body has
come. Many clients read no answer until they have sent everything, and see a closed connection
instead of the reason. The rest is read and dropped, up to `MAX_UNREAD_BYTES`.
"""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, TypeAlias

MAX_UNREAD_BYTES: Final = 32 * 1024 * 1024
"""The largest body that a route of the platform takes."""

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Application: TypeAlias = Callable[[Message, Receive, Send], Awaitable[None]]


def reading_whole_requests(app: Application) -> Application:
    """Return an ASGI application that answers as `app` does, after the whole request was read."""

    async def reading(scope: Message, receive: Receive, send: Send) -> None:
        more = scope["type"] == "http"

        async def received() -> Message:
            nonlocal more
            message = await receive()
            more = bool(message.get("more_body"))
            return message

        async def answer(message: Message) -> None:
            left = MAX_UNREAD_BYTES
            while more and left > 0:
                left -= len((await received()).get("body", b""))
            await send(message)

        await app(scope, received, answer)

    return reading
