"""`atdp policy init`, `lint`, `test` and `diff`: policies before anything is decided."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from atdp.stack.cli.callers import KeyOption
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
from atdp.stack.cli.policy_arguments import (
    AnyPolicyArgument,
    EvaluationsOption,
    FileArgument,
    IdArgument,
    checks_of,
    is_file,
    open_desk,
    read_policy_text,
    read_text,
)

_PROBLEM_COLUMNS = ("line", "column", "level", "message")
_TEST_COLUMNS = ("test", "name", "line", "passed", "problems")
_CHANGE_COLUMNS = ("effect", "part", "words")


def init(  # noqa: PLR0913 - the options of the command
    policy_id: IdArgument,
    tenant: Annotated[
        list[str],
        typer.Option(help="Tenant that the policy is for; may be repeated. '*': all others."),
    ],
    template: Annotated[
        str,
        typer.Option(help="customer-service, coding-agents, health, none or demo."),
    ] = "customer-service",
    purpose: Annotated[
        list[str] | None,
        typer.Option(
            help="Use that is allowed: analytics, train, replay or export; may be repeated "
            "(default: those of the template)."
        ),
    ] = None,
    consent: Annotated[
        bool, typer.Option("--consent", help="State that consent to training is granted.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="The file to write (default: ID.yaml).", dir_okay=False
        ),
    ] = None,
    form: FormatOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Write the file of a new policy from a template. Nothing is registered.

    \b
    Example:
      atdp policy init acme --template customer-service --tenant acme
      atdp policy init acme --tenant acme --purpose analytics --purpose train --consent
    """
    from atdp.governance import PolicyError, new_policy_text, policy_schema_text
    from atdp.runtime import files_of_user

    text = new_policy_text(policy_id, template, tenant, purposes=purpose or (), consent=consent)
    path = output or Path(f"{policy_id}.yaml")
    schema = path.with_name("policy.schema.json")
    try:
        with files_of_user():
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
            schema.write_text(policy_schema_text(), encoding="utf-8")
    except FileExistsError as error:
        raise PolicyError(f"{path} exists; choose another file with --output") from error
    except OSError as error:
        raise PolicyError(f"cannot write {error.filename}: {error.strerror}") from error
    form = choose_format(form, as_json)
    if form is None:
        typer.echo(f"wrote {path}, and {schema} for editors; next: atdp policy lint {path}")
    else:
        print_record({"id": policy_id, "file": str(path), "schema": str(schema)}, form)


def lint(file: FileArgument, form: FormatOption = None, as_json: JsonOption = False) -> None:
    r"""Check a policy file; every problem has line and column. Needs no home.

    Exit code 1 when there is an error. Warnings are what may be intended.

    \b
    Example:
      atdp policy lint acme.yaml
    """
    problems = checks_of(file.parent).lint(read_text(file), str(file))
    form = choose_format(form, as_json)
    if form is not None:
        print_rows([asdict(each) for each in problems], _PROBLEM_COLUMNS, form)
    else:
        for each in problems:
            typer.echo(f"{file}:{each.line}:{each.column}: {each.level}: {each.message}")
        plural = "" if len(problems) == 1 else "s"
        typer.echo(f"{len(problems) or 'no'} problem{plural}", err=True)
    if any(each.level == "error" for each in problems):
        raise typer.Exit(1)


def run_tests(
    policy: AnyPolicyArgument,
    evaluations: EvaluationsOption = None,
    key: KeyOption = None,
    form: TableFormatOption = Format.TABLE,
    as_json: JsonOption = False,
) -> None:
    r"""Run the tests of a policy, and measure its recall where it has a floor.

    Exit code 1 when a test fails. A file needs no home.

    \b
    Example:
      atdp policy test acme.yaml
      atdp policy test acme@3 --format json
    """
    if is_file(policy):
        text = read_policy_text(Path(policy))
        folder = evaluations or Path(policy).parent
    else:
        from atdp.stack.cli.homes import existing_home

        with open_desk(key) as opened:
            text = opened.text_of(policy)
        folder = evaluations or existing_home().policies
    results = checks_of(folder).test(text)
    chosen = choose_format(form, as_json) or Format.TABLE
    rows = [
        {
            **asdict(each),
            "problems": list(each.problems) if chosen is Format.JSON else "; ".join(each.problems),
        }
        for each in results
    ]
    print_rows(rows, _TEST_COLUMNS, chosen)
    failed = sum(not each.passed for each in results)
    passed = len(results) - failed
    typer.echo(f"{passed} test{'' if passed == 1 else 's'} passed, {failed} failed", err=True)
    if failed:
        raise typer.Exit(1)


def diff(
    policy: AnyPolicyArgument,
    key: KeyOption = None,
    form: FormatOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Compare a policy with the one in force: rule by rule in words, then the texts.

    `weaker` means that more may pass or be used than before. The policy in force is the active
    version of the same id, else the policy that applies to its first tenant now.

    \b
    Example:
      atdp policy diff acme.yaml
      atdp policy diff acme@3 --format json
    """
    from atdp.governance import PolicyText, policy_changes, text_diff

    given = read_policy_text(Path(policy)) if is_file(policy) else None
    with open_desk(key) as opened:
        after = given or opened.text_of(policy)
        in_force = opened.desk.in_force(opened.caller, after.content)
    before = None
    if in_force is not None:
        before = PolicyText.parse(in_force.text, where=f"{in_force.id}@{in_force.version}")
    rows = [asdict(change) for change in policy_changes(before, after)]
    form = choose_format(form, as_json)
    if form is Format.JSON:
        print_json(
            {
                "policy": f"{after.content.id}@{after.content.version}",
                "in_force": None if before is None else before.where,
                "changes": rows,
                "text": text_diff(before, after),
            }
        )
        return
    if form is not None:
        print_rows(rows, _CHANGE_COLUMNS, form)
        return
    beside = "nothing in force" if before is None else before.where
    typer.echo(f"{after.content.id}@{after.content.version} beside {beside}:")
    for row in rows:
        typer.echo(f"  {row['effect']:8}  {row['words']}")
    typer.echo("" if rows else "  no rule differs")
    typer.echo(text_diff(before, after))
