"""A draft beside the active policy, on samples in memory."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.planted_text import plant, shown_without_effect

from atdp.governance.errors import PreviewError
from atdp.governance.preview import samples
from atdp.governance.preview.report_page import render_preview_page
from atdp.governance.preview.run import PreviewPolicies, PreviewView, run_preview
from atdp.governance.preview.samples import TrajectorySampler
from atdp.runtime import Home, KeyStore
from atdp.schemas import SigningKey, signed_headers

from .previewed import (
    ACTIVE,
    CARD,
    DRAFT,
    MAIL,
    NAME,
    NOW,
    SERVER,
    TEXTS,
    USER,
    PreviewHome,
    a_window,
    counts,
    model_call,
    only,
    policies,
    trajectories,
    trajectory,
    without_cost,
)


@pytest.fixture(scope="module")
def both() -> PreviewPolicies:
    return policies()


@pytest.fixture
def home(tmp_path: Path) -> PreviewHome:
    return PreviewHome(tmp_path / "home")


def test_values_are_counted_by_entity_under_both_sides(
    home: PreviewHome, both: PreviewPolicies
) -> None:
    sample = only(home.preview(trajectories(10), both, trajectories=None))

    # Each name stands in a text before the key that teaches it, and there once as itself.
    assert counts(sample) == {
        "IP_ADDRESS": (0, 10),
        "USER_ID": (10, 0),
        "PERSON": (20, 20),
        "EMAIL_ADDRESS": (10, 10),
    }
    (servers,) = [row for row in sample.entities if row.name == "IP_ADDRESS"]
    assert (servers.more, servers.fewer, servers.same) == (10, 0, 0)
    (mails,) = [row for row in sample.entities if row.name == "EMAIL_ADDRESS"]
    assert (mails.same, mails.operators) == (10, "surrogate → mask")


def test_decisions_are_counted_by_pair_and_reason(home: PreviewHome, both: PreviewPolicies) -> None:
    sample = only(home.preview(trajectories(10), both, trajectories=None))

    pairs = {(row.active, row.draft): row.records for row in sample.outcomes}
    assert pairs == {
        ("changed", "changed"): 20,
        ("passed", "changed"): 10,
        ("passed", "passed"): 20,
        ("passed", "quarantined"): 2,
    }
    assert [(row.reason, row.active, row.draft) for row in sample.reasons] == [
        ("policy_quarantine", 0, 2)
    ]
    assert (sample.records, sample.changed) == (52, 32)


def test_an_event_that_is_quarantined_takes_training_from_its_trajectory(
    home: PreviewHome, both: PreviewPolicies
) -> None:
    training = only(home.preview(trajectories(10), both, trajectories=None)).training

    assert (training.active, training.draft) == (10, 8)
    assert (training.loses.count, training.loses.of, training.gains.count) == (2, 10, 0)
    assert training.loses.lower is None


def test_a_purpose_that_the_draft_adds_gives_training_back(home: PreviewHome) -> None:
    analytics = ACTIVE.replace("[train, replay, analytics]", "[analytics]")
    draft = ACTIVE.replace("version: 1", "version: 2")

    training = only(
        home.preview(trajectories(4), policies(draft, analytics), trajectories=None)
    ).training

    assert (training.gains.count, training.loses.count) == (4, 0)
    assert [row.reason for row in training.obstacles] == ["purpose_not_allowed"]


def test_a_sample_has_intervals_that_hold_the_share_of_all(
    home: PreviewHome, both: PreviewPolicies
) -> None:
    loses = only(home.preview(trajectories(60), both, trajectories=30)).training.loses

    assert loses.of == 30
    assert loses.lower is not None
    assert loses.upper is not None
    assert loses.lower < 0.2 < loses.upper


def test_token_fidelity_of_model_calls_is_compared(
    home: PreviewHome, both: PreviewPolicies
) -> None:
    said = {"t1": f"ask {SERVER}", "t2": "ask them", "t3": f"ask {CARD}"}
    events = [
        event
        for name, text in said.items()
        for event in trajectory(name, ["hi"], further=[model_call(text)])
    ]

    fidelity = only(home.preview(events, both, trajectories=None)).fidelity

    pairs = {(row.active, row.draft): row.records for row in fidelity.pairs}
    assert pairs == {
        ("exact", "spliced"): 1,
        ("exact", "exact"): 1,
        ("exact", "not governed"): 1,
    }
    assert (fidelity.changes.count, fidelity.loses_exact.count, fidelity.changes.of) == (2, 2, 3)
    assert fidelity.gains_exact.count == 0


def test_rules_are_named_in_trajectories_that_differ(
    home: PreviewHome, both: PreviewPolicies
) -> None:
    sample = only(home.preview(trajectories(10), both, trajectories=None))

    rules = {(row.entity, row.rule): (row.active, row.draft) for row in sample.rules}
    assert sample.explained == sample.differing == 10
    assert rules["USER_ID", "name of the key"] == (10, 0)
    assert rules["PERSON", "learned from the trajectory"] == (10, 10)
    assert rules["IP_ADDRESS", "presidio:IPv4"] == (0, 10)
    assert [each for each in rules if each[0] == "CREDIT_CARD"]


def test_equal_policies_differ_in_nothing(home: PreviewHome) -> None:
    same = policies(ACTIVE.replace("version: 1", "version: 2"), ACTIVE)

    sample = only(home.preview(trajectories(5), same, trajectories=None))

    assert (sample.changed, sample.differing) == (0, 0)
    assert all(row.change == 0 for row in sample.entities)
    assert not sample.examples


def test_nobody_sees_a_text_without_the_permission(
    home: PreviewHome, both: PreviewPolicies
) -> None:
    report = home.preview(trajectories(10), both, trajectories=None)

    shown = json.dumps(report.to_json()) + render_preview_page(report)
    assert only(report).examples
    for value in (NAME, NAME.title(), USER, SERVER, MAIL, CARD, "one moment", "server", "hello"):
        assert value not in shown
    by_direction = {each.direction: each for each in only(report).examples}
    assert by_direction["more"].draft == "… <IP_ADDRESS> …"
    assert by_direction["more"].active == "…"
    assert by_direction["fewer"].active == "… <PERSON> … <USER_ID> …"
    assert by_direction["fewer"].draft == "… <PERSON> …"


def test_names_and_texts_in_the_page_do_nothing(home: PreviewHome, both: PreviewPolicies) -> None:
    report = home.preview(trajectories(10), both, trajectories=None, show_raw=True)
    names = ("id", "name", "path", "entity", "rule", "reason", "before", "active", "draft", "hash")
    assert shown_without_effect(render_preview_page(plant(report, *names))) > 10


def test_a_text_that_looks_like_a_placeholder_is_not_shown(
    home: PreviewHome, both: PreviewPolicies
) -> None:
    events = trajectory("t", [f"<TOP_SECRET_PLAN> at {SERVER}"])

    report = home.preview(events, both)

    assert "TOP_SECRET_PLAN" not in json.dumps(report.to_json())
    assert only(report).examples[0].draft == "… <IP_ADDRESS>"


def test_the_permission_shows_texts_as_both_sides_write_them(
    home: PreviewHome, both: PreviewPolicies
) -> None:
    report = home.preview(trajectories(10), both, trajectories=None, show_raw=True)

    (users,) = [each for each in only(report).examples if each.entities == ["USER_ID"]]
    assert users.raw is not None
    assert USER in (users.raw.before or "")
    assert '"username": "<U>"' in (users.raw.active or "")
    assert USER in (users.raw.draft or "")
    assert NAME.title() not in (users.raw.draft or "")
    assert "This page shows raw data." in render_preview_page(report)


def test_a_long_text_is_cut_to_the_place_of_the_difference(
    home: PreviewHome, both: PreviewPolicies
) -> None:
    before, after = "apple " * 400, " cherry" * 400
    texts = (TEXTS[2], f"{NAME}, {before}{SERVER}{after}")

    report = home.preview(trajectory("t", texts), both, show_raw=True)

    servers = [each for each in only(report).examples if "IP_ADDRESS" in each.entities]
    raw = servers[0].raw
    assert raw is not None
    for text in (raw.before, raw.active, raw.draft):
        assert text is not None
        assert len(text) < 500
        assert "apple" in text
        assert "cherry" in text
    assert SERVER in (raw.before or "")
    assert SERVER not in (raw.draft or "")


def test_the_same_seed_gives_the_same_report_in_any_order_of_partitions(
    home: PreviewHome, both: PreviewPolicies
) -> None:
    events = trajectories(30)
    other = sorted(events, key=lambda event: (event.trajectory_id, event.seq))

    first = home.preview(events, both, trajectories=8)
    again = home.preview(events, both, trajectories=8)
    sorted_log = home.preview(other, both, trajectories=8)
    other_seed = home.sample(events, both, trajectories=8, seed=2)

    assert without_cost(first) == without_cost(again)
    assert without_cost(first).samples[0].entities == without_cost(sorted_log).samples[0].entities
    drawn = {each.records[0].event["trajectory_id"] for each in other_seed.trajectories}  # type: ignore[index]
    assert len(drawn) == 8
    assert drawn != {
        each.records[0].event["trajectory_id"]  # type: ignore[index]
        for each in home.sample(events, both, trajectories=8).trajectories
    }


def test_a_preview_of_a_new_tenant_compares_with_no_policy(home: PreviewHome) -> None:
    report = home.preview(trajectories(5), policies(active=None), trajectories=None)

    sample = only(report)
    assert report.without_policy == ["acme"]
    assert {row.active for row in sample.outcomes} == {"quarantined"}
    assert counts(sample)["IP_ADDRESS"] == (0, 5)
    assert [row.reason for row in sample.reasons] == ["no_policy", "policy_quarantine"]
    assert "No active policy" in render_preview_page(report)


def test_paths_in_which_nothing_changes_are_folded(
    home: PreviewHome, both: PreviewPolicies
) -> None:
    report = home.preview(trajectory("t1"), both)

    same = sum(row.is_same for row in only(report).paths)
    page = render_preview_page(report)
    assert f"Nothing changes in {same} path" in page if same else "<details>" not in page


def test_records_of_other_tenants_are_not_sampled(home: PreviewHome, both: PreviewPolicies) -> None:
    events = [*trajectory("t1"), *trajectory("t2", tenant="globex")]

    report = home.preview(events, both)

    assert report.tenants == ["acme"]
    assert only(report).trajectories == 1


def test_a_record_that_its_sender_may_not_send_is_set_aside_under_both_sides(
    home: PreviewHome, both: PreviewPolicies
) -> None:
    stranger, _ = home.keys.create("globex", "agent")

    report = home.preview(trajectory("t1"), both, key=stranger, show_raw=True)
    sample = only(report)

    # The records belong to the tenant of the key, and their texts are shown to nobody else.
    assert sample.records == 0
    assert not sample.examples
    drawn = len(trajectory("t1"))
    assert report.to_json()["samples"][0]["not_compared"] == {"tenant_mismatch": drawn}
    assert f"{drawn} tenant_mismatch" in render_preview_page(report)


def test_records_whose_sender_is_not_known_are_named(
    home: PreviewHome, both: PreviewPolicies
) -> None:
    with KeyStore(Home(home.home.root / "elsewhere").keys_db) as keys:
        stranger, _ = keys.create("acme", "agent")

    sample = only(home.preview(trajectory("t1"), both, key=stranger))

    assert sample.not_compared == {"unknown_key": len(trajectory("t1"))}
    assert "unknown_key" in sample.remark


def test_only_the_kinds_that_are_asked_for_count(home: PreviewHome, both: PreviewPolicies) -> None:
    sample = only(
        home.preview(
            trajectories(5), both, trajectories=None, kinds=frozenset({"trajectory_ended"})
        )
    )

    assert (sample.records, sample.changed) == (5, 0)


def test_a_trajectory_without_its_beginning_is_counted(
    home: PreviewHome, both: PreviewPolicies
) -> None:
    events = [*trajectory("t1"), *trajectory("t2")[1:]]

    assert only(home.preview(events, both)).begun_before == 1


def test_an_unreadable_record_is_set_aside_under_both_sides(
    home: PreviewHome, both: PreviewPolicies
) -> None:
    sampler = TrajectorySampler(a_window(), both.wants)
    (raw,) = home.raw(trajectory("t1", []))
    value = b"no event of acme"
    signed = signed_headers(SigningKey.parse(home.key), raw.topic, raw.key, value)
    broken = replace(raw, value=value, headers=signed)
    sampler.add(b"acme/t1", broken)

    with home.opened() as opened:
        report = run_preview(
            both, [sampler.sample("raw")], a_window(), opened, PreviewView(now=NOW)
        )

    assert [(row.active, row.draft) for row in only(report).outcomes] == [
        ("quarantined", "quarantined")
    ]
    assert [row.reason for row in only(report).reasons] == ["unknown_schema"]


def test_a_sample_that_needs_too_much_memory_is_refused(
    home: PreviewHome, both: PreviewPolicies, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(samples, "MOST_BYTES", 1_000)

    with pytest.raises(PreviewError, match=r"choose fewer trajectories or a shorter window"):
        home.sample(trajectories(10), both, trajectories=None)
    assert home.sample(trajectories(10), both, trajectories=1).in_window == 10


def test_an_empty_window_says_what_to_do(home: PreviewHome, both: PreviewPolicies) -> None:
    with pytest.raises(PreviewError, match=r"no record of acme in raw between .* earlier --since"):
        home.preview([], both)


def test_a_tenant_to_which_the_draft_does_not_apply_is_named() -> None:
    with pytest.raises(PreviewError, match=r"names@2 does not apply to globex; it applies to acme"):
        policies(tenants=["globex"])


def test_nothing_is_written_to_the_home(home: PreviewHome, both: PreviewPolicies) -> None:
    def files() -> dict[Path, bytes]:
        # SQLite makes its write-ahead files again whenever it opens a store.
        return {
            path: path.read_bytes()
            for path in home.home.root.rglob("*")
            if path.is_file() and not path.name.startswith("keys.sqlite-")
        }

    before = files()
    home.preview(trajectories(5), both)

    assert files() == before


def test_a_policy_for_all_tenants_leaves_alone_those_that_another_one_names() -> None:
    for_all = DRAFT.replace("[acme]", '["*"]').replace("id: names", "id: default")

    sampled = policies(for_all)

    assert not sampled.wants("acme")
    assert sampled.wants("globex")
