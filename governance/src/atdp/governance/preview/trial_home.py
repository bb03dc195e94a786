"""The home of a trial: keys, secrets and tokenizers, which are only read."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from atdp.governance.authenticate import KeyLookup
from atdp.governance.master_secret import MasterSecret, load_master_secret
from atdp.governance.redact.pseudonyms import TenantKey
from atdp.governance.tenant_keys import TenantKeyStore
from atdp.governance.tokenizer_folder import TokenizerFolder, Tokenizers
from atdp.runtime import Home, KeyStore, tenant_problem


@dataclass(frozen=True, kw_only=True, slots=True)
class TrialHome:
    """All of a home that decisions depend on, besides the policies. It is only read."""

    keys: KeyLookup
    secret: MasterSecret
    tokenizers: Tokenizers
    tenant_keys: TenantKeyStore

    @classmethod
    @contextmanager
    def open(cls, home: Home) -> Iterator["TrialHome"]:
        """Open the home; what it lacks is not made, as governing a first record would."""
        secret = (
            load_master_secret(home.governance_secret_file)
            if home.governance_secret_file.exists()
            else MasterSecret("none", bytes(32))
        )
        keys = KeyStore(home.keys_db) if home.keys_db.exists() else None
        try:
            yield cls(
                keys=keys.get if keys is not None else lambda _key_id: None,
                secret=secret,
                tokenizers=TokenizerFolder(home.tokenizers),
                tenant_keys=TrialTenantKeys(home.tenant_keys),
            )
        finally:
            if keys is not None:
                keys.close()


class TrialTenantKeys(TenantKeyStore):
    """The tenant keys of a home. A tenant without a key gets one that is kept nowhere."""

    def key_of(self, tenant: str) -> TenantKey:
        """See `TenantKeyStore`."""
        if tenant_problem(tenant) is None and not (self.folder / f"{tenant}.json").exists():
            return TenantKey(hashlib.sha256(f"preview|{tenant}".encode()).digest())
        return TenantKeyStore.key_of(self, tenant)
