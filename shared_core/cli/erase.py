"""Commands that erase a user or a thread for good, and show the receipts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from shared_core.cli.app import (
    App,
    AsJson,
    Malformed,
    Schema,
    Uri,
    User,
    app,
    console,
    open_memory,
    tell,
    word_table,
)
from shared_core.core.domain import Scope

if TYPE_CHECKING:
    from shared_core.ports.erasures import ErasureReceipt


@app.command()
def erase(
    app_name: App,
    user: User,
    thread: Annotated[
        str | None, typer.Option(help="Only this thread, or session. [default: all]")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    uri: Uri = None,
    schema: Schema = None,
    as_json: AsJson = False,
) -> None:
    """Erase everything of a user, or of one thread, in every table; print the receipt.

    It cannot be undone. Session logs go, and tokens for this user alone are revoked.
    """
    what = f"user {user!r} of application {app_name!r}"
    what = what if thread is None else f"thread {thread!r} of {what}"
    if not yes:
        _agreed(what)
    memory = open_memory(uri, schema=schema, worker=False, track_access=False)

    async def run() -> ErasureReceipt:
        async with memory:
            return await memory.erase(Scope(app_name, user), thread)

    receipt = asyncio.run(run())
    rows = ", ".join(f"{count:,} of {table}" for table, count in sorted(receipt.counts.items()))
    told = f"Erased {what}: {rows or 'there was nothing'}. Receipt {receipt.erasure_id}."
    tell(told, receipt.to_dict(), as_json)


@app.command()
def erasures(
    app_name: Annotated[
        str | None, typer.Option("--app", help="Only of an application. [default: of all]")
    ] = None,
    user: Annotated[str | None, typer.Option(help="Only of a user of --app.")] = None,
    uri: Uri = None,
    schema: Schema = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, one line each.")] = False,
) -> None:
    """Show the receipts of what was erased, newest first."""
    if user is not None and app_name is None:
        raise Malformed("--user needs --app: a user is one of an application")
    scope = Scope(app_name, user) if app_name is not None and user is not None else None
    memory = open_memory(uri, schema=schema, worker=False, track_access=False)

    async def run() -> Sequence[ErasureReceipt]:
        async with memory:
            return await memory.erasures(scope, app=app_name if scope is None else None)

    found = asyncio.run(run())
    if as_json:
        for receipt in found:
            typer.echo(json.dumps(receipt.to_dict(), ensure_ascii=False))
    elif found:
        console().print(_table(found))
    else:
        console().print(Text("Nothing was erased."))


def _table(found: Sequence[ErasureReceipt]) -> object:
    rows = [
        (
            one.completed_at.isoformat(timespec="seconds"), one.scope.app, one.scope.user,
            one.thread_id or "", f"{one.counts.get('memories', 0):,}",
            str(one.erasure_id) if one.is_intact else f"{one.erasure_id}: changed since",
        )
        for one in found
    ]  # fmt: skip
    return word_table(("when", "application", "user", "thread", "memories", "receipt"), rows)


def _agreed(what: str) -> None:
    """Ask whether it is meant. Raises Malformed where nobody can answer."""
    if not console().is_terminal:
        raise Malformed(f"this erases {what} for good: say --yes where nobody can be asked")
    typer.confirm(f"Erase {what} for good?", abort=True)
