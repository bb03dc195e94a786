"""The check of a stream of events against the rules of sequences.

Events come in the order of the log, of any number of trajectories in any mixture. An equal copy of
an event is left out, since delivery may repeat events. Two rules are judged at the end only: a gap
event may name a hole later, and a reward may come before its target.

A trajectory of which the stream holds nothing but judgements (late rewards) is not asked for their
targets. Memory grows with the number of events (digests of ids and contents) and of messages (their
hashes), not with their size.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from atdp.schemas.action import Action
from atdp.schemas.canonical import NotCanonical, canonical_sha256
from atdp.schemas.context import contributed_messages
from atdp.schemas.context_fold import ContextFold
from atdp.schemas.event import Event
from atdp.schemas.generation import Generation
from atdp.schemas.judgement import Annotation, Feedback, Reward
from atdp.schemas.lifecycle import Gap, TrajectoryEnded, TrajectoryStarted
from atdp.schemas.observation import Observation

_Attempt: TypeAlias = tuple[str, str, int]
_AFTER_THE_END = (Reward, Feedback, Annotation, Gap)


class SequenceFinding(NamedTuple):
    """The judgement of one rule at one place; `path` is the field that was looked at."""

    rule_id: str
    kept: bool
    place: str
    path: str


@dataclass(slots=True)
class _Numbers:
    """The numbers that one producer used in one attempt; ranges are inclusive."""

    next: int = 0
    holes: list[tuple[int, int, str]] = field(default_factory=list)
    """First and last missing number, and the place where the hole was seen."""
    named: list[tuple[int, int]] = field(default_factory=list)
    ended: bool = False
    place: str = ""

    def fill(self, seq: int) -> bool:
        """Take a number out of the holes; return whether it was in one."""
        for index, (first, last, place) in enumerate(self.holes):
            if first <= seq <= last:
                parts = ((first, seq - 1, place), (seq + 1, last, place))
                self.holes[index : index + 1] = [part for part in parts if part[0] <= part[1]]
                return True
        return False

    def unnamed(self) -> Iterator[str]:
        """Yield the places of the holes that no gap event names whole."""
        named = sorted(self.named)
        for first, last, place in self.holes:
            for begin, end in named:
                if begin <= first <= end:
                    first = end + 1
            if first <= last:
                yield place


@dataclass(slots=True)
class _AttemptState:
    """The state of one attempt, over all of its producers."""

    producers: dict[str, _Numbers] = field(default_factory=dict)
    fold: ContextFold[None] = field(default_factory=ContextFold)
    missed: bool = False
    """Events are missing since the context was proved last."""
    tools: set[str] = field(default_factory=set)
    tokens: dict[str, int | None] = field(default_factory=dict)
    """By id of a generation, the tokens of its prompt and output, where they are known."""
    started: bool = False

    def miss(self) -> None:
        """Note that events are missing at this place."""
        self.fold.miss()
        self.missed = True


class SequenceCheck:
    """Holds a stream of events against `SEQUENCE_RULES`."""

    def __init__(self) -> None:
        """Begin before the first event."""
        self._attempts: dict[_Attempt, _AttemptState] = {}
        self._ids: dict[bytes, bytes] = {}
        """By digest of tenant and event id: digests of the trajectory and of the whole event."""
        self._targets: list[tuple[bytes, bytes, str]] = []
        """Digests of the target event and of the trajectory that it is to be in, and the place."""
        self._acting: set[bytes] = set()
        """Digests of the trajectories with other events than judgements."""

    def add(self, event: Event, place: str) -> Iterator[SequenceFinding]:
        """Yield the findings at the next event; `place` names it in findings."""
        trajectory = _digest(event.tenant_id, event.trajectory_id)
        event_id = _digest(event.tenant_id, event.event_id)
        content = trajectory + _digest(repr(event))
        known = self._ids.setdefault(event_id, content)
        if known is not content and known == content:
            return
        yield SequenceFinding("Sequence.event_id", known is content, place, "$.event_id")
        if known is not content:
            return
        attempt = self._attempts.setdefault(
            (event.tenant_id, event.trajectory_id, event.attempt), _AttemptState()
        )
        numbers = attempt.producers.setdefault(event.producer_id, _Numbers())
        yield from _life(event, attempt, numbers, place)
        yield from _number(event, attempt, numbers, place)
        yield from _context(event, attempt, place)
        yield from _prefix(event, attempt, place)
        self._target(event, trajectory, place)

    def finish(self) -> Iterator[SequenceFinding]:
        """Yield the findings of the whole stream."""
        for attempt in self._attempts.values():
            for numbers in attempt.producers.values():
                holes = list(numbers.unnamed())
                for place in holes or [numbers.place]:
                    yield SequenceFinding("Sequence.seq_gapless", not holes, place, "$.seq")
        for target, trajectory, place in self._targets:
            if trajectory in self._acting:
                kept = self._ids.get(target, b"").startswith(trajectory)
                yield SequenceFinding("Sequence.target", kept, place, "$.target_event_id")

    def _target(self, event: Event, trajectory: bytes, place: str) -> None:
        match event.body:
            case Reward() | Feedback() | Annotation() as judgement:
                if judgement.target_event_id is not None:
                    target = _digest(event.tenant_id, judgement.target_event_id)
                    self._targets.append((target, trajectory, place))
            case _:
                self._acting.add(trajectory)


def check_sequence(events: Iterable[Event]) -> tuple[str, ...]:
    """Return the ids of the rules that a whole sequence breaks, each once, in order of finding."""
    check = SequenceCheck()
    findings = [finding for event in events for finding in check.add(event, event.event_id)]
    broken = [finding.rule_id for finding in (*findings, *check.finish()) if not finding.kept]
    return tuple(dict.fromkeys(broken))


def _life(
    event: Event, attempt: _AttemptState, numbers: _Numbers, place: str
) -> Iterator[SequenceFinding]:
    """Judge start and end, before the event's number is taken."""
    kind = f"$.{event.kind}"
    if isinstance(event.body, TrajectoryStarted):
        is_first = not attempt.started and numbers.next == 0
        yield SequenceFinding("Sequence.start", is_first, place, kind)
        attempt.started = True
    if numbers.ended:
        kept = isinstance(event.body, _AFTER_THE_END)
        yield SequenceFinding("Sequence.end", kept, place, kind)
    elif isinstance(event.body, TrajectoryEnded):
        yield SequenceFinding("Sequence.end", True, place, kind)
        numbers.ended = True


def _number(
    event: Event, attempt: _AttemptState, numbers: _Numbers, place: str
) -> Iterator[SequenceFinding]:
    numbers.place = place
    if isinstance(event.body, Gap) and event.body.from_seq is not None:
        last = event.seq - 1 if event.body.to_seq is None else event.body.to_seq
        numbers.named.append((event.body.from_seq, last))
        attempt.miss()
    if event.seq < 0:
        return
    is_next = event.seq >= numbers.next
    is_new = is_next or numbers.fill(event.seq)
    yield SequenceFinding("Sequence.seq_once", is_new, place, "$.seq")
    if is_new:
        yield SequenceFinding("Sequence.seq_order", is_next, place, "$.seq")
    if event.seq > numbers.next:
        numbers.holes.append((numbers.next, event.seq - 1, place))
        attempt.miss()
    numbers.next = max(numbers.next, event.seq + 1)


def _context(event: Event, attempt: _AttemptState, place: str) -> Iterator[SequenceFinding]:
    fold, body = attempt.fold, event.body
    names = (None,) * len(contributed_messages(body))
    if not isinstance(body, Observation):
        fold.extend(event.event_id, names)
        return
    base, claimed = body.context_base, body.context_hash
    fits = base is None or base <= len(fold.messages)
    fold.observe(event.event_id, names, base=base, claimed=claimed)
    base_path, hash_path = "$.observation.context_base", "$.observation.context_hash"
    if attempt.missed:
        yield SequenceFinding("Sequence.context_after_gap", fold.intact, place, base_path)
        attempt.missed = not fold.intact
    elif not fits:
        yield SequenceFinding("Sequence.context_base", False, place, base_path)
    else:
        if base is not None:
            yield SequenceFinding("Sequence.context_base", True, place, base_path)
        if claimed is not None:
            yield SequenceFinding("Sequence.context_hash", fold.intact, place, hash_path)
    if body.tools_hash is not None:
        if body.tools_json is not None:
            attempt.tools.add(body.tools_hash)
            is_hash = _is_hash_of(body.tools_hash, body.tools_json)
            yield SequenceFinding("Sequence.tools_hash", is_hash, place, "$.observation.tools_hash")
        known = body.tools_hash in attempt.tools
        yield SequenceFinding("Sequence.tools", known, place, "$.observation.tools_hash")


def _is_hash_of(tools_hash: str, tools_json: str) -> bool:
    try:
        return tools_hash == canonical_sha256(json.loads(tools_json))
    except (ValueError, RecursionError, NotCanonical):  # no JSON, which a rule of events refuses
        return False


def _prefix(event: Event, attempt: _AttemptState, place: str) -> Iterator[SequenceFinding]:
    match event.body:
        case Action(generation=Generation() as generation):
            pass
        case _:
            return
    prefix, taken = generation.prompt_prefix_event_id, generation.prompt_prefix_tokens or 0
    if prefix is not None:
        length = attempt.tokens.get(prefix)
        kept = prefix in attempt.tokens and (length is None or taken <= length)
        path = "$.action.generation.prompt_prefix_event_id"
        yield SequenceFinding("Sequence.prompt_prefix", kept, place, path)
    prompt, output = generation.prompt_token_ids, generation.output_token_ids
    if prompt is None or output is None:
        attempt.tokens[event.event_id] = None
    else:
        attempt.tokens[event.event_id] = taken + len(prompt) + len(output)


def _digest(*parts: str) -> bytes:
    text = "\x1f".join(parts).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(text, digest_size=12).digest()
