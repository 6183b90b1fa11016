"""Compares session logs on one PostgreSQL: ours, ADK's DatabaseSessionService, and plain SQL.

    python -m benchmarks.sessions [--events 500] [--json]

Appends events one after another to one session, loads the session, and hands turns to the queue, as
an agent does during a turn. All contenders use the same server and alternate every ten events. The
SQL is one prepared INSERT of the same JSON into a plain table.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import psycopg
from google.adk.events.event import Event
from google.adk.sessions import BaseSessionService, DatabaseSessionService, Session
from google.genai import types
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy.ext.asyncio import create_async_engine

from adk_memory import OpenMemoryService, PgSessionService
from shared_core import open_memory

APP, USER = "bench", "ann"
TURN = "I moved to Lisbon last week, and the tram to the office takes twenty minutes. " * 2


def event(number: int) -> Event:
    content = types.Content(role="user", parts=[types.Part(text=f"{number}: {TURN}")])
    return Event(author="user", invocation_id="i", content=content)


async def timed(call: Coroutine[Any, Any, object]) -> float:
    """Await a call; return its milliseconds."""
    begun = time.perf_counter()
    await call
    return 1000 * (time.perf_counter() - begun)


async def measure(events: int) -> dict[str, float]:
    """Return medians in milliseconds, and ratios."""
    with tempfile.TemporaryDirectory() as folder:
        async with open_memory(Path(folder)) as memory:
            ours = PgSessionService(engine=memory)
            database = create_async_engine(
                "postgresql+psycopg://", connect_args=conninfo_to_dict(await memory.dsn())
            )
            peer = DatabaseSessionService(db_engine=database)
            services: dict[str, BaseSessionService] = {"ours": ours, "adk": peer}
            sessions = {
                name: await service.create_session(app_name=APP, user_id=USER)
                for name, service in services.items()
            }
            sql = await psycopg.AsyncConnection.connect(await memory.dsn(), autocommit=True)
            await sql.execute("CREATE TABLE public.log (session text, seq serial, event json)")
            appended = await _append(services, sessions, sql, events)
            loaded = {
                name: [await timed(_load(service, sessions[name].id)) for _ in range(20)]
                for name, service in services.items()
            }
            queued = await _remember(OpenMemoryService(engine=memory, wait=False))
            await sql.close()
            await database.dispose()
    figures = {f"append_{name}_ms": statistics.median(times) for name, times in appended.items()}
    figures |= {f"load_{name}_ms": statistics.median(times) for name, times in loaded.items()}
    figures["append_ours_to_sql"] = figures["append_ours_ms"] / figures["append_sql_ms"]
    figures["append_ours_to_adk"] = figures["append_ours_ms"] / figures["append_adk_ms"]
    figures["load_ours_to_adk"] = figures["load_ours_ms"] / figures["load_adk_ms"]
    figures["remember_queued_ms"] = statistics.median(queued)
    return {name: round(figure, 3) for name, figure in figures.items()}


async def _load(service: BaseSessionService, session_id: str) -> None:
    await service.get_session(app_name=APP, user_id=USER, session_id=session_id)


async def _append(
    services: dict[str, BaseSessionService],
    sessions: dict[str, Session],
    sql: psycopg.AsyncConnection[tuple[object, ...]],
    events: int,
) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in (*services, "sql")}
    insert = "INSERT INTO public.log (session, event) VALUES (%s, %s::json)"
    for first in range(0, events, 10):
        for name, service in services.items():
            for number in range(first, first + 10):
                append = service.append_event(sessions[name], event(number))
                times[name].append(await timed(append))
        for number in range(first, first + 10):
            written = event(number).model_dump_json(exclude_none=True)
            times["sql"].append(await timed(sql.execute(insert, ["s", written], prepare=True)))
    return times


async def _remember(service: OpenMemoryService) -> list[float]:
    """Return the milliseconds of handing the two events of each turn to the queue."""
    times = []
    for number in range(100):
        turn = [event(2 * number), event(2 * number + 1)]
        hand_over = service.add_events_to_memory(
            app_name=APP, user_id=USER, events=turn, session_id="queued"
        )
        times.append(await timed(hand_over))
        await service.flush()
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description="Session logs side by side.")
    parser.add_argument("--events", type=int, default=500)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    figures = asyncio.run(measure(arguments.events))
    if arguments.json:
        print(json.dumps(figures))
        return
    for name, figure in figures.items():
        print(f"{name:24} {figure:8.3f}")


if __name__ == "__main__":
    main()
