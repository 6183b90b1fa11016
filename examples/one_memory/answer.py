"""The agent that answers: a LangGraph graph on the same memory, in another process.

python answer.py "Which food am I allergic to?"
"""

from __future__ import annotations

import sys
from uuid import uuid4

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.store.base import BaseStore

from langgraph_store import PgHippocampusStore, memories_namespace

ANA = memories_namespace("travel", "ana")
"""What both frameworks remember of this user of this application."""


def answer(state: MessagesState, *, store: BaseStore) -> MessagesState:
    """Answer a question with the best memory; note anything else."""
    message = state["messages"][-1].text
    if not message.endswith(("?", "？")):
        store.put(ANA, str(uuid4()), {"content": message})
        return {"messages": [AIMessage("OK")]}
    found = store.search(ANA, query=message, limit=1)
    return {"messages": [AIMessage(found[0].value["content"] if found else "?")]}


def main(message: str) -> None:
    """Answer one message."""
    with PgHippocampusStore() as store:
        builder = StateGraph(MessagesState).add_node("answer", answer).add_edge(START, "answer")
        state = builder.compile(store=store).invoke({"messages": [HumanMessage(message)]})
        print(f"graph > {state['messages'][-1].text}")


if __name__ == "__main__":
    main(sys.argv[1])
