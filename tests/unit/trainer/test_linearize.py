"""Turns become rows: what is trained, what is context, where a row ends."""

from collections import Counter
from dataclasses import replace

from hypothesis import given, strategies as st

from atdp.trainer.linearize import linearize
from atdp.trainer.trajectory import Turn

IDS = st.lists(st.integers(0, 9), min_size=1, max_size=5).map(tuple)


def turn(prompt: tuple[int, ...], output: tuple[int, ...], **more: object) -> Turn:
    logprobs = tuple(-0.1 * (n + 1) for n in range(len(output)))
    base = Turn(prompt_ids=prompt, output_ids=output, logprobs=logprobs, versions=("v1",))
    return replace(base, **more)  # type: ignore[arg-type]


def test_turns_that_extend_each_other_share_a_row_and_only_outputs_are_trained() -> None:
    merged = linearize([turn((1, 2), (3, 4)), turn((1, 2, 3, 4, 5), (6,))])
    (row,) = merged.rows
    assert row.tokens.tolist() == [1, 2, 3, 4, 5, 6]
    assert row.trained.tolist() == [False, False, True, True, False, True]
    assert row.logprobs.tolist()[5] < 0 == row.logprobs.tolist()[4]
    assert (merged.clean, merged.forks) == (1, 0)


def test_a_prompt_that_rewrites_history_begins_a_row_in_which_the_old_output_is_context() -> None:
    merged = linearize([turn((1, 2), (3, 4)), turn((1, 2, 3, 9, 5), (6,))])
    assert [row.tokens.tolist() for row in merged.rows] == [[1, 2, 3, 4], [1, 2, 3, 9, 5, 6]]
    assert merged.rows[1].trained.tolist() == [False] * 5 + [True]
    assert (merged.clean, merged.forks) == (0, 1)


def test_a_shorter_prompt_forks_too() -> None:
    assert linearize([turn((1, 2, 3), (4,)), turn((1, 2), (5,))]).forks == 1


def test_turns_sampled_at_different_temperatures_do_not_share_a_row() -> None:
    merged = linearize([turn((1,), (2,)), turn((1, 2, 3), (4,), temperature=0.5)])
    assert [row.temperature for row in merged.rows] == [1.0, 0.5]


def test_masked_output_tokens_are_context() -> None:
    (row,) = linearize([turn((1,), (2, 3, 4), loss_mask=(1, 0, 1))]).rows
    assert row.trained.tolist() == [False, True, False, True]


@given(st.lists(st.tuples(IDS, IDS, st.booleans()), min_size=1, max_size=6))
def test_every_output_token_is_trained_exactly_once_however_turns_merge(
    parts: list[tuple[tuple[int, ...], tuple[int, ...], bool]],
) -> None:
    turns: list[Turn] = []
    earlier: tuple[int, ...] = ()
    for added, output, extends in parts:
        prompt = (*earlier, *added) if extends else added
        turns.append(turn(prompt, output))
        earlier = (*prompt, *output)
    merged = linearize(turns)
    trained = Counter(
        int(t) for row in merged.rows for t, m in zip(row.tokens, row.trained, strict=True) if m
    )
    assert trained == Counter(token for t in turns for token in t.output_ids)
    assert merged.clean + merged.forks == len(turns) - 1
