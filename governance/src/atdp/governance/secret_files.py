"""Files that hold a secret: created once, readable by their owner alone."""

import json
import os
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from atdp.governance.errors import SecretsError
from atdp.runtime import sync_directory, write_durably


def create_once(path: Path, content: Mapping[str, str]) -> None:
    """Write `content` as JSON (mode 0600) unless another process has created the file meanwhile.

    The complete file appears in one step.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fresh = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    write_durably(fresh, json.dumps(content), mode=0o600)
    try:
        # A link, because a rename would replace the file of a faster process.
        os.link(fresh, path)
    except FileExistsError:
        pass
    finally:
        fresh.unlink()
    sync_directory(path.parent)


def read_private(path: Path) -> Any:
    """Return the JSON of a file.

    Raises:
        SecretsError: other users can read the file.
        OSError, ValueError: it cannot be read, or is no JSON.
    """
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise SecretsError(f"{path} can be read by other users; run: chmod 600 {path}")
    return json.loads(path.read_text("utf-8"))


def destroy_file(path: Path) -> bool:
    """Overwrite a file with zeros and remove it; return whether there was one.

    What is killed in between leaves a file that `is_destroyed`. A disk or file system that copies
    on write may keep the content.

    Raises:
        SecretsError: it cannot be removed.
    """
    try:
        with path.open("r+b") as file:
            file.write(b"\0" * path.stat().st_size)
            file.flush()
            os.fsync(file.fileno())
        path.unlink()
        sync_directory(path.parent)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise SecretsError(f"cannot destroy {path}: {error.strerror}") from error
    return True


def is_destroyed(path: Path) -> bool:
    """Return whether a file is removed, or was overwritten in order to be removed.

    Raises:
        OSError: the file cannot be read.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return True
    return bool(content) and not any(content)
