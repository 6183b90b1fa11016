"""Profiles of users and agents, with versions, differences and rollback."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from itertools import pairwise
from typing import Final, Literal

from nicegui import ui

from shared_core.core.domain import Turn
from shared_core.core.ids import short_id
from shared_core.errors import InvalidInput
from shared_core.ports.profiles import ProfileVersion
from shared_core.profiles.conversation_text import read_conversation
from shared_core.profiles.entries import Statement
from shared_core.profiles.memory import Memory
from shared_core.profiles.service import AgentProfile
from shared_core.ui.actions import action_button
from shared_core.ui.frame import Page
from shared_core.ui.pages.cells import Cell, folded, grid, kept, styles, text_input, text_of
from shared_core.ui.pages.profile_changes import CSS, is_empty, show_lists, show_words
from shared_core.ui.view import PageView
from shared_core.ui.widgets import empty, heading, panel, whole_param

PATH: Final = "/profiles"
MOST_VERSIONS: Final = 100
PARAMS: Final = ("subject", "agent_id", "version", "from_version", "to_version")
"""What the address of this page says, besides the user."""


async def body(view: PageView) -> None:
    """Build the page."""
    styles()
    ui.add_css(CSS)
    subject: Literal["user", "agent"] = "agent" if view.params.get("subject") == "agent" else "user"
    agent_id = view.params.get("agent_id") or None
    profile = view.memory.profiles.of(view.user, agent_id, subject)
    _choice(view, profile)
    newest = await profile.current()
    if newest is None or not newest.version:
        empty(view.t(
            "No profile is stored here. One appears when it is updated from a conversation,"
            " or by itself after each consolidation with HIPPOCAMPUS_PROFILES=on.",
            "还没有画像。用一段对话更新后就会出现；设置 HIPPOCAMPUS_PROFILES=on 后，每次整理"
            "都会自动更新。",
        ))  # fmt: skip
        _update(view, profile)
        return
    wanted = _number(view, "version")
    shown = await profile.show(wanted) if wanted else newest
    versions = await profile.versions(MOST_VERSIONS)
    _paragraph(view, shown, newest.version)
    await _difference(view, profile, versions)
    _versions(view, profile, versions, shown.version)
    _update(view, profile)


def here(view: PageView, **changed: object) -> str:
    """Return the address of this page with some of its parameters changed; None leaves one out."""
    return view.link(PATH, **kept(view, PARAMS) | changed)


def _number(view: PageView, name: str) -> int | None:
    text = view.params.get(name, "")
    if not text:
        return None
    if not (number := whole_param(view, name, 0, 2**31 - 1)):
        raise InvalidInput(view.t(f"{name} must be the number of a version, got {text!r:.80}",
                                  f"{name} 必须是版本号，收到的是 {text!r:.80}"))  # fmt: skip
    return number


def _choice(view: PageView, profile: AgentProfile) -> None:
    """Show whose profile it is, and lead to another one."""
    subjects = {
        "user": view.t("the user", "用户"), "agent": view.t("the agent itself", "智能体自身"),
    }  # fmt: skip

    def show() -> None:
        chosen = text_of(agent)
        ui.navigate.to(view.link(
            PATH, subject=text_of(subject),
            agent_id=chosen if chosen and chosen != view.user.app else None,
        ))  # fmt: skip

    with ui.element("div").classes("form-line"):
        subject = ui.select(subjects, value=profile.subject, label=view.t("Profile of", "谁的画像"))
        subject.props("outlined dense options-dense")
        agent = text_input(view.t("As this agent knows them", "由哪个智能体记录"), profile.agent_id)
        agent.on("keydown.enter", show)
        ui.button(view.t("Show", "查看"), on_click=show).props("no-caps outline")


def _paragraph(view: PageView, shown: Memory, newest: int) -> None:
    """Show a version: the paragraph, its statements and events with their turns, the findings."""
    with panel():
        heading(view.t(f"Version {shown.version}", f"第 {shown.version} 版"))
        if shown.version != newest:
            with ui.element("div").classes("row-line"):
                ui.label(view.t("This is an earlier version.", "这是较早的版本。")).classes("quiet")
                ui.link(view.t(f"newest: {newest}", f"最新：第 {newest} 版"),
                        here(view, version=None))  # fmt: skip
        nothing = view.t("Nothing is known.", "暂无内容。")
        ui.label(shown.get_profile_content() or nothing).classes("text").style("font-size: 1.1rem")
        _statements(view, view.t("Statements", "陈述"), shown.profile_memory.statements)
        _statements(
            view, view.t("What held before", "曾经成立的陈述"), shown.profile_memory.history
        )
        _events(view, shown)
        _findings(view, shown)


def _statements(view: PageView, title: str, statements: Sequence[Statement]) -> None:
    if not statements:
        return
    columns = (view.t("statement", "陈述"), view.t("since", "自"), view.t("until", "至"),
               view.t("said in", "出处"))  # fmt: skip
    rows: list[tuple[Sequence[str | Cell | Sequence[Cell]], str]] = [
        (
            (
                one.text,
                view.time(one.valid_from),
                view.time(one.valid_until),
                _threads(view, [turn for basis in one.bases for turn in basis], told=one.told),
            ),
            "" if one.valid_until is None else "past",
        )
        for one in statements
    ]
    ui.label(title).classes("heading")
    grid(columns, rows, title)


def _threads(view: PageView, turns: Sequence[Turn], *, told: bool) -> str | list[Cell]:
    """Return links to the threads of turns."""
    threads = dict.fromkeys(str(thread) for thread, _ in turns)
    if not threads:
        return view.t("the application", "应用写入") if told else "–"
    return [Cell(one, view.link("/memories", thread=one)) for one in threads]


def _events(view: PageView, shown: Memory) -> None:
    events = shown.event_memory.events
    if not events:
        return
    title = view.t("Events", "事件")
    ui.label(title).classes("heading")
    rows: list[tuple[Sequence[str | Cell | Sequence[Cell]], str]] = [
        (
            (
                view.time(one.occurred_at),
                one.shown,
                _threads(view, [turn for basis in one.bases for turn in basis], told=True),
            ),
            "",
        )
        for one in reversed(events)
    ]
    grid((view.t("when", "时间"), view.t("event", "事件"), view.t("said in", "出处")), rows, title)


def _findings(view: PageView, shown: Memory) -> None:
    """Show what was concluded, how sure it is, and from which words."""
    if not shown.mind.findings:
        return
    words = {
        "intent": view.t("intent", "意图"), "emotion": view.t("emotion", "情绪"),
        "cognition": view.t("cognition", "思维"), "social": view.t("social", "人际"),
        "trend": view.t("trend", "变化"),
    }  # fmt: skip
    title = view.t("What may be concluded", "可能的推断")
    with folded(f"{title} ({len(shown.mind.findings)})"):
        columns = (
            view.t("of", "方面"),
            view.t("conclusion", "推断"),
            view.t("confidence", "置信度"),
            view.t("said in", "出处"),
        )
        grid(
            columns,
            [
                (
                    (words[one.dimension], one.text, f"{one.confidence:.2f}",
                     _threads(view, one.basis, told=False)),
                    "",
                )
                for one in reversed(shown.mind.findings)
            ],
            title,
        )  # fmt: skip


async def _difference(
    view: PageView, profile: AgentProfile, versions: Sequence[ProfileVersion]
) -> None:
    """Show what changed between two versions: by default the newest and the one before it."""
    numbers = [one.version for one in versions]
    if len(numbers) < 2:
        return
    first = _number(view, "from_version") or numbers[1]
    last = _number(view, "to_version") or numbers[0]
    options = {one: view.t(f"version {one}", f"第 {one} 版") for one in {*numbers, first, last}}

    def show() -> None:
        ui.navigate.to(here(view, from_version=before.value, to_version=after.value))

    with panel():
        heading(view.t("What changed", "版本差异"))
        with ui.element("div").classes("form-line"):
            before = ui.select(options, value=first, label=view.t("From", "从"))
            after = ui.select(options, value=last, label=view.t("To", "到"))
            for field in (before, after):
                field.props("outlined dense options-dense")
            ui.button(view.t("Compare", "比较"), on_click=show).props("no-caps outline")
        diff = await profile.diff(first, last)
        if is_empty(diff):
            ui.label(view.t("Both versions have the same content.", "两个版本的内容相同。"))
            return
        old, new = await profile.show(first), await profile.show(last)
        ui.label(view.t("[- removed] [+ added]", "[- 删除] [+ 新增]")).classes("quiet")
        show_words(view, old.get_profile_content(), new.get_profile_content())
        show_lists(view, view.t("Events", "事件"), diff.removed_events, diff.added_events)
        show_lists(view, view.t("Conclusions", "推断"), diff.removed_findings, diff.added_findings)


def _versions(
    view: PageView, profile: AgentProfile, versions: Sequence[ProfileVersion], shown: int
) -> None:
    """Show the list of versions, and roll back to the one that is shown."""
    columns = (
        view.t("version", "版本"), view.t("stored (UTC)", "保存时间（UTC）"),
        view.t("said again", "重复确认"), view.t("run", "运行"), "",
    )  # fmt: skip
    older = {one.version: before.version for one, before in pairwise(versions)}
    rows: list[tuple[Sequence[str | Cell | Sequence[Cell]], str]] = []
    for one in versions:
        run = Cell(short_id(one.run_id), view.link("/runs")) if one.run_id else Cell("–")
        before = older.get(one.version)
        change = Cell("–") if before is None else Cell(
            view.t(f"changes since {before}", f"与第 {before} 版比较"),
            here(view, from_version=before, to_version=one.version),
        )  # fmt: skip
        number = Cell(str(one.version), here(view, version=one.version))
        kind = "here" if one.version == shown else ""
        rows.append(((number, view.time(one.created_at), str(one.revision), run, change), kind))
    with panel():
        heading(view.t("Versions", "版本"))
        grid(columns, rows, view.t("Versions of the profile", "画像的版本"))
        if versions and shown != versions[0].version:
            _rollback(view, profile, shown, versions[0].version)
        elif len(versions) > 1:
            ui.label(view.t("Open an earlier version to roll back to it.",
                            "打开较早的版本，即可回滚到该版本。")).classes("quiet")  # fmt: skip


def _rollback(view: PageView, profile: AgentProfile, version: int, newest: int) -> None:
    async def do() -> str:
        known = await profile.rollback(version)
        return view.t(
            f"Version {known.version} says what version {version} said. To undo it, roll back to"
            f" version {newest}.",
            f"第 {known.version} 版的内容与第 {version} 版相同。如需撤销，请回滚到第 {newest} 版。",
        )

    with ui.element("div").classes("row-line"):
        action_button(
            view, view.t(f"Roll back to version {version}", f"回滚到第 {version} 版"),
            icon="undo", do=do,
            will=view.t(
                f"A new version will be stored that says what version {version} said. Nothing is"
                f" removed, and what was forgotten stays forgotten. To undo it, roll back to"
                f" version {newest}.",
                f"将保存一个内容与第 {version} 版相同的新版本。不会删除任何版本，已遗忘的内容"
                f"不会恢复。如需撤销，请回滚到第 {newest} 版。",
            ),
        )  # fmt: skip


def _update(view: PageView, profile: AgentProfile) -> None:
    """Show the form that updates the profile from a conversation."""
    if not view.may_write:
        return
    with folded(view.t("Update from a conversation", "用一段对话更新")):
        ui.label(view.t(
            "One message per line. A line is the user's unless it begins with “assistant:”. JSON"
            " with role and content works too.",
            "每行一条消息。以“助手：”开头的是助手说的，其余都是用户说的。也可以是含 role 和"
            " content 的 JSON。",
        )).classes("quiet")  # fmt: skip
        talk = ui.textarea(view.t("Conversation", "对话")).props("outlined autogrow")
        talk.classes("full")
        with ui.element("div").classes("form-line"):
            name = text_input(
                view.t("Id of the conversation; empty for a new one", "对话编号，留空表示新对话")
            )

            async def do() -> str:
                return await _updated(view, profile, str(talk.value or ""), text_of(name))

            action_button(
                view, view.t("Update", "更新"), icon="update", do=do,
                will=view.t(
                    "The conversation will be stored as turns of this user, and the profile will be"
                    " updated from it. A worker then draws facts from it.",
                    "这段对话将保存为该用户的会话，并据此更新画像。随后后台任务会从中提取事实。",
                ),
            )  # fmt: skip


async def _updated(view: PageView, profile: AgentProfile, text: str, name: str) -> str:
    """Update the profile; return what was done and how to undo it."""
    if not text.strip():
        raise InvalidInput(view.t("the conversation is empty: paste one message per line",
                                  "对话为空：请每行粘贴一条消息"))  # fmt: skip
    talk = read_conversation(BytesIO(text.encode("utf-8", "replace")))
    if name:
        messages = talk if isinstance(talk, dict) else {"messages": talk}
        talk = {**messages, "conversation_id": name}
    known, result = await profile.update(talk)
    thread = result.modification.thread_id
    if not result.changed:
        return view.t(
            f"Nothing is new: the profile stays at version {known.version}. The conversation is the"
            f" thread {thread}.",
            f"没有新内容：画像仍是第 {known.version} 版。这段对话保存为会话线程 {thread}。",
        )
    return view.t(
        f"The profile is at version {known.version}. The conversation is the thread {thread}. To"
        f" undo the version, undo run {result.run_id} on the page Runs and jobs, or roll back. To"
        " remove the conversation, erase its thread on the page Privacy.",
        f"画像已更新到第 {known.version} 版，对话保存为会话线程 {thread}。如需撤销该版本，请在"
        f"“运行与任务”页撤销运行 {result.run_id}，或直接回滚；如需删除对话，请在“隐私”页"
        "彻底删除该会话线程。",
    )


PAGE = Page("/profiles", "badge", "Profiles", "画像", body)
