"""Runs the demo: learn both conversations through ADK, then ask through both frameworks."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast
from urllib.parse import quote

from rich.console import Console

from shared_core.cli.demo import pages
from shared_core.cli.demo.pages import Learned, Result
from shared_core.cli.demo.script import Language, Script, load_script
from shared_core.core.domain import Hit, Scope
from shared_core.core.namespaces import memories_namespace
from shared_core.engine import MemoryEngine
from shared_core.errors import CapabilityMissing, StorageUnavailable
from shared_core.ingest.items import FindItems
from shared_core.open import open_memory
from shared_core.ports.items import Item
from shared_core.settings import Settings, load_settings

APP = "hippocampus-demo"
EVERYTHING = 1000
"""More memories than a demo conversation leaves behind."""

Keys = Sequence[Sequence[str]]
"""For each question the keys of the memories found, best first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tour:
    """What to show and where. uri and keep False: in a temporary folder, removed at the end.

    engine: of the database in that folder, "postgres" or "seekdb".
    """

    languages: Sequence[Language]
    uri: str | None = None
    schema: str | None = None
    keep: bool = False
    engine: str = "postgres"

    async def run(self, console: Console) -> list[Result]:
        """Run the demo, print it, and return what was found.

        Raises CapabilityMissing without both frameworks.
        """
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
        """Return the uri of a memory of one's own on the engine, None where it is the default."""
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
    """Raise CapabilityMissing, with the way out, unless both frameworks are installed."""
    for module, package in (("google.adk", "google-adk"), ("langgraph.graph", "langgraph")):
        try:
            found = importlib.util.find_spec(module) is not None
        except ModuleNotFoundError:  # the package above it is missing
            found = False
        if not found:
            raise CapabilityMissing(
                f"the demo needs both frameworks, and {package} is not installed:"
                " pip install 'pg-hippocampus[all]'"
            )


async def _open(engine: MemoryEngine) -> None:
    """Open the engine; Ctrl-C waits for it, or the folder would go under a server that starts."""
    opening = asyncio.create_task(engine.open())
    try:
        await asyncio.shield(opening)
    except asyncio.CancelledError:
        await asyncio.wait([opening])
        raise


async def _show(
    console: Console, settings: Settings, engine: MemoryEngine, scripts: dict[Language, Script]
) -> list[Result]:
    with console.status("learning the conversations ..."):
        by_adk, (by_graph, pid) = await _learn_and_ask(settings, engine, scripts)
    found = []
    for language, script in scripts.items():
        pages.show_learned(console, script, await _learned(engine, script))
        results = await _results(engine, script, by_adk[language], by_graph[language])
        pages.show_results(console, results, pid)
        found += results
    return found


async def _learn_and_ask(
    settings: Settings, engine: MemoryEngine, scripts: dict[Language, Script]
) -> tuple[dict[Language, Keys], tuple[dict[Language, Keys], int]]:
    """Return the keys found through ADK, and those found by another process through LangGraph."""
    # Imported here: ADK is an extra, and takes a second.
    from adk_memory import OpenMemoryService
    from shared_core.cli.demo import learner

    service = OpenMemoryService(engine=engine)
    for script in scripts.values():
        await learner.learn(service, APP, script)
    reading = asyncio.create_task(_ask_graph(settings, list(scripts)))
    try:
        by_adk: dict[Language, Keys] = {
            language: await learner.ask(service, APP, script)
            for language, script in scripts.items()
        }
        return by_adk, await reading
    finally:
        reading.cancel()


async def _ask_graph(
    settings: Settings, languages: Sequence[Language]
) -> tuple[dict[Language, Keys], int]:
    """Return what the reader found in a process of its own, and the pid of that process."""
    # The uri goes through the environment: the command line of a process is public.
    where = {"HIPPOCAMPUS_URI": settings.uri, "HIPPOCAMPUS_SCHEMA": settings.db_schema}
    reader = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "shared_core.cli.demo.reader", APP, *languages,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=os.environ | where,
    )  # fmt: skip
    try:
        output, complaints = await reader.communicate()
    except asyncio.CancelledError:
        reader.terminate()
        await reader.wait()
        raise
    if reader.returncode != 0:
        last = complaints.decode(errors="replace").strip().splitlines()[-1:]
        raise StorageUnavailable(f"the process that reads through LangGraph failed: {last}")
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
    """Return both answers to each question with the parts of their scores, by the core's recall."""
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
