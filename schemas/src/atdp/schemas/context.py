"""The model's context as a fold over events.

A long history is sent once: each observation carries only what is new, and says how many messages
of the held context stay before it (`context_base`; None = all). Generations and outcomes add
their own message. `context_hash` is the hash of the folded context after an observation: a reader
that folds the same events can prove it saw the same context.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import TypeVar

from atdp.schemas._mapping import to_mapping
from atdp.schemas.values import Action, Event, Message, Observation, Outcome

T = TypeVar("T")


def extend_context(context: Sequence[Message], body: object) -> tuple[Message, ...]:
    """Return the context after one event's body; bodies that add nothing leave it as it is."""
    match body:
        case Observation(messages=messages, context_base=base):
            kept = tuple(context) if base is None else tuple(context[:base])
            return kept + messages
        case Action(message=Message() as message) | Outcome(message=Message() as message):
            return (*context, message)
        case _:
            return tuple(context)


def fold_context(events: Iterable[Event]) -> tuple[Message, ...]:
    """Return the context after all `events`, given in order."""
    context: tuple[Message, ...] = ()
    for event in events:
        context = extend_context(context, event.body)
    return context


def contributed_messages(body: object) -> tuple[Message, ...]:
    """Return the messages that an event's body adds."""
    match body:
        case Observation(messages=messages):
            return messages
        case Action(message=Message() as message) | Outcome(message=Message() as message):
            return (message,)
        case _:
            return ()


def context_hash(context: Sequence[Message]) -> str:
    """Return the SHA-256 (hex) of the JSON of a context, with sorted keys and ASCII text."""
    document = [to_mapping(message, omit_none=True) for message in context]
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def split_common_prefix(known: Sequence[T], shown: Sequence[T]) -> tuple[int, tuple[T, ...]]:
    """Return the length of the common prefix of `known` and `shown`, and the rest of `shown`."""
    base = 0
    for before, now in zip(known, shown, strict=False):
        if before != now:
            break
        base += 1
    return base, tuple(shown[base:])
