"""The session that a session key is valid for."""

import json
from dataclasses import asdict, dataclass
from typing import Self

from atdp.runtime.errors import KeyStoreError


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionBinding:
    """A session with its one trajectory."""

    session_id: str
    trajectory_id: str
    attempt: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the binding that the key store holds as JSON text.

        Raises:
            KeyStoreError: the text is none, so nobody knows what its key is valid for.
        """
        try:
            binding = cls(**json.loads(text))
        except (ValueError, TypeError) as error:
            raise KeyStoreError(
                "the key store holds a session key without its session; revoke the key"
            ) from error
        if not isinstance(binding.attempt, int):
            raise KeyStoreError("the key store holds a session key whose attempt is no number")
        return binding

    def to_json(self) -> str:
        """Return the JSON text."""
        return json.dumps(asdict(self))

    def contains(self, trajectory_id: str, attempt: int, session_id: str | None) -> bool:
        """Return whether something of this trajectory belongs to the session.

        An event may leave out its session.
        """
        return (
            (trajectory_id, attempt) == (self.trajectory_id, self.attempt)
            and session_id in {None, self.session_id}
        )  # fmt: skip
