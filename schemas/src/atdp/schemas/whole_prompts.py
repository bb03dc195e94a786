"""The whole prompts of generations that refer to earlier ones.

A generation may give its prompt as the beginning of an earlier generation of its trajectory and
the tokens that follow (`prompt_references`). `WholePrompts` puts the prompts together again, in
the order of the log and in time linear in the tokens that it returns.

A reference that cannot be followed gives no prompt but a `BrokenPrefix`: part of a prompt means
nothing. Since only generations that were added before are followed, chains have an end.

A reference takes few bytes and may stand for a long prompt, so a producer could fill a reader's
memory with little data. The tokens that the references of one attempt stand for are therefore
limited to `MAX_REFERENCED_TOKENS`; those beyond are broken.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum

from atdp.schemas.action import Action
from atdp.schemas.event import Event
from atdp.schemas.generation import Generation

MAX_REFERENCED_TOKENS = 32_000_000
"""Tokens that the references of one attempt may stand for: 320 calls with prompts of 100,000. They
take 256 MB; with fewer, long trajectories lose their last prompts."""


class BrokenPrefix(StrEnum):
    """The reason why the prefix of a prompt is not there."""

    UNKNOWN = "prefix_unknown"
    """No earlier generation of the trajectory has the id: it is missing, or comes later."""
    WITHHELD = "prefix_withheld"
    """Tokens of the earlier generation, or of one that it refers to, are not there: governance
    withheld them, or they were never recorded."""
    TOO_LONG = "prefix_too_long"
    """The earlier generation has fewer tokens than the prefix."""
    TOO_MANY = "prefix_too_many"
    """The references of the attempt stand for more than `MAX_REFERENCED_TOKENS` tokens."""


@dataclass(frozen=True, slots=True)
class WholePrompt:
    """The prompt of a generation."""

    token_ids: tuple[int, ...] | None
    """All of its tokens; None where they are not known."""
    broken: BrokenPrefix | None = None
    """The reason why a reference cannot be followed; None where there is none, or it can be."""


@dataclass(slots=True)
class WholePrompts:
    """The prompts of one attempt at a trajectory, as its generations are added."""

    _generations: dict[str, tuple[WholePrompt, tuple[int, ...] | None]] = field(
        default_factory=dict
    )
    _referenced_tokens: int = 0

    def add(self, event_id: str, generation: Generation) -> WholePrompt:
        """Return the whole prompt of the next generation in the order of the log."""
        prompt = self._whole(generation)
        self._generations.setdefault(event_id, (prompt, generation.output_token_ids))
        return prompt

    def _whole(self, generation: Generation) -> WholePrompt:
        own = generation.prompt_token_ids
        if generation.prompt_prefix_event_id is None:
            return WholePrompt(own)
        earlier = self._generations.get(generation.prompt_prefix_event_id)
        length = generation.prompt_prefix_tokens
        if earlier is None or length is None:
            return WholePrompt(None, BrokenPrefix.UNKNOWN)
        prompt, output = earlier
        if own is None or prompt.token_ids is None:
            return WholePrompt(None, BrokenPrefix.WITHHELD)
        if self._referenced_tokens + length > MAX_REFERENCED_TOKENS:
            return WholePrompt(None, BrokenPrefix.TOO_MANY)
        prefix = prompt.token_ids[:length]
        missing = length - len(prefix)
        if missing:
            if output is None:
                return WholePrompt(None, BrokenPrefix.WITHHELD)
            if missing > len(output):
                return WholePrompt(None, BrokenPrefix.TOO_LONG)
            prefix += output[:missing]
        self._referenced_tokens += length
        return WholePrompt(prefix + own)


def with_whole_prompts(events: Iterable[Event]) -> Iterator[Event]:
    """Yield the events with whole prompts, for formats that know no references.

    Events of one attempt must follow each other in the order of the log. A prompt whose reference
    cannot be followed is left out; the event keeps the reference.
    """
    attempt, prompts = None, WholePrompts()
    for event in events:
        body = event.body
        if not isinstance(body, Action) or body.generation is None:
            yield event
            continue
        key = (event.tenant_id, event.trajectory_id, event.attempt)
        if key != attempt:
            attempt, prompts = key, WholePrompts()
        prompt = prompts.add(event.event_id, body.generation)
        if body.generation.prompt_prefix_event_id is None:
            yield event
            continue
        changes: dict[str, object] = {"prompt_token_ids": prompt.token_ids}
        if prompt.broken is None:
            changes |= {"prompt_prefix_event_id": None, "prompt_prefix_tokens": None}
        generation = replace(body.generation, **changes)  # type: ignore[arg-type]
        yield replace(event, body=replace(body, generation=generation))
