"""The whole prompts of generations that refer to earlier ones.

A generation may give its prompt as the beginning of an earlier generation of its trajectory and
the tokens that follow (`prompt_references`). `WholePrompts` puts the prompts together again, in
the order of the log and in time linear in the tokens that it returns.

Where governance has replaced tokens, references still count the producer's tokens. The splices of
each generation (`Generation.token_splices`) say where these are now, so a reference leads to the
same place, with the replaced tokens in it.

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
from atdp.schemas.generation import Generation, TokenSplice

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
    replaced: bool = False
    """Governance has replaced some of the tokens, so the model was shown others."""


@dataclass(frozen=True, slots=True)
class _HeldTokens:
    """A generation that later ones may refer to; splices count its whole prompt and output."""

    prompt: WholePrompt
    output: tuple[int, ...] | None
    splices: tuple[TokenSplice, ...]
    """Of the whole prompt and the output, in the producer's tokens."""


@dataclass(slots=True)
class WholePrompts:
    """The prompts of one attempt at a trajectory, as its generations are added."""

    _generations: dict[str, _HeldTokens] = field(default_factory=dict)
    _referenced_tokens: int = 0

    def add(self, event_id: str, generation: Generation) -> WholePrompt:
        """Return the whole prompt of the next generation in the order of the log."""
        held = self._whole(generation)
        self._generations.setdefault(event_id, held)
        return held.prompt

    def _whole(self, generation: Generation) -> _HeldTokens:
        own, splices = generation.prompt_token_ids, generation.token_splices
        output = generation.output_token_ids
        if generation.prompt_prefix_event_id is None:
            replaced = _begins_within(splices, own)
            return _HeldTokens(WholePrompt(own, replaced=replaced), output, splices)
        prefix = self._prefix(generation)
        if isinstance(prefix, BrokenPrefix) or own is None:
            broken = prefix if isinstance(prefix, BrokenPrefix) else BrokenPrefix.WITHHELD
            return _HeldTokens(WholePrompt(None, broken), output, ())
        tokens, before = prefix
        length = generation.prompt_prefix_tokens or 0
        shifted = tuple(
            TokenSplice(start=each.start + length, end=each.end + length, tokens=each.tokens)
            for each in splices
        )
        replaced = bool(before) or _begins_within(splices, own)
        return _HeldTokens(
            WholePrompt(tokens + own, replaced=replaced), output, (*before, *shifted)
        )

    def _prefix(
        self, generation: Generation
    ) -> tuple[tuple[int, ...], tuple[TokenSplice, ...]] | BrokenPrefix:
        """Return the tokens that a prompt refers to, and the splices among them."""
        earlier = self._generations.get(generation.prompt_prefix_event_id or "")
        length = generation.prompt_prefix_tokens
        if earlier is None or length is None:
            return BrokenPrefix.UNKNOWN
        known = earlier.prompt.token_ids
        if known is None:
            return BrokenPrefix.WITHHELD
        if self._referenced_tokens + length > MAX_REFERENCED_TOKENS:
            return BrokenPrefix.TOO_MANY
        splices = tuple(each for each in earlier.splices if each.start < length)
        if splices and splices[-1].end > length:
            return BrokenPrefix.WITHHELD
        now = length + sum(each.tokens - (each.end - each.start) for each in splices)
        prefix = known[:now]
        missing = now - len(prefix)
        if missing:
            if earlier.output is None:
                return BrokenPrefix.WITHHELD
            if missing > len(earlier.output):
                return BrokenPrefix.TOO_LONG
            prefix += earlier.output[:missing]
        self._referenced_tokens += max(length, now)
        return prefix, splices


def _begins_within(splices: Iterable[TokenSplice], prompt: tuple[int, ...] | None) -> bool:
    """Return whether tokens of a prompt were replaced, and not only those of its output."""
    moved = 0
    for each in splices:
        if each.start + moved < len(prompt or ()):
            return True
        moved += each.tokens - (each.end - each.start)
    return False


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
            changes |= {
                "prompt_prefix_event_id": None,
                "prompt_prefix_tokens": None,
                "token_splices": (),
            }
        generation = replace(body.generation, **changes)  # type: ignore[arg-type]
        yield replace(event, body=replace(body, generation=generation))
