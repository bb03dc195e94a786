"""The governed forms of identifiers that a person names."""

from pathlib import Path

import pytest

from atdp.governance import GovernedIdentifiers
from atdp.governance.errors import GovernanceError
from atdp.governance.testing import PolicyWriter
from atdp.runtime import Home, MemoryRegister

from .test_policy import text

SESSION = "chat-anna@example.com"


def policy(*entities: str) -> str:
    return text(
        metadata={"id": "small", "version": 1},
        applies_to={"tenants": ["acme"]},
        entities={name: {"do": "pseudonym"} for name in ("CODE", *entities)},
    )


def test_a_session_is_named_by_its_form_under_every_policy_that_was_in_force(
    tmp_path: Path,
) -> None:
    policies = PolicyWriter()
    policies.activate(policy("EMAIL_ADDRESS"))
    before = GovernedIdentifiers(Home(tmp_path), MemoryRegister(policies.log))
    (landed,) = before.sessions("acme", SESSION)
    policies.activate(policy())
    policies.activate(policy("EMAIL_ADDRESS", "US_SSN"))
    forms = GovernedIdentifiers(Home(tmp_path), MemoryRegister(policies.log))
    assert "anna" not in landed
    assert forms.sessions("acme", SESSION) == (landed, SESSION)


def test_a_session_of_a_tenant_without_a_policy_has_no_form(tmp_path: Path) -> None:
    policies = PolicyWriter()
    policies.activate(policy())
    with pytest.raises(GovernanceError, match="globex"):
        GovernedIdentifiers(Home(tmp_path), MemoryRegister(policies.log)).sessions(
            "globex", SESSION
        )
