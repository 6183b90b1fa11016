"""The LangGraph side of the demo: a graph in its own process that answers from the store.

python -m shared_core.cli.demo.reader APP LANGUAGE...    (with HIPPOCAMPUS_URI and _SCHEMA)

Prints one JSON document: the keys found for each question of each language, best first.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TypedDict, cast

from langgraph.graph import END, START, StateGraph
from langgraph.store.base import BaseStore

from langgraph_store import PgHippocampusStore, memories_namespace
from shared_core.cli.demo.script import Language, load_script


class Lookup(TypedDict, total=False):
    """The state of the graph: the user, the question and the keys found."""

    app: str
    user: str
    question: str
    keys: list[str]


def look_up(state: Lookup, *, store: BaseStore) -> Lookup:
    """Find the memories of the user that answer the question."""
    namespace = memories_namespace(state["app"], state["user"])
    found = store.search(namespace, query=state["question"])
    return {"keys": [item.key for item in found]}


def answers(
    store: BaseStore, app: str, languages: Sequence[Language]
) -> dict[str, list[list[str]]]:
    """Return the keys found for each question of each language."""
    builder = StateGraph(Lookup)
    builder.add_node("look_up", look_up)
    builder.add_edge(START, "look_up")
    builder.add_edge("look_up", END)
    graph = builder.compile(store=store)
    found: dict[str, list[list[str]]] = {}
    for language in languages:
        script = load_script(language)
        found[language] = [
            graph.invoke({"app": app, "user": script.user, "question": question.ask})["keys"]
            for question in script.questions
        ]
    return found


def main(arguments: Sequence[str]) -> None:
    """Print the keys found for the questions of each language as JSON."""
    app, *languages = arguments
    with PgHippocampusStore() as store:
        json.dump(answers(store, app, cast("list[Language]", languages)), sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1:])
