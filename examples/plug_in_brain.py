"""A plug-in brain: one call before each answer, without session handling.

    pip install 'pg-hippocampus[all]'
    python examples/plug_in_brain.py [URI]

A name passed to process_memory is known in the next conversation, and to agents of Google ADK and
LangGraph. Without URI the memory is HIPPOCAMPUS_URI, or a private PostgreSQL that starts by itself.
"""

from __future__ import annotations

import asyncio
import sys

import adk_agent
import langgraph_agent

from adk_memory import OpenMemoryService
from langgraph_store import PgHippocampusStore
from shared_core import MemoryEngine

APP, USER = adk_agent.APP, adk_agent.USER


async def say(memory: MemoryEngine, text: str) -> None:
    """Process one message of the user, and print the memories and relations for it."""
    answer = await memory.process_memory(text, USER, app=APP)
    print(f"user:      {text}\nresolved:  {answer['resolved_query']}")
    for one in answer["memories"]:
        print(f"  knows {one['content']!r}, score {one['score']}")
    for edge in answer["relations"]:
        print(f"  knows {edge['source']} -[{edge['relation']}]-> {edge['target']}")


async def main(uri: str | None) -> None:
    """State names, and ask for them later, through three interfaces to one memory."""
    async with OpenMemoryService(uri) as service:
        memory = service.engine
        print("--- Monday: the user gives a name")
        for text in ("My name is Ana.", "My daughter is called Mia.", "How old is she?"):
            await say(memory, text)
        ended = await memory.end_session(USER, app=APP)
        print(f"--- {ended['message']}")
        await memory.flush()  # otherwise consolidation runs in the background

        print("--- Tuesday: a new session knows it")
        await say(memory, "What is my name?")
        await say(memory, "What is my daughter called?")
        print("--- Google ADK knows it")
        await adk_agent.talk(adk_agent.make_runner(service), "What is my name?")
        print("--- LangGraph knows it")
        store = PgHippocampusStore(engine=memory)
        graph = langgraph_agent.make_graph(store)
        await asyncio.to_thread(langgraph_agent.talk, graph, "thread", "What is my name?")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else None))
