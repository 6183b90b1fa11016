"""Commands of profiles: show, update, versions, diff, rollback."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.text import Text

from shared_core.cli import app as cli
from shared_core.cli.app import both
from shared_core.cli.layout import Grid
from shared_core.core.domain import Scope
from shared_core.core.locale import t
from shared_core.errors import InvalidInput
from shared_core.profiles.conversation_text import read_conversation

if TYPE_CHECKING:
    from shared_core.engine import MemoryEngine
    from shared_core.ports.profiles import ProfileVersion
    from shared_core.profiles.memory import Memory
    from shared_core.profiles.repository import ProfileDiff
    from shared_core.profiles.service import AgentProfile


class Of(StrEnum):
    """The person a profile is about."""

    USER = "user"
    AGENT = "agent"


profiles = cli.group(
    "profile",
    both(
        "Show and update versioned profiles of users and agents.",
        "查看和更新用户与智能体的画像，带版本。",
    ),
)

Agent = Annotated[
    str | None,
    typer.Option(
        "--agent",
        help=both("Agent that keeps the profile.", "保存画像的智能体。"),
        show_default=both("the application", "应用本身"),
    ),
]
Subject = Annotated[
    Of,
    typer.Option(
        "--of",
        metavar="WHOM",
        help=both(
            "Profile of the user, or of the agent itself: user or agent.",
            "谁的画像：user（用户）或 agent（智能体自己）。",
        ),
    ),
]
FromVersion = Annotated[
    int, typer.Argument(min=1, metavar="FROM", help=both("Number of a version.", "版本号。"))
]
ToVersion = Annotated[
    int,
    typer.Argument(min=1, metavar="TO", help=both("Number of another version.", "另一个版本号。")),
]
Version = Annotated[
    int, typer.Argument(min=1, metavar="VERSION", help=both("Number of a version.", "版本号。"))
]


@profiles.command("show")
@cli.chinese("显示画像：这个人是谁、经历过什么、可以推断什么。")
def show(
    app_name: cli.App,
    user: cli.User,
    agent: Agent = None,
    subject: Subject = Of.USER,
    version: Annotated[
        int | None,
        typer.Option(
            min=1,
            help=both("An earlier version.", "较早的版本号。"),
            show_default=both("the newest", "最新版本"),
        ),
    ] = None,
    uri: cli.Uri = None,
    schema: cli.Schema = None,
    as_json: cli.AsJson = False,
) -> None:
    """Show a profile: who the user is, what happened, and what may be concluded."""

    async def call(profile: AgentProfile) -> None:
        from shared_core.profiles.service import memory_json

        known = await (profile.current() if version is None else profile.show(version))
        if as_json:
            cli.print_json(None if known is None else memory_json(known))
        elif known is None:
            cli.say(_no_profile(app_name, user))
        else:
            cli.print_all(_profile_lines(known))

    _with_profile(uri, schema, Scope(app_name, user), agent, subject, call)


@profiles.command("update")
@cli.chinese(
    """保存一段对话，并据此更新画像。

    对话是 docs/reference/profiles.md 所述的 JSON，或每行一条消息的纯文本。
    以 "assistant:"（或 助手：）开头的行是助手说的，其余是用户说的。
    """
)
def update(
    app_name: cli.App,
    user: cli.User,
    agent: Agent = None,
    subject: Subject = Of.USER,
    file: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help=both("File with the conversation.", "存放对话的文件。"),
            show_default=both("standard input", "标准输入"),
        ),
    ] = None,
    conversation: Annotated[
        str | None,
        typer.Option(
            "--conversation",
            metavar="ID",
            help=both(
                "Id of the conversation; sending it again is safe.", "对话的编号；重复发送也安全。"
            ),
        ),
    ] = None,
    uri: cli.Uri = None,
    schema: cli.Schema = None,
    embedder: cli.Embedder = None,
    llm: cli.Llm = None,
    as_json: cli.AsJson = False,
) -> None:
    """Store a conversation and update the profile from it.

    The conversation is JSON as in docs/reference/profiles.md, or plain text with one message per
    line. A line is the user's unless it begins with "assistant:" (助手：).
    """

    async def call(profile: AgentProfile) -> None:
        from shared_core.profiles.service import update_json

        before = await profile.current()
        known, result = await profile.update(talk)
        if as_json:
            cli.print_json(update_json(known, result))
        elif not result.changed:
            number = known.version
            cli.say(
                t(
                    f"Nothing is new: the profile stays at version {number}.",
                    f"没有新内容：画像仍是第 {number} 版。",
                )
            )
        else:
            number = known.version
            cli.say(t(f"The profile is at version {number}.", f"画像现在是第 {number} 版。"))
            if before is not None:
                cli.print_all(_diff_lines(await profile.diff(before.version, known.version)))
            else:
                prompt = known.to_prompt()
                empty = t(
                    f"The conversation says nothing about who {user} is.",
                    f"这段对话没有说明 {user} 是谁。",
                )
                cli.say(prompt or empty)

    talk = _conversation(file, conversation)
    _with_profile(
        uri, schema, Scope(app_name, user), agent, subject, call, embedder=embedder, llm=llm,
        consolidates=True,
    )  # fmt: skip


@profiles.command("versions")
@cli.chinese("列出画像保存过的版本，新的在前。")
def versions(
    app_name: cli.App,
    user: cli.User,
    agent: Agent = None,
    subject: Subject = Of.USER,
    limit: Annotated[
        int,
        typer.Option(
            min=1, max=1000, help=both("Maximum number of versions.", "最多列出几个版本。")
        ),
    ] = 100,
    uri: cli.Uri = None,
    schema: cli.Schema = None,
    as_json: cli.AsJson = False,
) -> None:
    """List the stored versions of a profile, newest first."""

    async def call(profile: AgentProfile) -> None:
        from shared_core.profiles.service import version_json

        found = [] if await profile.current() is None else await profile.versions(limit)
        if as_json:
            cli.print_json([version_json(one) for one in found])
        elif found:
            cli.print_all([_versions_table(found)])
        else:
            cli.say(_no_profile(app_name, user))

    _with_profile(uri, schema, Scope(app_name, user), agent, subject, call)


@profiles.command("diff")
@cli.chinese("显示画像的一个版本到另一个版本之间的变化。")
def diff(
    app_name: cli.App,
    user: cli.User,
    from_version: FromVersion,
    to_version: ToVersion,
    agent: Agent = None,
    subject: Subject = Of.USER,
    uri: cli.Uri = None,
    schema: cli.Schema = None,
    as_json: cli.AsJson = False,
) -> None:
    """Show what changed from one version of a profile to another."""

    async def call(profile: AgentProfile) -> None:
        from shared_core.profiles.service import diff_json

        found = await profile.diff(from_version, to_version)
        if as_json:
            cli.print_json(diff_json(found))
        else:
            cli.print_all(_diff_lines(found))

    _with_profile(uri, schema, Scope(app_name, user), agent, subject, call)


@profiles.command("rollback")
@cli.chinese("把画像的旧版本重新存为新版本。")
def rollback(
    app_name: cli.App,
    user: cli.User,
    version: Version,
    agent: Agent = None,
    subject: Subject = Of.USER,
    uri: cli.Uri = None,
    schema: cli.Schema = None,
    embedder: cli.Embedder = None,
    as_json: cli.AsJson = False,
) -> None:
    """Store an earlier version of a profile again, as a new version."""

    async def call(profile: AgentProfile) -> None:
        from shared_core.profiles.service import memory_json

        known = await profile.rollback(version)
        if as_json:
            cli.print_json(memory_json(known))
        else:
            cli.say(
                t(
                    f"Version {known.version} has the content of version {version}.",
                    f"第 {known.version} 版的内容与第 {version} 版相同。",
                )
            )

    _with_profile(uri, schema, Scope(app_name, user), agent, subject, call, embedder=embedder)


def _no_profile(app: str, user: str) -> str:
    make = "hippocampus profile update"
    return t(
        f"No profile is stored for {user} in {app}. {make} makes one from a conversation.",
        f"应用 {app} 的用户 {user} 没有画像。{make} 可以从一段对话生成。",
    )


def _with_profile(
    uri: str | None,
    schema: str | None,
    scope: Scope,
    agent: str | None,
    subject: Of,
    call: Callable[[AgentProfile], Awaitable[None]],
    *,
    embedder: str | None = None,
    llm: str | None = None,
    consolidates: bool = False,
) -> None:
    """Call with one profile. consolidates: run the queued jobs and wait for them."""
    of: Literal["user", "agent"] = "agent" if subject is Of.AGENT else "user"

    async def run(memory: MemoryEngine) -> None:
        await call(memory.profiles.of(scope, agent, of))
        if consolidates and not await memory.flush():
            text = t(
                "Its facts are not extracted yet: see hippocampus jobs.",
                "其中的事实还没有提取：见 hippocampus jobs。",
            )
            cli.say(text, err=True)

    memory = cli.open_memory(uri, schema=schema, embedder=embedder, llm=llm, worker=consolidates)
    cli.with_memory(memory, run)


def _conversation(file: Path | None, conversation_id: str | None) -> object:
    if file is not None:
        with file.open("rb") as source:
            conversation = read_conversation(source)
    elif sys.stdin is None:
        raise InvalidInput(
            t(
                "standard input is closed: give the conversation with --file",
                "标准输入已关闭：请用 --file 给出对话",
            )
        )
    else:
        conversation = read_conversation(typer.get_binary_stream("stdin"))
    if conversation_id is None:
        return conversation
    messages = conversation if isinstance(conversation, dict) else {"messages": conversation}
    return {**messages, "conversation_id": conversation_id}


def _profile_lines(memory: Memory) -> Iterator[Text]:
    """Yield the prompt of a profile, then its findings with their confidence."""
    yield Text(memory.to_prompt() or t("Nothing is known.", "还没有内容。"))
    if memory.mind.findings:
        yield Text("")
    for one in memory.mind.findings:
        yield Text(f"{one.dimension} {one.confidence:.1f}  {one.text}", style="dim")


def _versions_table(found: Sequence[ProfileVersion]) -> Grid:
    rows = [
        (
            str(one.version),
            f"{one.created_at:%Y-%m-%d %H:%M}",
            str(one.revision),
            "" if one.run_id is None else str(one.run_id),
        )
        for one in found
    ]
    names = (
        t("version", "版本"), t("stored (UTC)", "保存时间（UTC）"), t("repeated", "修订"),
        t("run", "运行"),
    )  # fmt: skip
    return Grid(names=names, rows=rows)


def _diff_lines(found: ProfileDiff) -> Iterator[Text]:
    """Yield the changes: "-" before removed lines, "+" before added ones."""
    changes = (
        (found.removed, found.added),
        (found.removed_events, found.added_events),
        (found.removed_findings, found.added_findings),
    )
    changed = False
    for removed, added in changes:
        for sign, style, texts in (("-", "red", removed), ("+", "green", added)):
            for text in texts:
                changed = True
                yield Text(f"{sign} {text}", style=style)
    if not changed:
        one, other = found.from_version, found.to_version
        yield Text(
            t(
                f"Versions {one} and {other} have the same content.",
                f"第 {one} 版与第 {other} 版内容相同。",
            )
        )
