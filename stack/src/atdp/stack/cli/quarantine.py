"""`atdp quarantine`: records that governance refused, and the way out."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
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
    print_record,
    print_rows,
)
from atdp.stack.cli.verb_groups import make_group

if TYPE_CHECKING:
    from atdp.runtime import Principal
    from atdp.stack.quarantine.quarantine_desk import OrderedAction, QuarantineDesk
    from atdp.stack.quarantine.quarantine_list import QuarantineQuery

_COLUMNS = ("place", "state", "reason", "tenant_id", "kind", "event_id", "quarantined_at")
_DEFAULT_LIMIT = 1_000

TenantOption = Annotated[str | None, typer.Option(help="Records of this tenant.")]
ReasonOption = Annotated[str | None, typer.Option(help="Records with this reason code.")]
SinceOption = Annotated[
    str | None,
    typer.Option(help="Refused since: 90m, 24h, 7d ago, or a time with zone."),
]
KindOption = Annotated[str | None, typer.Option(help="Records of this kind of event.")]
PlacesArgument = Annotated[
    list[str] | None, typer.Argument(metavar="[PLACE]...", help="Places, as the list shows them.")
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show what would be ordered.")]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]
WhyOption = Annotated[str, typer.Option(help="Reason of the order; the topic of orders keeps it.")]


def add_to(app: typer.Typer) -> None:
    """Add the verbs `quarantine …` to the `atdp` command."""
    group = make_group("quarantine", "Quarantine: list, inspect, release and discard records.")
    group.command("list")(list_records)
    group.command()(show)
    group.command()(release)
    group.command()(discard)
    app.add_typer(group)


def list_records(  # noqa: PLR0913 (one for each option of the command)
    tenant: TenantOption = None,
    reason: ReasonOption = None,
    since: SinceOption = None,
    kind: KindOption = None,
    left: Annotated[
        bool, typer.Option("--left", help="Also the records that have left quarantine.")
    ] = False,
    limit: Annotated[int, typer.Option(help="Most records.", min=1)] = _DEFAULT_LIMIT,
    key: KeyOption = None,
    form: TableFormatOption = Format.TABLE,
    as_json: JsonOption = False,
) -> None:
    r"""List quarantined records, without what they hold.

    The state of a record is waiting, or quarantined_again when it was released and refused once
    more. With `--left` there are also released, dropped (by the policy, when it was released) and
    discarded ones. A record is listed some seconds after it was refused.

    \b
    Example:
      atdp quarantine list --reason no_policy --since 24h
      atdp quarantine list --left --format json
    """
    desk, caller = _desk(key)
    query = _query(tenant, reason, since, kind, open_only=not left, limit=limit)
    rows = [each.row() for each in desk.records(caller, query)]
    chosen = choose_format(form, as_json) or Format.TABLE
    columns = list(rows[0]) if rows and chosen is not Format.TABLE else _COLUMNS
    if not rows and chosen is Format.TABLE:
        typer.echo("No quarantined record matches; a record is listed some seconds after it came.")
        return
    print_rows(rows, columns, chosen)
    if len(rows) == limit and (total := desk.count(caller, query)) > limit:
        typer.echo(f"{limit:,} of {total:,} records; --limit shows more", err=True)


def show(
    place: Annotated[str, typer.Argument(metavar="PLACE", help="As the list shows it.")],
    payload: Annotated[
        bool,
        typer.Option("--payload", help="Also what it holds. Needs a role that may; recorded."),
    ] = False,
    key: KeyOption = None,
    form: TableFormatOption = Format.TABLE,
    as_json: JsonOption = False,
) -> None:
    r"""Show one quarantined record.

    With `--payload` and the key of a steward, the raw values are shown. The register holds who saw
    them before they appear; when it cannot be written, they do not.

    \b
    Example:
      atdp quarantine show atdp.events.quarantine/0/17
      atdp quarantine show 0/17 --payload --key "$STEWARD_KEY" --format json
    """
    from atdp.governance import QuarantinePlace
    from atdp.runtime import utc_now

    desk, caller = _desk(key)
    at = QuarantinePlace.parse(place)
    record = desk.record(caller, at).row()
    held = desk.payload(caller, at, utc_now()) if payload else None
    chosen = choose_format(form, as_json) or Format.TABLE
    if held is not None and chosen is not Format.TABLE:
        record["payload"] = held
    print_record(record, chosen)
    if held is not None and chosen is Format.TABLE:
        print_json(held)


def release(  # noqa: PLR0913 (one for each option of the command)
    places: PlacesArgument = None,
    tenant: TenantOption = None,
    reason: ReasonOption = None,
    since: SinceOption = None,
    kind: KindOption = None,
    why: WhyOption = "",
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    key: KeyOption = None,
    form: FormatOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Send quarantined records through governance again, after the cause was mended.

    Name places, or choose records by tenant, reason, kind and time. Each is authenticated and
    governed as if it had just been read from its place in the raw topic. It lands once, however
    often it is ordered; what is refused again stays in quarantine with the new reason.

    \b
    Example:
      atdp quarantine release --reason no_policy --since 24h --dry-run
      atdp quarantine release --reason no_policy --since 24h --why "policy of acme" --yes
      atdp quarantine release atdp.events.quarantine/0/17
    """
    query = _query(tenant, reason, since, kind, places=places or ())
    wish = _Wish("release", why, dry_run, yes)
    _carry_out(wish, query, key, choose_format(form, as_json))


def discard(  # noqa: PLR0913 (one for each option of the command)
    places: PlacesArgument = None,
    tenant: TenantOption = None,
    reason: ReasonOption = None,
    since: SinceOption = None,
    kind: KindOption = None,
    why: WhyOption = "",
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    key: KeyOption = None,
    form: FormatOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Give quarantined records up: they can never be released. This cannot be undone.

    The sealed payload stays in the topic until its retention ends.

    \b
    Example:
      atdp quarantine discard --reason bad_signature --since 7d --why "a test client" --yes
    """
    query = _query(tenant, reason, since, kind, places=places or ())
    wish = _Wish("discard", why, dry_run, yes)
    _carry_out(wish, query, key, choose_format(form, as_json))


@dataclass(frozen=True, slots=True)
class _Wish:
    """The wish of a person about the records of a query."""

    action: "OrderedAction"
    why: str
    dry_run: bool
    confirmed: bool


def _carry_out(wish: _Wish, query: "QuarantineQuery", key: str | None, form: Format | None) -> None:
    """Show how many records of a query there are, ask, and order."""
    from atdp.runtime import utc_now
    from atdp.stack.quarantine.quarantine_desk import QuarantineUnknown

    if not query.names_something:
        raise typer.BadParameter("name places, or choose by --tenant, --reason, --kind or --since")
    desk, caller = _desk(key)
    records = desk.records(caller, query)
    for place in query.places - {each.place for each in records}:
        raise QuarantineUnknown(f"there is no quarantined record at {place}")
    counts = Counter((each.tenant_id, each.reason) for each in records)
    rows = [
        {"tenant_id": tenant, "reason": reason, "records": count}
        for (tenant, reason), count in sorted(counts.items())
    ]
    if form is None:
        print_rows(rows, ["tenant_id", "reason", "records"], Format.TABLE)
    if records and not (wish.confirmed or wish.dry_run):
        typer.confirm(f"{wish.action} {_records(len(records))}?", abort=True, err=True)
    if not wish.dry_run:
        desk.order(caller, wish.action, records, reason=wish.why, now=utc_now())
    ordered = 0 if wish.dry_run else len(records)
    if form is None:
        after = "`atdp quarantine list --left` shows what becomes of them"
        if wish.dry_run:
            after = "this was a dry run"
        typer.echo(f"ordered to {wish.action} {_records(ordered)}; {after}", err=True)
    elif form is Format.JSON:
        print_record({"action": wish.action, "ordered": ordered, "records": rows}, form)
    else:
        print_rows(rows, ["tenant_id", "reason", "records"], form)


def _records(count: int) -> str:
    return f"{count:,} record{'' if count == 1 else 's'}"


def _desk(key: str | None) -> "tuple[QuarantineDesk, Principal]":
    from atdp.stack.quarantine.quarantine_desk import QuarantineDesk

    home = existing_home()
    return QuarantineDesk(home), caller_of(home, key)


def _query(  # noqa: PLR0913 (one for each option of the commands)
    tenant: str | None,
    reason: str | None,
    since: str | None,
    kind: str | None,
    *,
    places: Sequence[str] = (),
    open_only: bool = True,
    limit: int | None = None,
) -> "QuarantineQuery":
    from atdp.governance import QuarantinePlace
    from atdp.runtime import utc_now
    from atdp.stack.previews.preview_question import moment
    from atdp.stack.quarantine.quarantine_list import QuarantineQuery

    return QuarantineQuery(
        tenant=tenant,
        reason=reason,
        kind=kind,
        since=None if since is None else moment(since, utc_now()),
        places=frozenset(map(QuarantinePlace.parse, places)),
        open_only=open_only and not places,
        limit=limit,
    )
