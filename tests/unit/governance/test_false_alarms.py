"""Program code holds hardly a personal value, so what is replaced in it counts as a false alarm."""

import random
import sysconfig
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from atdp.governance.policy import CompiledPolicy

from .governors import governor_of

PACKAGES = ("click", "httpx", "jinja2", "presidio_analyzer", "pydantic", "requests", "typer")
CHARS = 300_000
MOST_PER_10_KB = 5


def source_texts() -> Iterator[str]:
    """Yield files of installed packages in a random order that is always the same."""
    folder = Path(sysconfig.get_paths()["purelib"])
    files = [path for name in PACKAGES for path in sorted((folder / name).rglob("*.py"))]
    random.Random(1).shuffle(files)
    left = CHARS
    for path in files:
        if left > 0:
            text = path.read_text(encoding="utf-8")[:20_000]
            left -= len(text)
            yield text


def test_few_words_of_program_code_are_replaced(default_policy: CompiledPolicy) -> None:
    governor = governor_of(default_policy)
    found: Counter[str] = Counter()
    chars = 0
    for text in source_texts():
        chars += len(text)
        for each in governor.strings.text(text, "t").replacements:
            found[each.entity] += each.count
    assert chars >= CHARS
    per_10_kb = found.total() / chars * 10_000
    print(f"{per_10_kb:.2f} false alarms per 10 kB of program code: {dict(found.most_common())}")
    assert per_10_kb <= MOST_PER_10_KB, found
