"""A personal assistant on Google ADK. Each run is one session, in a process of its own.

python assistant.py "We moved to Lisbon last week!" "Which city do I live in now?"
"""

from __future__ import annotations

import asyncio
import os
import sys

from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.runners import Runner
from google.genai import types

from adk_memory import MemoryPlugin, OfflineModel, OpenMemoryService, PgSessionService

AGENT = LlmAgent(
    name="assistant",
    model="gemini-3.5-flash" if os.environ.get("GOOGLE_API_KEY") else OfflineModel(),
    instruction="Answer in one sentence. Use your memory of the user where it helps.",
)
APP = App(name="my_assistant", root_agent=AGENT, plugins=[MemoryPlugin()])
USER = "ana"


async def main(messages: list[str]) -> None:
    """Hold one session. The plugin recalls before each answer, and stores each turn after it."""
    async with OpenMemoryService() as memory:
        sessions = PgSessionService(engine=memory.engine)  # the sessions stay, too
        runner = Runner(app=APP, session_service=sessions, memory_service=memory)
        session = await sessions.create_session(app_name=APP.name, user_id=USER)
        for message in messages:
            print(f"{USER} > {message}")
            async for event in runner.run_async(
                user_id=USER, session_id=session.id, new_message=types.UserContent(message)
            ):
                if event.is_final_response() and event.content and event.content.parts:
                    print(f"{event.author} > {event.content.parts[0].text}")
        await memory.flush()  # facts are drawn in the background: wait for them before the end
        await runner.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
