"""The command that lists and undoes runs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer
from rich.table import Table

from shared_core.cli import app as cli
from shared_core.core.domain import JsonValue, Scope
from shared_core.core.ids import chosen_id, whole_id
from shared_core.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared_core.engine import MemoryEngine
    from shared_core.ports.runs import RunRecord

MAX_RUNS = 100_000
"""Maximum number of runs that are searched for the beginning or the end of an id."""
PART_OF_ID = re.compile(r"[0-9a-fA-F-]+")


@cli.app.command()
def runs(
    app_name: cli.App,
    user: cli.User,
    uri: cli.Uri = None,
    schema: cli.Schema = None,
    thread: Annotated[str | None, typer.Option(help="Only runs of this thread.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of runs.")] = 20,
    undo: Annotated[
        str | None,
        typer.Option(help="Undo this run: its id, or the beginning or the end of the id."),
    ] = None,
    as_json: cli.AsJson = False,
) -> None:
    """List the consolidation and reflection runs of a user, newest first; undo one.

    Undo later runs first if they build on the run: the error names them in order.
    """
    if undo is not None and whole_id(undo) is None and not PART_OF_ID.fullmatch(undo.strip()):
        raise cli.Malformed(f"run_id must be a UUID, or its beginning or end, got {undo!r}")
    scope = Scope(app_name, user)
    memory = cli.open_memory(uri, schema=schema, worker=False)
    if undo is not None:
        name = undo
        run_id = cli.with_memory(memory, lambda memory: _undo(memory, scope, name))
        cli.report(f"Run {run_id} is undone.", {"undone": str(run_id)}, as_json)
        return
    found = cli.with_memory(
        memory, lambda memory: memory.runs(scope, thread_id=thread, limit=limit)
    )
    if as_json:
        cli.print_json([_run_json(run) for run in found], indent=2)
    elif found:
        cli.console().print(_runs_table(found))
    else:
        typer.echo("There are no runs yet.")


async def _undo(memory: MemoryEngine, scope: Scope, name: str) -> UUID:
    """Undo the run that a name means, and return its id. Raises NotFound for an unknown id."""
    command = f"hippocampus runs {scope.app} {scope.user}"
    run_id = whole_id(name)
    if run_id is None:
        known = await memory.runs(scope, limit=MAX_RUNS)
        ids = [run.run_id for run in known if run.undone_at is None]
        run_id = chosen_id(name, ids, what="run", shown_by=command)
    try:
        await memory.undo_run(scope, run_id)
    except NotFound as error:
        raise NotFound(f"there is no run {run_id} of {scope}: {command} lists the runs") from error
    return run_id


def _run_json(run: RunRecord) -> dict[str, JsonValue]:
    return {
        "run_id": str(run.run_id),
        "kind": run.kind,
        "thread_id": run.thread_id,
        "extractor": run.extractor,
        "counts": run.counts,
        "started_at": run.started_at.isoformat(),
        "finished_at": run.finished_at.isoformat(),
        "undone_at": cli.iso(run.undone_at),
    }


def _runs_table(found: Sequence[RunRecord]) -> Table:
    table = cli.plain_table()
    for name in ("run", "when", "kind", "thread", "by", "what it changed"):
        table.add_column(name, overflow="fold", no_wrap=name == "run")
    for run in found:
        changes = _changes(run.counts)
        table.add_row(
            str(run.run_id),
            f"{run.finished_at:%Y-%m-%d %H:%M:%S}",
            run.kind,
            run.thread_id or "",
            run.extractor,
            f"undone: {changes}" if run.undone_at else changes,
        )
    return table


def _changes(counts: Mapping[str, JsonValue]) -> str:
    changes = [f"{count} {name.replace('_', ' ')}" for name, count in counts.items()
               if isinstance(count, int) and count]  # fmt: skip
    if "instead_of" in counts:
        changes.append(f"in place of {counts['instead_of']}")
    return ", ".join(changes) or "nothing"
