"""An app that stores every turn by itself, and gives its model tools for the memory."""

from google.adk.agents import LlmAgent
from google.adk.apps import App

from adk_memory import MemoryPlugin, OfflineModel, forget, recall, remember

root_agent = LlmAgent(
    name="assistant",
    model=OfflineModel(),
    instruction="Answer in one sentence, from your memory of the user where it helps.",
    tools=[remember, recall, forget],
)
app = App(name="assistant_with_plugin", root_agent=root_agent, plugins=[MemoryPlugin()])
