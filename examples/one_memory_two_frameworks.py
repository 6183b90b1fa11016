"""An ADK agent and a LangGraph agent, in two processes, answer from one memory.

    pip install 'pg-hippocampus[all]'
    python examples/one_memory_two_frameworks.py [URI]

Without URI the memory is HIPPOCAMPUS_URI, or a private PostgreSQL that both processes share.
"""

from __future__ import annotations

import asyncio
import os
import sys

import adk_agent
import langgraph_agent

from adk_memory import OpenMemoryService
from langgraph_store import PgHippocampusStore

LANGGRAPH_SIDE = "--langgraph-side"


async def adk_side(uri: str | None) -> None:
    """Learn a fact, run the other process, and answer from the fact that it learned."""
    async with OpenMemoryService(uri) as memory:
        runner = adk_agent.make_runner(memory)
        print(f"--- Google ADK, process {os.getpid()}, learns")
        await adk_agent.talk(runner, "I'm allergic to shellfish.")

        # The uri goes through the environment: the command line of a process is public.
        here = {"HIPPOCAMPUS_URI": uri} if uri else {}
        sys.stdout.flush()
        other = await asyncio.create_subprocess_exec(
            sys.executable, __file__, LANGGRAPH_SIDE, env=os.environ | here
        )
        if await other.wait() != 0:
            sys.exit("the LangGraph side failed")

        print(f"--- Google ADK, process {os.getpid()}, knows that too")
        await adk_agent.talk(runner, "Where am I flying in May?")


def langgraph_side() -> None:
    """Answer from the fact that ADK learned, and learn another."""
    with PgHippocampusStore() as store:
        graph = langgraph_agent.make_graph(store)
        print(f"--- LangGraph, process {os.getpid()}, knows it, and learns something else")
        langgraph_agent.talk(graph, "thread", "Which food am I allergic to?")
        langgraph_agent.talk(graph, "thread", "I'm flying to Kyoto in May.")


if __name__ == "__main__":
    if LANGGRAPH_SIDE in sys.argv:
        langgraph_side()
    else:
        asyncio.run(adk_side(sys.argv[1] if len(sys.argv) > 1 else None))
