"""Run the demo: learn both conversations through ADK, then ask through both frameworks.

ADK is an extra and takes a second to import, so functions import it.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, cast
from urllib.parse import quote

from rich.console import Console

from shared_core.cli.demo import pages
from shared_core.cli.demo.pages import Learned, Result
from shared_core.cli.demo.script import Language, Script, ScriptedSession, ScriptedTurn, load_script
from shared_core.cli.progress import progress_bar
from shared_core.core.domain import Hit, Scope
from shared_core.core.locale import t
from shared_core.core.namespaces import memories_namespace
from shared_core.engine import MemoryEngine
from shared_core.errors import CapabilityMissing, StorageUnavailable
from shared_core.open import open_memory
from shared_core.ports.items import FindItems, Item
from shared_core.settings import Settings, load_settings

if TYPE_CHECKING:
    from google.adk.events.event import Event
    from google.adk.sessions.session import Session

    from adk_memory import OpenMemoryService

APP = "hippocampus-demo"
EVERYTHING = 1000
"""More memories than a demo conversation makes."""

Keys = Sequence[Sequence[str]]
"""The keys of the memories found for each question, best first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tour:
    """The languages of the demo and its database.

    Without uri and keep the database is in a temporary folder that is removed at the end; engine is
    then "postgres" or "seekdb".
    """

    languages: Sequence[Language]
    uri: str | None = None
    schema: str | None = None
    keep: bool = False
    engine: str = "postgres"

    async def run(self, console: Console) -> list[Result]:
        """Run and print the demo, and return its results. It needs both frameworks."""
        require_frameworks()
        scripts = {language: load_script(language) for language in self.languages}
        with self._place() as settings:
            pages.show_opening(console, settings, kept=self._is_kept)
            engine = open_memory(settings.uri, schema=settings.db_schema)
            try:
                await _open(engine)
                found = await _show(console, settings, engine, scripts)
            finally:
                await engine.close()
        pages.show_closing(
            console,
            APP,
            scripts.values(),
            self.uri or self._of_engine(),
            kept=self._is_kept,
            schema=self.schema,
            language=self.languages[0] if len(self.languages) == 1 else None,
        )
        return found

    def _of_engine(self) -> str | None:
        """Return the uri of the user's own memory on this engine, or None if it is the default."""
        home = load_settings().home
        return _seekdb_in(home.with_name(f"{home.name}-seekdb")) if self._on_seekdb else None

    @property
    def _is_kept(self) -> bool:
        return self.keep or self.uri is not None

    @property
    def _on_seekdb(self) -> bool:
        return self.engine == "seekdb"

    @contextmanager
    def _place(self) -> Iterator[Settings]:
        if self._is_kept:
            yield load_settings(self.uri, schema=self.schema)
        else:
            with TemporaryDirectory(prefix="hippocampus-demo-") as folder:
                uri = _seekdb_in(Path(folder)) if self._on_seekdb else f"embedded://{folder}"
                yield load_settings(uri, schema=self.schema)


def _seekdb_in(folder: Path) -> str:
    return f"seekdb://{quote(str(folder))}"


def require_frameworks() -> None:
    """Raise CapabilityMissing unless both frameworks are installed."""
    for module, package in (("google.adk", "google-adk"), ("langgraph.graph", "langgraph")):
        try:
            found = importlib.util.find_spec(module) is not None
        except ModuleNotFoundError:  # the package above it is missing
            found = False
        if not found:
            raise CapabilityMissing(
                t(
                    f"the demo needs both frameworks, and {package} is not installed:"
                    " pip install 'pg-hippocampus[all]'",
                    f"演示需要两个框架，而 {package} 没有安装：pip install 'pg-hippocampus[all]'",
                )
            )


async def _open(engine: MemoryEngine) -> None:
    """Open the engine. Ctrl-C waits for it: a starting server still needs its folder."""
    opening = asyncio.create_task(engine.open())
    try:
        await asyncio.shield(opening)
    except asyncio.CancelledError:
        await asyncio.wait([opening])
        raise


async def _show(
    console: Console, settings: Settings, engine: MemoryEngine, scripts: dict[Language, Script]
) -> list[Result]:
    with progress_bar() as progress:
        sessions = sum(len(script.conversations) for script in scripts.values())
        bar = progress.add_task(t("Learning the conversations", "正在学习对话"), total=sessions)
        by_adk, (by_graph, pid) = await _learn_and_ask(
            settings, engine, scripts, lambda: progress.advance(bar)
        )
    found = []
    for language, script in scripts.items():
        pages.show_learned(console, script, await _learned(engine, script))
        results = await _results(engine, script, by_adk[language], by_graph[language])
        pages.show_results(console, results, pid)
        found += results
    return found


async def _learn_and_ask(
    settings: Settings,
    engine: MemoryEngine,
    scripts: dict[Language, Script],
    learned: Callable[[], None],
) -> tuple[dict[Language, Keys], tuple[dict[Language, Keys], int]]:
    """Return the keys found through ADK, and through LangGraph in another process."""
    from adk_memory import OpenMemoryService

    service = OpenMemoryService(engine=engine)
    for script in scripts.values():
        await learn(service, APP, script, learned)
    reading = asyncio.create_task(_ask_graph(settings, list(scripts)))
    try:
        by_adk: dict[Language, Keys] = {
            language: await ask(service, APP, script) for language, script in scripts.items()
        }
        return by_adk, await reading
    finally:
        reading.cancel()


def to_session(app: str, script: Script, conversation: ScriptedSession) -> Session:
    """Return a conversation as the session that an ADK runner leaves."""
    from google.adk.sessions.session import Session

    return Session(
        id=conversation.session_id,
        app_name=app,
        user_id=script.user,
        events=[_to_event(turn, script.agent) for turn in conversation.turns],
    )


async def learn(
    service: OpenMemoryService, app: str, script: Script, learned: Callable[[], None] = lambda: None
) -> None:
    """Add every session of a script to the memory, in order. learned: called after each."""
    for conversation in script.conversations:
        await service.add_session_to_memory(to_session(app, script, conversation))
        learned()


async def ask(service: OpenMemoryService, app: str, script: Script) -> list[Sequence[str]]:
    """Return the ids that search_memory finds for each question, best first."""
    found: list[Sequence[str]] = []
    for question in script.questions:
        answer = await service.search_memory(app_name=app, user_id=script.user, query=question.ask)
        found.append([memory.id or "" for memory in answer.memories])
    return found


def _to_event(turn: ScriptedTurn, agent: str) -> Event:
    from google.adk.events.event import Event
    from google.genai import types

    by_user = turn.speaker == "user"
    return Event(
        id=turn.event_id,
        author="user" if by_user else agent,
        invocation_id=turn.event_id,
        timestamp=turn.said_at.timestamp(),
        content=types.Content(
            role="user" if by_user else "model", parts=[types.Part(text=turn.text)]
        ),
    )


async def _ask_graph(
    settings: Settings, languages: Sequence[Language]
) -> tuple[dict[Language, Keys], int]:
    """Return the keys that the reader process finds, and its pid."""
    # The uri goes through the environment: the command line of a process is public.
    where = {"HIPPOCAMPUS_URI": settings.uri, "HIPPOCAMPUS_SCHEMA": settings.db_schema}
    reader = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "shared_core.cli.demo.reader", APP, *languages,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=os.environ | where,
    )  # fmt: skip
    try:
        output, errors = await reader.communicate()
    except asyncio.CancelledError:
        reader.terminate()
        await reader.wait()
        raise
    if reader.returncode != 0:
        last = errors.decode(errors="replace").strip().splitlines()[-1:]
        raise StorageUnavailable(
            t(
                f"the process that reads through LangGraph failed: {last}",
                f"通过 LangGraph 读取的进程失败了：{last}",
            )
        )
    return cast("dict[Language, Keys]", json.loads(output)), reader.pid


async def _learned(engine: MemoryEngine, script: Script) -> Learned:
    scope = Scope(APP, script.user)
    turns, summaries = [
        cast("Sequence[Item]", items)
        for items in await engine.run_item_ops(
            [
                FindItems(prefix=memories_namespace(scope), filter={"kind": kind}, limit=EVERYTHING)
                for kind in ("episodic", "summary")
            ]
        )
    ]
    return Learned(
        turns=len(turns),
        facts=await engine.facts(scope, history=True),
        summaries={str(item.value["thread_id"]): str(item.value["content"]) for item in summaries},
    )


async def _results(
    engine: MemoryEngine, script: Script, by_adk: Keys, by_graph: Keys
) -> list[Result]:
    """Return both answers to each question, with the scores of the core's recall."""
    scope = Scope(APP, script.user)
    results = []
    for question, adk_keys, graph_keys in zip(script.questions, by_adk, by_graph, strict=True):
        hits = await engine.recall(scope, question.ask, limit=EVERYTHING)
        known: dict[str, Hit] = {hit.memory.key: hit for hit in hits}
        results.append(
            Result(
                question=question,
                adk=[known[key] for key in adk_keys],
                langgraph=[known[key] for key in graph_keys],
            )
        )
    return results
