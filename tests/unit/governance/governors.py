"""Tenant governors for tests."""

from collections.abc import Sequence
from typing import Any

from atdp.governance.consent import RegisteredConsent, nothing_registered
from atdp.governance.policy import CompiledPolicy, PolicyDocument, compile_policy
from atdp.governance.redact.pseudonyms import TenantKey
from atdp.governance.tenant_governor import TenantGovernor

KEY = TenantKey(b"k" * 32)


class NoTokenizers:
    """A home without registered tokenizers."""

    def readings(self, tokenizer_hash: str, ids: Sequence[int]) -> None:
        return None

    def is_control(self, tokenizer_hash: str, token_id: int) -> bool:
        return False

    def pieces(self, tokenizer_hash: str, ids: Sequence[int]) -> None:
        return None

    def encode(self, tokenizer_hash: str, text: str) -> None:
        return None


def without_names(document: PolicyDocument) -> PolicyDocument:
    """Return the policy without the names model, for tests of patterns and key rules alone.

    A trained model may find something else in a text of which words were replaced, so exact
    statements about governing twice hold for patterns and keys.
    """
    found = {"LOCATION", "ORGANIZATION", "NRP", "TITLE", "AGE", "ID_NUMBER"}
    entities = {name: rule for name, rule in document.entities.items() if name not in found}
    keys = [rule.model_copy(update={"roles": []}) for rule in document.keys]
    return document.model_copy(update={"ner": None, "entities": entities, "keys": keys})


def governor_of(
    policy: CompiledPolicy, consent: RegisteredConsent = nothing_registered
) -> TenantGovernor:
    """Return the governor of the tenant acme under a policy."""
    return TenantGovernor.of("acme", policy, consent, KEY, NoTokenizers())


def with_entities(document: PolicyDocument, **rules: dict[str, Any]) -> CompiledPolicy:
    """Return the policy with other rules for some entities, compiled."""
    data = document.model_dump(mode="json")
    data["entities"].update(rules)
    return compile_policy(PolicyDocument.model_validate(data))
