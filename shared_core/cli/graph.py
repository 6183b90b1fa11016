"""The command that shows the knowledge graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from shared_core.cli import app as cli
from shared_core.core.domain import JsonValue, Scope
from shared_core.core.ids import short_id

if TYPE_CHECKING:
    from shared_core.engine import MemoryEngine
    from shared_core.ports.graph import Edge


@cli.app.command()
def graph(
    app_name: cli.App,
    user: cli.User,
    entity: Annotated[str, typer.Argument(help="Name of an entity, e.g. user, Mia or 米娅.")],
    uri: cli.Uri = None,
    schema: cli.Schema = None,
    depth: Annotated[int, typer.Option(help="Maximum distance in edges, 1 to 3.")] = 2,
    limit: Annotated[int, typer.Option(help="Maximum number of edges, 1 to 500.")] = 50,
    history: Annotated[
        bool, typer.Option("--history", help="List all edges of the entity, ended ones too.")
    ] = False,
    valid: Annotated[
        str | None, typer.Option(metavar="DATE", help="Show what was true then, in ISO 8601.")
    ] = None,
    known: cli.KnownDate = None,
    as_json: cli.AsJson = False,
) -> None:
    """Show the knowledge graph around an entity, nearest and newest edges first."""
    as_of = cli.as_of_options(valid, known, "--valid")

    async def read(memory: MemoryEngine) -> tuple[Sequence[Edge], bool]:
        scope = Scope(app_name, user)
        if history:
            return await memory.graph.history(scope, entity, limit=limit, as_of=as_of), False
        around = await memory.graph.neighbourhood(
            scope, entity, depth=depth, limit=limit, as_of=as_of
        )
        return around.edges, around.more

    found, more = cli.with_memory(cli.open_memory(uri, schema=schema, worker=False), read)
    if as_json:
        cli.print_json(edges_json(found), indent=2)
    elif found:
        cli.console().print(edges_table(found, history=history))
        if more:
            typer.echo(f"There are more edges: --limit {limit} was reached.")
    else:
        typer.echo(f"Nothing is known of {entity!r}.")


def edges_json(edges: Sequence[Edge]) -> list[JsonValue]:
    """Return edges as JSON values."""
    return [
        {
            "edge_id": str(edge.edge_id),
            "subject": edge.subject,
            "relation": edge.relation,
            "object": edge.object,
            "hops": edge.hops,
            "current": edge.current,
            "functional": edge.functional,
            "confidence": round(edge.confidence, 4),
            "valid_from": edge.valid_from.isoformat(),
            "valid_until": cli.iso(edge.valid_until),
            "recorded_at": edge.recorded_at.isoformat(),
            "superseded_at": cli.iso(edge.superseded_at),
            "source_event_ids": list(edge.source_event_ids),
        }
        for edge in edges
    ]


def edges_table(edges: Sequence[Edge], *, history: bool) -> Table:
    """Return edges as a table. A history shows the ends of ids and dims edges that ended."""
    first = "edge" if history else "hops"
    names = (first, "subject", "relation", "object", "since", "until", "from")
    rows = [
        (
            short_id(edge.edge_id) if history else str(edge.hops),
            edge.subject,
            edge.relation,
            edge.object,
            cli.day(edge.valid_from),
            cli.day(edge.valid_until),
            ", ".join(map(short_id, edge.source_event_ids)),
        )
        for edge in edges
    ]
    return cli.word_table(names, rows, dim=[not edge.current for edge in edges])
