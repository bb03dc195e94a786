"""Secrets of a home that its services share: one file each, 64 hex digits, mode 0600."""

import secrets
import stat
from pathlib import Path

from atdp.runtime.durable_files import write_durably
from atdp.runtime.errors import SecretKeyError
from atdp.runtime.file_locks import locked

_BYTES = 32


def load_secret_key(path: Path, *, if_lost: str) -> bytes:
    """Return the secret in `path` (32 bytes); a missing file is made with a new one.

    Processes that start at the same time get the same secret. `if_lost` says what a new secret
    changes; it is the end of the sentence "remove it; then …" in the error message.

    Raises:
        SecretKeyError: the file is damaged, or readable by other users.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with locked(path.with_name(f".{path.name}.lock")):
        if not path.exists():
            write_durably(path, secrets.token_hex(_BYTES) + "\n", mode=0o600)
    return read_secret_key(path, if_lost=if_lost)


def read_secret_key(path: Path, *, if_lost: str) -> bytes:
    """Return the secret in `path`, which another process has made.

    `if_lost`: see `load_secret_key`.

    Raises:
        SecretKeyError: the file is missing, damaged, or readable by other users.
    """
    try:
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise SecretKeyError(f"{path} can be read by other users; run: chmod 600 {path}")
        secret = bytes.fromhex(path.read_text("ascii").strip())
    except FileNotFoundError as error:
        raise SecretKeyError(
            f"{path} is missing: `atdp up` makes it; on another machine, copy it from the home "
            "in which the stack runs"
        ) from error
    except (OSError, ValueError):
        secret = b""
    if len(secret) != _BYTES:
        raise SecretKeyError(
            f"{path} is damaged: restore it from your backup, or remove it; then {if_lost}"
        )
    return secret
