"""Text without personal values: source files, and the sentences of docstrings and comments."""

import functools
import random
import re
import sysconfig
from collections import Counter
from pathlib import Path
from typing import Final

from governance.ner.word_lists import word_list

_ORDINARY: Final = 9_000
"""Words that count as ordinary."""


@functools.cache
def source_files(*, evaluation: bool) -> tuple[Path, ...]:
    """Return the Python files of the standard library, or of installed packages (evaluation)."""
    paths = sysconfig.get_paths()
    packages = word_list("evaluation_sources" if evaluation else "training_sources")
    folders = [Path(paths["purelib"]) / name for name in packages]
    if not evaluation:
        folders = [Path(paths["stdlib"]), *folders]
    files = [
        path
        for folder in folders
        for path in sorted(folder.rglob("*.py"))
        if not {"site-packages", "test", "tests", "encodings", "idlelib"}
        & set(path.relative_to(folder).parts)
    ]
    return tuple(path for path in files if 2_000 < path.stat().st_size < 200_000)


@functools.lru_cache(maxsize=2_000)
def _source(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def source_text(rng: random.Random) -> str:
    """Return a piece of Python source, with its comments."""
    text = _source(rng.choice(source_files(evaluation=False)))
    start = rng.randrange(max(1, len(text) - 300))
    start = text.find("\n", start) + 1
    return text[start : start + rng.choice([80, 200, 400, 800])]


@functools.cache
def doc_sentences() -> tuple[str, ...]:
    """Return sentences and headings of docstrings and comments of the standard library."""
    sentences: set[str] = set()
    for path in source_files(evaluation=False):
        for block in re.findall(r'"""(.{20,3000}?)"""|# (.{20,90})', _source(path), re.DOTALL):
            for sentence in re.split(r"(?<=[.:?!])\s+|\n\s*\n", block[0] or block[1]):
                plain = " ".join(sentence.split())
                if 15 < len(plain) < 200 and not re.search(r"[<>={}@]|by |Copyright|author", plain):
                    sentences.add(plain)
    return tuple(sorted(sentences))


@functools.cache
def ordinary_words() -> tuple[str, ...]:
    """Return the words that docstrings write in lower case, the most frequent first."""
    counts: Counter[str] = Counter()
    for sentence in doc_sentences():
        counts.update(word for word in sentence.split() if word.isalpha() and word.islower())
    return tuple(word for word, _ in counts.most_common(_ORDINARY))
