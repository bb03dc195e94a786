import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from atdp.runtime.errors import KeyStoreError
from atdp.runtime.keys import UNKNOWN_TENANT, ApiKey, KeyStore, Principal, SessionBinding


@pytest.fixture
def store(tmp_path: Path) -> Iterator[KeyStore]:
    with KeyStore(tmp_path / "keys.sqlite") as opened:
        yield opened


SESSION = SessionBinding(session_id="s", trajectory_id="t", attempt=0)


def test_a_created_key_verifies_as_its_principal(store: KeyStore) -> None:
    key, principal = store.create("acme", "agent")
    assert store.verify(key) == principal
    assert (principal.tenant, principal.role, principal.session) == ("acme", "agent", None)


def test_the_text_has_the_documented_form(store: KeyStore) -> None:
    key, principal = store.create("acme", "agent")
    prefix, key_id, secret = key.split("_", 2)
    assert (prefix, len(key_id), len(secret)) == ("atdp", 12, 43)
    assert key_id == principal.key_id == key.key_id
    assert secret == key.secret


def test_the_secret_is_neither_stored_nor_shown(store: KeyStore) -> None:
    key, _ = store.create("acme", "agent")
    assert key.secret not in repr(key)
    assert key.secret not in repr(store.get(key.key_id))
    for file in store.path.parent.iterdir():
        assert key.secret.encode() not in file.read_bytes()


def test_a_wrong_secret_for_a_known_key_is_refused(store: KeyStore) -> None:
    key, _ = store.create("acme", "agent")
    other = ApiKey.generate()
    assert store.verify(f"atdp_{key.key_id}_{other.secret}") is None
    assert store.verify(other) is None


@given(st.text(max_size=80))
def test_text_that_is_no_key_is_refused(text: str) -> None:
    assert ApiKey.parse(text) is None


def test_a_revoked_key_is_refused_but_still_known(store: KeyStore) -> None:
    key, principal = store.create("acme", "agent")
    assert store.verify(key)
    assert store.revoke(key.key_id)
    assert store.verify(key) is None
    stored = store.get(key.key_id)
    assert stored is not None
    assert stored.revoked
    assert stored.principal == principal


def test_revoking_an_unknown_key_says_so(store: KeyStore) -> None:
    assert not store.revoke("0" * 12)


def test_another_process_revoking_is_noticed_by_cached_reads(store: KeyStore) -> None:
    key, _ = store.create("acme", "agent")
    assert store.verify(key)
    with KeyStore(store.path) as elsewhere:
        elsewhere.revoke(key.key_id)
        assert store.verify(key) is None


def test_a_key_made_by_another_process_is_noticed_after_a_cached_miss(store: KeyStore) -> None:
    with KeyStore(store.path) as elsewhere:
        key, principal = elsewhere.create("acme", "agent")
        assert store.verify(key) == principal
    assert store.get("0" * 12) is None


def test_session_keys_die_with_their_parent(store: KeyStore) -> None:
    parent_key, parent = store.create("acme", "agent")
    session_key, session = store.create_session_key(parent, tenant="acme", session=SESSION)
    assert store.verify(session_key) == session
    assert session.session == SESSION
    store.revoke(parent_key.key_id)
    assert store.verify(session_key) is None


def test_a_session_key_opens_no_further_session(store: KeyStore) -> None:
    _, parent = store.create("acme", "agent")
    _, session = store.create_session_key(parent, tenant="acme", session=SESSION)
    with pytest.raises(KeyStoreError, match="opens no further sessions"):
        store.create_session_key(session, tenant="acme", session=SESSION)


def test_revocation_reaches_every_key_below(store: KeyStore) -> None:
    parent_key, parent = store.create("acme", "agent")
    child_key, child = store.create_session_key(parent, tenant="acme", session=SESSION)
    # As an older version of the store made them.
    unbound = Principal(child.key_id, child.tenant, child.role)
    grandchild_key, grandchild = store.create_session_key(unbound, tenant="acme", session=SESSION)
    assert store.verify(grandchild_key) == grandchild
    store.revoke(child_key.key_id)
    assert store.verify(grandchild_key) is None
    assert store.verify(parent_key) == parent
    assert [key.revoked for key in store.list(with_sessions=True)] == [False, True, True]


def test_session_keys_are_listed_only_when_asked_for(store: KeyStore) -> None:
    _, parent = store.create("acme", "agent")
    store.create_session_key(parent, tenant="acme", session=SESSION)
    assert len(store.list()) == 1
    assert len(store.list(with_sessions=True)) == 2


def test_a_session_key_of_another_tenant_is_refused(store: KeyStore) -> None:
    _, parent = store.create("acme", "agent")
    with pytest.raises(KeyStoreError, match="may not open sessions of tenant 'other'"):
        store.create_session_key(parent, tenant="other", session=SESSION)


@pytest.mark.parametrize(
    ("tenant", "role", "says"),
    [
        ("acme", "root", "unknown role"),
        ("a/b", "agent", "cannot be a tenant name"),
        ("", "agent", "cannot be a tenant name"),
        ("*", "agent", "cannot be a tenant name"),
        ("x" * 64, "agent", "cannot be a tenant name"),
        (UNKNOWN_TENANT, "agent", "records of no known tenant"),
        ("acme", "operator", "acts for all tenants"),
    ],
)
def test_impossible_keys_are_refused_with_a_reason(
    store: KeyStore, tenant: str, role: str, says: str
) -> None:
    with pytest.raises(KeyStoreError, match=says):
        store.create(tenant, role)


@pytest.mark.parametrize(
    ("role", "may", "may_not"),
    [
        ("agent", "emit", "query"),
        ("agent", "generate", "read:train"),
        ("analyst", "query", "emit"),
        ("analyst", "read:analytics", "read:train"),
        ("trainer", "read:train", "read:analytics"),
        ("trainer", "read:train", "read:replay"),
        ("steward", "govern", "route"),
        ("steward", "preview", "emit"),
        ("steward", "erase", "read:train"),
        ("evaluator", "read:replay", "read:train"),
        ("evaluator", "evaluate", "govern"),
        ("operator", "evaluate", "preview"),
        ("trainer", "read:train", "evaluate"),
        ("auditor", "audit", "query"),
        ("operator", "govern", "preview"),
        ("operator", "route", "fly"),
        ("unheard-of", "emit", "emit"),
    ],
)
def test_roles_allow_what_is_listed_and_nothing_else(role: str, may: str, may_not: str) -> None:
    principal = Principal(key_id="0" * 12, tenant="acme", role=role)
    assert principal.may(may) == (may != may_not)
    assert not principal.may(may_not)


def test_only_the_operator_acts_for_other_tenants(store: KeyStore) -> None:
    _, agent = store.create("acme", "agent")
    _, operator = store.create("*", "operator")
    assert agent.may_act_for("acme")
    assert not agent.may_act_for("other")
    assert operator.may_act_for("other")
    assert not Principal("0" * 12, "acme", "operator").may_act_for("acme")


def test_the_operators_key_is_made_once_and_readable_only_by_the_owner(
    store: KeyStore, tmp_path: Path
) -> None:
    file = tmp_path / "secrets" / "operator.key"
    first = store.ensure_operator(file)
    assert store.ensure_operator(file) == first
    assert file.stat().st_mode & 0o777 == 0o600
    store.revoke(first.key_id)
    assert store.ensure_operator(file) != first


def test_a_store_may_be_used_from_many_threads(store: KeyStore) -> None:
    made: list[ApiKey] = []

    def work() -> None:
        for _ in range(20):
            key, _ = store.create("acme", "agent")
            assert store.verify(key)
            made.append(key)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({key.key_id for key in made}) == len(store.list()) == 80


def test_a_path_that_cannot_hold_a_store_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(KeyStoreError, match="cannot open the key store"):
        KeyStore(tmp_path / "file" / "keys.sqlite")


def test_a_key_may_state_the_versions_of_its_agent(store: KeyStore) -> None:
    key, principal = store.create("acme", "agent", versions='{"harness": "desk-2"}')
    assert principal.versions == '{"harness": "desk-2"}'
    assert store.verify(key) == principal


def test_a_store_made_before_versions_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "keys.sqlite"
    with KeyStore(path) as store:
        key, principal = store.create("acme", "agent")
    with closing(sqlite3.connect(path)) as database:
        database.execute("ALTER TABLE keys DROP COLUMN versions")
    with KeyStore(path) as store:
        assert store.verify(key) == principal
