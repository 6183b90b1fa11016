"""The output of the demo. Texts of memories are printed literally, never as markup."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from shared_core.cli.app import Grid
from shared_core.cli.demo.script import Language, Question, Script
from shared_core.cli.layout import Typed, print_on
from shared_core.core.domain import Hit
from shared_core.core.locale import t
from shared_core.ports.runs import Fact
from shared_core.settings import Settings, redacted

FIRST_HITS = 3
"""Number of hits that are shown and count as an answer."""
EXCERPT_CELLS = 100
"""Columns of a shown text."""
SITE = "https://pg-hippocampus.github.io/pg-hippocampus/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """The contents of a memory after one script. summaries: by session."""

    turns: int
    facts: Sequence[Fact]
    summaries: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The hits of both frameworks for one question, best first."""

    question: Question
    adk: Sequence[Hit]
    langgraph: Sequence[Hit]

    def is_answered(self, hits: Sequence[Hit]) -> bool:
        """Return whether one of the first hits contains the expected words."""
        return any(self.question.is_answered_by(hit.memory.text) for hit in hits[:FIRST_HITS])

    def to_dict(self) -> dict[str, object]:
        """Return the question, its first hits, and whether they answer it, as JSON values."""
        return {
            "question": self.question.ask,
            "adk": self._answer(self.adk),
            "langgraph": self._answer(self.langgraph),
        }

    def _answer(self, hits: Sequence[Hit]) -> dict[str, object]:
        found = [hit.memory.text for hit in hits[:FIRST_HITS]]
        return {"answered": self.is_answered(hits), "found": found}


def show_opening(console: Console, settings: Settings, *, kept: bool) -> None:
    """Print what the demo does and where its memory is."""
    where = str(settings.embedded_home or redacted(settings.uri))
    fate = t("temporary, removed at the end", "临时的，结束后删除")
    if kept:
        fate = t("it stays there", "会保留")
    print_on(
        console,
        [
            t(
                "One memory, two frameworks: conversations are learned through Google ADK, then"
                " asked about through ADK in this process and through LangGraph in another one."
                " No key, no network, no language model.",
                "一份记忆，两个框架：先通过 Google ADK 学习对话，再在本进程中通过 ADK、"
                "在另一个进程中通过 LangGraph 提问。无需密钥、网络和语言模型。",
            ),
            t(f"The memory ({fate}) is in", f"记忆（{fate}）位于"),
            f"  {where}",
        ],
    )


def show_learned(console: Console, script: Script, learned: Learned) -> None:
    """Print the memories of a script: the number of turns, all facts and summaries."""
    sessions, turns = len(script.conversations), learned.turns
    names = (t("session", "会话"), t("summary", "摘要"))
    rows = [
        (one.session_id, learned.summaries.get(one.session_id, "")) for one in script.conversations
    ]
    print_on(
        console,
        [
            "",
            Text(f"── {script.title} ──", style="bold"),
            t(
                f"Learned from {sessions} ADK sessions of user {script.user}: {turns} turns.",
                f"从用户 {script.user} 的 {sessions} 个 ADK 会话中学到 {turns} 条对话。",
            ),
            "",
            _title("Facts, with their end and the turn they come from", "事实，及其结束时间和来源"),
            _facts_table(learned.facts),
            "",
            _title("Summaries: sentences of the conversation itself", "摘要：取自对话原文的句子"),
            Grid(names=names, rows=rows),
        ],
    )


def _title(english: str, chinese: str) -> Text:
    return Text(t(english, chinese), style="bold")


def _facts_table(facts: Sequence[Fact]) -> Grid:
    rows = [
        (
            fact.fact_type,
            fact.statement,
            f"{fact.valid_from:%Y-%m-%d}",
            f"{fact.valid_until:%Y-%m-%d}" if fact.valid_until else "",
            ", ".join(fact.source_event_ids),
        )
        for fact in facts
    ]
    names = (
        t("type", "类型"), t("statement", "陈述"), t("since", "自"), t("ended", "结束"),
        t("source", "来源"),
    )  # fmt: skip
    return Grid(names=names, rows=rows, dim=[fact.valid_until is not None for fact in facts])


def show_results(console: Console, results: Sequence[Result], graph_pid: int) -> None:
    """Print the first hits of both frameworks for each question, and count the answers."""
    pieces: list[str | Text | Grid] = [
        "",
        t(
            f"Questions, asked by ADK in this process and by LangGraph in process {graph_pid}. ADK"
            " and LG: rank of a memory in each answer. Both order by the score;"
            " hippocampus recall --explain shows its parts. Times are UTC.",
            f"问题由 ADK 在本进程中、LangGraph 在进程 {graph_pid} 中提出。ADK 和 LG 两列是记忆在"
            "各自答案中的名次。两者都按得分排序；hippocampus recall --explain 可查看得分的构成。"
            "时间为 UTC。",
        ),
    ]
    for number, result in enumerate(results, start=1):
        marks = (
            ("ADK", result.is_answered(result.adk)),
            ("LangGraph", result.is_answered(result.langgraph)),
        )
        title = Text(f"{number}. {result.question.ask}", style="bold")
        expected = t("expected: ", "期望：") + result.question.expect
        title.append(f"  {expected} ", style="not bold")
        for name, answered in marks:
            title.append(f" {name} {'✓' if answered else '✗'}", "green" if answered else "red")
        pieces += ["", title, _hits_table(result)]
    pieces.append("")
    for name, right in (
        ("Google ADK", sum(result.is_answered(result.adk) for result in results)),
        ("LangGraph", sum(result.is_answered(result.langgraph) for result in results)),
    ):
        pieces.append(
            _title(
                f"{name}: {right} of {len(results)} questions answered by the first three hits",
                f"{name}：{len(results)} 个问题中有 {right} 个由前三条记忆回答",
            )
        )
    print_on(console, pieces)


def _hits_table(result: Result) -> Grid:
    rows = []
    first = {hit.memory.key: hit for hit in result.adk[:FIRST_HITS]}
    first |= {hit.memory.key: hit for hit in result.langgraph[:FIRST_HITS]}
    for key, hit in first.items():
        memory = hit.memory
        answers = result.question.is_answered_by(memory.text)
        shown = excerpt(memory.text, result.question.expect)
        rows.append(
            (
                _place(key, result.adk),
                _place(key, result.langgraph),
                f"{hit.score:+.1f}",
                f"{source_of(hit)}\n{memory.occurred_at:%Y-%m-%d %H:%M}",
                Text(shown, style="green" if answers else ""),
            )
        )
    names = ("ADK", "LG", t("score", "得分"), t("said", "何时所说"), t("remembered", "记忆"))
    return Grid(names=names, rows=rows, right=frozenset({0, 1, 2}))


def source_of(hit: Hit) -> str:
    """Return the kind of a memory and its turn, or its session for a summary."""
    memory = hit.memory
    if memory.kind == "summary":
        return f"summary {memory.thread_id}"
    turn = ", ".join(memory.source_event_ids)
    return f"fact {turn}" if memory.kind == "semantic" else turn


def excerpt(text: str, around: str, cells: int = EXCERPT_CELLS) -> str:
    """Return a text, or about `cells` columns of it, with `around` in them if possible."""
    text = " ".join(text.split())
    width = cell_len(text)
    if width <= cells:
        return text
    room = (cells - 2) * len(text) // width  # an ellipsis at either end; a Han character is wide
    at = max(text.casefold().find(around.casefold()), 0)
    begin = max(min(at - room // 3, len(text) - room), 0)
    end = begin + room
    return f"{'…' if begin else ''}{text[begin:end]}{'…' if end < len(text) else ''}"


def show_closing(
    console: Console,
    app: str,
    scripts: Iterable[Script],
    uri: str | None,
    *,
    kept: bool,
    schema: str | None = None,
    language: Language | None = None,
) -> None:
    """Print where the memory is now, and commands to look again that run as printed.

    uri: the memory to look in; None for the default. language: the only one shown, if any.
    """
    said = t(
        "The temporary memory was removed. To keep it in your own, and look again:",
        "临时记忆已删除。要把它保存到你自己的记忆中再查看，请输入：",
    )
    if kept:
        said = t(
            "The memory stays where it is. Look again, from any process:",
            "记忆保留在原处。在任何进程中都可以再次查看：",
        )
    pieces: list[str | Typed] = ["", said]
    where = ""
    if uri and redacted(uri) != uri:
        pieces.append(
            t(
                "(set HIPPOCAMPUS_URI to its uri first: a password is not printed here)",
                "（请先把 HIPPOCAMPUS_URI 设为它的 uri：这里不打印密码）",
            )
        )
    elif uri:
        where = f" --uri {shlex.quote(uri)}"
    if schema:
        where += f" --schema {shlex.quote(schema)}"
    again = f"demo --language {language}" if language else "demo"
    commands = [] if kept else [again + ("" if uri else " --keep") + where]
    for script in scripts:
        words = shlex.join([app, script.user, script.questions[0].ask])
        commands.append(f"recall {words}{where}")
    pieces += [Typed(f"hippocampus {command}") for command in [*commands, f"doctor{where}"]]
    pieces += [
        t("See what the memory knows, in a browser:", "在浏览器中查看记忆所知的内容："),
        Typed(f"hippocampus ui{where}"),
        t("Give your own agents of Google ADK a memory:", "让你自己的 Google ADK 智能体拥有记忆："),
        Typed("hippocampus adk init my_agents"),
        t(f"Tutorials and reference: {SITE}", f"教程与参考：{SITE}zh/"),
    ]
    print_on(console, pieces)


def _place(key: str, hits: Sequence[Hit]) -> str:
    keys = [hit.memory.key for hit in hits]
    return str(keys.index(key) + 1) if key in keys else "-"
