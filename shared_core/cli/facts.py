"""Commands that show, state, retract and restore facts."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from shared_core.cli import app as cli
from shared_core.cli.app import both
from shared_core.cli.layout import Grid
from shared_core.cli.unknown_user import read_of
from shared_core.cli.usage import did_you_mean
from shared_core.core.domain import UNKNOWN_START, JsonValue, Scope
from shared_core.core.ids import chosen_id, short_id, whole_id
from shared_core.core.locale import t
from shared_core.errors import InvalidInput, NotFound
from shared_core.nlp.slots import known_slot_names, slot_of
from shared_core.nlp.uncertainty import uncertain

if TYPE_CHECKING:
    from shared_core.engine import MemoryEngine
    from shared_core.ports.runs import Fact, FactReason

Key = Annotated[
    str,
    typer.Argument(
        metavar="KEY",
        help=both(
            "Key of the fact, or the beginning or the end of the key.",
            "事实的键，或键的开头或结尾。",
        ),
    ),
]
REFUSED_RUNS = 50
"""Number of the last runs that --refused looks at."""
PART_OF_ID = re.compile(r"[0-9a-fA-F-]+")


@cli.app.command()
@cli.chinese(
    """按槽位列出用户的事实，以及从何时起成立。

    没有这个槽位时退出码为 1。
    """
)
def facts(
    app_name: cli.App,
    user: cli.User,
    slot: Annotated[
        str,
        typer.Argument(
            metavar="SLOT",
            help=both(
                "Only this slot, e.g. employer or 公司.", "只列这个槽位，如 公司 或 employer。"
            ),
        ),
    ] = "",
    uri: cli.Uri = None,
    schema: cli.Schema = None,
    history: Annotated[
        bool,
        typer.Option("--history", help=both("Include facts that ended.", "包含已经结束的事实。")),
    ] = False,
    why: Annotated[
        bool,
        typer.Option(
            "--why",
            help=both(
                "Show the turns and rules behind each fact.", "显示每个事实所依据的对话和规则。"
            ),
        ),
    ] = False,
    refused: Annotated[
        bool,
        typer.Option(
            "--refused",
            help=both(
                "Show instead what the last runs dropped of a model's answers, and why.",
                "改为显示最近的运行从模型的回答中舍弃了什么，以及原因。",
            ),
        ),
    ] = False,
    as_of: cli.AsOfDate = None,
    known: cli.KnownDate = None,
    as_json: cli.AsJson = False,
) -> None:
    """List the facts about a user by slot, each with its start date.

    Exit code 1 if neither this version nor the user has such a slot.
    """
    then = cli.as_of_options(as_of, known)
    scope = Scope(app_name, user)
    if refused:
        if why or history or slot or as_of or known:
            raise InvalidInput(
                t(
                    "--refused lists runs, so it goes with no slot and no option of facts",
                    "--refused 列出的是运行，不能和槽位或事实的选项一起用",
                )
            )
        _show_refused(cli.open_memory(uri, schema=schema, worker=False), scope, as_json)
        return

    async def read(memory: MemoryEngine) -> tuple[Sequence[Fact], str]:
        found = await memory.facts(scope, slot, history=history, as_of=then, why=why)
        return found, await _unknown_slot(memory, scope, slot) if slot and not found else ""

    (found, unknown_slot), hint = read_of(
        cli.open_memory(uri, schema=schema, worker=False), scope, read, lambda facts: not facts[0]
    )
    if unknown_slot and not hint:
        raise NotFound(unknown_slot)
    if as_json:
        cli.print_json(facts_json(found), indent=2)
    elif found and why:
        cli.print_all(why_lines(found))
    elif found:
        cli.print_all([facts_table(found)])
    else:
        from_conversations = t(
            " They are drawn from conversations; hippocampus state stores one.",
            "事实取自对话；也可以用 hippocampus state 写入。",
        )
        in_slot = t(f" in the slot {slot!r}", f"（槽位 {slot!r}）") if slot else ""
        cli.say(
            t(
                f"No facts are stored for {user} in {app_name}{in_slot}.",
                f"应用 {app_name} 的用户 {user} 没有事实{in_slot}。",
            )
            + (hint or from_conversations)
        )


def _show_refused(memory: MemoryEngine, scope: Scope, as_json: bool) -> None:
    """Show the elements of models' answers that the last runs dropped, by run and reason."""
    runs = cli.with_memory(memory, lambda memory: memory.runs(scope, limit=REFUSED_RUNS))
    rows = [
        (str(run.run_id), run.finished_at, run.thread_id or "", reason, count)
        for run in runs
        if isinstance(found := run.counts.get("refused"), Mapping)
        for reason, count in found.items()
    ]
    names = ("run_id", "finished_at", "thread_id", "reason", "count")
    if as_json:
        texts = [(run, cli.iso(at), *rest) for run, at, *rest in rows]
        cli.print_json([dict(zip(names, row, strict=True)) for row in texts], indent=2)
    elif rows:
        shown = [
            (short_id(run), cli.day(at), thread, reason, str(count))
            for run, at, thread, reason, count in rows
        ]
        heads = (
            t("run", "运行"), t("when", "时间"), t("thread", "会话线程"), t("reason", "原因"),
            t("elements", "条数"),
        )  # fmt: skip
        cli.print_all([Grid(names=heads, rows=shown)])
    else:
        cli.say(
            t(
                f"The last {REFUSED_RUNS} runs dropped nothing of a model's answers.",
                f"最近 {REFUSED_RUNS} 次运行没有舍弃模型回答中的任何内容。",
            )
        )


async def _unknown_slot(memory: MemoryEngine, scope: Scope, slot: str) -> str:
    """Return the error of a slot that is neither known nor the user's own; "" for other slots."""
    meant = slot_of(slot)
    own = {fact.slot for fact in await memory.facts(scope, history=True)}
    if meant is None or meant.known or meant.name in own:
        return ""
    # Chinese names have two or three characters: one in common is much.
    cutoff = 0.6 if meant.name.isascii() else 0.5
    near = get_close_matches(meant.name, sorted({*known_slot_names(), *own}), n=2, cutoff=cutoff)
    command = f"hippocampus facts {scope.app} {scope.user}"
    return (
        t("There is no such slot.", "没有这个槽位。")
        + did_you_mean(near)
        + t(f" {command} lists the slots in use.", f"{command} 列出已有的槽位。")
    )


@cli.app.command()
@cli.chinese("直接写入一个事实：槽位与值。它取代该槽位现有的值。")
def state(
    app_name: cli.App,
    user: cli.User,
    slot: Annotated[
        str,
        typer.Argument(
            metavar="SLOT",
            help=both(
                "Slot: employer, 公司, or a name of your own.",
                "槽位：公司、employer 或自定的名称。",
            ),
        ),
    ],
    value: Annotated[
        str,
        typer.Argument(
            metavar="VALUE", help=both("Value of the slot, e.g. Zenith.", "槽位的值，如 星河科技。")
        ),
    ],
    subject: Annotated[
        str | None,
        typer.Option(
            help=both("Person the fact is about.", "事实所说的人。"),
            show_default=both("the user", "用户本人"),
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="DATE",
            help=both(
                'Date from which it holds, e.g. 2024-05-01 or "last Tuesday".',
                "从哪天起成立，如 2024-05-01 或 上周三。",
            ),
            show_default=both("now", "现在"),
        ),
    ] = None,
    uri: cli.Uri = None,
    schema: cli.Schema = None,
    embedder: cli.Embedder = None,
    as_json: cli.AsJson = False,
) -> None:
    """Store a fact as slot and value; it supersedes the slot's value."""
    begins = cli.date_option(since, "--since")
    fact = cli.with_memory(
        cli.open_memory(uri, schema=schema, embedder=embedder, worker=False),
        lambda memory: memory.state_fact(
            Scope(app_name, user), slot, value, subject=subject, valid_from=begins
        ),
    )
    _show(fact, as_json)


@cli.app.command()
@cli.chinese("撤回一个事实：从此不再成立，但仍留在历史中。")
def retract(
    app_name: cli.App,
    user: cli.User,
    key: Key,
    at: Annotated[
        str | None,
        typer.Option(
            metavar="DATE",
            help=both(
                "Date when it ends, e.g. 2024-05-01 or yesterday.",
                "从哪天起不再成立，如 2024-05-01 或 昨天。",
            ),
            show_default=both("now", "现在"),
        ),
    ] = None,
    uri: cli.Uri = None,
    schema: cli.Schema = None,
    as_json: cli.AsJson = False,
) -> None:
    """End a fact. It stays in the history."""
    until = cli.date_option(at, "--at")
    fact = cli.with_memory(
        cli.open_memory(uri, schema=schema, worker=False),
        lambda memory: _change(
            memory, app_name, user, key, lambda scope, name: memory.retract(scope, name, at=until)
        ),
    )
    _show(fact, as_json)


@cli.app.command()
@cli.chinese("取消撤回，使事实重新成立。")
def restore(
    app_name: cli.App, user: cli.User, key: Key, uri: cli.Uri = None, schema: cli.Schema = None,
    as_json: cli.AsJson = False,
) -> None:  # fmt: skip
    """Undo the end of a fact, so that it holds again."""
    fact = cli.with_memory(
        cli.open_memory(uri, schema=schema, worker=False),
        lambda memory: _change(memory, app_name, user, key, memory.restore),
    )
    _show(fact, as_json)


async def _change(
    memory: MemoryEngine,
    app_name: str,
    user: str,
    key: str,
    verb: Callable[[Scope, str], Awaitable[Fact]],
) -> Fact:
    """Apply a verb to the fact with this key, or with a key that begins or ends with it."""
    scope = Scope(app_name, user)
    command = f"hippocampus facts {app_name} {user} --history"
    name = key
    if whole_id(key) is None and PART_OF_ID.fullmatch(key.strip()):
        ids = [fact.memory_id for fact in await memory.facts(scope, history=True)]
        name = str(chosen_id(key, ids, what="fact", shown_by=command))
    try:
        return await verb(scope, name)
    except NotFound as error:
        raise NotFound(
            t(
                f"there is no memory {key!r} of {scope}: {command} shows all facts with their keys",
                f"{scope} 没有键为 {key!r} 的记忆：{command} 列出全部事实和它们的键",
            )
        ) from error


def _show(fact: Fact, as_json: bool) -> None:
    if as_json:
        cli.print_json(fact.to_dict())
    else:
        cli.print_all([_line(fact)])


def _line(fact: Fact) -> Text:
    begin = f"{fact.valid_from:%Y-%m-%d %H:%M} UTC"
    if fact.valid_from == UNKNOWN_START:
        begin = t("an unknown day", "未知的日子")
    statement = uncertain(fact.statement) if fact.is_doubtful else fact.statement
    if fact.valid_until:
        end = f"{fact.valid_until:%Y-%m-%d %H:%M} UTC"
        span = t(f"since {begin}, until {end}", f"自 {begin} 至 {end}")
    else:
        span = t(f"since {begin}", f"自 {begin}")
    return Text(t(f"{statement} ({span}; key {fact.key})", f"{statement}（{span}；键 {fact.key}）"))


def facts_json(found: Sequence[Fact]) -> list[JsonValue]:
    """Return facts as JSON values."""
    return [fact.to_dict() for fact in found]


def why_lines(found: Sequence[Fact]) -> Iterator[Text]:
    """Yield each fact, and under it the turns and rules that state, doubt and ended it."""
    for fact in found:
        yield _line(fact)
        if fact.why is None:
            continue
        reasons = (
            (t("stated", "提出"), fact.why.stated), (t("doubted", "存疑"), fact.why.doubted),
            (t("ended", "结束"), fact.why.ended),
        )  # fmt: skip
        for verb, reason in reasons:
            if reason is not None:
                yield _reason(verb, reason)


def _reason(verb: str, reason: FactReason) -> Text:
    by = [reason.extractor, reason.pattern]
    by += [f"{t('run', '运行')} {short_id(str(reason.run_id))}"] if reason.run_id else []
    by += [f"{t('fact', '事实')} {short_id(reason.fact_key)}"] if reason.fact_key else []
    who = _joined(by) or t("an unknown run", "未知的运行")
    text = Text(t(f"   {verb} by {who}", f"   {verb}：{who}"), style="dim")
    for turn in reason.turns:
        gone = t("a turn that was forgotten", "已遗忘的一条对话")
        said = f"“{turn.text}”" if turn.text is not None else gone
        when = f"{turn.said_at:%Y-%m-%d %H:%M} UTC" if turn.said_at else ""
        session, event = t("session", "会话"), t("event", "事件")
        about = [when, turn.author, f"{session} {turn.thread_id}", f"{event} {turn.event_id}"]
        text.append(f"\n     {said}", style="not dim").append(f"\n     {_joined(about)}")
    return text


def _joined(parts: Sequence[str | None]) -> str:
    return " · ".join(part for part in parts if part)


def facts_table(found: Sequence[Fact]) -> Grid:
    """Return facts as a table with the ends of their keys. Facts that ended are dimmed."""
    rows = [
        (
            short_id(fact.key),
            fact.slot,
            uncertain(fact.value) if fact.is_doubtful else fact.value,
            "" if fact.valid_from == UNKNOWN_START else cli.day(fact.valid_from),
            cli.day(fact.valid_until),
        )
        for fact in found
    ]
    ended = [fact.valid_until is not None for fact in found]
    names = (
        t("key", "键"),
        t("slot", "槽位"),
        t("value", "值"),
        t("since", "自"),
        t("until", "至"),
    )
    return Grid(names=names, rows=rows, dim=ended)
