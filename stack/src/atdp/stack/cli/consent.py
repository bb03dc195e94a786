"""`atdp consent`: who has granted and withdrawn the use of data, and what has learned from it."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from atdp.stack.cli.callers import KeyOption, caller_of
from atdp.stack.cli.homes import existing_home
from atdp.stack.cli.output import (
    Format,
    FormatOption,
    JsonOption,
    TableFormatOption,
    choose_format,
    print_json,
    print_rows,
)
from atdp.stack.cli.verb_groups import make_group

if TYPE_CHECKING:
    from atdp.access import StandingDecision
    from atdp.stack.consent.concerned_weights import ConcernedVersion
    from atdp.stack.consent.consent_desk import ConsentChoice, ConsentPlace

_COLUMNS = (
    "tenant",
    "scope",
    "value",
    "state",
    "purposes",
    "expires_at",
    "actor",
    "recorded_at",
    "reason",
)
_WEIGHT_COLUMNS = ("model", "version", "trajectories", "ancestors")

TenantOption = Annotated[str, typer.Option(help="Tenant that the decision is about.")]
SubjectOption = Annotated[
    str | None,
    typer.Option(help="One person of it: the id that agents send, or its governed form."),
]
SessionOption = Annotated[str | None, typer.Option(help="One session of it.")]
PurposeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--purpose", help="train, replay, analytics or export (repeatable; default: all of them)."
    ),
]
ReasonOption = Annotated[str, typer.Option(help="Why, for those who read the register.")]


def add_to(app: typer.Typer) -> None:
    """Add the verbs `consent …` to the `atdp` command."""
    group = make_group("consent", "Consent: withdraw and grant the use of data, list, show.")
    group.command()(withdraw)
    group.command()(grant)
    group.command("list")(list_all)
    group.command()(show)
    app.add_typer(group)


def withdraw(  # noqa: PLR0913 (one for each option of the command)
    tenant: TenantOption,
    subject: SubjectOption = None,
    session: SessionOption = None,
    purpose: PurposeOption = None,
    reason: ReasonOption = "",
    key: KeyOption = None,
    form: FormatOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Withdraw consent: from now on no training, replay, export or SQL uses the data.

    It holds for what has landed and for what comes, until consent is granted again for the same
    tenant, person or session. The answer names the weight versions that have learned from it.

    \b
    Example:
      atdp consent withdraw --tenant acme --subject ann@example.com --reason "ticket 4711"
      atdp consent withdraw --tenant acme --purpose train
    """
    from atdp.stack.consent.consent_desk import ConsentChoice, ConsentPlace

    place = ConsentPlace(tenant=tenant, subject=subject, session=session)
    terms = ConsentChoice(granted=False, purposes=purpose or (), reason=reason)
    _decide(place, terms, key, choose_format(form, as_json))


def grant(  # noqa: PLR0913 (one for each option of the command)
    tenant: TenantOption,
    subject: SubjectOption = None,
    session: SessionOption = None,
    purpose: PurposeOption = None,
    expires: Annotated[
        str | None,
        typer.Option(help="When the grant ends: a day or time in ISO 8601 (UTC; default: never)."),
    ] = None,
    reason: ReasonOption = "",
    key: KeyOption = None,
    form: FormatOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Grant consent, which ends a withdrawal for the same tenant, person or session.

    It opens nothing that governance stamped otherwise when it landed.

    \b
    Example:
      atdp consent grant --tenant acme --purpose train --expires 2027-06-30
    """
    from atdp.stack.consent.consent_desk import ConsentChoice, ConsentPlace

    place = ConsentPlace(tenant=tenant, subject=subject, session=session)
    terms = ConsentChoice(
        granted=True, purposes=purpose or (), expires_at=_time(expires), reason=reason
    )
    _decide(place, terms, key, choose_format(form, as_json))


def list_all(
    tenant: Annotated[
        str | None, typer.Option(help="Only this tenant's (default: every tenant's).")
    ] = None,
    key: KeyOption = None,
    form: TableFormatOption = Format.TABLE,
    as_json: JsonOption = False,
) -> None:
    r"""List the decisions about consent that stand, oldest first.

    \b
    Example:
      atdp consent list --tenant acme
    """
    from atdp.stack.consent.consent_desk import ConsentDesk

    home = existing_home()
    decisions = ConsentDesk(home).standing(caller_of(home, key), tenant)
    _print(decisions, choose_format(form, as_json) or Format.TABLE)


def show(
    tenant: TenantOption,
    subject: SubjectOption = None,
    session: SessionOption = None,
    key: KeyOption = None,
    form: TableFormatOption = Format.TABLE,
    as_json: JsonOption = False,
) -> None:
    r"""Show the decisions that concern one person or session, those about its tenant included.

    \b
    Example:
      atdp consent show --tenant acme --subject ann@example.com
    """
    from atdp.stack.consent.consent_desk import ConsentDesk, ConsentPlace

    home = existing_home()
    place = ConsentPlace(tenant=tenant, subject=subject, session=session)
    decisions = ConsentDesk(home).answer(caller_of(home, key), place)
    _print(decisions, choose_format(form, as_json) or Format.TABLE)


def _decide(
    place: "ConsentPlace", terms: "ConsentChoice", key: str | None, form: Format | None
) -> None:
    from atdp.runtime import utc_now
    from atdp.stack.consent.consent_api import decision_row
    from atdp.stack.consent.consent_desk import ConsentDesk

    home = existing_home()
    desk = ConsentDesk(home)
    written = desk.decide(caller_of(home, key), place, terms, utc_now())
    matching = desk.matching(written)
    weights = [] if terms.granted or matching is None else desk.concerned(written)
    if form is Format.JSON:
        print_json(
            {
                "decisions": [decision_row(each) for each in written],
                "trajectories": None if matching is None else matching.matching,
                "weights": None if matching is None else [each.row() for each in weights],
            }
        )
        return
    _print(written, form or Format.TABLE)
    if matching is None:
        typer.echo(
            "The decision stands. The lake cannot be read now, so it is not known how many "
            "trajectories and which weights it concerns.",
            err=True,
        )
    elif form is None:
        typer.echo(matching.words)
        _print_weights(weights, granted=terms.granted)


def _print_weights(weights: "Sequence[ConcernedVersion]", *, granted: bool) -> None:
    if granted:
        return
    if not weights:
        typer.echo("No published weights have learned from it.")
        return
    rows = [each.row() for each in weights]
    title = "These weights have already learned from it, by themselves or through ancestors:"
    print_rows(rows, _WEIGHT_COLUMNS, Format.TABLE, title=title)


def _print(decisions: "Sequence[StandingDecision]", form: Format) -> None:
    from atdp.stack.consent.consent_api import decision_row

    print_rows([decision_row(each) for each in decisions], _COLUMNS, form)


def _time(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError as error:
        raise typer.BadParameter(
            f"{text!r} is no day or time in ISO 8601, e.g. 2027-06-30"
        ) from error
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time
