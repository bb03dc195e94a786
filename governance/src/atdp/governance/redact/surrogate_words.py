"""Made-up words: the surrogate of a word, and the form by which it is recognised without a key.

A made-up word has 20 letters, consonant and vowel in turn: 100^10 words, which is 66 bits. It is
keyed by the word without case and accents, and is written in the case of the original: `MIA`, `Mia`
and `mia` become one word in three spellings. Words of this form do not occur in any language, but
they can be read, and they are longer than anything that a key for another value would give.
"""

import re
import unicodedata
from typing import Final

from atdp.governance.redact.surrogate_key import SurrogateKey

_CONSONANTS: Final = "bcdfghjklmnpqrstvwxz"
_VOWELS: Final = "aeiou"
_PAIRS: Final = len(_CONSONANTS) * len(_VOWELS)
WORD_LETTERS: Final = 20

SURROGATE_WORD: Final = (
    r"(?<![^\W_])(?:[{0}{1}][{2}](?:[{0}][{2}]){{9}}|(?:[{1}][{3}]){{10}})(?![^\W_])"
).format(_CONSONANTS, _CONSONANTS.upper(), _VOWELS, _VOWELS.upper())
"""Pattern of a made-up word in lower case, capitalised or in upper case."""

_IS_WORD = re.compile(SURROGATE_WORD)


def surrogate_word(key: SurrogateKey, word: str) -> str:
    """Return the made-up word for `word`, in its case; a made-up word is returned as it is."""
    if is_surrogate_word(word):
        return word
    return _in_case_of(word, made_up_letters(key, "word", folded(word), WORD_LETTERS))


def made_up_letters(key: SurrogateKey, label: str, text: str, length: int) -> str:
    """Return `length` lower-case letters, consonant and vowel in turn.

    They are keyed by the whole of `text` as it is given.
    """
    letters: list[str] = []
    while len(letters) < length:
        # One keyed number suffices for 20 letters; it is below 2**192.
        number = key.number(label, f"{len(letters)}\x1f{text}", _PAIRS ** (WORD_LETTERS // 2))
        for _ in range(WORD_LETTERS // 2):
            number, pair = divmod(number, _PAIRS)
            consonant, vowel = divmod(pair, len(_VOWELS))
            letters += (_CONSONANTS[consonant], _VOWELS[vowel])
    return "".join(letters[:length])


def is_surrogate_word(word: str) -> bool:
    """Return True when the whole of `word` has the form of a made-up word."""
    return _IS_WORD.fullmatch(word) is not None


def folded(word: str) -> str:
    """Return a word without case, width and accents, the form that its spellings share."""
    if word.isascii():
        return word.lower()
    decomposed = unicodedata.normalize("NFKD", word)
    return "".join(each for each in decomposed if not unicodedata.combining(each)).casefold()


def _in_case_of(word: str, letters: str) -> str:
    if word.islower():
        return letters
    if len(word) > 1 and word.isupper():
        return letters.upper()
    return letters.capitalize()
