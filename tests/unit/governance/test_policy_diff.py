"""The difference between two policies in words, and what it means."""

from typing import Any

import pytest
import yaml

from atdp.governance.desk.policy_diff import policy_changes, text_diff
from atdp.governance.desk.policy_text import PolicyText
from atdp.governance.policy.default_policy import default_policy_text
from atdp.governance.policy.document import PolicyDocument

BEFORE: dict[str, Any] = {
    "apiVersion": "atdp.governance/v1",
    "kind": "GovernancePolicy",
    "metadata": {"id": "acme", "version": 1},
    "applies_to": {"tenants": ["acme"]},
    "purposes": ["analytics"],
    "consent": {"train": "unknown"},
    "min_fidelity": {"train": "exact"},
    "retention": {"default": 30},
    "learn": {"scope": "trajectory", "entities": ["PERSON"]},
    "ner": {"model": "atdp:names", "entities": ["PERSON"]},
    "phone_regions": ["US"],
    "entities": {
        "EMAIL_ADDRESS": {"do": "hash", "min_score": 0.5},
        "PERSON": {"do": "replace"},
        "TICKET": {"do": "mask", "keep_last": 2},
    },
    "patterns": [{"id": "ticket", "entity": "TICKET", "pattern": "T-[0-9]{6}"}],
    "keys": [{"entity": "PERSON", "names": ["owner"], "unless": ["code_owner"]}],
    "fields": [{"path": "metadata_json", "do": "drop_field"}, {"path": "**", "do": "scan"}],
    "evaluation": "labels.json",
    "min_recall": {"PERSON": 0.8},
}


def changed(path: str, value: Any) -> dict[str, Any]:
    """Return the policy with another value at a path; None removes it."""
    policy: dict[str, Any] = yaml.safe_load(yaml.safe_dump(BEFORE))
    policy["metadata"]["version"] = 2
    place: Any = policy
    *steps, last = path.split(".")
    for step in steps:
        place = place[int(step)] if isinstance(place, list) else place[step]
    if value is None:
        del place[int(last) if isinstance(place, list) else last]
    else:
        place[int(last) if isinstance(place, list) else last] = value
    return policy


def text_of(policy: dict[str, Any]) -> PolicyText:
    return PolicyText.parse(yaml.safe_dump(policy), where="acme.yaml")


def changes(path: str, value: Any) -> list[tuple[str, str]]:
    found = policy_changes(text_of(BEFORE), text_of(changed(path, value)))
    return [(each.effect, each.words) for each in found]


@pytest.mark.parametrize(
    ("path", "value", "effect", "words"),
    [
        ("applies_to.tenants", ["acme", "globex"], "changed", "applies to the tenant globex, too"),
        ("applies_to.tenants", ["globex"], "changed", "no longer applies to the tenant acme"),
        ("purposes", ["analytics", "train"], "weaker", "allows the purpose train"),
        ("purposes", [], "stricter", "no longer allows the purpose analytics"),
        ("consent.train", "granted", "weaker", "consent: {'train': 'unknown'} → "),
        ("min_fidelity.train", "spliced", "weaker", "worst fidelity for train: exact → spliced"),
        ("rewards", {"self": "train"}, "weaker", "use of self-rewards: analytics → train"),
        ("rewards", {"self": "deny"}, "stricter", "use of self-rewards: analytics → deny"),
        ("rewards", {"ranges": {"*": [0, 1]}}, "stricter", "rewards in *: (-1000.0, 1000.0) → "),
        ("rewards", {"ranges": {"tone": [0, 5000]}}, "weaker", "rewards in tone: "),
        ("retention.default", 60, "weaker", "days for the class default: 30 → 60"),
        ("retention.default", 7, "stricter", "days for the class default: 30 → 7"),
        ("retention", {}, "weaker", "events of the class default no longer expire"),
        ("learn.scope", "off", "weaker", "learned for: trajectory → off"),
        ("learn.scope", "tenant", "stricter", "learned for: trajectory → tenant"),
        ("learn.entities", ["TICKET", "PERSON"], "stricter", "values of TICKET are learned"),
        ("ner", None, "weaker", "no model of names finds PERSON any more"),
        ("ner.model", "spacy:en", "changed", "another model of names: spacy:en"),
        ("phone_regions", ["US", "GB"], "stricter", "phone numbers of GB are found"),
        ("phone_regions", ["GB"], "weaker", "phone numbers of US are no longer found"),
        ("entities.EMAIL_ADDRESS", None, "weaker", "EMAIL_ADDRESS is no longer redacted"),
        ("entities.US_SSN", {"do": "hash"}, "stricter", "US_SSN is redacted"),
        ("entities.PERSON.do", "surrogate", "weaker", "PERSON by: replace → surrogate"),
        ("entities.PERSON.do", "drop_event", "stricter", "PERSON by: replace → drop_event"),
        ("entities.EMAIL_ADDRESS.min_score", 0.9, "weaker", "counts from the score: 0.5 → 0.9"),
        ("entities.EMAIL_ADDRESS.scope", "trajectory", "stricter", "within: tenant → trajectory"),
        ("entities.TICKET.keep_last", 4, "weaker", "TICKET keeps characters: 2 → 4"),
        ("entities.EMAIL_ADDRESS.bare_digits", "in_context", "weaker", "as digits: find → "),
        ("entities.EMAIL_ADDRESS.numbers", "find", "stricter", "number: in_context → find"),
        ("entities.EMAIL_ADDRESS.context", ["x"], "changed", "has other context words"),
        ("entities.PERSON.text", "<NAME>", "changed", "is replaced by another text"),
        ("patterns.0.pattern", "T-[0-9]{8}", "changed", "the pattern ticket is another"),
        ("keys.0.names", ["author"], "weaker", "no longer values of the key owner (names)"),
        ("keys.0.names", ["owner", "author"], "stricter", "values of the key author (names)"),
        ("keys.0.unless", ["code_owner", "x"], "weaker", "except the key x (unless) of PERSON"),
        ("fields.0", None, "weaker", "the field metadata_json is no longer emptied"),
        ("fields.0.path", "error.detail", "stricter", "the field error.detail is emptied"),
        ("fields.0.do", "scan", "weaker", "the field metadata_json is no longer emptied"),
        ("min_recall.PERSON", 0.5, "weaker", "floor of the recall of PERSON: 0.8 → 0.5"),
        ("min_recall", {}, "weaker", "recall of PERSON has no floor any more"),
        ("evaluation", "others.json", "changed", "evaluation is different"),
        ("limits", {"json_depth": 4}, "changed", "limits is different"),
        ("tenants", {"acme": {"purposes": ["train"]}}, "changed", "tenants is different"),
        ("tests", [{"in": {"text": "x"}, "expect": "passed"}], "changed", "tests is different"),
    ],
)
def test_a_change_has_words_and_an_effect(path: str, value: Any, effect: str, words: str) -> None:
    found = changes(path, value)
    assert any(each[0] == effect and words in each[1] for each in found), found


def test_every_part_of_a_policy_has_a_change_above() -> None:
    marks = test_a_change_has_words_and_an_effect.pytestmark
    covered = {case[0].partition(".")[0] for mark in marks for case in mark.args[1]}
    same = {"apiVersion", "kind", "metadata", "include"}  # what is included is in patterns and keys
    assert PolicyDocument.model_fields.keys() <= covered | same


def test_weaker_rules_come_first() -> None:
    policy = changed("entities.EMAIL_ADDRESS", None)
    policy["entities"]["US_SSN"] = {"do": "hash"}
    policy["limits"] = {"json_depth": 4}
    found = [each.effect for each in policy_changes(text_of(BEFORE), text_of(policy))]
    assert found == ["weaker", "changed", "stricter"]


def test_the_same_rules_have_no_change_and_the_texts_differ() -> None:
    before, after = text_of(BEFORE), text_of(changed("metadata.version", 2))
    assert policy_changes(before, after) == []
    assert "+  version: 2" in text_diff(before, after).splitlines()


def test_without_a_policy_in_force_one_line_says_so() -> None:
    [only] = policy_changes(None, PolicyText.parse(default_policy_text(), where="default"))
    assert "no policy is in force" in only.words
    assert text_diff(None, text_of(BEFORE)) == ""


CEDAR = """\
apiVersion: atdp.governance/v1
kind: AccessPolicy
metadata: {id: acme-access, version: %d}
applies_to: {tenants: [acme]}
cedar: |
  forbid (principal, action == Action::"%s", resource);
"""


def test_access_policies_are_compared_by_their_text() -> None:
    before, after = (
        PolicyText.parse(CEDAR % (number, action), where="acme-access.yaml")
        for number, action in ((1, "export"), (2, "train"))
    )
    assert [each.words for each in policy_changes(before, after)] == [
        "cedar is different; see the text"
    ]
    assert '+  forbid (principal, action == Action::"train", resource);' in text_diff(before, after)


def test_a_policy_beside_one_with_another_id_takes_no_tenant_from_it() -> None:
    other = changed("applies_to.tenants", ["*", "acme"])
    other["metadata"]["id"] = "default"
    assert list(policy_changes(text_of(other), text_of(BEFORE))) == []
