"""Commands that store and read memories: remember, recall, timeline, context."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from shared_core.cli import app as cli
from shared_core.core.domain import SCORE_PARTS, Hit, MemoryKind, Scope
from shared_core.core.validation import zone_of
from shared_core.errors import InvalidInput
from shared_core.nlp.uncertainty import shown_text

if TYPE_CHECKING:
    from shared_core.context.window import ContextItem, ContextWindow
    from shared_core.ports.events import BucketUnit, SliceOrder
    from shared_core.ports.recall import Ranking, RecallResult
    from shared_core.recall.time_slices import TimeSlice

BAR = 40
"""Columns of the longest bar of a timeline."""
MAX_CHARACTERS = 160
"""Characters of a text that the table of a context window shows."""


@cli.app.command()
def remember(
    app_name: cli.App,
    user: cli.User,
    text: Annotated[str, typer.Argument(help="Text to remember.")],
    uri: cli.Uri = None,
    schema: cli.Schema = None,
    embedder: cli.Embedder = None,
    as_json: cli.AsJson = False,
) -> None:
    """Store a text as a memory of a user and print its key."""
    [key] = cli.with_memory(
        cli.open_memory(uri, schema=schema, embedder=embedder),
        lambda memory: memory.remember(Scope(app_name, user), text),
    )
    cli.report(key, {"key": key}, as_json)


@cli.app.command()
def recall(
    app_name: cli.App,
    user: cli.User,
    query: Annotated[str, typer.Argument(help="Question or search words.")],
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of memories.")] = 5,
    as_of: cli.AsOfDate = None,
    known: cli.KnownDate = None,
    uri: cli.Uri = None,
    schema: cli.Schema = None,
    embedder: cli.Embedder = None,
    ranking: Annotated[
        str, typer.Option(help="linear, fusion, rrf, vector, bm25 or three_factor.")
    ] = "linear",
    explain: Annotated[
        bool, typer.Option("--explain", help="Print a table with every part of each score.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, one line per hit.")] = False,
) -> None:
    """Find the memories of a user that answer a question, best first."""
    if not query.strip():
        raise InvalidInput("the query must not be empty or blank: ask a question or give words")
    then = cli.as_of_options(as_of, known)
    found = cli.with_memory(
        # Looking at a memory is no use of it, so retention must not count the access.
        cli.open_memory(uri, schema=schema, embedder=embedder, track_access=False),
        lambda memory: memory.recall(
            Scope(app_name, user), query, limit=limit, ranking=cast("Ranking", ranking), as_of=then
        ),
    )
    if as_json:
        for hit in found:
            cli.print_json(hit.to_dict())
    elif not found:
        typer.echo(f"No memories of {user} in {app_name} match the query.")
    elif explain:
        cli.print_all(_explained_hits(found), width=cli.WIDE)
    else:
        cli.print_all(_hit_lines(found))


@cli.app.command()
def timeline(
    app_name: cli.App,
    user: cli.User,
    when: Annotated[
        str | None,
        typer.Argument(help='Period, e.g. "last Tuesday" or 上周二.', show_default="all of time"),
    ] = None,
    begin: Annotated[str | None, typer.Option(help="Start of the period, instead of WHEN.")] = None,
    end: Annotated[str | None, typer.Option(help="End of the period, that day included.")] = None,
    query: Annotated[
        str | None, typer.Option(help="Order by relevance to this query instead of by time.")
    ] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(help="Only episodic, semantic, summary, reflection or item; repeatable."),
    ] = None,
    by: Annotated[
        str | None, typer.Option(help="Also count by hour, day, week, month or year.")
    ] = None,
    order: Annotated[str, typer.Option(help="newest or oldest first.")] = "newest",
    limit: Annotated[int, typer.Option(min=0, help="Maximum number of memories.")] = 20,
    offset: Annotated[int, typer.Option(min=0, help="Number of memories to skip.")] = 0,
    zone: Annotated[
        str | None,
        typer.Option(help="Time zone, e.g. Asia/Shanghai.", show_default="this machine's"),
    ] = None,
    uri: cli.Uri = None,
    schema: cli.Schema = None,
    embedder: cli.Embedder = None,
    as_json: cli.AsJson = False,
) -> None:
    """List the memories of a user from a period of time."""
    found = cli.with_memory(
        cli.open_memory(uri, schema=schema, embedder=embedder, track_access=False),
        lambda memory: memory.slice(
            Scope(app_name, user), when, begin=begin, end=end, query=query,
            kinds=cast(list[MemoryKind], kind) or None, order=cast("SliceOrder", order),
            limit=limit, offset=offset, bucket=cast("BucketUnit | None", by),
            zone=zone, asked_at=datetime.now().astimezone(),
        ),
    )  # fmt: skip
    if as_json:
        cli.print_json(found.to_dict())
    else:
        cli.print_all(_timeline_lines(found, zone_of(zone)))


@cli.app.command()
def context(
    app_name: cli.App,
    user: cli.User,
    thread: Annotated[str, typer.Argument(help="Thread that is answered, ADK's session id.")],
    query: Annotated[str, typer.Argument(help="Message of the user; may be empty.")] = "",
    system: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="File with the system prompt.")
    ] = None,
    max_tokens: Annotated[int, typer.Option(help="Token budget, system prompt included.")] = 8000,
    cut: Annotated[
        bool,
        typer.Option("--cut", help="Shorten a memory that does not fit to its first sentences."),
    ] = False,
    uri: cli.Uri = None,
    schema: cli.Schema = None,
    embedder: cli.Embedder = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Print each line's cost, score, source and reason.")
    ] = False,
    as_json: cli.AsJson = False,
) -> None:
    """Print the prompt that a model reads before it answers, within a token budget."""
    from shared_core.context.assembler import ContextAssembler

    assembler = ContextAssembler(max_tokens, cut=cut)
    window = cli.with_memory(
        cli.open_memory(uri, schema=schema, embedder=embedder, track_access=False),
        lambda memory: memory.context_window(
            Scope(app_name, user), thread, query, assembler=assembler,
            system_prompt=system.read_text("utf-8") if system else "",
        ),
    )  # fmt: skip
    if as_json:
        cli.print_json(window.to_dict())
    elif explain:
        cli.print_all(_explained_window(window), width=cli.WIDE)
    else:
        typer.echo(window.to_prompt())


def _hit_lines(hits: Sequence[Hit]) -> Iterator[Text]:
    """Yield each hit as lines: text, score with its parts, source and key."""
    for position, hit in enumerate(hits, start=1):
        parts = hit.parts
        raw = f"BM25 {parts['bm25']:.2f}"
        if "similarity" in parts:
            raw = f"cosine {parts['similarity']:.2f}, {raw}"
        text = Text(f"{position}. {shown_text(hit.memory)}\n", style="bold")
        summed = " ".join(_score_parts(parts))
        text.append(f"   score {hit.score:.2f} = {summed} ({raw})\n", style="not bold")
        text.append(f"   {_hit_source(hit)}\n", style="not bold")
        text.append(f"   key {hit.memory.key}", style="not bold dim")
        yield text


def _score_parts(parts: Mapping[str, float]) -> list[str]:
    return [f"{parts[name]:+.2f} {name}" for name in SCORE_PARTS if parts.get(name)]


def _explained_hits(found: RecallResult) -> Iterator[RenderableType]:
    """Yield a table with one row per hit and one column per part of the score."""
    names = [name for name in SCORE_PARTS if any(hit.parts.get(name) for hit in found)]
    table = cli.plain_table("", padding=(0, 1, 0, 0), expand=True)
    table.add_column("memory", overflow="fold", ratio=3, min_width=12)
    for name in ("score", *names, "cosine"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("words", overflow="fold", ratio=1, min_width=6)
    for position, hit in enumerate(found, start=1):
        cosine = hit.parts.get("similarity")
        table.add_row(
            f"{position}",
            Text(shown_text(hit.memory)).append(f"\n{_hit_source(hit)}", style="dim"),
            f"{hit.score:.2f}",
            *(f"{hit.parts.get(name, 0):+.2f}" for name in names),
            "" if cosine is None else f"{cosine:.2f}",
            Text(", ".join(hit.matched)),
        )
    yield table
    if found.degraded:
        yield Text("The embedder is down: these memories match by words alone.", style="yellow")


def _hit_source(hit: Hit) -> str:
    memory = hit.memory
    source = [memory.kind, memory.author, f"{memory.occurred_at:%Y-%m-%d %H:%M} UTC"]
    if memory.thread_id:
        source.append(f"session {memory.thread_id}")
    if memory.source_event_ids and memory.kind != "summary":
        source.append(f"event {', '.join(memory.source_event_ids)}")
    return _joined(source)


def _joined(source: Sequence[str | None]) -> str:
    return " · ".join(part for part in source if part)


def _timeline_lines(found: TimeSlice, zone: tzinfo | None) -> Iterator[RenderableType]:
    """Yield the period, a bar for each counted part of it, and each memory.

    zone: time zone of what is printed; None for this machine's.
    """
    begin = _local(found.begin, zone, "the beginning")
    end = _local(found.end, zone, "now and after")
    yield Text(f"{begin} to {end} ({_zone_name(found, zone)})")
    if found.buckets:
        yield _bars(found, zone)
    scores = {hit.memory.memory_id: hit.score for hit in found.hits}
    for memory in found.memories:
        source = [_local(memory.occurred_at, zone), memory.kind, memory.author]
        if memory.thread_id:
            source.append(f"session {memory.thread_id}")
        if memory.memory_id in scores:
            source.append(f"score {scores[memory.memory_id]:.2f}")
        yield Text(_joined(source), style="dim").append(
            f"\n  {shown_text(memory)}", style="not dim"
        )
    if not found.memories:
        yield Text("No memories are stored from that period.")


def _bars(found: TimeSlice, zone: tzinfo | None) -> Table:
    table = cli.plain_table("from")
    table.add_column("memories", justify="right")
    table.add_column("")
    most = max(one.count for one in found.buckets) or 1
    for one in found.buckets:
        bar = "█" * -(-BAR * one.count // most)
        table.add_row(_local(one.begin, zone), f"{one.count:,}", bar)
    return table


def _local(moment: datetime | None, zone: tzinfo | None, missing: str = "") -> str:
    return missing if moment is None else f"{moment.astimezone(zone):%Y-%m-%d %H:%M}"


def _zone_name(found: TimeSlice, zone: tzinfo | None) -> str:
    if zone is not None:
        return str(zone)
    then = (found.begin or found.end or datetime.now().astimezone()).astimezone()
    return f"{then.tzname()}, this machine's time"


def _explained_window(window: ContextWindow) -> Iterator[RenderableType]:
    """Yield a table of the window's lines, one of the dropped lines, and the token count."""
    yield _window_table([(item, "") for item in window.items])
    if window.dropped:
        yield Text("left out", style="bold")
        yield _window_table([(one.item, one.reason) for one in window.dropped])
    sections = dict.fromkeys(item.section for item in window.items)
    costs = ", ".join(
        f"{name} {sum(item.tokens for item in window.section(name)):,}" for name in sections
    )
    used = f"{window.total_tokens:,} of {window.max_tokens:,} tokens ({window.budget_used:.0%})"
    yield Text(f"{used}: {costs}")


def _window_table(rows: list[tuple[ContextItem, str]]) -> Table:
    table = cli.plain_table(padding=(0, 1, 0, 0), expand=True)
    table.add_column("line", no_wrap=True)
    table.add_column("tokens", justify="right", no_wrap=True)
    table.add_column("text", overflow="fold", ratio=3)
    table.add_column("score", overflow="fold", ratio=1)
    table.add_column("why", overflow="fold", ratio=1)
    for item, reason in rows:
        text = Text(item.text[:MAX_CHARACTERS] + "…" * (len(item.text) > MAX_CHARACTERS))
        if source := _item_source(item):
            text.append(f"\n{source}", style="dim")
        score = ""
        if item.score is not None:
            parts = _score_parts(item.score_parts)
            score = " ".join([f"{item.score:.2f}", *(["=", *parts] if parts else [])])
        cost = f"{item.tokens:,}" if item.tokens else ""
        table.add_row(item.ref, cost, text, score, reason or ("cut" if item.cut else ""))
    return table


def _item_source(item: ContextItem) -> str:
    source = [item.kind, item.author]
    if item.valid_from:
        source.append(f"since {item.valid_from:%Y-%m-%d}")
    elif item.occurred_at:
        source.append(f"{item.occurred_at:%Y-%m-%d %H:%M} UTC")
    if item.valid_until:
        source.append(f"until {item.valid_until:%Y-%m-%d}")
    if item.is_doubtful:
        source.append("uncertain")
    if item.thread_id:
        source.append(f"session {item.thread_id}")
    if item.source_event_ids:
        first, *others = item.source_event_ids
        source.append(f"event {first}" + (f" and {len(others)} more" if others else ""))
    return _joined(source)
