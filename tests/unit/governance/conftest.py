"""Fixtures of the governance tests.

The default policy is compiled once per session, because loading the recognizers takes seconds.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from atdp.governance.policy import (
    CompiledPolicy,
    PolicyDocument,
    compile_policy,
    parse_policy,
)
from atdp.governance.policy.templates import template_text
from atdp.governance.record_governor import RecordGovernor
from atdp.governance.redact.pseudonyms import TenantKey
from atdp.governance.tenant_keys import TenantKeyStore
from atdp.governance.testing import PolicyWriter, memory_secrets, policy_store
from atdp.governance.walk.string_governor import StringGovernor
from atdp.runtime.keys import KeyStore
from atdp.schemas import SigningKey

from .governors import KEY, NoTokenizers, with_entities, without_names
from .memory_log import MemoryLog, MemoryWorkers
from .taught_trajectories import POLICY


@pytest.fixture(scope="session")
def default_document() -> PolicyDocument:
    document = parse_policy(template_text("demo"), where="demo")
    assert isinstance(document, PolicyDocument)
    return document


@pytest.fixture(scope="session")
def default_policy(default_document: PolicyDocument) -> CompiledPolicy:
    return compile_policy(default_document)


@pytest.fixture(scope="session")
def pattern_policy(default_document: PolicyDocument) -> CompiledPolicy:
    return compile_policy(without_names(default_document))


@pytest.fixture
def key() -> TenantKey:
    return TenantKey(b"k" * 32)


@pytest.fixture
def strings(default_policy: CompiledPolicy, key: TenantKey) -> StringGovernor:
    return StringGovernor(default_policy, key)


@pytest.fixture
def store(tmp_path: Path) -> KeyStore:
    return KeyStore(tmp_path / "keys.sqlite")


@pytest.fixture
def governor(store: KeyStore) -> RecordGovernor:
    secrets = memory_secrets(acme=KEY.secret)
    return RecordGovernor(
        keys=store.get,
        policies=policy_store(template_text("demo")),
        secrets=secrets,
        tokenizers=NoTokenizers(),
        tenant_keys=TenantKeyStore(secrets),
    )


@pytest.fixture(scope="session")
def readable(default_document: PolicyDocument) -> StringGovernor:
    """Return a governor whose replacements are short and the same for all values.

    It has no names model, which guesses at the bare numbers of these tests.
    """
    names = {"EMAIL_ADDRESS": "<EMAIL>", "CREDIT_CARD": "<CARD>", "PHONE_NUMBER": "<PHONE>"}
    policy = with_entities(
        without_names(default_document),
        **{entity: {"do": "replace", "text": text} for entity, text in names.items()},
    )
    return StringGovernor(policy, KEY)


@pytest.fixture(scope="module")
def key_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[KeyStore, SigningKey]]:
    with KeyStore(tmp_path_factory.mktemp("keys") / "keys.db") as keys:
        yield keys, SigningKey.parse(keys.create("acme", "agent")[0])


@pytest.fixture
def workers(
    key_store: tuple[KeyStore, SigningKey],
    monkeypatch: pytest.MonkeyPatch,
) -> MemoryWorkers:
    keys, key = key_store
    policies = PolicyWriter()
    policies.activate(POLICY)
    secrets = memory_secrets(acme=KEY.secret)
    governor = RecordGovernor(
        keys=keys.get,
        policies=policies.store(),
        secrets=secrets,
        tokenizers=NoTokenizers(),
        tenant_keys=TenantKeyStore(secrets),
    )
    return MemoryWorkers(
        log=MemoryLog(key), governor=governor, policies=policies, monkeypatch=monkeypatch
    )
