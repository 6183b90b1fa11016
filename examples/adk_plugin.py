"""A Google ADK app that remembers by itself: one plugin, and three tools for the model.

    pip install 'pg-hippocampus[all]'
    python examples/adk_plugin.py [URI]

Without URI the memory is HIPPOCAMPUS_URI, or a private PostgreSQL that starts by itself.
"""

from __future__ import annotations

import asyncio
import sys

from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai import types
from offline_models import model_for_adk

from adk_memory import MemoryPlugin, OpenMemoryService, forget, recall, remember

APP = "example_assistant"
USER = "ben@example.com"


def make_runner(memory: OpenMemoryService) -> Runner:
    """Return a runner of an app that stores every settled turn."""
    agent = LlmAgent(
        name="assistant",
        model=model_for_adk(),
        instruction="Answer in one sentence, from your memory of the user where it helps.",
        tools=[remember, recall, forget],
    )
    return Runner(
        app=App(name=APP, root_agent=agent, plugins=[MemoryPlugin()]),
        session_service=InMemorySessionService(),
        memory_service=memory,
    )


async def talk(runner: Runner, *messages: str) -> None:
    """Hold one session; the plugin adds it to the memory."""
    session = await runner.session_service.create_session(app_name=APP, user_id=USER)
    for message in messages:
        print(f"user:      {message}")
        async for event in runner.run_async(
            user_id=USER, session_id=session.id, new_message=types.UserContent(message)
        ):
            for call in event.get_function_calls():
                print(f"  calls {call.name}({', '.join(map(repr, (call.args or {}).values()))})")
            if event.is_final_response() and event.content and event.content.parts:
                print(f"assistant: {event.content.parts[0].text}")


async def main(uri: str | None) -> None:
    """State facts in one session, and ask about them in the next."""
    async with OpenMemoryService(uri) as memory:
        runner = make_runner(memory)
        print("--- Monday: a session states facts")
        await talk(
            runner,
            "I keep bees on my roof.",
            "Please remember: my favourite honey is lavender honey.",
        )
        await memory.flush()
        print("--- Tuesday: a new session knows it")
        await talk(runner, "Where do I keep bees?", "Which honey is my favourite?")
        await runner.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else None))
