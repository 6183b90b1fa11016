"""Measures how long the reflection node takes to hand a turn to the queue.

    python -m benchmarks.reflection [--turns 500] [--json]

Threads grow to 50 turns, each a question and an answer. The node gets all messages of the thread,
as in a graph. "sync" and "async" are the turns after the first. "sql" is one prepared INSERT of
both texts into a plain table, the cost of a commit on this disk. The three alternate thread by
thread. "first" is the first turn of each of 20 threads. "again" is a new node, as after a restart,
that asks which of 200 messages are new. "busy" runs beside a worker that embeds and consolidates.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import psycopg
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langgraph_store import PgHippocampusStore, create_reflection_node
from langgraph_store.reflection import ReflectionNode
from shared_core import open_memory, run_sync

THREAD = 50
REPEATS, HISTORY = 20, 100
"""Threads with a first turn, and new nodes; turns of the thread that a new node is given."""
QUESTION = "Which tram takes me from the station to the office when it rains on a Monday morning?"
ANSWER = "Take the 28 to the river and walk up the hill; it runs every ten minutes until nine."


def config(thread_id: str) -> Any:
    return {"configurable": {"thread_id": thread_id, "user_id": "ann"}}


def turn(number: int) -> list[BaseMessage]:
    question = HumanMessage(f"{number}: {QUESTION}", id=f"q{number}")
    return [question, AIMessage(f"{number}: {ANSWER}", id=f"a{number}")]


def handed_over(node: ReflectionNode, thread_id: str, turns: int) -> list[float]:
    """Hand over the turns of a growing thread; return the milliseconds of each."""
    messages: list[BaseMessage] = []
    times = []
    for number in range(turns):
        messages += turn(number)
        begun = time.perf_counter()
        node.invoke({"messages": messages}, config(thread_id))
        times.append(1000 * (time.perf_counter() - begun))
    return times


async def handed_over_async(node: ReflectionNode, thread_id: str, turns: int) -> list[float]:
    """Do as handed_over() in async code."""
    messages: list[BaseMessage] = []
    times = []
    for number in range(turns):
        messages += turn(number)
        begun = time.perf_counter()
        await node.ainvoke({"messages": messages}, config(thread_id))
        times.append(1000 * (time.perf_counter() - begun))
    return times


def by_hand(connection: psycopg.Connection[Any], turns: int) -> list[float]:
    """Insert both texts of every turn; return the milliseconds of each turn."""
    times = []
    insert = "INSERT INTO public.said (question, answer) VALUES (%s, %s)"
    for number in range(turns):
        texts = [str(message.text) for message in turn(number)]
        begun = time.perf_counter()
        connection.execute(insert, texts, prepare=True)
        times.append(1000 * (time.perf_counter() - begun))
    return times


def measure(turns: int) -> dict[str, float]:
    """Return medians and 95th percentiles in milliseconds, over at least 50 turns."""
    turns = max(turns, THREAD)
    with tempfile.TemporaryDirectory() as folder:
        quiet = open_memory(Path(folder), worker=False)
        store = PgHippocampusStore(engine=quiet)
        node = create_reflection_node(store, app="bench", delay_s=3600)
        sql = psycopg.connect(run_sync(quiet.dsn()), autocommit=True)
        sql.execute("CREATE TABLE public.said (id bigserial, question text, answer text)")
        handed_over(node, "warm-up", THREAD)
        times: dict[str, list[float]] = {"sync": [], "async": [], "sql": []}
        for number in range(turns // THREAD):
            times["sync"] += handed_over(node, f"sync-{number}", THREAD)[1:]
            growing = handed_over_async(node, f"async-{number}", THREAD)
            times["async"] += asyncio.run(growing)[1:]
            times["sql"] += by_hand(sql, THREAD)
        sql.close()
        times["first"] = [handed_over(node, f"thread-{n}", 1)[0] for n in range(REPEATS)]
        history = [message for number in range(HISTORY) for message in turn(number)]
        handed_over(node, "long", HISTORY)
        times["again"] = []
        for _ in range(REPEATS):
            fresh = create_reflection_node(store, app="bench", delay_s=3600)
            begun = time.perf_counter()
            fresh.invoke({"messages": history}, config("long"))
            times["again"].append(1000 * (time.perf_counter() - begun))
        with PgHippocampusStore(Path(folder)) as working:
            busy = create_reflection_node(working, app="bench")
            times["busy"] = handed_over(busy, "busy", THREAD)
            run_sync(working.engine.flush())
        run_sync(quiet.close())
    figures = {}
    for name, values in times.items():
        figures[f"{name}_p50_ms"] = round(statistics.median(values), 3)
        figures[f"{name}_p95_ms"] = round(statistics.quantiles(values, n=20)[-1], 3)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description="The cost of the reflection node in a turn.")
    parser.add_argument("--turns", type=int, default=500)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    figures = measure(arguments.turns)
    if arguments.json:
        print(json.dumps(figures))
        return
    for name, figure in figures.items():
        print(f"{name:16} {figure:8.3f}")


if __name__ == "__main__":
    main()
