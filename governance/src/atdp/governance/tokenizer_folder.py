"""The tokenizers with which governance decodes token ids.

A tokenizer is identified by the SHA-256 of its `tokenizer.json`, and is used only while the file
still has that hash.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

import tokenizers

from atdp.schemas import control_token_ids

_SHA256_DIGITS: Final = 64
_HALF: Final = "\ufffd"
"""Stands in decoded text for bytes that are no whole character."""
_BYTES_OF_CHARACTER: Final = 4


class Tokenizers(Protocol):
    """Decoders by tokenizer hash."""

    def readings(self, tokenizer_hash: str, ids: Sequence[int]) -> Sequence[str] | None:
        """Return every text that the ids may stand for, special tokens included.

        Returns None for an unknown tokenizer, and when an id is not in its vocabulary.
        """
        ...

    def is_control(self, tokenizer_hash: str, token_id: int) -> bool:
        """Return whether an id is a control token, which is part of no text; False: unknown."""
        ...

    def pieces(self, tokenizer_hash: str, ids: Sequence[int]) -> Sequence[str] | None:
        """Return the text of each token; joined they are the one reading of the ids.

        A character of several tokens belongs to the last of them. Returns None where the ids have
        several readings, or the text of single tokens is not known.
        """
        ...

    def encode(self, tokenizer_hash: str, text: str) -> Sequence[int] | None:
        """Return the ids of a piece of text; None for an unknown tokenizer."""
        ...


class TokenizerFolder:
    """The tokenizers of a home: `<hash>/tokenizer.json` below `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._loaded: dict[str, tokenizers.Tokenizer] = {}
        self._control: dict[str, frozenset[int]] = {}

    def readings(self, tokenizer_hash: str, ids: Sequence[int]) -> Sequence[str] | None:
        """See `Tokenizers`."""
        tokenizer = self._loaded.get(tokenizer_hash) or self._load(tokenizer_hash)
        if tokenizer is None:
            return None
        tokens = {each: tokenizer.id_to_token(each) if each >= 0 else None for each in set(ids)}
        # The library skips ids that it does not know. Their text would then stay unscanned.
        if None in tokens.values():
            return None
        decoded = str(tokenizer.decode(list(ids), skip_special_tokens=False))
        if tokenizer.decoder is None:
            # Without a decoder the library puts spaces between tokens. They would hide every value
            # that has more than one token.
            return decoded, "".join(str(tokens[each]) for each in ids)
        return (decoded,)

    def is_control(self, tokenizer_hash: str, token_id: int) -> bool:
        """See `Tokenizers`."""
        known = tokenizer_hash in self._loaded or self._load(tokenizer_hash) is not None
        return known and token_id in self._control[tokenizer_hash]

    def pieces(self, tokenizer_hash: str, ids: Sequence[int]) -> Sequence[str] | None:
        """See `Tokenizers`."""
        readings = self.readings(tokenizer_hash, ids)
        if readings is None or len(readings) != 1:
            return None
        tokenizer = self._loaded[tokenizer_hash]
        pieces = tokenizer.decode_batch([[each] for each in ids], skip_special_tokens=False)
        begun: list[int] = []
        for at, each in enumerate(ids):
            begun.append(each)
            if _HALF in pieces[at] and len(begun) <= _BYTES_OF_CHARACTER:
                text = tokenizer.decode(begun, skip_special_tokens=False)
                pieces[at] = "" if _HALF in text else text
                if not pieces[at]:
                    continue
            begun.clear()
        return pieces if "".join(pieces) == readings[0] else None

    def encode(self, tokenizer_hash: str, text: str) -> Sequence[int] | None:
        """See `Tokenizers`."""
        if self.readings(tokenizer_hash, ()) is None:
            return None
        ids: list[int] = self._loaded[tokenizer_hash].encode(text, add_special_tokens=False).ids
        return ids

    def _load(self, tokenizer_hash: str) -> tokenizers.Tokenizer | None:
        if not (len(tokenizer_hash) == _SHA256_DIGITS and tokenizer_hash.isalnum()):
            return None
        try:
            content = (self._folder / tokenizer_hash / "tokenizer.json").read_bytes()
        except OSError:
            # The failure is not cached: the tokenizer may be registered while the stage runs.
            return None
        if hashlib.sha256(content).hexdigest() != tokenizer_hash:
            return None
        self._control[tokenizer_hash] = control_token_ids(content)
        self._loaded[tokenizer_hash] = tokenizers.Tokenizer.from_buffer(content)
        return self._loaded[tokenizer_hash]
