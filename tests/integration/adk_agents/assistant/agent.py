"""An agent that reads its memory through ADK's preload_memory.

PATCH /apps/assistant/users/USER/memory adds a session to the memory. With
`--extra_plugins adk_memory.MemoryPlugin` every turn is stored without that call.
"""

from google.adk.agents import LlmAgent
from google.adk.tools.preload_memory_tool import preload_memory_tool

from adk_memory import OfflineModel

root_agent = LlmAgent(
    name="assistant",
    model=OfflineModel(),
    instruction="Answer in one sentence, from your memory of the user where it helps.",
    tools=[preload_memory_tool],
)
