r"""The comparison of output ids with the message that their event states.

Rewards, reviewers and evaluators read the message; training reads the ids. So the decoded ids must
hold everything that the message states (reasoning, text, names and arguments of tool calls), and no
other text. White space is ignored, and so is what engines take out of the text when they make a
message of it:

- control tokens, and tags such as `<tool_call>` and `</think>`;
- words of the notation of tool calls (`"name"`, `"arguments"`, `commentary to=functions`);
- everything behind the first tool call, which the tool parsers of engines drop;
- a stop string at the end, and the rest of the last token behind it.

Arguments of a tool call may be written in another way: as JSON with the same value, or as their
keys and values in the same order (`<parameter=city>Paris</parameter>`).
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from atdp.governance.tokenizer_folder import Tokenizers

_CALLS: Final = frozenset({"tool_call", "custom_tool_call"})
_TAG: Final = re.compile(r"</?[\w|=.:▁｜-]{1,60}/?>|\[/?[A-Z_]{3,30}\]")
_WORD: Final = re.compile(r"\w+")
_NOTATION: Final = re.compile(
    r"(?:action|analysis|arguments|args|assistant|call|calls|channel|commentary|constrain|"
    r"end|final|function|function_call|functions|input|invoke|json|message|name|"
    r"parameter|parameters|return|start|text|think|thinking|to|tool|tool_call|"
    r"tool_calls|type)+",
    re.IGNORECASE,
)
"""Words that stand before the first tool call in a notation of tool calls or reasoning, without
being text of the message."""
_FOUND: Final = "\ud800"
"""A character that no text has."""
_MOST_STARTS: Final = 2_000
"""Places of a text at which a JSON document is looked for. Outputs of models have a few."""
_DECODER: Final = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class _Piece:
    text: str
    """Without white space."""
    arguments: str | None = None
    """The arguments as written, where the piece is the arguments of a call."""
    of_call: bool = False


def states_output(
    message: Mapping[str, Any] | None,
    generation: Mapping[str, Any],
    tokenizers: Tokenizers,
) -> bool:
    """Return whether the output ids are those of the message; True where they cannot be read.

    `message` and `generation` are those of the producer. An event without a message states no text,
    so only control tokens agree with it.
    """
    output = generation["output_token_ids"] or ()
    tokenizer = generation.get("tokenizer_hash") or ""
    whole = tokenizers.readings(tokenizer, output)
    if whole is None:
        return True
    plain = [each for each in output if not tokenizers.is_control(tokenizer, each)]
    candidates = [*(tokenizers.readings(tokenizer, plain) or ()), *whole]
    last = max(map(len, tokenizers.readings(tokenizer, plain[-1:]) or ("",)))
    stops = (generation.get("sampling") or {}).get("stop") or ()
    pieces = _pieces(message)
    return any(
        _agrees(pieces, text)
        for reading in candidates
        for text in (reading, *_without_stop(reading, stops, last))
    )


def _without_stop(reading: str, stops: Sequence[str], last_chars: int) -> Iterator[str]:
    """Yield the reading before a stop string that ends in its last token."""
    for stop in stops:
        at = reading.rfind(stop) if stop else -1
        if at >= 0 and len(reading) - at - len(stop) < last_chars:
            yield reading[:at]


def _pieces(message: Mapping[str, Any] | None) -> list[_Piece]:
    """Return what a message states, the longest piece first.

    A short piece may also be part of a longer one.
    """
    pieces: list[_Piece] = []
    for part in (message or {}).get("parts") or ():
        text = part["text"] or ""
        if part["type"] in _CALLS:
            pieces.append(_Piece(_squeezed(part["name"] or ""), of_call=True))
            arguments = None if part["type"] == "custom_tool_call" else text
            if not _is_empty(text):
                pieces.append(_Piece(_squeezed(text), arguments, of_call=True))
        else:
            pieces.append(_Piece(_squeezed(text)))
    return sorted((each for each in pieces if each.text), key=lambda each: -len(each.text))


def _is_empty(arguments: str) -> bool:
    return _squeezed(arguments) in {"", "{}", "null"}


def _agrees(pieces: Sequence[_Piece], reading: str) -> bool:
    rest = _squeezed(reading)
    first_call = len(rest)
    for piece in pieces:
        at = rest.find(piece.text)
        end = at + len(piece.text)
        if at < 0:
            if piece.arguments is None:
                return False
            found = _same_json(piece.arguments, reading) or _same_leaves(piece.arguments, rest)
            if found is None:
                return False
            at, end = found
        if piece.of_call:
            first_call = min(first_call, at)
        # The characters that stand for what was found keep the positions of the others.
        rest = rest[:at] + _FOUND * (end - at) + rest[end:]
    other = _WORD.findall(_TAG.sub(" ", rest[:first_call]))
    return all(map(_NOTATION.fullmatch, other))


def _same_json(arguments: str, reading: str) -> tuple[int, int] | None:
    """Return where the squeezed reading has a JSON document with the value of the arguments."""
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return None
    starts = (match.start() for match in re.finditer(r'[{\["]', reading))
    for _, start in zip(range(_MOST_STARTS), starts, strict=False):
        try:
            document, end = _DECODER.raw_decode(reading, start)
            if document in (arguments, value):
                at = len(_squeezed(reading[:start]))
                return at, at + len(_squeezed(reading[start:end]))
        except (ValueError, RecursionError):
            continue
    return None


def _same_leaves(arguments: str, rest: str) -> tuple[int, int] | None:
    """Return where the squeezed reading has all keys and values of the arguments, in order."""
    try:
        leaves = list(_leaves(json.loads(arguments)))
    except (ValueError, RecursionError):
        return None
    first, at = -1, 0
    for leaf in leaves:
        found = rest.find(leaf, at)
        if found < 0:
            return None
        first = found if first < 0 else first
        at = found + len(leaf)
    return (first, at) if leaves else None


def _leaves(value: Any) -> Iterator[str]:
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
