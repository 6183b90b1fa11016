"""The command that shows the knowledge graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from shared_core.cli import app as cli
from shared_core.cli.app import both
from shared_core.cli.layout import Grid
from shared_core.cli.unknown_user import read_of
from shared_core.core.domain import JsonValue, Scope
from shared_core.core.ids import short_id
from shared_core.core.locale import t

if TYPE_CHECKING:
    from shared_core.engine import MemoryEngine
    from shared_core.ports.graph import Edge


@cli.app.command()
@cli.chinese(
    """显示某个实体周围的知识图谱。

    近的关系在前，同样近的以新的在前。
    """
)
def graph(
    app_name: cli.App,
    user: cli.User,
    entity: Annotated[
        str,
        typer.Argument(
            metavar="ENTITY",
            help=both(
                "Name of an entity, e.g. user, Mia or 米娅.", "实体的名称，如 user、米娅 或 Mia。"
            ),
        ),
    ],
    uri: cli.Uri = None,
    schema: cli.Schema = None,
    depth: Annotated[
        int, typer.Option(help=both("Maximum distance in edges, 1 to 3.", "最多几层关系，1 到 3。"))
    ] = 2,
    limit: Annotated[
        int,
        typer.Option(help=both("Maximum number of edges, 1 to 500.", "最多几条关系，1 到 500。")),
    ] = 50,
    history: Annotated[
        bool,
        typer.Option(
            "--history",
            help=both(
                "List all edges of the entity, ended ones too.",
                "列出实体的所有关系，包括已结束的。",
            ),
        ),
    ] = False,
    valid: Annotated[
        str | None,
        typer.Option(
            metavar="DATE",
            help=both(
                "Show what was true then, e.g. 2024-05-01.", "显示当时成立的内容，如 2024-05-01。"
            ),
        ),
    ] = None,
    known: cli.KnownDate = None,
    as_json: cli.AsJson = False,
) -> None:
    """Show the knowledge graph around an entity.

    The nearest edges come first, and of those the newest.
    """
    as_of = cli.as_of_options(valid, known, "--valid")

    scope = Scope(app_name, user)

    async def read(memory: MemoryEngine) -> tuple[Sequence[Edge], bool]:
        if history:
            return await memory.graph.history(scope, entity, limit=limit, as_of=as_of), False
        around = await memory.graph.neighbourhood(
            scope, entity, depth=depth, limit=limit, as_of=as_of
        )
        return around.edges, around.more

    (found, more), hint = read_of(
        cli.open_memory(uri, schema=schema, worker=False), scope, read, lambda page: not page[0]
    )
    if as_json:
        cli.print_json(edges_json(found), indent=2)
    elif found:
        cli.print_all([edges_table(found, history=history)])
        if more:
            cli.say(
                t(
                    f"There are more edges: --limit {limit} was reached.",
                    f"还有更多关系：已达到 --limit {limit}。",
                )
            )
    else:
        cli.say(t(f"Nothing is known of {entity!r}.", f"没有关于 {entity!r} 的内容。") + hint)


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


def edges_table(edges: Sequence[Edge], *, history: bool) -> Grid:
    """Return edges as a table. A history shows the ends of ids and dims edges that ended."""
    first = t("edge", "边") if history else t("hops", "层")
    names = (
        first, t("subject", "主体"), t("relation", "关系"), t("object", "客体"), t("since", "自"),
        t("until", "至"), t("from", "来源"),
    )  # fmt: skip
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
    return Grid(names=names, rows=rows, dim=[not edge.current for edge in edges])
