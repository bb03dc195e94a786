"""`atdp conformance`: producers and receivers, held against the rules of the contract."""

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from atdp.stack.cli.output import (
    Format,
    JsonOption,
    TableFormatOption,
    choose_format,
    print_rows,
)

if TYPE_CHECKING:
    from atdp.schemas import ConformanceReport

_COLUMNS = ("rule", "verdict", "passed", "failed", "where", "sentence")
_SHOWN_PLACES = 3
_UNUSABLE = 2


def add_to(app: typer.Typer) -> None:
    """Add the verb `conformance` to the `atdp` command."""
    app.command()(conformance)


def conformance(  # noqa: PLR0913 (one for each option of the command)
    files: Annotated[
        list[Path] | None,
        typer.Option(
            "--file",
            help="Events of a producer: JSON Lines or an Avro object container file. May be "
            "repeated; the files are read as one log.",
        ),
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(help="URL of a receiver, e.g. a gateway; vectors are posted to it."),
    ] = None,
    api_key: Annotated[
        str | None,
        typer.Option(help="API key for --url, of the role agent.", envvar="ATDP_API_KEY"),
    ] = None,
    tenant: Annotated[
        str, typer.Option(help="Tenant of that key; take one of its own for this.")
    ] = "conformance",
    vectors: Annotated[
        Path | None,
        typer.Option(help="Write the files of vectors into this folder.", file_okay=False),
    ] = None,
    form: TableFormatOption = Format.TABLE,
    as_json: JsonOption = False,
) -> None:
    r"""Check a producer or a receiver of events, rule by rule.

    With --file, each event is held against all rules of events, and each trajectory against the
    rules of sequences. With --url, vectors are posted, and what is accepted and rejected is
    compared; the good vectors land in the tenant, in trajectories `conformance-…`. With neither,
    the checks of this installation are held against the vectors.

    Exit code 1 when a rule is broken, 2 when the input cannot be read or the receiver cannot be
    judged.

    \b
    Example:
      atdp conformance --file events.jsonl
      atdp conformance --url http://127.0.0.1:8080 --api-key "$KEY" --format json
      atdp conformance --vectors vectors/
    """
    from atdp.schemas import UnreadableEvents
    from atdp.stack.receiver_check import ReceiverUnusable

    if files and url:
        raise typer.BadParameter("give --file or --url, not both")
    if url and not api_key:
        raise typer.BadParameter("--url needs --api-key or ATDP_API_KEY")
    if vectors is not None:
        _write_vectors(vectors)
    try:
        report = _check(files, url, api_key or "", tenant)
    except (UnreadableEvents, ReceiverUnusable) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(_UNUSABLE) from None
    _print(report, choose_format(form, as_json) or Format.TABLE)
    if not report.conforms:
        raise typer.Exit(1)


def _check(
    files: list[Path] | None, url: str | None, api_key: str, tenant: str
) -> "ConformanceReport":
    from atdp.schemas import UnreadableEvents, check_producer, check_vectors, read_events
    from atdp.stack.receiver_check import check_receiver

    if url:
        return check_receiver(url, api_key, tenant)
    if not files:
        return check_vectors()
    report = check_producer(itertools.chain.from_iterable(map(read_events, files)))
    if not report.items:
        raise UnreadableEvents("there is no event in " + ", ".join(map(str, files)))
    return report


def _print(report: "ConformanceReport", form: Format) -> None:
    is_table = form is Format.TABLE
    rows = [
        {
            "rule": each.rule_id,
            "verdict": each.verdict,
            "passed": each.passed,
            "failed": each.failed,
            "where": ", ".join(each.places[:_SHOWN_PLACES]) if is_table else each.places,
            "sentence": each.sentence,
        }
        for each in report
        if not is_table or each.verdict != "not seen"
    ]
    print_rows(rows, _COLUMNS, form)
    verdicts = [each.verdict for each in report]
    typer.echo(
        f"{report.items} events or vectors: {verdicts.count('passed')} rules passed, "
        f"{verdicts.count('failed')} failed, {verdicts.count('not seen')} not seen",
        err=True,
    )


def _write_vectors(folder: Path) -> None:
    from atdp.schemas import VECTOR_FILES, vector_text
    from atdp.stack.cli.output_files import writing

    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for name in VECTOR_FILES:
            (folder / name).write_text(vector_text(name), encoding="utf-8")
