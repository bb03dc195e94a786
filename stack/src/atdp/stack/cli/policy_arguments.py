"""Arguments and options of `atdp policy`, and the desk that its verbs work at."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from atdp.stack.cli.callers import caller_of
from atdp.stack.cli.homes import existing_home

if TYPE_CHECKING:
    from atdp.governance import (
        ContentChoice,
        PolicyChecks,
        PolicyDesk,
        PolicyText,
        PolicyVersionDetails,
    )
    from atdp.runtime import Principal

_NAMED: Final = re.compile(r"([a-z0-9][a-z0-9._-]{0,62})(?:@([1-9][0-9]{0,9}))?")

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="The policy file, YAML.")]
IdArgument = Annotated[str, typer.Argument(metavar="ID", help="Id of the policy.")]
VersionArgument = Annotated[
    str, typer.Argument(metavar="ID@VERSION", help="A drafted version, such as acme@3.")
]
IdOrVersionArgument = Annotated[
    str,
    typer.Argument(metavar="ID[@VERSION]", help="A policy, or one version of it."),
]
AnyPolicyArgument = Annotated[
    str,
    typer.Argument(
        metavar="FILE|ID[@VERSION]",
        help="A policy file, or a policy of the register (default: its last version).",
    ),
]
HashOption = Annotated[
    str,
    typer.Option(
        "--hash",
        metavar="HASH",
        help="Beginning of the hash of the content that was read (default: the approved content, "
        "else the last draft).",
    ),
]
EvaluationsOption = Annotated[
    Path | None,
    typer.Option(
        help="Folder of the labelled texts that `evaluation` names (default: the folder of FILE, "
        "else policies/ of the home).",
        file_okay=False,
    ),
]


@dataclass(frozen=True, slots=True)
class OpenDesk:
    """The desk of the home, and who works at it."""

    desk: "PolicyDesk"
    caller: "Principal"

    def text_of(self, argument: str) -> "PolicyText":
        """Return the policy of `ID[@VERSION]`; without a version, the last one.

        Raises:
            PolicyUnknown: there is none that the caller may see.
        """
        from atdp.governance import PolicyText

        details = self.details_of(argument, last=True)
        return PolicyText.parse(details.text, where=f"{details.id}@{details.version}")

    def details_of(self, argument: str, *, last: bool) -> "PolicyVersionDetails":
        """Return the version that `ID[@VERSION]` names; without one, the last or the active one.

        Raises:
            PolicyUnknown: there is none that the caller may see.
        """
        from atdp.governance import ContentChoice

        policy_id, version = split_name(argument)
        if version is not None:
            return self.desk.show(self.caller, ContentChoice(id=policy_id, version=version))
        if last:
            return self.desk.versions(self.caller, policy_id)[-1]
        return self.desk.current(self.caller, policy_id)


@contextmanager
def open_desk(key: str | None, evaluations: Path | None = None) -> Iterator[OpenDesk]:
    """Open the desk of the home for the principal of a key.

    Raises:
        HomeUnusable: there is no home.
        KeyStoreError: the key is unknown or wrong, or has ended.
        SettingsError: no broker is known.
    """
    from atdp.governance import PolicyDesk
    from atdp.runtime import open_register

    home = existing_home()
    caller = caller_of(home, key)
    checks = checks_of(evaluations or home.policies)
    desk = PolicyDesk(open_register(home), checks.check_for_activation)
    try:
        yield OpenDesk(desk, caller)
    finally:
        desk.close()


def checks_of(evaluations: Path) -> "PolicyChecks":
    """Return the checks of policies whose labelled texts are in this folder."""
    from atdp.governance import PolicyChecks

    return PolicyChecks(evaluations)


def is_file(argument: str) -> bool:
    """Return whether an argument names a file and not a policy of the register."""
    path = Path(argument)
    return path.exists() or path.suffix in (".yaml", ".yml") or len(path.parts) > 1


def read_text(path: Path) -> str:
    """Return the text of a policy file.

    Raises:
        PolicyError: it cannot be read.
    """
    from atdp.governance import PolicyError

    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise PolicyError(f"cannot read {path}: it is not UTF-8 text") from error
    except OSError as error:
        raise PolicyError(f"cannot read {path}: {error.strerror}") from error


def read_policy_text(path: Path) -> "PolicyText":
    """Return the policy of a file.

    Raises:
        PolicyError: it cannot be read, or is no policy.
    """
    from atdp.governance import PolicyText

    return PolicyText.parse(read_text(path), where=str(path))


def split_name(argument: str) -> tuple[str, int | None]:
    """Return id and version of `ID[@VERSION]`.

    Raises:
        PolicyError: it has another form.
    """
    from atdp.governance import PolicyError

    match = _NAMED.fullmatch(argument)
    if match is None:
        raise PolicyError(
            f"{argument!r} is no policy of the register; write ID or ID@VERSION, such as acme@3"
        )
    return match[1], None if match[2] is None else int(match[2])


def chosen(argument: str, digest: str) -> "ContentChoice":
    """Return the content that `ID@VERSION` and the beginning of a hash name.

    Raises:
        PolicyError: the version is missing.
    """
    from atdp.governance import ContentChoice, PolicyError

    policy_id, version = split_name(argument)
    if version is None:
        raise PolicyError(f"{argument!r} names no version; write {argument}@VERSION")
    return ContentChoice(id=policy_id, version=version, hash=digest)
