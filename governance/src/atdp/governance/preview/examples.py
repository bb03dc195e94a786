"""Examples: strings that the two sides govern differently.

They are chosen by a digest under the seed, a few for each entity and direction, so that the same
seed and the same records give the same examples. Everybody sees the names of the entities that
stand in place of values, and nothing of the text around them: the active policy may have
overlooked something there. The strings themselves are for callers that may see raw data.
"""

import bisect
import difflib
import hashlib
import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from atdp.governance.preview.report import Direction, Example, RawExample
from atdp.governance.preview.samples import DrawnRecord

_PER_GROUP: Final = 3
"""Examples of one entity in one direction."""
_SHOWN_CHARS: Final = 400
"""Longest string of an example; longer ones are cut to the place of the difference."""
_AROUND_CHARS: Final = 60
_MOST_WORDS: Final = 4_000
"""Words of a text up to which places in it are found by aligning texts."""
_PLACEHOLDER: Final = re.compile(r"<([A-Z][A-Z0-9_]{0,62})>")
_WORD: Final = re.compile(r"\s*\S+|\s+")
_REMOVED: Final = "(removed)"
_SET_ASIDE: Final = "(the event does not pass)"
_Governed = Mapping[str, Any] | None


@dataclass(slots=True)
class ExampleChoice:
    """Chooses examples of one sample.

    `entities`: those of the policies. No other word is shown as one, since the text of an event may
    look like a placeholder.
    """

    seed: int
    entities: frozenset[str]
    show_raw: bool
    most: int = 24
    _offered: list[tuple[bytes, Example]] = field(default_factory=list)

    def offer(
        self,
        record: DrawnRecord,
        tenant: str,
        named: tuple[_Governed, _Governed],
        governed: tuple[_Governed, _Governed],
    ) -> None:
        """Take the strings of a record that differ.

        `named`: the governed event of each side with names of entities in place of values;
        `governed`: the event as the worker would write it. None where it does not pass.
        """
        before = dict(_strings(record.event))
        names = [dict(_strings(event)) for event in named]
        written = [dict(_strings(event)) for event in governed]
        for path, text in before.items():
            sides = [each.get(path) for each in names]
            active, draft = (
                self._masked(side, passes=event is not None)
                for side, event in zip(sides, named, strict=True)
            )
            differs = written[0].get(path) != written[1].get(path)
            if active == draft and not (differs and all(governed)):
                continue
            if not any(_PLACEHOLDER.search(side) for side in (active, draft)):
                # Nothing is found in the string on either side; only the event's fate differs.
                continue
            rank = hashlib.blake2b(
                f"{record.raw.partition}/{record.raw.offset}/{path}".encode(),
                digest_size=8,
                key=b"%d" % self.seed,
            ).digest()
            direction, entities = _difference(active, draft)
            raw = None
            if self.show_raw:
                raw = _raw_example(text, written[0].get(path), written[1].get(path))
            example = Example(
                tenant=tenant,
                kind=record.kind,
                path=f"$.{path}",
                direction=direction,
                entities=entities,
                active=active,
                draft=draft,
                raw=raw,
            )
            self._offered.append((rank, example))

    def chosen(self) -> Sequence[Example]:
        """Return the examples, a few for each direction and set of entities."""
        taken: Counter[tuple[str, tuple[str, ...]]] = Counter()
        examples: list[Example] = []
        for _, example in sorted(self._offered, key=lambda item: item[0]):
            group = example.direction, tuple(example.entities)
            is_new = example not in examples
            if is_new and taken[group] < _PER_GROUP and len(examples) < self.most:
                taken[group] += 1
                examples.append(example)
        return sorted(examples, key=lambda each: (each.direction, each.entities, each.path))

    def _masked(self, text: str | None, *, passes: bool) -> str:
        """Return the placeholders of a text, with `…` in place of everything else."""
        if not passes:
            return _SET_ASIDE
        if text is None:
            return _REMOVED
        shown: list[str] = []
        end = 0
        for match in _PLACEHOLDER.finditer(text):
            if match[1] in self.entities:
                shown += ["…"] * (match.start() > end) + [match[0]]
                end = match.end()
        return " ".join([*shown, *["…"] * (len(text) > end)])


def _difference(active: str, draft: str) -> tuple[Direction, Sequence[str]]:
    """Return the direction in which two masked texts differ, and the entities that differ."""
    before = Counter(_PLACEHOLDER.findall(active))
    after = Counter(_PLACEHOLDER.findall(draft))
    more, fewer = after - before, before - after
    direction: Direction = "other"
    if bool(more) != bool(fewer):
        direction = "more" if more else "fewer"
    return direction, sorted(more.keys() | fewer.keys() or before.keys())


def _strings(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the strings of an event by path, those of the governance stamp left out."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for name, item in value.items():
            if path or name != "governance":
                yield from _strings(item, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _strings(item, f"{path}[{index}]")


def _raw_example(before: str, active: str | None, draft: str | None) -> RawExample:
    """Return the three texts, each cut to the place where active and draft differ."""
    if active is None or draft is None or active == draft:
        return RawExample(before=_head(before), active=_head(active), draft=_head(draft))
    start = _common_start(active, draft)
    end = _common_start(active[start:][::-1], draft[start:][::-1])
    return RawExample(
        before=_cut(before, *_range_in(before, active, start, len(active) - end)),
        active=_cut(active, start, len(active) - end),
        draft=_cut(draft, start, len(draft) - end),
    )


def _head(text: str | None) -> str | None:
    return None if text is None else _cut(text, 0, 0)


def _cut(text: str, start: int, end: int) -> str:
    """Return a text around a range, at most about `_SHOWN_CHARS` of it."""
    if len(text) <= _SHOWN_CHARS:
        return text
    first = max(0, start - _AROUND_CHARS)
    last = min(len(text), max(end + _AROUND_CHARS, first + 2 * _AROUND_CHARS), first + _SHOWN_CHARS)
    return "…" * (first > 0) + text[first:last] + "…" * (last < len(text))


def _common_start(one: str, other: str) -> int:
    for index, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return index
    return min(len(one), len(other))


def _range_in(before: str, after: str, start: int, end: int) -> tuple[int, int]:
    """Return the range of `before` that became the range of `after`, to whole words."""
    if len(before) <= _SHOWN_CHARS:
        return 0, len(before)
    words, others = _WORD.findall(before), _WORD.findall(after)
    if max(len(words), len(others)) > _MOST_WORDS:
        return start, end
    blocks = difflib.SequenceMatcher(None, words, others, autojunk=False).get_matching_blocks()
    origins = [0, *itertools.accumulate(map(len, words))]
    places = [0, *itertools.accumulate(map(len, others))]
    first = last = 0
    for block in blocks:
        # Words before the range that both texts have, and the first ones after it.
        same_before = bisect.bisect_right(places, start) - 1 - block.b
        if min(same_before, block.size) > 0:
            first = origins[block.a + min(same_before, block.size)]
        same_after = max(bisect.bisect_left(places, end) - block.b, 0)
        if same_after < block.size or not block.size:
            last = origins[block.a + same_after] if block.size else len(before)
            break
    return first, max(first, last)
