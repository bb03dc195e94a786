"""Token ids are raw text in another coding: what is kept, what is removed, and what is refused."""

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from tokenizers import decoders, models, pre_tokenizers

from atdp.governance.token_fidelity import govern_tokens
from atdp.governance.tokenizer_folder import TokenizerFolder

HASH = "a1" * 32
SECRET = "bob@x.org"
SURROGATE = "kodabe@surrogate.example"


class CodePoints:
    """A tokenizer whose ids are code points; 0 is its control token."""

    def readings(self, tokenizer_hash: str, ids: Sequence[int]) -> Sequence[str] | None:
        return ("".join(map(chr, ids)),) if tokenizer_hash == HASH else None

    def is_control(self, tokenizer_hash: str, token_id: int) -> bool:
        return tokenizer_hash == HASH and token_id == 0

    def pieces(self, tokenizer_hash: str, ids: Sequence[int]) -> Sequence[str] | None:
        return tuple(map(chr, ids)) if tokenizer_hash == HASH else None

    def encode(self, tokenizer_hash: str, text: str) -> Sequence[int] | None:
        return ids(text) if tokenizer_hash == HASH else None


def ids(text: str) -> list[int]:
    return [ord(character) for character in text]


def generation(prompt: str | None, output: str | None, **fields: Any) -> dict[str, Any]:
    return {
        "prompt_token_ids": None if prompt is None else ids(prompt),
        "output_token_ids": None if output is None else ids(output),
        "output_logprobs": None if output is None else [-0.5] * len(output),
        "loss_mask": None,
        "policy_versions": [],
        "token_splices": [],
        "tokenizer_hash": HASH,
        **fields,
    }


def governed_tokens(
    given: dict[str, Any], *, claimed: str | None = None, message: str | None = None
) -> tuple[dict[str, Any], str]:
    """Govern tokens; the message is by default the governed output."""
    written = "".join(map(chr, given["output_token_ids"] or ()))
    text = pseudonymised(written) if message is None else message
    return govern_tokens(
        given,
        claimed=claimed,
        message={"parts": [{"type": "text", "text": text, "name": None}]},
        govern=pseudonymised,
        tokenizers=CodePoints(),
    )


def pseudonymised(text: str) -> str:
    return text.replace(SECRET, SURROGATE)


@pytest.mark.parametrize(
    ("prompt", "output", "fidelity"),
    [
        ("hi", "there", "exact"),
        (f"I am {SECRET}", "there", "context_changed"),
        ("hi", f"you are {SECRET}", "spliced"),
        (f"I am {SECRET}", f"you are {SECRET}", "spliced"),
        ("I am bob@", "x.org", "dropped"),
        (None, "there", "context_changed"),
    ],
)
def test_ids_become_those_of_the_governed_text(
    prompt: str | None, output: str, fidelity: str
) -> None:
    governed, result = governed_tokens(generation(prompt, output))
    assert result == fidelity
    dropped = fidelity == "dropped"
    for name, text in (("prompt_token_ids", prompt), ("output_token_ids", output)):
        expected = None if dropped or text is None else ids(pseudonymised(text))
        assert governed[name] == expected
    assert len(governed["output_logprobs"] or ()) == len(governed["output_token_ids"] or ())


def test_a_replaced_value_and_its_neighbours_carry_no_loss_and_all_else_stays() -> None:
    before, after = "to ", ", bye"
    given = generation(f"is {SECRET}?", before + SECRET + after)
    given["output_logprobs"] = [-float(n) for n in range(len(given["output_token_ids"]))]
    end = len(given["output_token_ids"])
    given["policy_versions"] = [
        {"version": "v1", "start": 0, "end": 5},
        {"version": "v2", "start": 5, "end": end},
    ]
    given["routed_experts"] = {"layers": 1}
    governed, _ = governed_tokens(given)
    new = len(SURROGATE)
    assert governed["loss_mask"] == [1, 1, 0, *[0] * new, 0, 1, 1, 1, 1]
    kept = given["output_logprobs"]
    assert governed["output_logprobs"] == [*kept[:2], 0.0, *[0.0] * new, 0.0, *kept[-4:]]
    assert [(span["start"], span["end"]) for span in governed["policy_versions"]] == [
        (0, 3 + new),
        (3 + new, len(governed["output_token_ids"])),
    ]
    assert governed["routed_experts"] is None
    prompt = len(given["prompt_token_ids"])
    assert [tuple(each.values()) for each in governed["token_splices"]] == [
        (3, 3 + len(SECRET), new),
        (prompt + 3, prompt + 3 + len(SECRET), new),
    ]
    assert governed_tokens(governed, claimed="spliced") == (governed, "spliced")


def test_a_mask_of_the_producer_stays_where_nothing_is_replaced() -> None:
    given = generation("hi", f"ab{SECRET}")
    given["loss_mask"] = [0, 1, *[1] * len(SECRET)]
    assert governed_tokens(given)[0]["loss_mask"] == [0, 0, *[0] * len(SURROGATE)]


def test_ids_whose_governed_text_is_not_the_governed_message_are_dropped() -> None:
    assert governed_tokens(generation("hi", "there"), message="their")[1] == "dropped"
    assert governed_tokens(generation("hi", f"for {SECRET}"), message="for")[1] == "dropped"


def test_tokens_that_were_spliced_before_are_not_spliced_again() -> None:
    given = generation("hi", f"for {SECRET}", token_splices=[{"start": 0, "end": 1, "tokens": 1}])
    assert governed_tokens(given, claimed="spliced")[1] == "dropped"


def test_tokens_that_the_message_does_not_state_carry_no_loss() -> None:
    call, more = '{"name": "look"}', "and more"
    governed, result = govern_tokens(
        generation("hi", call + more),
        claimed=None,
        message={"parts": [{"type": "tool_call", "text": "{}", "name": "look"}]},
        govern=pseudonymised,
        tokenizers=CodePoints(),
    )
    assert result == "exact"
    assert governed["loss_mask"] == [1] * len(call) + [0] * len(more)


def test_an_unknown_tokenizer_drops_the_ids() -> None:
    assert governed_tokens(generation("hi", "there", tokenizer_hash="b2" * 32))[1] == "dropped"
    assert governed_tokens(generation("hi", "there", tokenizer_hash=None))[1] == "dropped"


@pytest.mark.parametrize(
    ("claimed", "expected"),
    [("exact", "exact"), ("context_changed", "context_changed"), ("dropped", "dropped")],
)
def test_fidelity_can_get_worse_but_never_better(claimed: str, expected: str) -> None:
    assert governed_tokens(generation("hi", "there"), claimed=claimed)[1] == expected


def test_without_ids_exactness_cannot_be_claimed() -> None:
    assert governed_tokens(generation(None, None), claimed="exact")[1] == "unknown"
    assert governed_tokens(generation(None, None), claimed="dropped")[1] == "dropped"


PREFIX = {"prompt_prefix_event_id": "019aa5c0-0000-7000-8000-000000000009"}


@pytest.mark.parametrize(
    ("prompt", "output", "fidelity"),
    [
        ("\0next", "there", "exact"),
        ("next", "there", "context_changed"),
        ("n\0ext", "there", "context_changed"),
        ("", "there", "context_changed"),
        (None, "there", "context_changed"),
        (f"\0I am {SECRET}", "there", "context_changed"),
        ("\0next", f"you are {SECRET}", "spliced"),
        ("next", f"you are {SECRET}", "spliced"),
    ],
)
def test_a_prompt_behind_a_reference_is_kept_only_where_no_value_can_reach_across_the_cut(
    prompt: str | None, output: str, fidelity: str
) -> None:
    given = generation(prompt, output, **PREFIX, prompt_prefix_tokens=7)
    governed, result = governed_tokens(given)
    assert result == fidelity
    if fidelity == "exact":
        assert governed == given
    elif prompt is not None and prompt.startswith("\0"):
        assert governed["prompt_token_ids"] == ids(pseudonymised(prompt))
        assert governed["prompt_prefix_tokens"] == 7
    else:
        assert governed["prompt_token_ids"] is None
        assert governed["prompt_prefix_event_id"] is governed["prompt_prefix_tokens"] is None
    assert governed_tokens(governed, claimed=result) == (governed, result)


def test_an_added_token_that_is_marked_special_is_a_control_token(tmp_path: Path) -> None:
    folder, name = register(tmp_path, decoder=True)
    assert folder.is_control(name, 9)
    assert not folder.is_control(name, 10)  # an added token that is not marked
    assert not folder.is_control(name, 0)
    assert not folder.is_control("b2" * 32, 9)


def register(folder: Path, *, decoder: bool) -> tuple[TokenizerFolder, str]:
    tokenizer = tokenizers.Tokenizer(
        models.WordLevel({character: i for i, character in enumerate("abo@x.rg ")}, "a")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokenizer.add_special_tokens(["<|end|>"])
    tokenizer.add_tokens(["<tool>"])
    if decoder:
        tokenizer.decoder = decoders.Fuse()
    content = tokenizer.to_str().encode()
    name = hashlib.sha256(content).hexdigest()
    (folder / name).mkdir()
    (folder / name / "tokenizer.json").write_bytes(content)
    return TokenizerFolder(folder), name


@pytest.mark.parametrize("decoder", [True, False])
def test_a_registered_tokenizer_gives_the_text_without_gaps_among_its_readings(
    tmp_path: Path, decoder: bool
) -> None:
    folder, name = register(tmp_path, decoder=decoder)
    spelled = ["abo@x.rg ".index(character) for character in "bob@x.org"]
    assert "bob@x.org" in (folder.readings(name, spelled) or ())


def test_an_id_outside_the_vocabulary_an_altered_file_and_a_path_are_unknown(
    tmp_path: Path,
) -> None:
    folder, name = register(tmp_path, decoder=True)
    assert folder.readings(name, [0, 99]) is None
    assert folder.readings(name, [-1]) is None
    assert folder.readings("../" + "a" * 61, [0]) is None
    other = hashlib.sha256(b"other").hexdigest()
    (tmp_path / other).mkdir()
    (tmp_path / other / "tokenizer.json").write_bytes(
        (tmp_path / name / "tokenizer.json").read_bytes()
    )
    assert folder.readings(other, [0]) is None


@pytest.mark.parametrize(
    "before", ["x" * 50, "x" * 199, "x" * 250, "x" * 1_000, "word " * 100, "y\n" * 150]
)
@pytest.mark.parametrize("cut", range(1, len(SECRET)))
def test_a_value_across_the_seam_is_detected_in_any_context(before: str, cut: int) -> None:
    prompt, output = before + SECRET[:cut], SECRET[cut:] + before
    governed, result = governed_tokens(generation(prompt, output))
    assert result == "dropped"
    assert governed["prompt_token_ids"] is governed["output_token_ids"] is None
    assert governed_tokens(generation(before, before))[1] == "exact"


def test_the_seam_does_not_cut_a_number_into_another() -> None:
    def scanned(text: str) -> str:
        assert re.search(r"(?<!\d)\d{5}(?!\d)", text) is None
        return text

    number = "1234567890 "
    for shift in range(11):
        text = "x" * shift + " " + number * 60
        given = generation(text, text)
        message = {"parts": [{"type": "text", "text": text, "name": None}]}
        assert govern_tokens(
            given, claimed=None, message=message, govern=scanned, tokenizers=CodePoints()
        )[1] == "exact"  # fmt: skip


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_log_probability_that_is_not_finite_removes_the_ids(value: float) -> None:
    governed, result = governed_tokens(
        generation("hi", "there", output_logprobs=[-0.5, value, -0.5, -0.5, -0.5])
    )
    assert result == "dropped"
    assert governed["output_logprobs"] is governed["output_token_ids"] is None
