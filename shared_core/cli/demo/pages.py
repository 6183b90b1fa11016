"""The output of the demo. Texts of memories are printed literally, never as markup."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from shared_core.cli.app import plain_table
from shared_core.cli.demo.script import Language, Question, Script
from shared_core.core.domain import Hit
from shared_core.ports.runs import Fact
from shared_core.settings import Settings, redacted

FIRST_HITS = 3
"""Number of hits that are shown and count as an answer."""
EXCERPT_CELLS = 100
"""Columns of a shown text."""


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
    where = settings.embedded_home or redacted(settings.uri)
    fate = "it stays there" if kept else "temporary, removed at the end"
    console.print(
        "One memory, two frameworks: conversations are learned through Google ADK, then asked\n"
        "about through ADK in this process and through LangGraph in another one.\n"
        "No key, no network, no language model."
    )
    console.print(Text(f"The memory ({fate}) is in\n  {where}"), soft_wrap=True)


def show_learned(console: Console, script: Script, learned: Learned) -> None:
    """Print the memories of a script: the number of turns, all facts and summaries."""
    console.print()
    console.print(Rule(Text(script.title, style="bold")))
    sessions = len(script.conversations)
    console.print(
        Text(f"Learned from {sessions} ADK sessions of user {script.user}: {learned.turns} turns.")
    )
    console.print()
    console.print(_facts_table(learned.facts))
    console.print()
    summaries = _table("Summaries: sentences of the conversation itself")
    summaries.add_column("session", no_wrap=True)
    summaries.add_column("summary", ratio=1, overflow="fold")
    for conversation in script.conversations:
        text = learned.summaries.get(conversation.session_id, "")
        summaries.add_row(Text(conversation.session_id), Text(text))
    console.print(summaries)


def _facts_table(facts: Sequence[Fact]) -> Table:
    table = _table("Facts, with their end and the turn they come from")
    table.add_column("type", no_wrap=True)
    table.add_column("statement", ratio=1, overflow="fold")
    table.add_column("since", no_wrap=True)
    table.add_column("ended", no_wrap=True)
    table.add_column("source", no_wrap=True)
    for fact in facts:
        ended = f"{fact.valid_until:%Y-%m-%d}" if fact.valid_until else ""
        table.add_row(
            fact.fact_type,
            Text(fact.statement),
            f"{fact.valid_from:%Y-%m-%d}",
            ended,
            Text(", ".join(fact.source_event_ids)),
            style="dim" if ended else None,
        )
    return table


def show_results(console: Console, results: Sequence[Result], graph_pid: int) -> None:
    """Print the first hits of both frameworks for each question, and count the answers."""
    console.print()
    console.print(
        f"Questions, asked by ADK in this process and by LangGraph in process {graph_pid}.\n"
        "ADK and LG: rank of a memory in each answer. Both order by the score, a sum of meaning,\n"
        "words (in standard deviations above the mean) and other features, such as whether the\n"
        "turn is a question. Times are UTC.",
        highlight=False,
    )
    for number, result in enumerate(results, start=1):
        marks = (
            ("ADK", result.is_answered(result.adk)),
            ("LangGraph", result.is_answered(result.langgraph)),
        )
        title = Text(f"{number}. {result.question.ask}", style="bold")
        title.append(f"  expected: {result.question.expect} ", style="not bold")
        for name, answered in marks:
            title.append(f" {name} {'✓' if answered else '✗'}", "green" if answered else "red")
        console.print()
        console.print(title)
        console.print(_hits_table(result))
    console.print()
    for name, right in (
        ("Google ADK", sum(result.is_answered(result.adk) for result in results)),
        ("LangGraph", sum(result.is_answered(result.langgraph) for result in results)),
    ):
        console.print(
            f"{name}: {right} of {len(results)} questions answered by the first three hits",
            style="bold",
            highlight=False,
        )


def _hits_table(result: Result) -> Table:
    table = _table()
    for name in ("ADK", "LG", "cosine", "meaning", "words", "else", "score"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("said", no_wrap=True)
    table.add_column("remembered", ratio=1, overflow="fold")
    first = {hit.memory.key: hit for hit in result.adk[:FIRST_HITS]}
    first |= {hit.memory.key: hit for hit in result.langgraph[:FIRST_HITS]}
    for key, hit in first.items():
        memory, parts = hit.memory, hit.parts
        answers = result.question.is_answered_by(memory.text)
        table.add_row(
            _place(key, result.adk),
            _place(key, result.langgraph),
            f"{parts.get('similarity', 0):.2f}",
            f"{parts['meaning']:+.1f}",
            f"{parts['words']:+.1f}",
            f"{hit.score - parts['meaning'] - parts['words']:+.1f}",
            f"{hit.score:+.1f}",
            Text(f"{source_of(hit)}\n{memory.occurred_at:%Y-%m-%d %H:%M}"),
            Text(excerpt(memory.text, result.question.expect), style="green" if answers else ""),
        )
    return table


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
    console.print()
    if kept:
        console.print("The memory stays where it is. Look again, from any process:")
    else:
        console.print("The temporary memory was removed. To keep it in your own, and look again:")
    where = ""
    if uri and redacted(uri) != uri:
        console.print("(set HIPPOCAMPUS_URI to its uri first: a password is not printed here)")
    elif uri:
        where = f" --uri {shlex.quote(uri)}"
    if schema:
        where += f" --schema {shlex.quote(schema)}"
    again = f"demo --language {language}" if language else "demo"
    commands = [] if kept else [again + ("" if uri else " --keep") + where]
    for script in scripts:
        words = shlex.join([app, script.user, script.questions[0].ask])
        commands.append(f"recall {words}{where}")
    for command in [*commands, f"doctor{where}"]:
        console.print(Text(f"  hippocampus {command}"), soft_wrap=True)


def _place(key: str, hits: Sequence[Hit]) -> str:
    keys = [hit.memory.key for hit in hits]
    return str(keys.index(key) + 1) if key in keys else "-"


def _table(title: str | None = None) -> Table:
    return plain_table(title=title, title_justify="left", title_style="bold", expand=True)
