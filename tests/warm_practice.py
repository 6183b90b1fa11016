"""What programs of the documentation do, done once in the process that warm_python.py forks.

A fork then finds modules that a first use imports, schemas that it builds, rules that it compiles.
"""

import asyncio
import importlib
import os
import shlex
from contextlib import suppress

from typer.testing import CliRunner

from shared_core.cli.main import app
from shared_core.core import event_loops
from shared_core.models.embedders import UseEmbedder

TALK = (
    "I live in Leeds, and my sister Jo is vegan.", "我对花生过敏，女儿叫灿灿。", "Where do I live?",
)  # fmt: skip
COMMANDS = (
    "remember practice ana 'Ana plays the cello.'",
    "recall practice ana 'Which instrument?' --explain", "facts practice ana --history",
    "graph practice ana user", "timeline practice ana 2026 --by month",
    "context practice ana monday 'Where do I live?'", "profile practice ana", "runs practice ana",
    "export practice", "policy", "forget practice ana --about Leeds", "erase practice ana --yes",
)  # fmt: skip
MODULES = (
    "google.adk.cli.cli_tools_click", "google.adk.cli.fast_api", "langmem", "shared_core.client",
    "shared_core.http.app", "uvicorn",
)  # fmt: skip


def practise_all(dsn: str) -> None:
    """Do it on an empty database. What needs a package that is not installed is left out."""
    os.environ["HIPPOCAMPUS_URI"] = dsn
    for practise in (_import, _load_use, _talk_to_adk, _talk_to_langchain, _type_commands):
        with suppress(ModuleNotFoundError):
            practise()
    _end_threads()


def _import() -> None:
    for name in MODULES:
        with suppress(ModuleNotFoundError):
            importlib.import_module(name)


def _load_use() -> None:
    """Load the other bundled model: a fork that embeds with it spends a second on that."""
    UseEmbedder()._loaded()


def _talk_to_adk() -> None:
    from google.adk.agents import LlmAgent
    from google.adk.apps import App
    from google.adk.runners import InMemoryRunner

    from adk_memory import MemoryPlugin, OfflineModel

    async def talk() -> None:
        memory = MemoryPlugin()
        agent = LlmAgent(name="assistant", model=OfflineModel())
        async with InMemoryRunner(
            app=App(name="practice", root_agent=agent, plugins=[memory])
        ) as runner:
            for text in TALK:
                await runner.run_debug(text, user_id="ana", quiet=True)
                await memory.flush()

    asyncio.run(talk())


def _talk_to_langchain() -> None:
    from langchain.agents import create_agent

    from langgraph_store import HippocampusMiddleware, OfflineChatModel, PgHippocampusStore

    with PgHippocampusStore() as store:
        memory = HippocampusMiddleware(store, app="practice", user_id="ana", thread_id="monday")
        agent = create_agent(OfflineChatModel(), middleware=[memory], store=store)
        for text in TALK:
            agent.invoke({"messages": [("user", text)]})
        store.flush()


def _type_commands() -> None:
    for command in COMMANDS:
        CliRunner().invoke(app, shlex.split(command))
    CliRunner().invoke(app, ["extract"], input="\n".join(TALK))


def _end_threads() -> None:
    """End the loop of the memories: a fork has no threads of its parent, and starts its own."""
    bridge = event_loops._bridge
    if bridge._loop is not None and bridge._thread is not None:
        bridge._loop.call_soon_threadsafe(bridge._loop.stop)
        bridge._thread.join()
