"""The command `hippocampus`. What is slow to import is imported by the command that needs it."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import logging
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text
from typer.core import TyperGroup

from shared_core import (
    Hit,
    InvalidInput,
    JobStatus,
    MemoryCoreError,
    Scope,
    __version__,
    open_memory,
)
from shared_core.domain import SCORE_PARTS
from shared_core.settings import redacted

WIDTH = 100
"""Columns when the output is no terminal."""

MARKS = {"ok": ("✓", "green"), "note": ("-", "yellow"), "problem": ("✗", "red")}


class _Commands(TyperGroup):
    """Commands whose expected errors become one line and the exit code 1."""

    def invoke(self, ctx: Any) -> Any:  # click's context, which newer typers carry inside
        try:
            return super().invoke(ctx)
        except MemoryCoreError as error:
            line = " ".join(redacted(str(error)).split())
            _console(stderr=True).print(Text(f"Error: {line}", style="red"), soft_wrap=True)
            raise typer.Exit(1) from error


app = typer.Typer(
    cls=_Commands,
    help="Long-term memory for AI agents, shared by Google ADK and LangGraph.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # its tracebacks show local variables, passwords included
)

Uri = Annotated[
    str | None,
    typer.Option(help="DSN of a server, or embedded:///folder. [default: HIPPOCAMPUS_URI]"),
]
Schema = Annotated[
    str | None, typer.Option(help="Schema that holds the tables. [default: HIPPOCAMPUS_SCHEMA]")
]
Embedder = Annotated[str | None, typer.Option(help="use (the default), e5 or google:MODEL.")]
Llm = Annotated[
    str | None,
    typer.Option(
        envvar="HIPPOCAMPUS_LLM",
        help="What reads turns instead of rules: adk:MODEL or langchain:PROVIDER:MODEL.",
    ),
]
App = Annotated[str, typer.Argument(help="The application, ADK's app_name.")]
User = Annotated[str, typer.Argument(help="The user of the application, ADK's user_id.")]


class DemoLanguage(StrEnum):
    """Which conversations the demo plays."""

    ENGLISH = "en"
    CHINESE = "zh"
    BOTH = "both"


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
) -> None:
    """Learn two conversations through ADK and ask about them through LangGraph and ADK.

    By default in a temporary folder, removed at the end; with --keep or --uri in a memory of yours.
    """
    from shared_core.demo.script import LANGUAGES
    from shared_core.demo.tour import Tour

    wanted = [one for one in LANGUAGES if language in (one, DemoLanguage.BOTH)]
    tour = Tour(languages=wanted, uri=uri, schema=schema, keep=keep)
    asyncio.run(tour.run(_console()))


@app.command()
def doctor(
    uri: Uri = None,
    schema: Schema = None,
    embedder: Embedder = None,
    start: Annotated[bool, typer.Option("--start", help="Make what is not there yet.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Examine the memory: what is wrong, and how to mend it. Exit code 1 if something is."""
    from shared_core.doctor import Finding, examine

    findings: list[Finding] = examine(uri, schema=schema, embedder=embedder, start=start)
    well = all(finding.status != "problem" for finding in findings)
    if as_json:
        report = {"ok": well, "findings": [dataclasses.asdict(finding) for finding in findings]}
        typer.echo(json.dumps(report, ensure_ascii=False, indent=2))
    else:
        console = _console()
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
        for name in ("", "check", "found, and what to do"):
            table.add_column(name, overflow="fold")
        for finding in findings:
            mark, style = MARKS[finding.status]
            told = Text(finding.found)
            if finding.advice:
                told.append(f"\n→ {finding.advice}", style=style)
            table.add_row(Text(mark, style=style), finding.check, told)
        console.print(table)
        console.print("All is well." if well else "Something is wrong: see the lines with ✗.")
    raise typer.Exit(0 if well else 1)


@app.command()
def migrate(uri: Uri = None, schema: Schema = None) -> None:
    """Bring the database to the schema of this version. Every first use does it too."""

    async def run() -> None:
        async with open_memory(uri, schema=schema) as memory:
            report = await memory.report()
            _console().print(
                Text(
                    f"Schema {report.schema!r} is at version {report.schema_version}:"
                    f" {report.engine} {report.server_version}, pgvector"
                    f" {report.extension_version}, role {report.role}, in {report.location}"
                ),
                soft_wrap=True,
            )

    asyncio.run(run())


@app.command()
def remember(
    app_name: App,
    user: User,
    text: Annotated[str, typer.Argument(help="What to remember.")],
    uri: Uri = None,
    schema: Schema = None,
    embedder: Embedder = None,
) -> None:
    """Remember a text of a user, and print its key."""

    async def run() -> None:
        async with open_memory(uri, schema=schema, embedder=embedder) as memory:
            [key] = await memory.remember(Scope(app_name, user), text)
            typer.echo(key)

    asyncio.run(run())


@app.command()
def recall(
    app_name: App,
    user: User,
    query: Annotated[str, typer.Argument(help="A question, or words to look for.")],
    limit: Annotated[int, typer.Option(min=1, help="How many memories at most.")] = 5,
    uri: Uri = None,
    schema: Schema = None,
    embedder: Embedder = None,
) -> None:
    """Show what is remembered of a user about a question, best first."""

    async def run() -> None:
        async with open_memory(uri, schema=schema, embedder=embedder) as memory:
            hits = await memory.recall(Scope(app_name, user), query, limit=limit)
        console = _console()
        for position, hit in enumerate(hits, start=1):
            console.print(_shown(position, hit), soft_wrap=not console.is_terminal)
        if not hits:
            console.print(Text(f"Nothing is remembered of {user} in {app_name} about that."))

    asyncio.run(run())


@app.command()
def forget(
    app_name: App,
    user: User,
    keys: Annotated[list[str], typer.Argument(help="Keys as recall shows them.")],
    uri: Uri = None,
    schema: Schema = None,
) -> None:
    """Forget memories and what was drawn from them alone. Exit code 1 if none is there."""

    async def run() -> int:
        async with open_memory(uri, schema=schema) as memory:
            return await memory.forget(Scope(app_name, user), keys)

    gone = asyncio.run(run())
    typer.echo(f"{gone} memories forgotten" if gone != 1 else "1 memory forgotten")
    raise typer.Exit(0 if gone else 1)


@app.command()
def worker(
    uri: Uri = None,
    schema: Schema = None,
    embedder: Embedder = None,
    llm: Llm = None,
    once: Annotated[bool, typer.Option("--once", help="Do what is due, and end.")] = False,
    poll: Annotated[float, typer.Option(min=0.01, help="Seconds between two looks.")] = 1.0,
) -> None:
    """Do what was left for later, for all processes, until SIGTERM or Ctrl-C.

    As many as you like work side by side. With --once the exit code is 1 if a try failed.
    """
    from shared_core.queue_commands import work

    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("hippocampus").setLevel(logging.INFO)
    memory = open_memory(uri, schema=schema, embedder=embedder, llm=llm)
    raise typer.Exit(asyncio.run(work(memory, once=once, poll_s=poll)))


@app.command()
def jobs(
    uri: Uri = None,
    schema: Schema = None,
    limit: Annotated[int, typer.Option(min=1, help="How many at most.")] = 100,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    status: Annotated[
        JobStatus | None, typer.Option(help="Only those. [default: open or given up]")
    ] = None,
    app_name: Annotated[
        str | None, typer.Option("--app", help="Only those of an application.")
    ] = None,
    user: Annotated[str | None, typer.Option(help="Only those of a user of --app.")] = None,
    retry: Annotated[
        str | None,
        typer.Option(help="Put back a job that was given up, or 'all' of them, --limit at most."),
    ] = None,
    cancel: Annotated[str | None, typer.Option(help="Cancel a job that waits or runs.")] = None,
) -> None:
    """Show the jobs that run, wait, or were given up; put some back, or cancel one.

    A job is named by its id, or by how that ends.
    """
    from shared_core import queue_commands as queue

    if user is not None and app_name is None:
        raise InvalidInput("--user needs --app: a user is one of an application")
    scope = None if app_name is None or user is None else Scope(app_name, user)

    async def run() -> None:
        async with open_memory(uri, schema=schema, worker=False) as memory:
            if retry is not None or cancel is not None:
                typer.echo(await queue.change(memory, retry, cancel, scope, app_name, limit))
                return
            found = await memory.jobs.list(
                scope, app=app_name, statuses=None if status is None else [status], limit=limit
            )
            stats = await memory.jobs.stats()
        if as_json:
            shown = queue.jobs_json(found, queue.utc_now())
            typer.echo(json.dumps(shown, ensure_ascii=False, indent=2))
        elif found:
            _console().print(queue.jobs_table(found, queue.utc_now()))
            _console().print(f"In all: {queue.stats_line(stats)}.")
        elif status is None and app_name is None:
            typer.echo("Nothing waits, and nothing failed.")
        else:
            typer.echo("There is no such job.")

    asyncio.run(run())


@app.command()
def index(
    uri: Uri = None,
    schema: Schema = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List large tenants, and build nothing.")
    ] = False,
) -> None:
    """Build the approximate indexes that large tenants have earned; drop those of small ones.

    Everybody reads and writes meanwhile. Run it as the owner of the tables. A worker does the same
    once an hour. HIPPOCAMPUS_ANN_THRESHOLD says how many vectors are many. Exit code 1 if another
    process is at it.
    """
    from shared_core.index_commands import build_indexes, show_plan

    memory = open_memory(uri, schema=schema, worker=False)
    if dry_run:
        asyncio.run(show_plan(memory, _console()))
        return
    raise typer.Exit(asyncio.run(build_indexes(memory, _console())))


@app.command()
def extract(
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object a line.")] = False,
    conversation: Annotated[
        bool, typer.Option("--conversation", help="The lines are turns of one conversation.")
    ] = False,
    without: Annotated[
        list[str] | None, typer.Option(help="Id of a pattern to switch off; may be repeated.")
    ] = None,
    said_at: Annotated[
        str | None, typer.Option(help="When it was said, in ISO 8601. [default: now]")
    ] = None,
) -> None:
    """Read lines of text from standard input, and show what the rules draw from each.

    No memory is opened and nothing is stored. needs_llm: the line says more than rules can read.
    """
    from shared_core.extract_commands import moment, read_lines
    from shared_core.extraction import RuleExtractor

    extractor = RuleExtractor(without=without or ())
    source = typer.get_binary_stream("stdin")
    for line in read_lines(source, extractor, moment(said_at), conversation=conversation):
        typer.echo(line.as_json() if as_json else line.as_lines())


@app.command("import")
def import_(
    from_postgres_store: Annotated[
        str, typer.Option(help="DSN of a LangGraph PostgresStore; may be the same database.")
    ],
    uri: Uri = None,
    schema: Schema = None,
    embedder: Embedder = None,
    prefix: Annotated[str, typer.Option(help="Only namespaces below these labels, a.b.")] = "",
    batch: Annotated[int, typer.Option(min=1, max=10_000, help="Items at a time.")] = 500,
    vectors_from: Annotated[
        str | None, typer.Option(help="Keep its vectors: they are of this model.")
    ] = None,
    reembed: Annotated[
        bool, typer.Option("--reembed", help="Embed every item anew, here already or not.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count, and write nothing.")] = False,
) -> None:
    """Copy the items of a LangGraph PostgresStore: values, times, times to live, vectors.

    Start it again after an interruption, and it copies the rest. The source is only read. Exit
    code 1 if an item failed or the counts do not agree.
    """
    from shared_core.import_commands import StoreImport, count_items, import_store

    task = StoreImport(
        dsn=from_postgres_store,
        uri=uri,
        schema=schema,
        embedder=embedder,
        prefix=prefix,
        batch=batch,
        vectors_from=vectors_from,
        reembed=reembed,
    )
    if dry_run:
        asyncio.run(count_items(task, _console()))
        return
    report = asyncio.run(import_store(task, _console(), _console(stderr=True)))
    raise typer.Exit(0 if report.complete else 1)


def _shown(position: int, hit: Hit) -> Text:
    """Return a hit as lines: the text, its score and parts, where it comes from, its key."""
    memory, parts = hit.memory, hit.parts
    text = Text(f"{position}. {memory.text}\n", style="bold")
    summed = " ".join(f"{parts[name]:+.2f} {name}" for name in SCORE_PARTS if parts[name])
    raw = f"BM25 {parts['bm25']:.2f}"
    if "similarity" in parts:
        raw = f"cosine {parts['similarity']:.2f}, {raw}"
    told = [memory.kind, memory.author, f"{memory.occurred_at:%Y-%m-%d %H:%M} UTC"]
    if memory.thread_id:
        told.append(f"session {memory.thread_id}")
    if memory.source_event_ids and memory.kind != "summary":
        told.append(f"event {', '.join(memory.source_event_ids)}")
    text.append(f"   score {hit.score:.2f} = {summed} ({raw})\n", style="not bold")
    text.append(f"   {' · '.join(part for part in told if part)}\n", style="not bold")
    text.append(f"   key {memory.key}", style="not bold dim")
    return text


def _console(*, stderr: bool = False) -> Console:
    console = Console(stderr=stderr, highlight=False)
    if not console.is_terminal:
        console.width = WIDTH
    return console


if __name__ == "__main__":
    app()
