"""Commands that erase a user or a thread, and list the receipts."""

from __future__ import annotations

from typing import Annotated

import typer

from shared_core.cli import app as cli
from shared_core.core.domain import Scope


@cli.app.command()
def erase(
    app_name: cli.App,
    user: cli.User,
    thread: Annotated[
        str | None, typer.Option(help="Only this thread or ADK session.", show_default="all")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    uri: cli.Uri = None,
    schema: cli.Schema = None,
    as_json: cli.AsJson = False,
) -> None:
    """Erase all data of a user, or of one thread, in every table; print the receipt.

    This cannot be undone. Session logs are erased too, and tokens for this user alone are revoked.
    """
    what = f"user {user!r} of application {app_name!r}"
    what = what if thread is None else f"thread {thread!r} of {what}"
    if not yes:
        if not cli.console().is_terminal:
            raise cli.Malformed(f"this erases {what} for good: add --yes where nobody can confirm")
        typer.confirm(f"Erase {what} for good?", abort=True)
    receipt = cli.with_memory(
        cli.open_memory(uri, schema=schema, worker=False, track_access=False),
        lambda memory: memory.erase(Scope(app_name, user), thread),
    )
    rows = ", ".join(f"{count:,} of {table}" for table, count in sorted(receipt.counts.items()))
    text = f"Erased {what}: {rows or 'there was nothing'}. Receipt {receipt.erasure_id}."
    cli.report(text, receipt.to_dict(), as_json)


@cli.app.command()
def erasures(
    app_name: cli.OnlyApp = None,
    user: cli.OnlyUser = None,
    uri: cli.Uri = None,
    schema: cli.Schema = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON, one line per receipt.")
    ] = False,
) -> None:
    """List the receipts of erasures, newest first."""
    with cli.malformed():
        scope, of_app = cli.scope_options(app_name, user)
    found = cli.with_memory(
        cli.open_memory(uri, schema=schema, worker=False, track_access=False),
        lambda memory: memory.erasures(scope, app=of_app),
    )
    if as_json:
        for receipt in found:
            cli.print_json(receipt.to_dict())
    elif found:
        rows = [
            (
                one.completed_at.isoformat(timespec="seconds"), one.scope.app, one.scope.user,
                one.thread_id or "", f"{one.counts.get('memories', 0):,}",
                str(one.erasure_id) if one.is_intact else f"{one.erasure_id}: changed since",
            )
            for one in found
        ]  # fmt: skip
        names = ("when", "application", "user", "thread", "memories", "receipt")
        cli.console().print(cli.word_table(names, rows))
    else:
        typer.echo("Nothing was erased.")
