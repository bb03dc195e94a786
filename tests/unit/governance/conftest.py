"""The compiled default policy, once per session: loading the recognizers takes seconds."""

import pytest

from atdp.governance.policy import CompiledPolicy, PolicyDocument, compile_policy, parse_policy
from atdp.governance.policy.store import default_policy_text
from atdp.governance.redact.pseudonyms import TenantKey
from atdp.governance.walk.strings import StringGovernor


@pytest.fixture(scope="session")
def default_document() -> PolicyDocument:
    document = parse_policy(default_policy_text(), where="default")
    assert isinstance(document, PolicyDocument)
    return document


@pytest.fixture(scope="session")
def default_policy(default_document: PolicyDocument) -> CompiledPolicy:
    return compile_policy(default_document)


@pytest.fixture
def key() -> TenantKey:
    return TenantKey(b"k" * 32)


@pytest.fixture
def governor(default_policy: CompiledPolicy, key: TenantKey) -> StringGovernor:
    return StringGovernor(default_policy, key)
