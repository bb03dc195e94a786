"""The secret of one home under which messages and end users become digests.

One file, `secrets/recognition.key` (mode 0600): 64 hex digits. If it is lost, running conversations
are recognised no more, and end users get other pseudonyms.
"""

import secrets
import stat
from pathlib import Path

from atdp.gateway.errors import RecognitionSecretError
from atdp.runtime import locked, write_durably

_BYTES = 32


def load_recognition_secret(path: Path) -> bytes:
    """Return the secret in `path`; a missing file is made with a new one.

    Gateways that start at the same time get the same secret.

    Raises:
        RecognitionSecretError: the file is damaged, or readable by other users.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with locked(path.with_name(f".{path.name}.lock")):
        if not path.exists():
            write_durably(path, secrets.token_hex(_BYTES) + "\n", mode=0o600)
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise RecognitionSecretError(
                f"{path} can be read by other users; run: chmod 600 {path}"
            )
        try:
            secret = bytes.fromhex(path.read_text("ascii").strip())
        except (OSError, ValueError):
            secret = b""
    if len(secret) != _BYTES:
        raise RecognitionSecretError(
            f"{path} is damaged: restore it from your backup, or remove it; then end users get "
            "other pseudonyms"
        )
    return secret
