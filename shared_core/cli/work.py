"""Commands that work on a whole database: worker, jobs, index, import; and extract, on none."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from typing import Annotated

import typer

from shared_core.cli.app import (
    App,
    AsJson,
    Embedder,
    Llm,
    Schema,
    Uri,
    User,
    app,
    as_of_options,
    console,
    malformed,
    open_memory,
    tell,
)
from shared_core.core.domain import Scope
from shared_core.errors import InvalidInput
from shared_core.ports.jobs import JobStatus


@app.command()
def worker(
    uri: Uri = None,
    schema: Schema = None,
    embedder: Embedder = None,
    llm: Llm = None,
    once: Annotated[bool, typer.Option("--once", help="Do what is due, and end.")] = False,
    poll: Annotated[float, typer.Option(min=0.01, help="Seconds between two looks.")] = 1.0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON at the end: what was done.")
    ] = False,
) -> None:
    """Do what was left for later, for all processes, until SIGTERM or Ctrl-C.

    As many as you like work side by side. With --once the exit code is 1 if a try failed.
    """
    from shared_core.cli.show_queue import work
    from shared_core.models.language_model import ready_language_model

    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("hippocampus").setLevel(logging.INFO)
    model = None if llm is None else ready_language_model(llm)
    memory = open_memory(uri, schema=schema, embedder=embedder, llm=model, worker=False)
    done: dict[str, int] = {}
    code = asyncio.run(work(memory, once=once, poll_s=poll, done=done))
    if as_json:
        typer.echo(json.dumps(done))
    raise typer.Exit(code)


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

    A job is named by its id, or by how that begins or ends.
    """
    from shared_core.cli import show_queue as queue

    if user is not None and app_name is None:
        raise InvalidInput("--user needs --app: a user is one of an application")
    scope = None if app_name is None or user is None else Scope(app_name, user)

    async def run() -> None:
        async with open_memory(uri, schema=schema, worker=False) as memory:
            if retry is not None or cancel is not None:
                told = await queue.change(memory, retry, cancel, scope, app_name, limit)
                tell(told, {"done": told}, as_json)
                return
            found = await memory.jobs.list(
                scope, app=app_name, statuses=None if status is None else [status], limit=limit
            )
            stats = await memory.jobs.stats()
        if as_json:
            shown = queue.jobs_json(found, queue.utc_now())
            typer.echo(json.dumps(shown, ensure_ascii=False, indent=2))
        elif found:
            console().print(queue.jobs_table(found, queue.utc_now()))
            console().print(f"In all: {queue.stats_line(stats)}.")
        elif status is None and app_name is None:
            typer.echo("Nothing waits, and nothing failed.")
        else:
            typer.echo("There is no such job.")

    asyncio.run(run())


@app.command()
def runs(
    app_name: App,
    user: User,
    uri: Uri = None,
    schema: Schema = None,
    thread: Annotated[str | None, typer.Option(help="Only those of a thread.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many at most.")] = 20,
    undo: Annotated[
        str | None,
        typer.Option(help="Restore what was before a run: its id, or how that begins or ends."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what consolidation and reflection did for a user, newest first; undo one.

    What a run built on is undone last: the error names the later ones in order.
    """
    from shared_core.cli import show_runs as run_commands

    if undo is not None:
        with malformed():
            run_commands.check_run_name(undo)

    async def run() -> None:
        scope = Scope(app_name, user)
        async with open_memory(uri, schema=schema, worker=False) as memory:
            if undo is not None:
                run_id = await run_commands.undo(memory, scope, undo)
                tell(f"Run {run_id} is undone.", {"undone": str(run_id)}, as_json)
                return
            found = await memory.runs(scope, thread_id=thread, limit=limit)
        if as_json:
            typer.echo(json.dumps(run_commands.runs_json(found), ensure_ascii=False, indent=2))
        elif found:
            console().print(run_commands.runs_table(found))
        else:
            typer.echo("Nothing was consolidated yet.")

    asyncio.run(run())


@app.command()
def graph(
    app_name: App,
    user: User,
    entity: Annotated[str, typer.Argument(help="A name, e.g. user, Mia or 米娅.")],
    uri: Uri = None,
    schema: Schema = None,
    depth: Annotated[int, typer.Option(help="So many edges away, 1 to 3.")] = 2,
    limit: Annotated[int, typer.Option(help="How many edges at most, 1 to 500.")] = 50,
    history: Annotated[
        bool, typer.Option("--history", help="All edges it ever had, in time order.")
    ] = False,
    valid: Annotated[str | None, typer.Option(help="What held then, in ISO 8601.")] = None,
    known: Annotated[str | None, typer.Option(help="As it was believed then.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show the knowledge graph around an entity, nearest and newest first."""
    from shared_core.cli.show_graph import edges_json, edges_table

    as_of = as_of_options(valid, known, "--valid")

    async def run() -> None:
        scope = Scope(app_name, user)
        async with open_memory(uri, schema=schema, worker=False) as memory:
            if history:
                found = await memory.graph.history(scope, entity, limit=limit, as_of=as_of)
            else:
                around = await memory.graph.neighbourhood(
                    scope, entity, depth=depth, limit=limit, as_of=as_of
                )
                found = list(around.edges)
        if as_json:
            typer.echo(json.dumps(edges_json(found), ensure_ascii=False, indent=2))
        elif found:
            console().print(edges_table(found, history=history))
            if not history and around.more:
                typer.echo(f"There are more edges: --limit {limit} was reached.")
        else:
            typer.echo(f"Nothing is known of {entity!r}.")

    asyncio.run(run())


@app.command()
def index(
    uri: Uri = None,
    schema: Schema = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List large tenants, and build nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Build the approximate indexes that large tenants have earned; drop those of small ones.

    Everybody reads and writes meanwhile. Run it as the owner of the tables. A worker does the same
    once an hour. HIPPOCAMPUS_ANN_THRESHOLD says how many vectors are many. Exit code 1 if another
    process is at it.
    """
    from shared_core.cli.run_index import build_indexes, show_plan, steps_json

    memory = open_memory(uri, schema=schema, worker=False)
    do = show_plan if dry_run else build_indexes
    steps = asyncio.run(do(memory, console(stderr=as_json)))
    if as_json:
        typer.echo(json.dumps(steps_json(steps), ensure_ascii=False))
    raise typer.Exit(0 if steps is not None else 1)


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
    from shared_core.cli.show_extraction import moment, read_lines
    from shared_core.extraction.rule_based import RuleExtractor

    extractor = RuleExtractor(without=without or ())
    if sys.stdin is None:
        raise InvalidInput("standard input is closed: give lines of text, e.g. with < FILE")
    source = typer.get_binary_stream("stdin")
    for line in read_lines(source, extractor, moment(said_at), conversation=conversation):
        typer.echo(line.as_json() if as_json else line.as_lines())
