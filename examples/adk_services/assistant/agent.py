"""An agent that is shown its memory by ADK's preload_memory.

It is remembered when the session is added to the memory (PATCH /apps/assistant/users/USER/memory),
or by itself with `--extra_plugins adk_memory.MemoryPlugin`.
"""

from google.adk.agents import LlmAgent
from google.adk.tools.preload_memory_tool import preload_memory_tool
from offline_model import EchoesMemory

root_agent = LlmAgent(
    name="assistant",
    model=EchoesMemory(model="echoes-memory"),
    instruction="Answer in one sentence, from your memory of the user where it helps.",
    tools=[preload_memory_tool],
)
