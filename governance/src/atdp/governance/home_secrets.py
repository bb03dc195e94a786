"""The wrapped keys of a home, opened with its master keys; a home of the earlier form is upgraded.

The earlier form had one master secret, from which the keys of payloads and of orders were derived,
and the tenants' keys of pseudonyms stood unwrapped in `secrets/tenant-keys/<tenant>.json`. Opening
such a home wraps the keys of pseudonyms and of orders as they are, so pseudonyms and signed orders
stay as they were. The files are destroyed after that. A process that is killed in between leaves
files that the next one destroys.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from atdp.governance.errors import SecretsError
from atdp.governance.master_keys import (
    KEY_BYTES,
    MasterKey,
    MasterKeys,
    load_master_keys,
    make_master_key,
)
from atdp.governance.secret_files import destroy_file, read_private
from atdp.governance.wrapped_keys import KeyScope, WrappedKeys
from atdp.runtime import Home, utc_now

ORDER_KEYS: Final = KeyScope("orders")
_EARLIER_ORDER_KEY: Final = "atdp quarantine orders v1"


def open_secrets(home: Home) -> WrappedKeys:
    """Return the wrapped keys of a home; what it lacks is made.

    Raises:
        SecretsError: a file of the secrets is damaged, readable by other users, or lost.
        HomeUnavailable: they cannot be read or written.
    """
    first, database = home.governance_secret_file, home.governance_keys_db
    if load_master_keys(first) is None and not database.exists():
        make_master_key(first, 1, utc_now())

    def load() -> MasterKeys:
        masters = load_master_keys(first)
        if masters is None:
            raise SecretsError(
                f"{first} is lost, without which the keys in {database} cannot be unwrapped; "
                "restore both from your backup"
            )
        return masters

    keys = WrappedKeys(database, load)
    try:
        _upgrade(keys, sorted(home.tenant_keys.glob("*.json")))
    except BaseException:
        keys.close()
        raise
    return keys


def secrets_in_memory() -> WrappedKeys:
    """Return keys that are kept nowhere, for tests and for trials of policies."""
    made_at = datetime(2026, 1, 1, tzinfo=UTC)
    master = MasterKey(version=1, key_id="memory", secret=bytes(KEY_BYTES), made_at=made_at)
    return WrappedKeys(None, lambda: MasterKeys((master,)))


def _upgrade(keys: WrappedKeys, files: Sequence[Path]) -> None:
    earlier = keys.masters.versions[0]
    lacks_orders = earlier.made_at is None and keys.newest(ORDER_KEYS) is None
    if not files and not lacks_orders:
        return
    with keys.writing():
        if earlier.made_at is None and keys.newest(ORDER_KEYS) is None:
            keys.add(ORDER_KEYS, earlier.derived(_EARLIER_ORDER_KEY))
        for file in files:
            scope = KeyScope("pseudonyms", file.stem)
            if keys.newest(scope) is None:
                keys.add(scope, _earlier_key(file))
    for file in files:
        destroy_file(file)


def _earlier_key(path: Path) -> bytes:
    try:
        key = bytes.fromhex(read_private(path)["key"])
    except (ValueError, KeyError, TypeError) as error:
        raise SecretsError(f"{path} is damaged; restore it from your backup") from error
    if len(key) != KEY_BYTES:
        raise SecretsError(f"{path} is damaged: a tenant's key must have {KEY_BYTES} bytes")
    return key
