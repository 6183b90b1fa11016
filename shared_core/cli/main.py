"""The command `hippocampus`. What is slow to import is imported by the command that needs it."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from typing import Annotated, cast

import typer
from rich import box
from rich.table import Table
from rich.text import Text

from shared_core import __version__
from shared_core.cli import (
    erase,  # noqa: F401 # its commands
    facts,  # noqa: F401 # its commands
    mcp,  # noqa: F401 # its command
    profile,  # noqa: F401 # its commands
    reads,  # noqa: F401 # its commands
    retention,  # noqa: F401 # its commands
    serve,  # noqa: F401 # its commands
    transfer,  # noqa: F401 # its commands
    work,  # noqa: F401 # its commands
)
from shared_core.cli.app import (
    MARKS,
    App,
    AsJson,
    DemoEngine,
    DemoLanguage,
    Embedder,
    Malformed,
    Schema,
    Uri,
    User,
    app,
    as_of_options,
    console,
    open_memory,
    tell,
)
from shared_core.cli.examples import show_examples
from shared_core.core.domain import Scope
from shared_core.errors import InvalidInput
from shared_core.ports.recall import Ranking


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"hippocampus {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Long-term memory for AI agents, shared by Google ADK and LangGraph."""


@app.command()
def demo(
    language: Annotated[
        DemoLanguage, typer.Option(help="Which conversations.")
    ] = DemoLanguage.BOTH,
    uri: Uri = None,
    schema: Schema = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Use your own memory, and stay there.")
    ] = False,
    engine: Annotated[
        DemoEngine, typer.Option(help="Of the database in the temporary folder.")
    ] = DemoEngine.POSTGRES,
    as_json: AsJson = False,
) -> None:
    """Learn two conversations through ADK and ask about them through LangGraph and ADK.

    By default in a temporary folder, removed at the end; with --keep or --uri in a memory of yours.
    """
    from shared_core.cli.demo.script import LANGUAGES
    from shared_core.cli.demo.tour import Tour

    if engine is not DemoEngine.POSTGRES and (uri or keep):
        raise Malformed("--engine is for the temporary folder: --uri says where else, and on what")
    wanted = [one for one in LANGUAGES if language in (one, DemoLanguage.BOTH)]
    tour = Tour(languages=wanted, uri=uri, schema=schema, keep=keep, engine=engine.value)
    results = asyncio.run(tour.run(console(stderr=as_json)))
    if as_json:
        typer.echo(json.dumps([result.to_dict() for result in results], ensure_ascii=False))


@app.command()
def doctor(
    uri: Uri = None,
    schema: Schema = None,
    embedder: Embedder = None,
    start: Annotated[bool, typer.Option("--start", help="Make what is not there yet.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Examine the memory: what is wrong, and how to mend it. Exit code 1 if something is."""
    from shared_core.cli.doctor import examine
    from shared_core.cli.findings import CheckResult

    findings: list[CheckResult] = examine(uri, schema=schema, embedder=embedder, start=start)
    well = all(finding.status != "problem" for finding in findings)
    if as_json:
        report = {"ok": well, "findings": [dataclasses.asdict(finding) for finding in findings]}
        typer.echo(json.dumps(report, ensure_ascii=False, indent=2))
    else:
        screen = console()
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
        for name in ("", "check", "found, and what to do"):
            table.add_column(name, overflow="fold")
        for finding in findings:
            mark, style = MARKS[finding.status]
            told = Text(finding.found)
            if finding.advice:
                told.append(f"\n→ {finding.advice}", style=style)
            table.add_row(Text(mark, style=style), finding.check, told)
        screen.print(table)
        screen.print("All is well." if well else "Something is wrong: see the lines with ✗.")
    raise typer.Exit(0 if well else 1)


@app.command()
def migrate(
    uri: Uri = None,
    schema: Schema = None,
    distribute: Annotated[
        bool, typer.Option("--distribute", help="Then spread the tables over a Citus cluster.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Bring the database to the schema of this version. Every first use does it too."""

    async def run() -> None:
        async with open_memory(uri, schema=schema) as memory:
            report = await memory.report()
            found = dataclasses.asdict(report)
            if distribute:
                from shared_core.storage.postgres.connection.citus import spread

                moved = await asyncio.to_thread(spread, await memory.dsn(), report.schema)
                found["tables"] = [dataclasses.asdict(table) for table in moved]
            if as_json:
                typer.echo(json.dumps(found))
                return
            vectors = "pgvector" if "PostgreSQL" in report.engine else "vectors"
            console().print(
                Text(
                    f"Schema {report.schema!r} is at version {report.schema_version}:"
                    f" {report.engine} {report.server_version}, {vectors}"
                    f" {report.extension_version}, role {report.role}, in {report.location}"
                ),
                soft_wrap=True,
            )
            for table in found.get("tables", ()):
                told = "moved" if table["moved"] else "there"
                console().print(Text(f"{table['table']}: {table['place']}, {told}"))

    asyncio.run(run())


@app.command()
def remember(
    app_name: App,
    user: User,
    text: Annotated[str, typer.Argument(help="What to remember.")],
    uri: Uri = None,
    schema: Schema = None,
    embedder: Embedder = None,
    as_json: AsJson = False,
) -> None:
    """Remember a text of a user, and print its key."""

    async def run() -> None:
        async with open_memory(uri, schema=schema, embedder=embedder) as memory:
            [key] = await memory.remember(Scope(app_name, user), text)
            tell(key, {"key": key}, as_json)

    asyncio.run(run())


@app.command()
def recall(
    app_name: App,
    user: User,
    query: Annotated[str, typer.Argument(help="A question, or words to look for.")],
    limit: Annotated[int, typer.Option(min=1, help="How many memories at most.")] = 5,
    as_of: Annotated[
        str | None, typer.Option(metavar="DATE", help="What held then, e.g. 2024-05-01.")
    ] = None,
    known: Annotated[
        str | None, typer.Option(metavar="DATE", help="What was believed here then.")
    ] = None,
    uri: Uri = None,
    schema: Schema = None,
    embedder: Embedder = None,
    ranking: Annotated[
        str, typer.Option(help="linear, fusion, rrf, vector, bm25 or three_factor.")
    ] = "linear",
    explain: Annotated[
        bool, typer.Option("--explain", help="Show a table with every part of each score.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, one line a hit.")] = False,
) -> None:
    """Show what is remembered of a user about a question, best first."""
    from shared_core.cli import show_recall as recall_commands

    if not query.strip():
        raise InvalidInput("the query must not be empty or blank: ask a question, or give words")
    then = as_of_options(as_of, known)

    async def run() -> None:
        # Who looks at a memory does not use it.
        async with open_memory(uri, schema=schema, embedder=embedder, track_access=False) as memory:
            found = await memory.recall(
                Scope(app_name, user),
                query,
                limit=limit,
                ranking=cast(Ranking, ranking),
                as_of=then,
            )
        if as_json:
            for line in recall_commands.json_lines(found):
                typer.echo(line)
            return
        screen = console()
        if not found:
            screen.print(Text(f"Nothing is remembered of {user} in {app_name} about that."))
        elif explain:
            screen.width = max(screen.width, recall_commands.TABLE_WIDTH)
            for piece in recall_commands.explained(found):
                screen.print(piece)
        else:
            for text in recall_commands.lines(found):
                screen.print(text, soft_wrap=not screen.is_terminal)

    asyncio.run(run())


show_examples(app)
if __name__ == "__main__":
    app()
