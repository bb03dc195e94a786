"""Keys of pseudonyms: one of each tenant, the same in every process, destroyed one by one."""

import json
import multiprocessing
from pathlib import Path

import pytest

from atdp.governance.errors import HomeUnavailable, Refusal, SecretsError
from atdp.governance.home_secrets import open_secrets
from atdp.governance.tenant_keys import TenantKeyStore
from atdp.governance.testing import memory_secrets
from atdp.runtime import Home


def test_a_key_is_made_once_kept_private_and_of_one_tenant(tmp_path: Path) -> None:
    home = Home(tmp_path)
    with open_secrets(home) as secrets, open_secrets(home) as again:
        keys = TenantKeyStore(secrets)
        acme = keys.key_of("acme")
        assert TenantKeyStore(again).key_of("acme") == acme
        assert keys.key_of("globex") != acme
        assert acme.secret.hex() not in repr(acme) + repr(keys)
    assert home.governance_keys_db.stat().st_mode & 0o777 == 0o600
    assert acme.secret not in home.governance_keys_db.read_bytes()


def _key_of(root: Path) -> bytes:
    with open_secrets(Home(root)) as secrets:
        return TenantKeyStore(secrets).key_of("acme").secret


def test_processes_that_start_together_get_one_key(tmp_path: Path) -> None:
    with multiprocessing.get_context("fork").Pool(8) as pool:
        assert len(set(pool.map(_key_of, [tmp_path] * 32, chunksize=1))) == 1


def test_a_destroyed_key_is_noticed_and_the_values_get_other_surrogates(tmp_path: Path) -> None:
    home = Home(tmp_path)
    with open_secrets(home) as secrets, open_secrets(home) as of_command:
        worker, command = TenantKeyStore(secrets), TenantKeyStore(of_command)
        before = worker.key_of("acme").surrogate("PERSON", "Mia Li")
        other = worker.key_of("globex")
        secrets.refresh()
        assert not worker.refresh()
        assert command.destroy("acme")
        assert not command.destroy("acme")
        secrets.refresh()
        assert worker.refresh()
        assert worker.key_of("acme").surrogate("PERSON", "Mia Li") != before
        assert worker.key_of("globex") == other
        assert not worker.refresh()


def test_a_key_that_cannot_be_unwrapped_halts_until_the_master_key_is_restored(
    tmp_path: Path,
) -> None:
    home = Home(tmp_path)
    with open_secrets(home) as secrets:
        key = TenantKeyStore(secrets).key_of("acme")
    kept = home.governance_secret_file.read_text()
    other = json.dumps({**json.loads(kept), "master": "ff" * 32})
    home.governance_secret_file.write_text(other)
    with open_secrets(home) as secrets:
        keys = TenantKeyStore(secrets)
        with pytest.raises(HomeUnavailable, match="cannot be unwrapped"):
            keys.key_of("acme")
        with pytest.raises(HomeUnavailable, match="cannot be unwrapped"):
            secrets.refresh()
        home.governance_secret_file.write_text(kept)
        secrets.refresh()
        assert keys.key_of("acme") == key


@pytest.mark.parametrize("tenant", ["../governance", "a/b", "", "unknown"])
def test_a_name_that_is_no_tenant_has_no_key(tenant: str) -> None:
    keys = TenantKeyStore(memory_secrets())
    with pytest.raises(Refusal):
        keys.key_of(tenant)
    with pytest.raises(SecretsError):
        keys.destroy(tenant)
    assert keys.keys.counts() == []
