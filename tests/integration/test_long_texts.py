"""No text that users wrote keeps the event loop busy: what reads long ones runs in a thread."""

import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from http_clients import client_of
from long_forms import LONG

import shared_core
from adk_memory import OpenMemoryService
from langgraph_store import PgHippocampusStore, memory_tools
from shared_core import Event

READERS = ("nlp/", "privacy/", "extraction/", "context/packing", "context/candidates",
           "context/composition", "context/window", "core/delimiters")  # fmt: skip
"""Where texts are read. Most of it takes 1 to 20 µs of the processor for a character."""
BRIEF = {"is_question", "may_follow", "resolve_query", "tells_change"}
"""Readers that look at the length, the beginning or the end alone."""
MOST = 20_000
"""Characters that these may be given on the loop: about 5 ms, where they use few regular
expressions."""
LENGTH = 25_000
KINDS = (
    "<|a 《 the quick brown fox. 我喜欢北京，12 😀\n",
    "<",
    "＜",
    "《",
    "我喜欢北京，",
    "x",
    ".\n",
    "12",
    "😀",
)


class LoopWatch:
    """Notes the readers that are given a long text on the thread of the event loop."""

    def __init__(self):
        self.found = set()
        self._place = str(Path(shared_core.__file__).parent)

    def __enter__(self):
        sys.setprofile(self._look)  # of this thread alone
        return self

    def __exit__(self, *_):
        sys.setprofile(None)

    def _look(self, frame, event, _):
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(self._place):
            return
        if code.co_filename[len(self._place) + 1 :].startswith(READERS):
            given = [frame.f_locals.get(name) for name in code.co_varnames[: code.co_argcount]]
            if any(isinstance(one, str) and len(one) > MOST for one in given):
                self.found.update({code.co_qualname} - BRIEF)


@pytest.mark.parametrize("kind", KINDS if LONG else KINDS[:1])
async def test_no_call_reads_a_long_text_on_the_event_loop(kind, shared_memory, scope):
    memory, at = shared_memory, {"app": scope.app, "user_id": scope.user}
    text = (f"I like tea. {kind * LENGTH}")[:LENGTH]
    turns = [
        Event(event_id=f"{n}", author="user", role="user", text=f"{n} {text}"[:LENGTH],
              occurred_at=datetime(2026, 1, n, tzinfo=UTC))
        for n in (1, 2)
    ]  # fmt: skip
    ask = {**at, "query": "Which tea do I like?"}
    store = PgHippocampusStore(engine=memory)
    [recall] = [one for one in memory_tools(store, app=scope.app, user_id=scope.user)
                if one.name == "recall"]  # fmt: skip
    service = OpenMemoryService(engine=memory)
    async with client_of(memory) as client:
        calls = {
            "append_events": lambda: memory.append_events(scope, "t", turns),
            "/remember": lambda: client.post("/remember", json={**at, "memories": [text]}),
            "/recall": lambda: client.post("/recall", json=ask),
            "/search": lambda: client.post("/search", json=ask),
            "/context": lambda: client.post("/context", json={**ask, "thread_id": "t",
                "system_prompt": "Help.", "instructions": [text], "profile": text}),
            "/process": lambda: client.post("/process", json={**at, "input": text}),
            "/debug": lambda: client.post("/debug", json={**at, "input": text}),
            "/memories": lambda: client.get("/memories", params=at),
            "/timeline": lambda: client.get(f"/timeline/{scope.user}", params={"app": scope.app}),
            "search_memory": lambda: service.search_memory(
                app_name=scope.app, user_id=scope.user, query="tea"),
            "tool": lambda: recall.ainvoke({"query": "tea"}),
        }  # fmt: skip
        found = {}
        for name, call in calls.items():
            with LoopWatch() as watch:
                answer = await call()
            assert getattr(answer, "status_code", 200) == 200, (name, answer.text)
            found[name] = sorted(watch.found)
    assert {} == {name: readers for name, readers in found.items() if readers}
