"""`atdp keys`: API keys of tenants and their roles."""

import json
from datetime import UTC, datetime
from typing import Annotated

import typer

from atdp.stack.cli.output import (
    Format,
    FormatOption,
    JsonOption,
    TableFormatOption,
    choose_format,
    print_record,
    print_rows,
)
from atdp.stack.cli.verb_groups import make_group


def add_to(app: typer.Typer) -> None:
    """Add the verbs `keys …` to the `atdp` command."""
    group = make_group("keys", "API keys: create, list, revoke. Keys of pseudonyms: destroy.")
    group.command()(create)
    group.command("list")(list_keys)
    group.command()(revoke)
    group.command()(destroy_pseudonyms)
    app.add_typer(group)


def create(
    tenant: Annotated[
        str, typer.Option(help="Tenant that the key acts for ('*' for an operator).")
    ],
    role: Annotated[
        str, typer.Option(help="agent, analyst, steward, trainer, evaluator, operator or auditor.")
    ],
    version: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VERSION",
            help="Version of the agent's harness, prompt or tools, for all calls of the key "
            "(repeatable; default for prompt and tools: by content).",
        ),
    ] = None,
    form: FormatOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Create an API key. It is shown only this once, because only a hash of it is stored.

    \b
    Example:
      atdp keys create --tenant acme --role agent
      export ATDP_API_KEY=$(atdp keys create --tenant acme --role agent)
      atdp keys create --tenant acme --role agent --version harness=desk-2.1
    """
    from atdp.runtime import Home, KeyStore

    versions = _versions_json(version or [])
    with KeyStore(Home.from_env().keys_db) as store:
        key, principal = store.create(tenant, role, versions=versions)
    form = choose_format(form, as_json)
    if form is not None:
        result = {
            "key": str(key),
            "key_id": principal.key_id,
            "tenant": principal.tenant,
            "role": principal.role,
        }
        print_record(result, form)
        return
    typer.echo(str(key))
    typer.echo(
        f"key {principal.key_id} of tenant {tenant}, role {role}; it cannot be shown again",
        err=True,
    )


def _versions_json(stated: list[str]) -> str | None:
    """Return the versions `NAME=VERSION` as a JSON object; None without any."""
    versions = {}
    for each in stated:
        name, _, version = each.partition("=")
        if name not in ("harness", "prompt", "tools") or not version:
            raise typer.BadParameter(
                f"{each!r} is not NAME=VERSION with the name harness, prompt or tools",
                param_hint="--version",
            )
        versions[name] = version
    return json.dumps(versions) if versions else None


def list_keys(
    form: TableFormatOption = Format.TABLE,
    as_json: JsonOption = False,
    sessions: Annotated[
        bool, typer.Option("--sessions", help="Also the keys of single sessions.")
    ] = False,
) -> None:
    r"""List keys (never their secrets).

    \b
    Example:
      atdp keys list --format json
    """
    from atdp.runtime import Home, KeyStore

    with KeyStore(Home.from_env().keys_db) as store:
        stored_keys = store.list(with_sessions=sessions)
    rows = [
        {
            "key_id": stored.principal.key_id,
            "tenant": stored.principal.tenant,
            "role": stored.principal.role,
            "created_at": datetime.fromtimestamp(stored.created_at_us / 1e6, UTC).isoformat(
                timespec="seconds"
            ),
            "revoked": stored.revoked,
        }
        for stored in stored_keys
    ]
    columns = ["key_id", "tenant", "role", "created_at", "revoked"]
    print_rows(rows, columns, choose_format(form, as_json) or Format.TABLE)


def revoke(
    key_id: Annotated[str, typer.Argument(help="The id: the 12 characters after `atdp_`.")],
    form: FormatOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Revoke a key and the session keys made with it. Events that were accepted before stay valid.

    \b
    Example:
      atdp keys revoke 0123456789ab
    """
    from atdp.runtime import Home, KeyStore, KeyStoreError

    with KeyStore(Home.from_env().keys_db) as store:
        if not store.revoke(key_id):
            raise KeyStoreError(
                f"There is no key {key_id!r} in this home. `atdp keys list` shows the ids."
            )
    form = choose_format(form, as_json)
    if form is None:
        typer.echo(f"revoked {key_id}", err=True)
    else:
        print_record({"key_id": key_id, "revoked": True}, form)


def destroy_pseudonyms(
    tenant: Annotated[str, typer.Argument(help="The tenant whose key is destroyed.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    form: FormatOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Destroy the keys of a tenant's pseudonyms and surrogates. This cannot be undone.

    What was written under them can no longer be linked to its values, and the same values get other
    surrogates from then on.

    \b
    Example:
      atdp keys destroy-pseudonyms acme
    """
    from atdp.governance import SecretsError, TenantKeyStore, open_secrets
    from atdp.runtime import Home

    if not yes:
        typer.confirm(
            f"Destroy the key of the pseudonyms and surrogates of {tenant!r}? It cannot be undone.",
            abort=True,
            err=True,
        )
    with open_secrets(Home.from_env()) as secrets:
        destroyed = TenantKeyStore(secrets).destroy(tenant)
    if not destroyed:
        raise SecretsError(f"The tenant {tenant!r} has no key of pseudonyms in this home.")
    form = choose_format(form, as_json)
    if form is None:
        typer.echo(f"destroyed the key of the pseudonyms of {tenant}", err=True)
    else:
        print_record({"tenant": tenant, "destroyed": True}, form)
