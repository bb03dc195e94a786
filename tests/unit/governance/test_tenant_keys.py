"""Tenant keys: one file each, the same in every process, destroyed one by one."""

import multiprocessing
from pathlib import Path

import pytest

from atdp.governance.errors import HomeUnavailable, Refusal, SecretsError
from atdp.governance.tenant_keys import TenantKeyStore


def test_a_key_is_made_once_kept_private_and_of_one_tenant(tmp_path: Path) -> None:
    keys = TenantKeyStore(tmp_path / "tenant-keys")
    acme = keys.key_of("acme")
    assert TenantKeyStore(tmp_path / "tenant-keys").key_of("acme") == acme
    assert keys.key_of("globex") != acme
    assert (tmp_path / "tenant-keys/acme.json").stat().st_mode & 0o777 == 0o600
    assert acme.secret.hex() not in repr(acme) + repr(keys)


def _key_of(folder: Path) -> bytes:
    return TenantKeyStore(folder).key_of("acme").secret


def test_processes_that_start_together_get_one_key(tmp_path: Path) -> None:
    with multiprocessing.get_context("fork").Pool(8) as pool:
        assert len(set(pool.map(_key_of, [tmp_path] * 32, chunksize=1))) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["acme.json"]


def test_a_destroyed_key_is_noticed_and_the_values_get_other_surrogates(tmp_path: Path) -> None:
    worker, command = TenantKeyStore(tmp_path), TenantKeyStore(tmp_path)
    before = worker.key_of("acme").surrogate("PERSON", "Mia Li")
    other = worker.key_of("globex")
    assert not worker.refresh()
    assert command.destroy("acme")
    assert not command.destroy("acme")
    assert worker.refresh()
    assert worker.key_of("acme").surrogate("PERSON", "Mia Li") != before
    assert worker.key_of("globex") == other
    assert not worker.refresh()


def test_a_key_that_cannot_be_used_halts_until_it_is_repaired(tmp_path: Path) -> None:
    keys = TenantKeyStore(tmp_path)
    path = tmp_path / "acme.json"
    path.write_text('{"key": "00"}')
    path.chmod(0o600)
    with pytest.raises(HomeUnavailable, match="32 bytes"):
        keys.key_of("acme")
    with pytest.raises(HomeUnavailable, match="32 bytes"):
        keys.refresh()
    path.write_text("{}")
    with pytest.raises(HomeUnavailable, match="damaged"):
        keys.refresh()
    path.chmod(0o644)
    with pytest.raises(HomeUnavailable, match="chmod 600"):
        keys.refresh()
    path.unlink()
    assert not keys.refresh()
    assert keys.key_of("acme")


@pytest.mark.parametrize("tenant", ["../governance", "a/b", "", "unknown"])
def test_a_name_that_is_no_tenant_reaches_no_file(tmp_path: Path, tenant: str) -> None:
    keys = TenantKeyStore(tmp_path / "tenant-keys")
    with pytest.raises(Refusal):
        keys.key_of(tenant)
    with pytest.raises(SecretsError):
        keys.destroy(tenant)
    assert not list(tmp_path.rglob("*.json"))
