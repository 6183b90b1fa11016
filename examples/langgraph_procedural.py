"""A LangGraph agent that improves its own prompt, and rolls an improvement back.

    pip install 'pg-hippocampus[langgraph]'
    python examples/langgraph_procedural.py [URI]

The prompt is an item of the store, read and written by plain get and put. It is in the namespace of
instructions, so every put makes a new version and keeps the earlier ones. A user's rule about
answers becomes a new version. Without URI the memory is HIPPOCAMPUS_URI, or a private PostgreSQL
that starts by itself.
"""

from __future__ import annotations

import sys

from langchain_core.messages import HumanMessage, SystemMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.store.base import BaseStore
from offline_models import model_for_langgraph

from langgraph_store import (
    PgHippocampusStore,
    instruction_history,
    instructions_namespace,
    rollback_instruction,
)

APP = "example_procedural"
EVERYONE = "everyone"
"""The user that owns the instructions for all users of the application."""
PROMPTS = instructions_namespace(APP, EVERYONE)
KEY = "system_prompt"
FIRST = "You are an assistant. Answer in one sentence. Follow these rules:\n"
MODEL = model_for_langgraph()


def prompt(store: BaseStore) -> str:
    """Return the current prompt."""
    item = store.get(PROMPTS, KEY)
    return str(item.value["content"]) if item else FIRST


def answer(state: MessagesState, *, store: BaseStore) -> MessagesState:
    """Answer under the newest prompt."""
    return {"messages": [MODEL.invoke([SystemMessage(prompt(store)), *state["messages"]])]}


def improve(state: MessagesState, *, store: BaseStore) -> dict[str, str]:
    """Add the user's demand on all answers to the prompt, as its first rule."""
    message = str(state["messages"][0].text)
    if message.startswith(("Always", "Never")):
        head, rules = prompt(store).split("\n", 1)
        store.put(PROMPTS, KEY, {"content": f"{head}\n- {message}\n{rules}"})
    return {}


def make_graph(store: BaseStore) -> CompiledStateGraph[MessagesState]:
    """Return an agent with the newest version of an instruction as its prompt."""
    builder = StateGraph(MessagesState)
    builder.add_node("answer", answer)
    builder.add_node("improve", improve)
    builder.add_edge(START, "answer")
    builder.add_edge("answer", "improve")
    builder.add_edge("improve", END)
    return builder.compile(store=store)


def talk(graph: CompiledStateGraph[MessagesState], message: str) -> None:
    """Send one message and print the answer."""
    state = graph.invoke({"messages": [HumanMessage(message)]})
    print(f"user:      {message}\nassistant: {state['messages'][-1].text}")


def main(uri: str | None) -> None:
    """Teach the agent two rules, and roll the second back."""
    with PgHippocampusStore(uri) as store:
        graph = make_graph(store)
        talk(graph, "Always greet in Portuguese.")
        talk(graph, "Which rule counts first?")
        talk(graph, "Never use any punctuation.")
        talk(graph, "Which rule counts now?")
        print("--- the second rule is rolled back")
        rollback_instruction(store, APP, EVERYONE, KEY)
        talk(graph, "And which rule counts in the end?")
        print("--- every version is still there, newest first")
        for instruction in instruction_history(store, APP, EVERYONE, KEY, limit=3):
            rules = str(instruction.value["content"]).splitlines()[1:]
            print(f"version {instruction.version}: {len(rules)} rules, first {rules[0]!r}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
