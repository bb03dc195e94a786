"""References to earlier generations: where prompts are cut, and how they become whole again."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given, strategies as st

from atdp.schemas import (
    Action,
    Agent,
    BrokenPrefix,
    Event,
    Generation,
    PromptMemory,
    Source,
    TenantId,
    TokenSplice,
    TrajectoryId,
    WholePrompts,
    control_token_ids,
    new_event_id,
    with_whole_prompts,
)
from atdp.schemas.prompt_references import producer_key

TOKENIZER = "a" * 64
TURN = 0
SYSTEM = (TURN, *range(100, 150))


def event(generation: Generation, producer: str = "p") -> Event:
    return Event(
        event_id=new_event_id(),
        tenant_id=TenantId("acme"),
        trajectory_id=TrajectoryId("t"),
        producer_id=producer,
        seq=0,
        occurred_at=datetime(2026, 1, 1, tzinfo=UTC),
        agent=Agent(id="a"),
        source=Source(format="sdk"),
        body=Action(type="generation", generation=generation),
    )


def call(*prompt: int, output: tuple[int, ...] = (7, 8)) -> Generation:
    return Generation(prompt_token_ids=prompt, output_token_ids=output, tokenizer_hash=TOKENIZER)


def generation_of(each: Event) -> Generation:
    assert isinstance(each.body, Action)
    assert each.body.generation is not None
    return each.body.generation


class Producer:
    """A producer that appends every generation to a log."""

    def __init__(self, memory: PromptMemory, name: str = "p") -> None:
        self.memory = memory
        self.name = name
        self.log: list[Event] = []

    def write(self, generation: Generation, *, lands: bool = True) -> Event:
        made = event(generation, self.name)
        written = self.memory.shorten(producer_key(made), generation)
        made = replace(made, body=Action(type="generation", generation=written))
        if lands:
            self.memory.remember(made)
            self.log.append(made)
        return made


@pytest.fixture
def producer() -> Producer:
    return Producer(PromptMemory({TOKENIZER: {TURN}}))


def test_a_prompt_is_cut_at_the_last_control_token_of_what_it_shares(producer: Producer) -> None:
    first = producer.write(call(*SYSTEM, TURN, 1, 2))
    second = generation_of(producer.write(call(*SYSTEM, TURN, 1, 2, 7, 8, 5, TURN, 3)))
    assert second.prompt_prefix_event_id == first.event_id
    assert second.prompt_prefix_tokens == len(SYSTEM)
    assert second.prompt_token_ids == (TURN, 1, 2, 7, 8, 5, TURN, 3)
    third = generation_of(producer.write(call(*SYSTEM, TURN, 1, 2, 7, 8, 5, TURN, 3, 7, 8, TURN)))
    assert third.prompt_prefix_tokens == len(SYSTEM) + 10
    assert third.prompt_token_ids == (TURN,)


@pytest.mark.parametrize(
    "generation",
    [
        call(TURN, 1, 2),  # too short to save anything
        call(*SYSTEM[1:], TURN),  # no common prefix
        call(*SYSTEM[:40], *range(500, 540)),  # no control token but the first
        replace(call(*SYSTEM, TURN), tokenizer_hash="b" * 64),
        replace(call(*SYSTEM, TURN), tokenizer_hash=None),
        replace(call(*SYSTEM, TURN), prompt_token_ids=None),
        replace(call(TURN, 1), prompt_prefix_event_id="e", prompt_prefix_tokens=60),
        call(*SYSTEM, TURN, 1 << 40),
    ],
)
def test_a_prompt_stays_as_it_is_where_a_reference_is_wrong_or_saves_nothing(
    producer: Producer, generation: Generation
) -> None:
    producer.write(call(*SYSTEM))
    assert generation_of(producer.write(generation)) is generation


def test_only_what_landed_from_the_same_producer_is_referred_to(producer: Producer) -> None:
    producer.write(call(*SYSTEM, TURN, 1), lands=False)
    assert generation_of(producer.write(call(*SYSTEM, TURN, 1))).prompt_prefix_event_id is None
    other = Producer(producer.memory, "other")
    assert generation_of(other.write(call(*SYSTEM, TURN, 1))).prompt_prefix_event_id is None
    producer.memory.forget(producer_key(producer.log[0]))
    assert generation_of(producer.write(call(*SYSTEM, TURN, 1))).prompt_prefix_event_id is None


def test_several_answers_to_one_prompt_and_conversations_in_turn_all_find_their_prefix(
    producer: Producer,
) -> None:
    other = (TURN, *range(200, 260))
    for turn in range(6):
        for start in (SYSTEM, other):
            for choice in range(3):
                prompt = (*start, *(TURN, 1) * turn, TURN)
                written = producer.write(call(*prompt, output=(choice,)))
                if turn:
                    assert len(generation_of(written).prompt_token_ids or ()) <= 4


def test_the_memory_is_bounded_and_its_count_is_right() -> None:
    memory = PromptMemory({TOKENIZER: {TURN}}, max_tokens=1_000)
    for number in range(50):
        Producer(memory, f"p-{number}").write(call(*SYSTEM, *range(number)))
        assert memory.held_tokens <= 1_000
    assert memory.held_tokens > 800
    Producer(memory, "large").write(call(*range(2_000)))
    assert memory.held_tokens == 0


histories = st.lists(
    st.tuples(
        st.integers(0, 80),
        st.lists(st.integers(0, 3), max_size=60),
        st.lists(st.integers(0, 3), max_size=30),
        st.booleans(),
    ),
    max_size=12,
)


@given(histories, st.integers(50, 500))
def test_prompts_come_back_whole_whatever_the_history_does(
    history: list[tuple[int, list[int], list[int], bool]], max_tokens: int
) -> None:
    producer = Producer(PromptMemory({TOKENIZER: {TURN}}, max_tokens=max_tokens))
    prompts = []
    context = list(SYSTEM)
    for keep, added, output, lands in history:
        context = [*context[:keep], *SYSTEM[keep:], *added]
        producer.write(call(*context, output=tuple(output)), lands=lands)
        if lands:
            prompts.append(tuple(context))
        context += output
    whole = WholePrompts()
    added_prompts = [whole.add(each.event_id, generation_of(each)) for each in producer.log]
    assert [(each.token_ids, each.broken) for each in added_prompts] == [
        (prompt, None) for prompt in prompts
    ]
    restored = [generation_of(each) for each in with_whole_prompts(producer.log)]
    assert [each.prompt_token_ids for each in restored] == prompts
    assert all(each.prompt_prefix_event_id is None for each in restored)


PERSONAL = 105
"""A token of the system prompt that governance replaces by two others."""


def governed(generation: Generation) -> Generation:
    """Return the generation as governance writes it: personal tokens replaced, splices noted."""
    own = (*(generation.prompt_token_ids or ()), *(generation.output_token_ids or ()))
    cut = len(generation.prompt_token_ids or ())
    return replace(
        generation,
        prompt_token_ids=replaced(own[:cut]),
        output_token_ids=replaced(own[cut:]),
        token_splices=tuple(
            TokenSplice(start=at, end=at + 1, tokens=2)
            for at, token in enumerate(own)
            if token == PERSONAL
        ),
    )


def replaced(tokens: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(new for old in tokens for new in ((900, 901) if old == PERSONAL else (old,)))


@given(histories)
def test_a_reference_leads_to_the_same_place_after_governance_has_replaced_tokens(
    history: list[tuple[int, list[int], list[int], bool]],
) -> None:
    producer = Producer(PromptMemory({TOKENIZER: {TURN}}, max_tokens=10_000))
    prompts = []
    context = list(SYSTEM)
    for number, (keep, added, output, _) in enumerate(history):
        context = [*context[:keep], *SYSTEM[keep:], *added, *[PERSONAL] * (number % 2)]
        answer = (*output, *[PERSONAL] * (number % 3))
        producer.write(call(*context, output=answer), lands=True)
        prompts.append(tuple(context))
        context += answer
    whole = WholePrompts()
    read = [whole.add(each.event_id, governed(generation_of(each))) for each in producer.log]
    assert [each.token_ids for each in read] == [replaced(prompt) for prompt in prompts]
    assert [each.replaced for each in read] == [PERSONAL in prompt for prompt in prompts]


def test_a_reference_into_replaced_tokens_is_withheld() -> None:
    prompts = WholePrompts()
    spliced = replace(call(1, 900, 3), token_splices=(TokenSplice(start=1, end=3, tokens=1),))
    prompts.add("spliced", spliced)
    assert prompts.add("in", reference("spliced", 2, 9)).broken is BrokenPrefix.WITHHELD
    assert prompts.add("behind", reference("spliced", 4, 9)).token_ids == (1, 900, 3, 9)


def reference(to: str, tokens: int, *own: int) -> Generation:
    return replace(call(*own), prompt_prefix_event_id=to, prompt_prefix_tokens=tokens)


@pytest.mark.parametrize(
    ("earlier", "tokens", "reason"),
    [
        (call(1, 2, 3), 6, BrokenPrefix.TOO_LONG),
        (replace(call(1, 2, 3), prompt_token_ids=None), 2, BrokenPrefix.WITHHELD),
        (replace(call(1, 2, 3), output_token_ids=None), 4, BrokenPrefix.WITHHELD),
        (reference("itself", 2, 5), 2, BrokenPrefix.WITHHELD),
        (reference("later", 2, 5), 2, BrokenPrefix.WITHHELD),
    ],
)
def test_a_reference_that_cannot_be_followed_has_a_reason_and_gives_no_prompt(
    earlier: Generation, tokens: int, reason: BrokenPrefix
) -> None:
    prompts = WholePrompts()
    prompts.add("itself", earlier)
    broken = prompts.add("later", reference("itself", tokens, 9))
    assert (broken.token_ids, broken.broken) == (None, reason)
    assert prompts.add("last", reference("missing", 1, 9)).broken is BrokenPrefix.UNKNOWN
    withheld = replace(reference("later", 1), prompt_token_ids=None)
    assert prompts.add("own", withheld).broken is BrokenPrefix.WITHHELD


def test_few_bytes_of_references_do_not_fill_the_memory_of_a_reader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("atdp.schemas.whole_prompts.MAX_REFERENCED_TOKENS", 1_000)
    prompts = WholePrompts()
    prompts.add("first", call(*range(400)))
    broken = [prompts.add(str(number), reference("first", 400, 9)).broken for number in range(100)]
    assert broken == [None, None] + 98 * [BrokenPrefix.TOO_MANY]
    assert prompts.add("short", reference("first", 200, 9)).broken is None


def test_an_event_whose_reference_cannot_be_followed_keeps_it_and_has_no_prompt() -> None:
    (left,) = with_whole_prompts([event(reference("missing", 1, 9))])
    assert generation_of(left).prompt_token_ids is None
    assert generation_of(left).prompt_prefix_event_id == "missing"


def test_control_tokens_are_the_added_tokens_that_are_marked_special() -> None:
    document = (
        '{"added_tokens": [{"id": 3, "special": true}, {"id": 4, "special": false}, {"id": 5}]}'
    )
    assert control_token_ids(document) == {3}
    assert control_token_ids(b"{}") == frozenset()
    for wrong in ("[]", "", '{"added_tokens": [1]}', '{"added_tokens": [{"special": true}]}'):
        with pytest.raises(ValueError, match=r"tokenizer|Expecting"):
            control_token_ids(wrong)
