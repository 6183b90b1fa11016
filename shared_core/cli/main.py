"""The entry point of the command `hippocampus`, and the commands demo, doctor and migrate.

A command imports the engine, a driver or a framework inside its function, so that --help is fast.
"""

from __future__ import annotations

import asyncio
import dataclasses
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from shared_core import __version__
from shared_core.cli import (  # noqa: F401 # each registers its commands
    adk,
    app as cli,
    erase,
    extraction,
    facts,
    graph,
    imports,
    index,
    mcp,
    memories,
    profile,
    retention,
    runs,
    serve,
    transfer,
    ui,
    work,
)
from shared_core.cli.app import app
from shared_core.cli.help import arrange_help

if TYPE_CHECKING:
    from shared_core.engine import MemoryEngine

MARKS = {"ok": ("✓", "green"), "note": ("-", "yellow"), "problem": ("✗", "red")}
"""Mark and colour of a finding of the doctor, by its status."""


class DemoLanguage(StrEnum):
    """The conversations that the demo plays."""

    ENGLISH = "en"
    CHINESE = "zh"
    BOTH = "both"


class DemoEngine(StrEnum):
    """The database engine of the demo."""

    POSTGRES = "postgres"
    SEEKDB = "seekdb"


def _show_version(requested: bool) -> None:
    if requested:
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
        DemoLanguage, typer.Option(help="Language of the conversations.")
    ] = DemoLanguage.BOTH,
    uri: cli.Uri = None,
    schema: cli.Schema = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Write to your own memory, and leave the data there.")
    ] = False,
    engine: Annotated[
        DemoEngine, typer.Option(help="Engine of the database in the temporary folder.")
    ] = DemoEngine.POSTGRES,
    as_json: cli.AsJson = False,
) -> None:
    """Learn two conversations through ADK and ask about them through LangGraph and ADK.

    Runs in a temporary folder that is removed at the end; with --keep or --uri in your own memory.
    """
    from shared_core.cli.demo.script import LANGUAGES
    from shared_core.cli.demo.tour import Tour

    if engine is not DemoEngine.POSTGRES and (uri or keep):
        raise cli.Malformed(
            "--engine is for the temporary folder: give the engine in --uri instead"
        )
    chosen = [one for one in LANGUAGES if language in (one, DemoLanguage.BOTH)]
    tour = Tour(languages=chosen, uri=uri, schema=schema, keep=keep, engine=engine.value)
    results = asyncio.run(tour.run(cli.console(stderr=as_json)))
    if as_json:
        cli.print_json([result.to_dict() for result in results])


@app.command()
def doctor(
    uri: cli.Uri = None,
    schema: cli.Schema = None,
    embedder: cli.Embedder = None,
    start: Annotated[
        bool, typer.Option("--start", help="First create what does not exist yet.")
    ] = False,
    as_json: cli.AsJson = False,
) -> None:
    """Check the memory and its database, and tell how to fix each problem.

    Exit code 1 if there is a problem.
    """
    from shared_core.cli.doctor import examine

    findings = examine(uri, schema=schema, embedder=embedder, start=start)
    well = all(finding.status != "problem" for finding in findings)
    if as_json:
        found = [dataclasses.asdict(finding) for finding in findings]
        cli.print_json({"ok": well, "findings": found}, indent=2)
    else:
        table = cli.plain_table("", "check", "found, and what to do")
        for finding in findings:
            mark, style = MARKS[finding.status]
            text = Text(finding.found)
            if finding.advice:
                text.append(f"\n→ {finding.advice}", style=style)
            table.add_row(Text(mark, style=style), finding.check, text)
        cli.print_all(
            [table, Text("All is well." if well else "There are problems: see the ✗ lines.")]
        )
    raise typer.Exit(0 if well else 1)


@app.command()
def migrate(
    uri: cli.Uri = None,
    schema: cli.Schema = None,
    distribute: Annotated[
        bool, typer.Option("--distribute", help="Then spread the tables over the nodes of Citus.")
    ] = False,
    backup_role: Annotated[
        str | None,
        typer.Option(
            metavar="ROLE",
            help="Then let this role read all rows, for pg_dump --enable-row-security.",
        ),
    ] = None,
    as_json: cli.AsJson = False,
) -> None:
    """Upgrade the database to the schema of this version. The first use does the same."""

    async def run(memory: MemoryEngine) -> dict[str, Any]:
        report = await memory.report()
        found = dataclasses.asdict(report)
        if distribute:
            from shared_core.storage.postgres.connection.citus import spread

            tables = await asyncio.to_thread(spread, await memory.dsn(), report.schema)
            found["tables"] = [dataclasses.asdict(table) for table in tables]
        if backup_role is not None:
            from shared_core.storage.postgres.connection.backup import allow_backup

            found["tables_for_backup"] = await asyncio.to_thread(
                allow_backup, await memory.dsn(), report.schema, backup_role
            )
        return found

    found = cli.with_memory(cli.open_memory(uri, schema=schema, worker=False), run)
    if as_json:
        cli.print_json(found)
        return
    vectors = "pgvector" if "PostgreSQL" in found["engine"] else "vectors"
    server = f"{found['engine']} {found['server_version']}, {vectors} {found['extension_version']}"
    line = (
        f"Schema {found['schema']!r} is at version {found['schema_version']}: {server}, role"
        f" {found['role']}, in {found['location']}"
    )
    lines = [Text(line)]
    for table in found.get("tables", ()):
        lines.append(Text(f"{table['table']}: {table['place']}{', moved' * table['moved']}"))
    if backup_role is not None:
        lines.append(Text(f"Role {backup_role!r} may read {found['tables_for_backup']} tables."))
    cli.print_all(lines)


arrange_help(app)
if __name__ == "__main__":
    app()
