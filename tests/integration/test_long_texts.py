"""No text that users wrote keeps the event loop busy: what reads long ones runs in a thread."""

import sys
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from http_clients import client_of
from long_forms import LONG

import shared_core
from adk_memory import OpenMemoryService
from langgraph_store import PgHippocampusStore, memory_tools
from shared_core import Event

ROOMS = ("nlp", "privacy", "extraction", "context", "core/delimiters.py")
READERS = tuple(f"{Path(shared_core.__file__).parent}/{room}" for room in ROOMS)
"""Where texts are read. Most of it takes 1 to 20 µs of the processor for a character."""
BRIEF = {"_profile", "context_window", "is_question", "may_follow", "only_asks", "resolve_query",
         "tells_change"}  # fmt: skip
"""Those that look at the length, the beginning or the end alone, or hand a text on."""
MOST, LENGTH = 20_000, 25_000
"""Characters that a reader may be given on the loop, and those of a text."""
KINDS = (
    "<|a 《 the quick fox. 我喜欢北京，12 😀\n", "<", "＜", "《", "我喜欢北京，", "x", ".\n",
    "12", "😀",
)  # fmt: skip


@contextmanager
def readers_on_the_loop():
    """Yield the names of the readers that are given a long text on this thread."""
    found = set()

    def look(frame, event, _):
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(READERS):
            given = [frame.f_locals.get(name) for name in code.co_varnames[: code.co_argcount]]
            if any(isinstance(one, str) and len(one) > MOST for one in given):
                found.update({code.co_qualname} - BRIEF)

    sys.setprofile(look)
    try:
        yield found
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize("kind", KINDS if LONG else KINDS[:1])
async def test_no_call_reads_a_long_text_on_the_event_loop(kind, shared_memory, scope):
    memory, at = shared_memory, {"app": scope.app, "user_id": scope.user}
    text = (f"I like tea. {kind * LENGTH}")[:LENGTH]
    given = {"author": "user", "role": "user", "occurred_at": datetime.now(UTC)}
    turns = [Event(event_id=n, text=f"{n} {text}", **given) for n in "ab"]
    ask, store = {**at, "query": "Which tea do I like?"}, PgHippocampusStore(engine=memory)
    window = {"thread_id": "t", "system_prompt": "Help.", "instructions": [text], "profile": text}
    _, tool, *_ = memory_tools(store, app=scope.app, user_id=scope.user)
    searched = {"app_name": scope.app, "user_id": scope.user, "query": "tea"}
    found = {}
    async with client_of(memory) as client:
        for name, call in {
            "append_events": lambda: memory.append_events(scope, "t", turns),
            "/remember": lambda: client.post("/remember", json={**at, "memories": [text]}),
            "/recall": lambda: client.post("/recall", json=ask),
            "/search": lambda: client.post("/search", json=ask),
            "/context": lambda: client.post("/context", json=ask | window),
            "/process": lambda: client.post("/process", json={**at, "input": text}),
            "/debug": lambda: client.post("/debug", json={**at, "input": text}),
            "/memories": lambda: client.get("/memories", params=at),
            "/timeline": lambda: client.get(f"/timeline/{scope.user}", params={"app": scope.app}),
            "search_memory": lambda: OpenMemoryService(engine=memory).search_memory(**searched),
            "tool": lambda: tool.ainvoke({"query": "tea"}),
        }.items():
            with readers_on_the_loop() as readers:
                answer = await call()
            assert getattr(answer, "status_code", 200) == 200, (name, answer.text)
            found |= {name: sorted(readers)} if readers else {}
    assert {} == found
