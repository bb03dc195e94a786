r"""The comparison of output ids with the message that their event states.

Rewards, reviewers and evaluators read the message; training reads the ids. So the decoded ids must
hold everything that the message states (reasoning, text, names and arguments of tool calls), each
piece at a place of its own, and no other text. White space is ignored, and so is what engines take
out of the text when they make a message of it:

- control tokens, tags such as `<tool_call>` and `</think>`, and words of the notation of tool calls
  (`"name"`, `"arguments"`, `commentary to=functions`);
- everything behind the first tool call, which the tool parsers of engines drop. Readers of the
  message do not see it, so tokens from its first word on are not among the *stated tokens*;
- a stop string at the end, and the rest of the last token behind it.

A tool call counts only behind notation. Its arguments may be written in another way: as JSON with
the same value, or as their keys and values in the same order with nothing but notation between them
(`<parameter=city>Paris</parameter>`).

A piece is taken for the first place where it stands, which may be within another piece or within a
tag (`hi` in `<think>`). Therefore two orders are tried, the longest piece first and that of the
message, each with the tags, without them and the notation between them, and without the tags alone.
Where all fail, the ids are taken for those of other text.
"""

import bisect
import functools
import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from atdp.governance.cpu_budget import check_budget
from atdp.governance.tokenizer_folder import Tokenizers

_CALLS: Final = frozenset({"tool_call", "custom_tool_call"})
_NO_ARGUMENTS: Final = frozenset({"", "{}", "null"})
_WORD: Final = re.compile(r"[^\W_]+")
_NOTATION_WORDS: Final = (
    "action|analysis|arguments?|args|assistant|calls?|channel|commentary|constrain|end|final|"
    "functions?|input|invoke|json|message|name|parameters?|return|start|text|think|thinking|to|"
    "tools?|type"
)
"""Words that stand in a notation of tool calls or reasoning without being text of the message."""
_NOTATION: Final = re.compile(f"(?:{_NOTATION_WORDS})+", re.IGNORECASE)
_IN_TAGS: Final = (
    rf"(?:{_NOTATION_WORDS}|answer|arg|begin|header|id|im|key|python|reasoning|section|sep|tag|"
    r"value|[_=.:|▁｜-]){1,20}"
)
_ONE_TAG: Final = rf"(?:</?{_IN_TAGS}/?>|\[/?{_IN_TAGS}\])"
_TAG: Final = re.compile(rf"{_ONE_TAG}(?:(?:{_NOTATION_WORDS})*{_ONE_TAG})*", re.IGNORECASE)
"""Tags, and notation between two of them: `<|start|>assistant<|channel|>`."""
_SINGLE_TAG: Final = re.compile(
    rf"<\|[a-z_]*(?:start|channel|constrain)[a-z_]*\|>(?:{_NOTATION_WORDS})*|{_ONE_TAG}",
    re.IGNORECASE,
)
"""A tag, with the notation behind it only where it opens a role or a channel. So text between two
tags stays, also where its words are notation elsewhere: `<|message|>think<think>`."""
_SHORT_NUMBER: Final = re.compile(r"[0-9]{1,2}")
"""Some notations number the calls."""
_STATED: Final = "\ud800"
"""A character that no text has; stands for what the message states."""
_IN_TAG: Final = "\ud801"
"""Another one, for the characters of tags."""
_MOST_STARTS: Final = 2_000
"""Places of a text at which arguments are looked for. Outputs of models have a few."""
_DECODER: Final = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class _Piece:
    text: str
    """Without white space."""
    arguments: str | None = None
    """The arguments as written, where the piece is the arguments of a call."""
    of_call: bool = False


def states_output(
    message: Mapping[str, Any] | None, generation: Mapping[str, Any], tokenizers: Tokenizers
) -> bool:
    """Return whether the output ids are those of the message (`stated_tokens`)."""
    return stated_tokens(message, generation, tokenizers) is not None


def stated_tokens(
    message: Mapping[str, Any] | None, generation: Mapping[str, Any], tokenizers: Tokenizers
) -> int | None:
    """Return how many output tokens the message accounts for, from the first one on.

    Returns None where the ids are not those of the message, and the number of all tokens where they
    cannot be read. `message` and `generation` are of one event. An event without a message states
    no text, so only control tokens agree with it.
    """
    output = generation["output_token_ids"] or ()
    name = generation.get("tokenizer_hash") or ""
    if tokenizers.readings(name, output) is None:
        return len(output)
    plain = [at for at, each in enumerate(output) if not tokenizers.is_control(name, each)]
    last = max(map(len, tokenizers.readings(name, [output[at] for at in plain[-1:]]) or ("",)))
    stops = (generation.get("sampling") or {}).get("stop") or ()
    pieces = _pieces(message)
    for places in (plain, range(len(output))):
        ids = [output[at] for at in places]
        for number, reading in enumerate(tokenizers.readings(name, ids) or ()):
            for text in (reading, *_without_stop(reading, stops, last)):
                stated = _stated_characters(pieces, text)
                if stated == len(_squeezed(text)):
                    return len(output)
                if stated is not None:
                    written = functools.partial(_characters, name, tokenizers, ids, number)
                    return places[bisect.bisect_right(range(len(ids)), stated, key=written) - 1]
    return None


def _characters(
    tokenizer: str, tokenizers: Tokenizers, ids: Sequence[int], reading: int, count: int
) -> int:
    """Return how many characters, squeezed, a reading of the first `count` ids has."""
    readings = tokenizers.readings(tokenizer, ids[:count]) or ()
    return len(_squeezed(readings[reading]))


def _without_stop(reading: str, stops: Sequence[str], last_chars: int) -> Iterator[str]:
    """Yield the reading before a stop string that ends in its last token."""
    for stop in stops:
        at = reading.rfind(stop) if stop else -1
        if at >= 0 and len(reading) - at - len(stop) < last_chars:
            yield reading[:at]


def _pieces(message: Mapping[str, Any] | None) -> list[_Piece]:
    """Return the pieces that a message states, in its order."""
    pieces: list[_Piece] = []
    for part in (message or {}).get("parts") or ():
        text = part["text"] or ""
        if part["type"] in _CALLS:
            pieces.append(_Piece(_squeezed(part["name"] or ""), of_call=True))
            arguments = None if part["type"] == "custom_tool_call" else text
            if _squeezed(text) not in _NO_ARGUMENTS:
                pieces.append(_Piece(_squeezed(text), arguments, of_call=True))
        else:
            pieces.append(_Piece(_squeezed(text)))
    return [each for each in pieces if each.text]


def _stated_characters(pieces: Sequence[_Piece], reading: str) -> int | None:
    """Return the squeezed characters before the first unstated word; None: it is another text."""
    squeezed = _squeezed(reading)
    longest_first = sorted(pieces, key=lambda each: -len(each.text))
    for order in (longest_first, pieces):
        for rest in (squeezed, _without_tags(squeezed), _without_tags(squeezed, _SINGLE_TAG)):
            stated = _stated_in_order(order, rest, reading)
            if stated is not None:
                return stated
    return None


def _stated_in_order(pieces: Sequence[_Piece], rest: str, reading: str) -> int | None:
    """Return the same with each piece at its first place that earlier pieces have left."""
    first_call = len(rest)
    for piece in pieces:
        check_budget()
        start = rest.find(piece.text)
        place: tuple[int, int] | None = (start, start + len(piece.text))
        if start < 0:
            place = _rewritten_arguments(piece.arguments, reading, rest)
        if place is None:
            return None
        start, end = place
        if piece.of_call:
            first_call = min(first_call, start)
        # The characters that stand for the piece keep the positions of the others.
        rest = rest[:start] + _STATED * (end - start) + rest[end:]
    if first_call < len(rest) and rest[first_call - 1 : first_call] in {"", _STATED}:
        return None
    if not _is_notation(rest[:first_call]):
        return None
    behind = _WORD.finditer(_without_tags(rest), first_call)
    return next(
        (
            word.start()
            for word in behind
            if not (_NOTATION.fullmatch(word[0]) or _SHORT_NUMBER.fullmatch(word[0]))
        ),
        len(rest),
    )


def _is_notation(text: str) -> bool:
    return all(map(_NOTATION.fullmatch, _WORD.findall(_without_tags(text))))


def _without_tags(text: str, tags: re.Pattern[str] = _TAG) -> str:
    return tags.sub(lambda tag: _IN_TAG * len(tag[0]), text)


def _rewritten_arguments(arguments: str | None, reading: str, rest: str) -> tuple[int, int] | None:
    """Return where the squeezed reading has the arguments of a call in another form."""
    if arguments is None:
        return None
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return _same_json((arguments,), reading, rest)
    return _same_json((arguments, value), reading, rest) or _same_leaves([*_leaves(value)], rest)


def _same_json(values: Sequence[Any], reading: str, rest: str) -> tuple[int, int] | None:
    """Return where the squeezed reading has a JSON document with one of the values."""
    starts = (match.start() for match in re.finditer(r'[{\["]', reading))
    for start in itertools.islice(starts, _MOST_STARTS):
        try:
            document, end = _DECODER.raw_decode(reading, start)
            if document in values:
                at = len(_squeezed(reading[:start]))
                place = at, at + len(_squeezed(reading[start:end]))
                if _STATED not in rest[slice(*place)]:
                    return place
        except (ValueError, RecursionError):
            continue
    return None


def _same_leaves(leaves: Sequence[str], rest: str) -> tuple[int, int] | None:
    """Return where all keys and values stand in this order, with notation alone between them."""
    starts = re.finditer(f"(?={re.escape(leaves[0])})", rest) if leaves else iter(())
    for start in itertools.islice(starts, _MOST_STARTS):
        at = start.start() + len(leaves[0])
        for leaf in leaves[1:]:
            found = rest.find(leaf, at)
            if found < 0 or not _is_notation(rest[at:found]):
                break
            at = found + len(leaf)
        else:
            return start.start(), at
    return None


def _leaves(value: Any) -> Iterator[str]:
    """Yield the keys and values of a JSON value in order, without white space."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield _squeezed(key)
            yield from _leaves(item)
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(item)
    elif isinstance(value, str):
        yield _squeezed(value)
    else:
        yield json.dumps(value)


def _squeezed(text: str) -> str:
    """Return the text without white space and without marks of half a character."""
    return "".join(text.replace("\ufffd", "").split())
