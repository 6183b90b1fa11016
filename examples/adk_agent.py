"""A Google ADK agent that remembers across sessions.

    pip install 'pg-hippocampus[all]'
    python examples/adk_agent.py [URI]

Without URI the memory is HIPPOCAMPUS_URI, or a private PostgreSQL that starts by itself.
"""

from __future__ import annotations

import asyncio
import sys

from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools.load_memory_tool import load_memory_tool
from google.adk.tools.preload_memory_tool import preload_memory_tool
from google.genai import types
from offline_models import model_for_adk

from adk_memory import OpenMemoryService

APP = "example_assistant"
USER = "ana@example.com"


def make_runner(memory: OpenMemoryService) -> Runner:
    """Return a runner of an agent that reads memories about the user's message before it answers.

    preload_memory shows these memories. With load_memory the model can search for others.
    """
    agent = LlmAgent(
        name="assistant",
        model=model_for_adk(),
        instruction="Answer in one sentence, from your memory of the user where it helps.",
        tools=[preload_memory_tool, load_memory_tool],
    )
    return Runner(
        app=App(name=APP, root_agent=agent),
        session_service=InMemorySessionService(),
        memory_service=memory,
    )


async def talk(runner: Runner, *messages: str) -> list[str]:
    """Hold one session, then add it to the memory; return the answers."""
    session = await runner.session_service.create_session(app_name=APP, user_id=USER)
    answers = []
    for message in messages:
        content = types.Content(role="user", parts=[types.Part(text=message)])
        async for event in runner.run_async(
            user_id=USER, session_id=session.id, new_message=content
        ):
            if event.is_final_response() and event.content and event.content.parts:
                answers.append(event.content.parts[0].text or "")
                print(f"user:      {message}\nassistant: {answers[-1]}")
    finished = await runner.session_service.get_session(
        app_name=APP, user_id=USER, session_id=session.id
    )
    assert finished and runner.memory_service
    await runner.memory_service.add_session_to_memory(finished)
    return answers


async def main(uri: str | None) -> None:
    """State facts in one session, and ask about them in the next."""
    async with OpenMemoryService(uri) as memory:
        runner = make_runner(memory)
        print("--- Monday: a session states facts")
        await talk(runner, "I'm allergic to peanuts.", "I moved to Lisbon last week.")
        print("--- Tuesday: a new session knows it")
        await talk(runner, "Which food am I allergic to?")
        await talk(runner, "Which city do I live in?")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else None))
