"""`atdp policy draft`, `approve`, `activate`, `rollback` and `settings`: decisions at the desk."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from atdp.stack.cli.callers import KeyOption
from atdp.stack.cli.output import Format, FormatOption, JsonOption, choose_format, print_record
from atdp.stack.cli.policy_arguments import (
    EvaluationsOption,
    FileArgument,
    HashOption,
    IdArgument,
    VersionArgument,
    chosen,
    open_desk,
    read_policy_text,
    split_name,
)

if TYPE_CHECKING:
    from atdp.governance import PolicyVersionDetails


def draft(
    file: FileArgument,
    key: KeyOption = None,
    form: FormatOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Register a policy file as a draft, to be approved.

    The version has to be higher than the active one. Drafting the same content again changes
    nothing.

    \b
    Example:
      atdp policy draft acme.yaml
    """
    text = read_policy_text(file)
    with open_desk(key) as opened:
        details = opened.desk.draft(opened.caller, text)
    name = f"{details.id}@{details.version}"
    if details.state == "drafted":
        sentence = f"drafted {name}, hash {details.hash[:12]}; next: atdp policy approve {name}"
    else:
        sentence = f"{name} is in the register already and is {details.state}"
    _print(details, sentence, form, as_json)


def approve(
    policy: VersionArgument,
    digest: HashOption = "",
    key: KeyOption = None,
    form: FormatOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Approve a drafted version. With the two-person rule, its drafter cannot.

    Name the hash that you have read, so that a draft which came later is not approved in its place.

    \b
    Example:
      atdp policy approve acme@3 --hash 3f2a77c01b9e
    """
    choice = chosen(policy, digest)
    with open_desk(key) as opened:
        details = opened.desk.approve(opened.caller, choice)
    name = f"{details.id}@{details.version}"
    then = "it is active" if details.state == "active" else f"next: atdp policy activate {name}"
    _print(details, f"approved {name}, hash {details.hash[:12]}; {then}", form, as_json)


def activate(  # noqa: PLR0913 - one for each option of the command
    policy: VersionArgument,
    digest: HashOption = "",
    reason: Annotated[
        str, typer.Option(help="Why (default: the reason in the policy's metadata).")
    ] = "",
    evaluations: EvaluationsOption = None,
    key: KeyOption = None,
    form: FormatOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Activate an approved version after lint, its tests, and its floor of recall.

    Every worker governs with it from its next transaction on.

    \b
    Example:
      atdp policy activate acme@3
    """
    choice = chosen(policy, digest)
    with open_desk(key, evaluations) as opened:
        details = opened.desk.activate(opened.caller, choice, reason=reason)
    _print(details, _active(details), form, as_json)


def rollback(
    policy: IdArgument,
    to: Annotated[
        int | None,
        typer.Option(help="The earlier version (default: the one that was active before)."),
    ] = None,
    evaluations: EvaluationsOption = None,
    key: KeyOption = None,
    form: FormatOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Bring the content of an earlier version back, as a new version.

    The same checks run as at an activation. With the two-person rule the new version waits for an
    approval; else it is active at the end.

    \b
    Example:
      atdp policy rollback acme
      atdp policy rollback acme --to 2
    """
    policy_id, _ = split_name(policy)
    with open_desk(key, evaluations) as opened:
        details = opened.desk.roll_back(opened.caller, policy_id, to=to)
    name = f"{details.id}@{details.version}"
    waits = f"drafted {name}; another principal has to approve it: atdp policy approve {name}"
    _print(details, _active(details) if details.state == "active" else waits, form, as_json)


def settings(
    two_person: Annotated[
        bool | None,
        typer.Option(
            "--two-person/--no-two-person",
            help="Whether somebody else than the drafter has to approve (default: show it).",
        ),
    ] = None,
    key: KeyOption = None,
    form: FormatOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Show or set the two-person rule, which holds for all tenants. Setting it needs an operator.

    \b
    Example:
      atdp policy settings --two-person
    """
    with open_desk(key) as opened:
        if two_person is not None:
            opened.desk.set_two_person(opened.caller, two_person)
        is_on = opened.desk.two_person(opened.caller)
    form = choose_format(form, as_json)
    if form is None:
        typer.echo(f"the two-person rule is {'on' if is_on else 'off'}")
    else:
        print_record({"two_person": is_on}, form)


def _active(details: "PolicyVersionDetails") -> str:
    tenants = ", ".join(details.tenants)
    name = f"{details.id}@{details.version}"
    if details.state != "active":  # a higher version was activated in the meantime
        return f"{name} was activated and is {details.state} by a higher version already"
    return f"{name} is active for {tenants}; hash {details.hash[:12]}"


def _print(
    details: "PolicyVersionDetails", sentence: str, form: Format | None, as_json: bool
) -> None:
    form = choose_format(form, as_json)
    if form is None:
        typer.echo(sentence)
        return
    record = asdict(details)
    del record["text"]
    print_record(record, form)
