"""What the gate remembers has a bound in bytes, and never answers for another string, tenant or context."""

import pytest
from hypothesis import given, strategies as st

from atdp.governance.byte_lru import Memory
from atdp.governance.gate import Gate
from atdp.governance.policy import CompiledPolicy
from atdp.governance.redact.pseudonyms import TenantKey
from atdp.governance.walk.strings import Governed, StringGovernor
from atdp.runtime.keys import KeyStore

from .test_gate import NOW, gate, raw, store  # noqa: F401 - fixtures


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 30_000)), max_size=60))
def test_what_is_held_stays_within_the_bound_and_is_what_was_put_last(
    puts: list[tuple[int, int]],
) -> None:
    memory: Memory[int] = Memory(100_000)
    last: dict[int, int] = {}
    for name, size in puts:
        key = bytes([name] * 16)
        memory.put(key, size, size)
        if (size + 250) * 64 <= 100_000:
            last[name] = size
        assert 0 <= memory.held_bytes <= 100_000
        found = memory.get(key)
        assert found is None or found == last[name]


def test_the_least_recently_used_goes_first() -> None:
    memory: Memory[str] = Memory(64 * 1_250 * 2)
    keys = [bytes([number] * 16) for number in range(150)]
    for key in keys[:128]:
        memory.put(key, "x", 1_000)
    assert memory.get(keys[0]) == "x"
    memory.put(keys[128], "x", 1_000)
    assert memory.get(keys[0]) == "x"
    assert memory.get(keys[1]) is None


def test_tenants_share_one_bound_but_no_answer(default_policy: CompiledPolicy) -> None:
    memory: Memory[Governed] = Memory(10_000_000)
    governors = [
        StringGovernor(default_policy, TenantKey(bytes([n] * 32)), memory) for n in range(3)
    ]
    answers = {governor.text("write to bob@x.org", "t").text for governor in governors}
    assert len(answers) == len(memory) == 3
    for number in range(150):
        governors[number % 3].text(f"word{number} " * 12_000, "t")
    assert memory.held_bytes <= 10_000_000


def test_a_text_that_ends_like_context_words_gets_no_other_texts_answer(
    default_policy: CompiledPolicy, key: TenantKey
) -> None:
    governor = StringGovernor(default_policy, key)
    governor.text("4155552671\x1fwhatsapp", "t")
    assert "4155552671" not in (governor.text('{"whatsapp": "4155552671"}', "t").text or "")


def test_the_gates_of_many_tenants_are_not_kept_for_ever(
    gate: Gate,  # noqa: F811
    store: KeyStore,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("atdp.governance.gate._TENANTS", 3)
    operator, _ = store.create("*", "operator")
    for number in (0, 1, 0, 2, 3, 4, 0):
        assert gate.decide(raw(operator, tenant=f"t{number}"), NOW).decision == "passed"
    assert [tenant for tenant, _ in gate._tenants] == ["t3", "t4", "t0"]
