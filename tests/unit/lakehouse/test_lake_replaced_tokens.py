"""Generations of which governance has replaced tokens, as readers get them."""

from dataclasses import fields
from typing import Any

import pytest

from atdp.lakehouse import stamps
from atdp.lakehouse.admission import admitted_fidelities
from atdp.lakehouse.generation_rows import generation_record
from atdp.lakehouse.trajectory_records import GenerationRecord
from atdp.schemas import TokenFidelity, WholePrompts


def row(
    event_id: str, fidelity: str, *splices: tuple[int, int, int], **given: Any
) -> dict[str, Any]:
    """Return a row of `generations.sql`: prompt 1 2 3, output 4 5 6, as governance left them."""
    return {
        **{each.name: None for each in fields(GenerationRecord)},
        "ext_json": None,
        "logprob_encoding": None,
        "frequency_penalty": None,
        "presence_penalty": None,
        "event_id": event_id,
        "prompt_token_ids": [1, 2, 3],
        "prompt_prefix_event_id": None,
        "prompt_prefix_tokens": None,
        "output_token_ids": [4, 5, 6],
        "token_fidelity": fidelity,
        "token_splices": [
            {"start": start, "end": end, "tokens": tokens} for start, end, tokens in splices
        ],
        **given,
    }


def read(*rows: dict[str, Any]) -> list[GenerationRecord]:
    prompts = WholePrompts()
    return [generation_record(each, prompts, context_intact=True) for each in rows]


@pytest.mark.parametrize(
    ("fidelity", "splices", "stale_from"),
    [
        ("exact", (), None),
        ("context_changed", ((1, 2, 1),), 0),
        ("context_changed", (), 0),
        ("spliced", ((5, 6, 1),), 2),
        ("spliced", ((1, 2, 1), (5, 6, 1)), 0),
        ("spliced", (), 0),
    ],
)
def test_log_probabilities_are_stale_behind_the_first_replaced_token(
    fidelity: str, splices: tuple[tuple[int, int, int], ...], stale_from: int | None
) -> None:
    (record,) = read(row("a", fidelity, *splices))
    assert record.stale_from == stale_from


def test_a_generation_that_refers_to_replaced_tokens_has_a_changed_context() -> None:
    later = row("b", "exact", prompt_prefix_event_id="a", prompt_prefix_tokens=5)
    _, record = read(row("a", "spliced", (3, 5, 1)), later)
    assert record.prompt_token_ids == (1, 2, 3, 4, 1, 2, 3)
    assert (record.token_fidelity, record.stale_from) == ("context_changed", 0)
    _, exact = read(row("a", "exact"), later)
    assert (exact.token_fidelity, exact.stale_from) == ("exact", None)


@pytest.mark.parametrize(
    ("worst", "admitted"),
    [
        ("exact", {"exact"}),
        ("context_changed", {"exact", "context_changed"}),
        ("spliced", {"exact", "context_changed", "spliced"}),
        ("dropped", {"exact", "context_changed", "spliced"}),
    ],
)
def test_a_reading_admits_fidelities_up_to_the_one_it_asks_for(
    worst: TokenFidelity, admitted: set[str]
) -> None:
    assert admitted_fidelities(worst) == admitted
    stamped = {
        "without_stamp": False,
        "without_consent": False,
        "without_purpose": False,
        "settled": True,
        "training_eligible": True,
    }
    for fidelity in ("exact", "context_changed", "spliced", "dropped", "unknown"):
        reason = stamps.refusal(stamped | {"token_fidelity": fidelity}, "train", exact=worst)
        assert reason == (None if fidelity in admitted else stamps.NOT_EXACT)
        assert stamps.refusal(stamped | {"token_fidelity": fidelity}, "train", exact=None) is None
