"""The agent that listens: Google ADK remembers what it is told.

python learn.py "I'm allergic to shellfish"
"""

from __future__ import annotations

import asyncio
import os
import sys

from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.runners import InMemoryRunner

from adk_memory import MemoryPlugin, OfflineModel

AGENT = LlmAgent(
    name="listener",
    model="gemini-3.5-flash" if os.environ.get("GOOGLE_API_KEY") else OfflineModel(),
    instruction="Answer in one sentence. Use your memory of the user where it helps.",
)
MEMORY = MemoryPlugin()
APP = App(name="travel", root_agent=AGENT, plugins=[MEMORY])


async def main(messages: list[str]) -> None:
    """Say each message; the plugin stores it for the user of the application."""
    async with InMemoryRunner(app=APP) as runner:
        await runner.run_debug(messages, user_id="ana")
        await MEMORY.flush()  # a server leaves this to its worker


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
