"""The rating button of the chat: it knows the response id of the answer that it stands below."""

from typing import Literal

import httpx

from order_desk.shown_answer import ShownAnswer

RatingFate = Literal["accepted", "limited", "failed"]
"""`limited`: the gateway takes no more ratings of this person for now."""

_TOO_MANY = 429


class RatingButton:
    """Sends thumbs up or down to the gateway."""

    def __init__(self, http: httpx.AsyncClient, gateway: str, api_key: str) -> None:
        """Use the chat application's key."""
        self._http, self._url = http, f"{gateway}/v1/feedback"
        self._headers = {"Authorization": f"Bearer {api_key}"}

    async def press(self, answer: ShownAnswer, *, up: bool, person: str) -> RatingFate:
        """Rate an answer as a person; a rating that cannot be delivered is lost."""
        body = {
            "response_id": answer.response_id,
            "thumbs": "up" if up else "down",
            "actor": person,
        }
        try:
            reply = await self._http.post(self._url, json=body, headers=self._headers)
        except httpx.TransportError:
            return "failed"
        if reply.status_code == _TOO_MANY:
            return "limited"
        return "failed" if reply.is_error else "accepted"
