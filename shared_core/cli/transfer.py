"""Commands that carry memories elsewhere: export and import, and reembed to another model."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from shared_core.cli.app import (
    App,
    AsJson,
    Embedder,
    Malformed,
    Schema,
    Uri,
    app,
    console,
    open_memory,
)
from shared_core.errors import InvalidInput


@app.command()
def export(
    app_name: App,
    user: Annotated[
        str | None, typer.Argument(help="Only this user of it. [default: all of them]")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(dir_okay=False, help="A file. [default: standard output]")
    ] = None,
    with_vectors: Annotated[
        bool, typer.Option("--with-vectors", help="Else an import embeds the texts anew.")
    ] = False,
    uri: Uri = None,
    schema: Schema = None,
    as_json: Annotated[bool, typer.Option("--json", help="With --out: print JSON.")] = False,
) -> None:
    """Write everything of a user, or of an application, as lines of JSON.

    All of one moment, in a fixed order: two exports of the same are equal. Without --out the lines
    themselves are printed. Exit code 1 if there is nothing.
    """
    from shared_core.cli import run_transfer as transfer_commands

    memory = open_memory(uri, schema=schema, worker=False, track_access=False, create=False)

    async def run() -> int:
        async with memory:
            return await transfer_commands.export(
                memory, app_name, user, out, vectors=with_vectors, screen=console(stderr=True)
            )

    rows = asyncio.run(run())
    if out is None:
        return
    if as_json:
        typer.echo(json.dumps({"rows": rows, "file": str(out)}, ensure_ascii=False))
    else:
        console().print(Text(f"{rows:,} rows written to {out}."), soft_wrap=True)


@app.command("import")
def import_(
    file: Annotated[
        Path | None, typer.Argument(dir_okay=False, help="What `hippocampus export` wrote.")
    ] = None,
    from_postgres_store: Annotated[
        str | None,
        typer.Option(help="DSN of a LangGraph PostgresStore instead; may be the same database."),
    ] = None,
    uri: Uri = None,
    schema: Schema = None,
    embedder: Embedder = None,
    prefix: Annotated[
        str, typer.Option(help="PostgresStore: only namespaces below these labels, a.b.")
    ] = "",
    batch: Annotated[
        int, typer.Option(min=1, max=10_000, help="PostgresStore: items at a time.")
    ] = 500,
    vectors_from: Annotated[
        str | None, typer.Option(help="PostgresStore: keep its vectors, they are of this model.")
    ] = None,
    reembed: Annotated[
        bool,
        typer.Option("--reembed", help="PostgresStore: embed every item anew, here or not."),
    ] = False,
    restore: Annotated[
        bool, typer.Option("--restore", help="Bring back what was deleted or forgotten here.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Look at all of it, and write nothing.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Take in what `hippocampus export` wrote, or the items of a LangGraph PostgresStore.

    Start it again after an interruption, and it does the rest: what is here already stays as it is.
    A file is read to its end before anything is written, and an error names its line; a store is
    only read. Exit code 1 if a line or an item failed, or the counts do not agree.
    """
    if (file is None) == (from_postgres_store is None):
        raise Malformed("name a FILE, or --from-postgres-store DSN, and not both")
    if file is not None:
        if prefix or vectors_from or reembed:
            raise InvalidInput("--prefix, --vectors-from and --reembed are for a PostgresStore")
        _import_file(file, uri, schema, embedder, restore, dry_run, as_json)
        return
    from shared_core.cli.run_import import StoreImport, count_items, import_store

    task = StoreImport(
        dsn=from_postgres_store or "",
        uri=uri,
        schema=schema,
        embedder=embedder,
        prefix=prefix,
        batch=batch,
        vectors_from=vectors_from,
        reembed=reembed,
        restore=restore,
    )
    screen = None if as_json else console()
    if dry_run:
        tally = asyncio.run(count_items(task, screen))
        if as_json:
            typer.echo(json.dumps(dataclasses.asdict(tally)))
        return
    report = asyncio.run(import_store(task, screen, console(stderr=True)))
    if as_json:
        typer.echo(json.dumps(dataclasses.asdict(report) | {"complete": report.complete}))
    raise typer.Exit(0 if report.complete else 1)


def _import_file(
    file: Path,
    uri: str | None,
    schema: str | None,
    embedder: str | None,
    restore: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    from shared_core.cli import run_transfer as transfer

    if dry_run:
        found = transfer.look_at(file)
        typer.echo(json.dumps(found, ensure_ascii=False) if as_json else transfer.look_told(found))
        return
    report = asyncio.run(
        transfer.import_file(
            file, uri=uri, schema=schema, embedder=embedder, restore=restore,
            screen=console(stderr=True),
        )
    )  # fmt: skip
    if as_json:
        typer.echo(json.dumps(dataclasses.asdict(report)))
    else:
        console().print(Text(transfer.told(report)), soft_wrap=True)


@app.command()
def copy(
    source: Annotated[str, typer.Option("--from", help="Where everything is: a uri.")],
    target: Annotated[str, typer.Option("--to", help="Where it shall be as well: another uri.")],
    app_name: Annotated[
        list[str] | None,
        typer.Option("--app", help="Only this application; may be repeated. [default: all]"),
    ] = None,
    embedder: Embedder = None,
    restore: Annotated[
        bool, typer.Option("--restore", help="Bring back what was forgotten in the target.")
    ] = False,
    schema: Schema = None,
    as_json: AsJson = False,
) -> None:
    """Copy everything from one database to another, of whatever engines, and compare the two.

    Policies of forgetting that hold for all applications go along, unless some are named by --app.
    What is in the target stays. Start it again after an interruption, and it does the rest. Exit
    code 1 if the two sides do not agree in the end, row by row, or the source has nothing.
    """
    from shared_core.cli import run_transfer as transfer

    report = asyncio.run(
        transfer.copy(
            open_memory(source, schema=schema, worker=False, track_access=False, create=False),
            open_memory(target, schema=schema, embedder=embedder, worker=False, track_access=False),
            apps=app_name or (),
            restore=restore,
            screen=console(stderr=True),
        )
    )
    if as_json:
        found = dataclasses.asdict(report) | {"complete": report.complete}
        typer.echo(json.dumps(found, ensure_ascii=False))
    else:
        console().print(Text(transfer.copied(report)), soft_wrap=True)
    raise typer.Exit(0 if report.complete and not report.found_nothing else 1)


@app.command()
def reembed(
    embedder: Annotated[str, typer.Option(help="The new one: use, e5 or google:MODEL.")],
    drop_old: Annotated[
        bool, typer.Option("--drop-old", help="Delete the vectors of other models at the end.")
    ] = False,
    uri: Uri = None,
    schema: Schema = None,
    as_json: AsJson = False,
) -> None:
    """Change the embedding model: make its vectors for all that has some, then let it be used.

    Everybody works on with the old model meanwhile; afterwards open the memory with --embedder, or
    embedder=. Start it again after an interruption, and it does the rest. Run `hippocampus index`
    afterwards if there are large users.
    """
    from shared_core.cli import run_transfer as transfer

    memory = open_memory(uri, schema=schema, worker=False)
    report = asyncio.run(
        transfer.reembed(memory, embedder, drop_old=drop_old, screen=console(stderr=True))
    )
    if as_json:
        typer.echo(json.dumps(dataclasses.asdict(report)))
    else:
        console().print(Text(transfer.reembedded(report)), soft_wrap=True)
