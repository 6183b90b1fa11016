"""A support desk on LangGraph: one thread a ticket, one memory a customer, one database for both.

python desk.py T-1001 "The steam wand of my Aurelia leaks"
"""

from __future__ import annotations

import os
import sys

from langchain.chat_models import init_chat_model
from langchain_core.messages import HumanMessage, SystemMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.store.base import BaseStore

from langgraph_store import (
    OfflineChatModel,
    PgHippocampusStore,
    create_reflection_node,
    memories_namespace,
)
from shared_core import run_sync

APP, CUSTOMER = "support", "ben"
TICKETS = (APP, CUSTOMER, "tickets")
WEEK = 7 * 24 * 60
MODEL = (
    init_chat_model("google_genai:gemini-3.5-flash")
    if os.environ.get("GOOGLE_API_KEY")
    else OfflineChatModel()
)


def answer(state: MessagesState, config: RunnableConfig, *, store: BaseStore) -> MessagesState:
    """Answer with the memories of the customer, and note the ticket for a week."""
    message = state["messages"][-1].text
    found = store.search(memories_namespace(APP, CUSTOMER), query=message, limit=5)
    known = "\n".join(f"- {item.value['content']}" for item in found)
    prompt = SystemMessage(f"You are the support desk. You remember of the customer:\n{known}")
    store.put(TICKETS, config["configurable"]["thread_id"], {"last": message}, ttl=WEEK)
    return {"messages": [MODEL.invoke([prompt, *state["messages"]])]}


def main(ticket: str, message: str) -> None:
    """Answer one message of a ticket, and show the tickets of the week."""
    with PgHippocampusStore() as store:
        with PostgresSaver.from_conn_string(run_sync(store.engine.dsn())) as checkpoints:
            checkpoints.setup()
            builder = StateGraph(MessagesState)
            builder.add_node("answer", answer)
            builder.add_node("remember", create_reflection_node(store, app=APP, user_id=CUSTOMER))
            builder.add_edge(START, "answer")
            builder.add_edge("answer", "remember")
            graph = builder.compile(store=store, checkpointer=checkpoints)
            state = graph.invoke(
                {"messages": [HumanMessage(message)]}, {"configurable": {"thread_id": ticket}}
            )
        print(f"desk > {state['messages'][-1].text}")
        for item in reversed(store.search(TICKETS)):
            print(f"  {item.key}: {item.value['last']}")
        store.flush()  # a server leaves this to its worker


if __name__ == "__main__":
    main(*sys.argv[1:3])
