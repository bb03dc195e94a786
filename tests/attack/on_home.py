"""Attacks on the files of the home by another local user."""

import json
from pathlib import Path

from .target import Target, as_another_user


def read_any_file(target: Target) -> str | None:
    """Read every file of the home as another local user, raw Kafka segments among them."""
    files = [str(path) for path in target.home.root.rglob("*") if path.is_file()]

    def readable() -> list[str]:
        found = []
        for name in files:
            try:
                with Path(name).open("rb") as file:
                    file.read(1)
            except OSError:
                continue
            found.append(name)
        return found

    found = as_another_user(readable)
    return f"{len(found)} of {len(files)} files, such as {found[0]}" if found else None


def enter_the_home(target: Target) -> str | None:
    """List the home as another local user."""

    def listed() -> int:
        return len(list(Path(target.home.root).iterdir()))

    try:
        return f"{as_another_user(listed)} entries listed"
    except PermissionError:
        return None


def dump_memory(target: Target) -> str | None:
    """Read the memory of a service as another local user."""
    processes = json.loads((target.home.run / "stack.json").read_text("utf-8"))["services"]
    pid = next(entry["pid"] for entry in processes if entry["name"] == "governance")

    def read() -> int:
        with Path(f"/proc/{pid}/mem").open("rb") as memory:
            return len(memory.read(1))

    try:
        as_another_user(read)
    except PermissionError:
        return None
    return "the memory of governance can be read"


ATTACKS = (enter_the_home, read_any_file, dump_memory)
