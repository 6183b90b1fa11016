"""A LangGraph agent with long-term memory, and checkpoints in the same PostgreSQL.

    pip install 'pg-hippocampus[langgraph]'
    python examples/langgraph_agent.py [URI]

The store keeps the memories of a user across threads. The checkpointer keeps the messages of one
thread. Without URI both use HIPPOCAMPUS_URI, or a private PostgreSQL that starts by itself.
LangGraph has no checkpointer for SeekDB and OceanBase: there the messages end with this process,
and the memories stay.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

from langchain_core.messages import HumanMessage, SystemMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.store.base import BaseStore
from offline_models import model_for_langgraph

from langgraph_store import PgHippocampusStore, memories_namespace
from shared_core import run_sync

APP = "example_assistant"
USER = "ana@example.com"
MODEL = model_for_langgraph()


def answer(state: MessagesState, config: RunnableConfig, *, store: BaseStore) -> MessagesState:
    """Answer with the user's memories in the prompt, then store the user's message."""
    message = state["messages"][-1].text
    namespace = memories_namespace(APP, config["configurable"]["user_id"])
    found = store.search(namespace, query=message, limit=5)
    lines = "\n".join(f"- {item.value['content']}" for item in found)
    system = SystemMessage(f"Answer in one sentence. You remember of the user:\n{lines}")
    reply = MODEL.invoke([system, *state["messages"]])
    store.put(namespace, str(uuid4()), {"kind": "note", "content": message})
    return {"messages": [reply]}


def make_graph(
    store: BaseStore, checkpointer: BaseCheckpointSaver[str] | None = None
) -> CompiledStateGraph[MessagesState]:
    """Return the agent as a compiled graph."""
    builder = StateGraph(MessagesState)
    builder.add_node("answer", answer)
    builder.add_edge(START, "answer")
    builder.add_edge("answer", END)
    return builder.compile(store=store, checkpointer=checkpointer)


def talk(graph: CompiledStateGraph[MessagesState], thread_id: str, message: str) -> str:
    """Send one message to a thread; return the answer."""
    config: RunnableConfig = {"configurable": {"thread_id": thread_id, "user_id": USER}}
    state = graph.invoke({"messages": [HumanMessage(message)]}, config)
    reply = str(state["messages"][-1].text)
    print(f"user:      {message}\nassistant: {reply}")
    return reply


@contextmanager
def checkpoints_beside(store: PgHippocampusStore) -> Iterator[BaseCheckpointSaver[str]]:
    """Yield a checkpointer in the store's database, or in this process if there is none for it."""
    dsn = run_sync(store.engine.dsn())
    if dsn.startswith(("seekdb://", "oceanbase://")):
        yield InMemorySaver()
        return
    with PostgresSaver.from_conn_string(dsn) as saver:
        saver.setup()
        yield saver


def main(uri: str | None) -> None:
    """State a fact in one thread, and ask about it in another."""
    with PgHippocampusStore(uri) as store, checkpoints_beside(store) as checkpointer:
        graph = make_graph(store, checkpointer)
        monday, tuesday = str(uuid4()), str(uuid4())
        print("--- one thread states a fact")
        talk(graph, monday, "I play the cello in a quartet.")
        print("--- another thread knows it")
        talk(graph, tuesday, "Which instrument do I play?")
        kept = graph.get_state({"configurable": {"thread_id": monday}}).values["messages"]
        print(f"--- the checkpointer still has the first thread: {len(kept)} messages")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
