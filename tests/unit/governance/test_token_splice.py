"""Spliced ids decode to exactly the governed text, and tokens outside of values keep their ids."""

import hashlib
import random

import pytest

from atdp.governance.token_splice import differences, spliced_ids
from atdp.governance.tokenizer_folder import TokenizerFolder
from atdp.inference import train_tokenizer

WORDS = [
    "hello",
    "kira@zed.com",
    "how",
    "are",
    "you",
    "123",
    "中文é",
    "user",
    "order",
    "4111",
    "the",
    "a",
    "ß",
    "😀",
]
REPLACED = [
    ("kira@zed.com", "<EMAIL_7>"),
    ("4111", ""),
    ("中", "x中y"),
    ("é", "kobale 中"),
    ("😀", ""),
]


@pytest.fixture(scope="module")
def registered(tmp_path_factory: pytest.TempPathFactory) -> tuple[TokenizerFolder, str]:
    chance = random.Random(1)
    texts = ["<|im_start|>user\n" + " ".join(chance.choices(WORDS, k=12)) for _ in range(50)]
    content = train_tokenizer(texts, 400).to_str().encode()
    folder, name = tmp_path_factory.mktemp("tokenizers"), hashlib.sha256(content).hexdigest()
    (folder / name).mkdir()
    (folder / name / "tokenizer.json").write_bytes(content)
    return TokenizerFolder(folder), name


def test_spliced_ids_decode_to_the_governed_text_and_all_others_stay(
    registered: tuple[TokenizerFolder, str],
) -> None:
    tokenizers, name = registered
    chance = random.Random(2)
    kept = total = 0
    for _ in range(200):
        raw = "<|im_start|>user\n" + " ".join(chance.choices(WORDS, k=20)) + "<|im_end|>"
        governed = raw.replace(*chance.choice(REPLACED))
        ids = tokenizers.encode(name, raw)
        assert ids is not None
        spliced = spliced_ids(ids, governed, name, tokenizers)
        assert spliced is not None
        assert tokenizers.readings(name, spliced.ids) == (governed,)
        rebuilt: list[int] = []
        at = 0
        for each in spliced.splices:
            assert at <= each.start < each.end
            rebuilt += ids[at : each.start]
            assert spliced.place(each.start) == len(rebuilt)
            rebuilt += spliced.ids[len(rebuilt) : len(rebuilt) + each.tokens]
            at = each.end
        assert (*rebuilt, *ids[at:]) == spliced.ids
        assert spliced.place(len(ids)) == len(spliced.ids)
        kept += len(ids) - sum(each.end - each.start for each in spliced.splices)
        total += len(ids)
    assert kept > 0.8 * total


def test_a_control_token_is_never_replaced(registered: tuple[TokenizerFolder, str]) -> None:
    tokenizers, name = registered
    ids = tokenizers.encode(name, "hello<|im_end|>you")
    assert ids is not None
    assert spliced_ids(ids, "hello you", name, tokenizers) is None
    assert spliced_ids(ids, "hello<|im_end|><|im_end|>you", name, tokenizers) is None
    assert spliced_ids(ids, "hello<|im_end|>her", name, tokenizers) is not None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        ("", "new"),
        ("abcabcabcabc", "abcabcabc"),
        ("x" * 3_000 + "value" + "y" * 3_000, "x" * 3_000 + "other words" + "y" * 3_000),
        ("a long value here, and one there too", "another here, and there too"),
        ("z" * 9_000 + "the end", "q" * 9_000 + "the end"),
    ],
)
def test_differences_leave_the_equal_parts_in_order(old: str, new: str) -> None:
    at = new_at = 0
    for start, end, new_start, new_end in differences(old, new):
        assert old[at:start] == new[new_at:new_start]
        at, new_at = end, new_end
    assert old[at:] == new[new_at:]
