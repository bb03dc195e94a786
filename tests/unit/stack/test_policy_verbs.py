"""The verbs of `atdp policy` as a steward would call them, on a register in memory."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from atdp.runtime import Home, KeyStore, MemoryLog, MemoryRegister
from atdp.stack.cli.app import build

POLICY = """\
apiVersion: atdp.governance/v1
kind: GovernancePolicy
metadata: {id: acme, version: 1, reason: first rules}
applies_to: {tenants: [acme]}
purposes: [analytics]
entities:
  EMAIL_ADDRESS: {do: surrogate}
fields:
  - {path: "**", do: scan}
tests:
  - in: {text: write to bob@corp.org}
    expect_absent: [bob@corp.org]
    expect_entities: [EMAIL_ADDRESS]
"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The output and the exit code of one call of the command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Call = Callable[..., Outcome]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    made = Home(tmp_path / "home")
    with KeyStore(made.keys_db) as keys:
        keys.ensure_operator(made.operator_key_file)
    monkeypatch.setenv("ATDP_HOME", str(made.root))
    monkeypatch.delenv("ATDP_API_KEY", raising=False)
    monkeypatch.delenv("ATDP_KAFKA_BOOTSTRAP", raising=False)
    monkeypatch.chdir(tmp_path)
    return made


@pytest.fixture
def policy(home: Home, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Return a function that calls `atdp policy` in the folder of the test."""
    log = MemoryLog()
    monkeypatch.setattr("atdp.runtime.open_register", lambda _home: MemoryRegister(log))
    return call


def call(*words: str) -> Outcome:
    result = CliRunner().invoke(build(), ["policy", *words])
    return Outcome(result.exit_code, result.stdout, result.stderr)


def key_of(home: Home, tenant: str, role: str = "steward") -> str:
    with KeyStore(home.keys_db) as keys:
        return str(keys.create(tenant, role)[0])


def write(text: str, name: str = "acme.yaml") -> str:
    Path(name).write_text(text, encoding="utf-8")
    return name


def version(number: int, text: str = POLICY) -> str:
    return text.replace("version: 1", f"version: {number}")


def in_force(policy: Call, text: str = POLICY, *, number: int = 1) -> None:
    assert policy("draft", write(version(number, text))).code == 0
    assert policy("approve", f"acme@{number}").code == 0
    assert policy("activate", f"acme@{number}").code == 0


def test_from_a_template_to_an_active_policy(policy: Call) -> None:
    made = policy("init", "acme", "--template", "none", "--tenant", "acme")
    assert made.out.startswith("wrote acme.yaml, and policy.schema.json for editors; next:")
    assert policy("lint", "acme.yaml").code == 0
    tested = policy("test", "acme.yaml")
    assert (tested.code, " tests passed, 0 failed" in tested.err) == (0, True)
    assert "next: atdp policy approve acme@1" in policy("draft", "acme.yaml").out
    assert "next: atdp policy activate acme@1" in policy("approve", "acme@1").out
    assert policy("activate", "acme@1").out.startswith("acme@1 is active for acme; hash ")


def test_every_decision_is_json_too(policy: Call, home: Home) -> None:
    write(POLICY)
    drafted = policy("draft", "acme.yaml", "--format", "json").json
    assert (drafted["id"], drafted["version"], drafted["state"]) == ("acme", 1, "drafted")
    assert "text" not in drafted
    approved = policy("approve", "acme@1", "--hash", drafted["hash"][:8], "--json").json
    assert approved["approved_by"] == [drafted["drafted_by"]]
    active = policy("activate", "acme@1", "--reason", "why", "--json").json
    assert active["state"] == "active"
    [listed] = policy("list", "--json").json
    assert (listed["id"], listed["active_version"], listed["tenants"]) == ("acme", 1, ["acme"])
    lines = policy("history", "acme", "--json").json
    assert [each["decision"] for each in lines] == ["drafted", "approved", "activated"]


def test_tables_have_the_beginning_of_hashes_and_json_has_all(policy: Call) -> None:
    in_force(policy)
    [listed] = policy("list", "--json").json
    for verb in (["list"], ["history", "acme"]):
        shown = policy(*verb).out
        assert listed["active_hash"][:12] in shown
        assert listed["active_hash"][:13] not in shown
    assert "[]" not in policy("test", "acme.yaml").out


def test_an_empty_file_has_one_message(policy: Call) -> None:
    for verb in ("test", "draft", "preview"):
        done = policy(verb, write("", "empty.yaml"))
        assert done.code == 1
        assert "kind: the document must be a GovernancePolicy or AccessPolicy" in done.err
    linted = policy("lint", "empty.yaml")
    assert (linted.code, "1 problem\n" in linted.err) == (1, True)


def test_an_id_says_what_it_may_hold(policy: Call) -> None:
    refused = policy("init", "Bad Name", "--tenant", "acme")
    assert (refused.code, "small letters, digits" in refused.err) == (1, True)


def test_show_prints_the_text_so_that_it_can_be_written_to_a_file(policy: Call) -> None:
    in_force(policy)
    policy("draft", write(version(2)))
    shown = policy("show", "acme")
    assert shown.out == POLICY
    assert shown.err.startswith("acme@1 is active; hash ")
    assert policy("show", "acme@2").out == version(2)
    details = policy("show", "acme@2", "--json").json
    assert (details["state"], details["text"]) == ("drafted", version(2))


def test_a_steward_works_with_its_key(
    policy: Call, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = key_of(home, "acme")
    assert policy("draft", write(POLICY), "--key", key).code == 0
    monkeypatch.setenv("ATDP_API_KEY", key)
    assert policy("approve", "acme@1").code == 0
    monkeypatch.setenv("ATDP_API_KEY", key_of(home, "globex"))
    assert "no policy 'acme' that you may see" in refused(policy("activate", "acme@1"))
    assert policy("list", "--json").json == []
    monkeypatch.setenv("ATDP_API_KEY", key_of(home, "acme", "analyst"))
    assert "role 'analyst' may not govern" in refused(policy("list"))
    monkeypatch.setenv("ATDP_API_KEY", "atdp_nonsense")
    assert "unknown or wrong" in refused(policy("list"))


def test_the_two_person_rule(policy: Call, home: Home) -> None:
    ann, bob = key_of(home, "acme"), key_of(home, "acme")
    assert policy("settings").out == "the two-person rule is off\n"
    assert "only an operator" in refused(policy("settings", "--two-person", "--key", ann))
    assert policy("settings", "--two-person").out == "the two-person rule is on\n"
    assert policy("settings", "--json").json == {"two_person": True}
    policy("draft", write(POLICY), "--key", ann)
    assert "cannot approve it, because the two-person" in refused(
        policy("approve", "acme@1", "--key", ann)
    )
    assert policy("approve", "acme@1", "--key", bob).code == 0
    assert policy("activate", "acme@1", "--key", ann).code == 0
    assert policy("settings", "--no-two-person").code == 0


def test_a_roll_back(policy: Call) -> None:
    in_force(policy)
    in_force(policy, POLICY.replace("surrogate", "hash"), number=2)
    assert policy("rollback", "acme").out.startswith("acme@3 is active for acme")
    assert "do: surrogate" in policy("show", "acme").out
    assert policy("rollback", "acme", "--to", "2").code == 0
    assert "acme@9 was never active" in refused(policy("rollback", "acme", "--to", "9"))
    policy("settings", "--two-person")
    assert "drafted acme@5; another principal has to approve it" in policy("rollback", "acme").out


def test_diff_says_in_words_what_is_weaker(policy: Call) -> None:
    assert "no policy is in force" in policy("diff", write(POLICY)).out
    in_force(policy)
    weaker = POLICY.replace("purposes: [analytics]", "purposes: [analytics, train]")
    shown = policy("diff", write(version(2, weaker)))
    assert "acme@2 beside acme@1:\n  weaker    allows the purpose train\n" in shown.out
    assert "+purposes: [analytics, train]" in shown.out
    policy("draft", "acme.yaml")
    by_id = policy("diff", "acme", "--json").json
    assert (by_id["policy"], by_id["in_force"]) == ("acme@2", "acme@1")
    assert [each["effect"] for each in by_id["changes"]] == ["weaker"]
    assert policy("diff", "acme@2", "--format", "csv").out.startswith("effect,part,words\nweaker,")
    assert "no rule differs" in policy("diff", "acme@1").out


def test_a_policy_without_a_version_in_force_is_compared_with_what_applies_now(
    policy: Call,
) -> None:
    general = POLICY.replace("id: acme", "id: default").replace("[acme]", '["*"]')
    policy("draft", write(general))
    policy("approve", "default@1")
    policy("activate", "default@1")
    shown = policy("diff", write(POLICY)).out
    assert "acme@1 beside default@1:" in shown
    assert "applies to the tenant acme, too" in shown


def test_a_failing_test_stops_the_activation(policy: Call) -> None:
    failing = POLICY.replace("[bob@corp.org]", "[write]")
    shown = policy("test", write(failing), "--json")
    assert (shown.code, shown.err) == (1, "0 tests passed, 1 failed\n")
    policy("draft", "acme.yaml")
    policy("approve", "acme@1")
    assert "not activated: test 1 failed: expect_absent[0] still stands" in refused(
        policy("activate", "acme@1")
    )
    assert policy("test", "acme@1").code == 1


FLOOR = POLICY + "evaluation: labels.jsonl\nmin_recall: {EMAIL_ADDRESS: 0.9}\n"
TEXT = "Write to kira@zedmail.com today."
LABELS = json.dumps(
    {
        "full_text": TEXT,
        "spans": [{"entity_type": "EMAIL_ADDRESS", "start_position": 9, "end_position": 25}],
    }
)
MISSED = json.dumps(
    {
        "full_text": "Write to kira at zedmail today.",
        "spans": [{"entity_type": "EMAIL_ADDRESS", "start_position": 9, "end_position": 24}],
    }
)


def test_a_floor_of_recall_that_is_not_met_stops_the_activation(policy: Call, home: Home) -> None:
    policy("draft", write(FLOOR))
    policy("approve", "acme@1")
    assert "labels.jsonl" in refused(policy("activate", "acme@1"))
    Path("labels.jsonl").write_text(f"{LABELS}\n{MISSED}\n")
    tested = policy("test", "acme.yaml", "--json").json
    assert [(each["test"], each["passed"]) for each in tested] == [
        ("test 1", True),
        ("min_recall of EMAIL_ADDRESS", False),
    ]
    assert "and the floor is 0.9" in refused(policy("activate", "acme@1", "--evaluations", "."))
    home.policies.mkdir()
    (home.policies / "labels.jsonl").write_text(LABELS)
    assert policy("activate", "acme@1").code == 0


def refused(outcome: Outcome) -> str:
    """Return the one line of an error."""
    assert outcome.code == 1, outcome
    assert outcome.err.startswith("error: ")
    assert outcome.err.count("\n") == 1
    return outcome.err


WRONG = [
    ("kind: [", ":1:8: "),
    (POLICY.replace("surrogate", "hide"), ":7:"),
    (POLICY.replace('path: "**"', "path: metadata_json"), "catch-all"),
    (POLICY.replace("purposes", "purpose"), ":5:"),
    ("kind: Consent\n", ":1:1"),
    ("", ":1:1"),
]


@pytest.mark.parametrize("verb", ["draft", "diff", "test"])
@pytest.mark.parametrize(("text", "words"), WRONG)
def test_a_wrong_file_is_refused_with_its_place(
    policy: Call, verb: str, text: str, words: str
) -> None:
    message = refused(policy(verb, write(text)))
    assert "acme.yaml" in message
    assert words in message


@pytest.mark.parametrize(("text", "words"), WRONG)
def test_lint_prints_every_problem_with_its_place(policy: Call, text: str, words: str) -> None:
    found = policy("lint", write(text))
    assert found.code == 1
    assert found.out.startswith("acme.yaml:")
    assert words in found.out


@pytest.mark.parametrize("verb", ["draft", "diff", "test", "lint"])
def test_a_file_that_cannot_be_read_is_named(policy: Call, verb: str) -> None:
    assert "cannot read acme.yaml: No such file" in refused(policy(verb, "acme.yaml"))
    Path("acme.yaml").write_bytes(b"\xff\xfe")
    assert "cannot read acme.yaml: it is not UTF-8" in refused(policy(verb, "acme.yaml"))


def test_an_unknown_entity_and_a_path_of_no_event_are_found_by_lint_and_refused_at_activation(
    policy: Call,
) -> None:
    wrong = POLICY.replace("  EMAIL_ADDRESS: {do: surrogate}", "  HOROSCOPE: {do: hash}").replace(
        "fields:\n", "fields:\n  - {path: observation.nothing, do: drop_field}\n"
    )
    wrong = wrong.partition("tests:")[0]
    found = policy("lint", write(wrong), "--json")
    problems = found.json
    assert found.code == 1
    assert {(each["line"], each["level"]) for each in problems} >= {(7, "error"), (9, "error")}
    policy("draft", "acme.yaml")
    policy("approve", "acme@1")
    assert "not activated: acme@1:7:" in refused(policy("activate", "acme@1"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("show", "nobody"), "no policy 'nobody' that you may see"),
        (("history", "nobody"), "no policy 'nobody'"),
        (("diff", "nobody"), "no policy 'nobody'"),
        (("rollback", "nobody"), "no policy 'nobody'"),
        (("test", "nobody@1"), "no policy 'nobody'"),
        (("show", "acme@9"), "acme has no version 9"),
        (("approve", "acme@9"), "acme has no version 9"),
        (("approve", "acme@1", "--hash", "beef"), "no version 1 with a hash that begins with beef"),
        (("activate", "acme@1"), "acme@1 is not approved; approve it first"),
        (("activate", "acme"), "'acme' names no version; write acme@VERSION"),
        (("approve", "acme@one"), "'acme@one' is no policy of the register"),
        (("show", "Acme"), "'Acme' is no policy of the register"),
        (("rollback", "acme"), "no earlier version of acme was active"),
        (("init", "acme", "--tenant", "acme"), "acme.yaml exists; choose another file"),
        (("init", "new", "--tenant", "a/b"), "'a/b' cannot be a tenant name"),
        (("init", "new", "--tenant", "acme", "--template", "x"), "no template 'x'"),
        (("init", "New", "--tenant", "acme"), "is no id of a policy"),
        (("init", "new", "--tenant", "acme", "-o", "no/new.yaml"), "cannot write no/new.yaml"),
    ],
)
def test_what_there_is_not_is_named_in_one_line(
    policy: Call, words: tuple[str, ...], said: str
) -> None:
    policy("draft", write(POLICY))
    assert said in refused(policy(*words))


@pytest.mark.parametrize(
    "words",
    [("list",), ("draft", "acme.yaml"), ("activate", "acme@1"), ("settings", "--two-person")],
)
def test_without_a_broker_the_verbs_say_what_to_do(home: Home, words: tuple[str, ...]) -> None:
    write(POLICY)
    assert "no Kafka broker is known" in refused(call(*words))


def test_without_a_home_the_verbs_say_what_to_do(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ATDP_HOME", str(tmp_path / "nowhere"))
    assert "There is no home" in refused(call("list"))
    assert call("init", "acme", "--tenant", "acme").code == 0
    assert call("lint", "acme.yaml").code == 0
    assert call("test", "acme.yaml").code == 0
