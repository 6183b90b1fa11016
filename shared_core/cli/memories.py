"""Commands that store and read memories: remember, recall, timeline, context."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer
from rich.text import Text

from shared_core.cli import app as cli
from shared_core.cli.app import both
from shared_core.cli.layout import Grid, Piece
from shared_core.cli.unknown_user import read_of
from shared_core.core.domain import SCORE_PARTS, Hit, MemoryKind, Scope
from shared_core.core.locale import t
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
BESIDE_BAR = 32
"""Columns of a timeline that its bars leave free."""
MAX_CHARACTERS = 160
"""Characters of a text that the table of a context window shows."""


@cli.app.command()
@cli.chinese(
    """把一段文字存为用户的记忆，并打印它的键。

    只存原文，不提取事实。要写入事实，请用 hippocampus state。
    """
)
def remember(
    app_name: cli.App,
    user: cli.User,
    text: Annotated[
        str, typer.Argument(metavar="TEXT", help=both("Text to remember.", "要记住的文字。"))
    ],
    uri: cli.Uri = None,
    schema: cli.Schema = None,
    embedder: cli.Embedder = None,
    as_json: cli.AsJson = False,
) -> None:
    """Store a text as a memory of a user and print its key.

    The text is kept as it is: no facts are drawn from it. hippocampus state stores a fact.
    """
    [key] = cli.with_memory(
        cli.open_memory(uri, schema=schema, embedder=embedder),
        lambda memory: memory.remember(Scope(app_name, user), text),
    )
    cli.report(key, {"key": key}, as_json)


@cli.app.command()
@cli.chinese("按问题查找用户的记忆，最相关的在前。")
def recall(
    app_name: cli.App,
    user: cli.User,
    query: Annotated[
        str,
        typer.Argument(metavar="QUERY", help=both("Question or search words.", "问题或关键词。")),
    ],
    limit: Annotated[
        int, typer.Option(min=1, help=both("Maximum number of memories.", "最多返回几条记忆。"))
    ] = 5,
    as_of: cli.AsOfDate = None,
    known: cli.KnownDate = None,
    uri: cli.Uri = None,
    schema: cli.Schema = None,
    embedder: cli.Embedder = None,
    ranking: Annotated[
        str,
        typer.Option(
            help=both(
                "linear, fusion, rrf, vector, bm25 or three_factor.",
                "排序方式：linear、fusion、rrf、vector、bm25 或 three_factor。",
            )
        ),
    ] = "linear",
    explain: Annotated[
        bool,
        typer.Option(
            "--explain",
            help=both("Print a table with every part of each score.", "用表格列出每项得分的构成。"),
        ),
    ] = False,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help=both("Print JSON, one line per hit.", "以 JSON 输出，每条一行。")
        ),
    ] = False,
) -> None:
    """Find the memories of a user that answer a question, best first."""
    if not query.strip():
        raise InvalidInput(
            t(
                "the query must not be empty or blank: ask a question or give words",
                "问题不能为空：请写一个问题或几个词",
            )
        )
    then = cli.as_of_options(as_of, known)
    scope = Scope(app_name, user)
    found, hint = read_of(
        # Looking at a memory is no use of it, so retention must not count the access.
        cli.open_memory(uri, schema=schema, embedder=embedder, track_access=False),
        scope,
        lambda memory: memory.recall(
            scope, query, limit=limit, ranking=cast("Ranking", ranking), as_of=then
        ),
        lambda hits: not hits,
    )
    if as_json:
        for hit in found:
            cli.print_json(hit.to_dict(explain=explain))
    elif not found:
        cli.say(
            t(
                f"No memories of {user} in {app_name} match the query.",
                f"应用 {app_name} 的用户 {user} 没有相关的记忆。",
            )
            + hint
        )
    else:
        cli.print_all(_explained_hits(found) if explain else _hit_lines(found))


@cli.app.command()
@cli.chinese("列出用户在一段时间内的记忆。")
def timeline(
    app_name: cli.App,
    user: cli.User,
    when: Annotated[
        str | None,
        typer.Argument(
            metavar="WHEN",
            help=both('Period, e.g. "last Tuesday" or 上周二.', "时间段，如 上周二 或 2024年5月。"),
            show_default=both("all of time", "全部时间"),
        ),
    ] = None,
    begin: Annotated[
        str | None,
        typer.Option(
            metavar="DATE",
            help=both("Start of the period, instead of WHEN.", "时间段的开始，用来代替 WHEN。"),
        ),
    ] = None,
    end: Annotated[
        str | None,
        typer.Option(
            metavar="DATE",
            help=both("End of the period, that day included.", "时间段的结束，包含当天。"),
        ),
    ] = None,
    query: Annotated[
        str | None,
        typer.Option(
            help=both(
                "Order by relevance to this query instead of by time.",
                "按与此问题的相关程度排序，而不按时间。",
            )
        ),
    ] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            help=both(
                "Only episodic, semantic, summary, reflection or item; repeatable.",
                "只列 episodic、semantic、summary、reflection 或 item；可重复。",
            )
        ),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="UNIT",
            help=both(
                "Also count by hour, day, week, month or year.",
                "同时按 hour、day、week、month 或 year 计数。",
            ),
        ),
    ] = None,
    order: Annotated[
        str,
        typer.Option(
            help=both("newest or oldest first.", "newest（新的在前）或 oldest（旧的在前）。")
        ),
    ] = "newest",
    limit: Annotated[
        int, typer.Option(min=0, help=both("Maximum number of memories.", "最多返回几条记忆。"))
    ] = 20,
    offset: Annotated[
        int, typer.Option(min=0, help=both("Number of memories to skip.", "跳过几条记忆。"))
    ] = 0,
    zone: Annotated[
        str | None,
        typer.Option(
            help=both("Time zone, e.g. Asia/Shanghai.", "时区，如 Asia/Shanghai。"),
            show_default=both("this machine's", "本机时区"),
        ),
    ] = None,
    uri: cli.Uri = None,
    schema: cli.Schema = None,
    embedder: cli.Embedder = None,
    as_json: cli.AsJson = False,
) -> None:
    """List the memories of a user from a period of time."""
    scope = Scope(app_name, user)
    found, hint = read_of(
        cli.open_memory(uri, schema=schema, embedder=embedder, track_access=False),
        scope,
        lambda memory: memory.slice(
            scope, when, begin=begin, end=end, query=query,
            kinds=cast(list[MemoryKind], kind) or None, order=cast("SliceOrder", order),
            limit=limit, offset=offset, bucket=cast("BucketUnit | None", by),
            zone=zone, asked_at=datetime.now().astimezone(),
        ),
        lambda page: not page.memories,
    )  # fmt: skip
    if as_json:
        cli.print_json(found.to_dict())
    else:
        cli.print_all(_timeline_lines(found, zone_of(zone), hint))


@cli.app.command()
@cli.chinese("打印模型在回答之前读到的提示词，不超过 token 预算。")
def context(
    app_name: cli.App,
    user: cli.User,
    thread: Annotated[
        str,
        typer.Argument(
            metavar="THREAD",
            help=both(
                "Thread that is answered, ADK's session id.",
                "要回答的会话线程，即 ADK 的 session id。",
            ),
        ),
    ],
    query: Annotated[
        str,
        typer.Argument(
            metavar="QUERY",
            help=both("Message of the user; may be empty.", "用户的消息，可以为空。"),
        ),
    ] = "",
    system: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help=both("File with the system prompt.", "存放系统提示词的文件。"),
        ),
    ] = None,
    max_tokens: Annotated[
        int,
        typer.Option(
            metavar="TOKENS",
            help=both("Token budget, system prompt included.", "token 预算，包含系统提示词。"),
        ),
    ] = 8000,
    cut: Annotated[
        bool,
        typer.Option(
            "--cut",
            help=both(
                "Shorten a memory that does not fit to its first sentences.",
                "放不下的记忆只保留开头几句。",
            ),
        ),
    ] = False,
    uri: cli.Uri = None,
    schema: cli.Schema = None,
    embedder: cli.Embedder = None,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain",
            help=both(
                "Print each line's cost, score, source and reason.",
                "列出每行的 token 数、得分、来源和理由。",
            ),
        ),
    ] = False,
    as_json: cli.AsJson = False,
) -> None:
    """Print the prompt that a model reads, within a token budget."""
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
        cli.print_json(window.to_dict(explain=explain))
    elif explain:
        cli.print_all(_explained_window(window))
    else:
        cli.say(window.to_prompt())


def _hit_lines(found: RecallResult) -> Iterator[Piece]:
    """Yield each hit as lines: text, source and key."""
    for position, hit in enumerate(found, start=1):
        text = Text(f"{position}. {shown_text(hit.memory)}\n", style="bold")
        text.append(f"   {_hit_source(hit)}\n", style="not bold")
        text.append(f"   {t('key', '键')} {hit.memory.key}", style="not bold dim")
        yield text
    yield from _degraded(found)


def _degraded(found: RecallResult) -> Iterator[Text]:
    if found.degraded:
        yield Text(
            t(
                "The embedder is down: these memories match by words alone.",
                "嵌入模型不可用：这些记忆只按词语匹配。",
            ),
            style="yellow",
        )


def _score_parts(parts: Mapping[str, float]) -> list[str]:
    return [f"{parts[name]:+.2f} {name}" for name in SCORE_PARTS if parts.get(name)]


def _explained_hits(found: RecallResult) -> Iterator[Piece]:
    """Yield a table with one row per hit and one column per part of the score."""
    names = [name for name in SCORE_PARTS if any(hit.parts.get(name) for hit in found)]
    rows: list[tuple[str | Text, ...]] = []
    for position, hit in enumerate(found, start=1):
        cosine = hit.parts.get("similarity")
        rows.append(
            (
                f"{position}",
                Text(shown_text(hit.memory)).append(f"\n{_hit_source(hit)}", style="dim"),
                f"{hit.score:.2f}",
                *(f"{hit.parts.get(name, 0):+.2f}" for name in names),
                "" if cosine is None else f"{cosine:.2f}",
                Text(", ".join(hit.matched)),
            )
        )
    heads = ("", t("memory", "记忆"), t("score", "得分"), *names, t("cosine", "余弦"))
    numbers = frozenset(range(2, len(heads)))
    yield Grid(names=(*heads, t("words", "词")), rows=rows, right=numbers)
    yield from _degraded(found)


def _hit_source(hit: Hit) -> str:
    memory = hit.memory
    source = [memory.kind, memory.author, f"{memory.occurred_at:%Y-%m-%d %H:%M} UTC"]
    if memory.thread_id:
        source.append(_session(memory.thread_id))
    if memory.source_event_ids and memory.kind != "summary":
        source.append(f"{t('event', '事件')} {', '.join(memory.source_event_ids)}")
    return _joined(source)


def _session(thread_id: str) -> str:
    return f"{t('session', '会话')} {thread_id}"


def _joined(source: Sequence[str | None]) -> str:
    return " · ".join(part for part in source if part)


def _timeline_lines(found: TimeSlice, zone: tzinfo | None, hint: str) -> Iterator[Piece]:
    """Yield the period, a bar for each counted part of it, and each memory.

    zone: time zone of what is printed; None for this machine's.
    """
    begin = _local(found.begin, zone, t("the beginning", "最早"))
    end = _local(found.end, zone, t("now and after", "现在及以后"))
    name = _zone_name(found, zone)
    yield Text(t(f"{begin} to {end} ({name})", f"{begin} 至 {end}（{name}）"))
    if found.buckets:
        yield _bars(found, zone)
    scores = {hit.memory.memory_id: hit.score for hit in found.hits}
    for memory in found.memories:
        source = [_local(memory.occurred_at, zone), memory.kind, memory.author]
        if memory.thread_id:
            source.append(_session(memory.thread_id))
        if memory.memory_id in scores:
            source.append(f"{t('score', '得分')} {scores[memory.memory_id]:.2f}")
        yield Text(_joined(source), style="dim").append(
            f"\n  {shown_text(memory)}", style="not dim"
        )
    if not found.memories:
        yield t("No memories are stored from that period.", "这段时间没有记忆。") + hint


def _bars(found: TimeSlice, zone: tzinfo | None) -> Grid:
    most = max(one.count for one in found.buckets) or 1
    longest = max(min(BAR, cli.console().width - BESIDE_BAR), 1)
    rows = [
        (_local(one.begin, zone), f"{one.count:,}", "█" * -(-longest * one.count // most))
        for one in found.buckets
    ]
    names = (t("from", "起始"), t("memories", "记忆数"), "")
    return Grid(names=names, rows=rows, right=frozenset({1}))


def _local(moment: datetime | None, zone: tzinfo | None, missing: str = "") -> str:
    return missing if moment is None else f"{moment.astimezone(zone):%Y-%m-%d %H:%M}"


def _zone_name(found: TimeSlice, zone: tzinfo | None) -> str:
    if zone is not None:
        return str(zone)
    then = (found.begin or found.end or datetime.now().astimezone()).astimezone()
    return t(f"{then.tzname()}, this machine's time", f"{then.tzname()}，本机时间")


def _explained_window(window: ContextWindow) -> Iterator[Piece]:
    """Yield a table of the window's lines, one of the dropped lines, and the token count."""
    yield _window_table([(item, "") for item in window.items])
    if window.dropped:
        yield Text(t("left out", "未放入"), style="bold")
        yield _window_table([(one.item, one.reason) for one in window.dropped])
    sections = dict.fromkeys(item.section for item in window.items)
    costs = ", ".join(
        f"{name} {sum(item.tokens for item in window.section(name)):,}" for name in sections
    )
    total, most, share = window.total_tokens, window.max_tokens, window.budget_used
    yield t(
        f"{total:,} of {most:,} tokens ({share:.0%}): {costs}",
        f"已用 {total:,} / {most:,} 个 token（{share:.0%}）：{costs}",
    )


def _window_table(rows: Sequence[tuple[ContextItem, str]]) -> Grid:
    cells = []
    for item, reason in rows:
        text = Text(item.text[:MAX_CHARACTERS] + "…" * (len(item.text) > MAX_CHARACTERS))
        if source := _item_source(item):
            text.append(f"\n{source}", style="dim")
        score = ""
        if item.score is not None:
            parts = _score_parts(item.score_parts)
            score = " ".join([f"{item.score:.2f}", *(["=", *parts] if parts else [])])
        cost = f"{item.tokens:,}" if item.tokens else ""
        why = reason or (t("cut", "已截短") if item.cut else "")
        cells.append((item.ref, cost, text, score, why))
    names = (
        t("line", "行"),
        t("tokens", "token"),
        t("text", "文字"),
        t("score", "得分"),
        t("why", "理由"),
    )
    return Grid(names=names, rows=cells, right=frozenset({1}))


def _item_source(item: ContextItem) -> str:
    source = [item.kind, item.author]
    if item.valid_from:
        source.append(t("since", "自") + f" {item.valid_from:%Y-%m-%d}")
    elif item.occurred_at:
        source.append(f"{item.occurred_at:%Y-%m-%d %H:%M} UTC")
    if item.valid_until:
        source.append(t("until", "至") + f" {item.valid_until:%Y-%m-%d}")
    if item.is_doubtful:
        source.append(t("uncertain", "不确定"))
    if item.thread_id:
        source.append(_session(item.thread_id))
    if item.source_event_ids:
        first, *others = item.source_event_ids
        more = t(f" and {len(others)} more", f" 等 {len(others) + 1} 个") if others else ""
        source.append(f"{t('event', '事件')} {first}{more}")
    return _joined(source)
