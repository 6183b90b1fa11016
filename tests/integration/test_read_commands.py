"""`hippocampus timeline` and `hippocampus context`, and recall_when as a tool of a model."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from commands import run, succeed
from turns import said

from langgraph_store import PgHippocampusStore, memory_tools
from shared_core import Scope, open_memory, run_sync
from shared_core.nlp.tokenizer import count_tokens
from tests.integration.test_adk_tools import Caller

pytestmark = pytest.mark.both_engines

WHO = ("support", "ann")
TALK = {1: "I planted tulips.", 2: "Mia came for dinner.", 40: "We sold the [bold]car[/bold]."}


@pytest.fixture
def told(dsn):
    """The DSN of a memory of three turns: of yesterday, of two and of forty days ago."""
    now = datetime.now(UTC)

    turns = [
        said(f"e{days}", text, now - timedelta(days=days), author="ann")
        for days, text in TALK.items()
    ]
    memory = open_memory(dsn, worker=False)
    run_sync(memory.append_events(Scope(*WHO), "t", turns))
    run_sync(memory.consolidate(Scope(*WHO), "t"))
    run_sync(memory.close())
    return dsn


def test_the_timeline_shows_a_time_a_model_looks_it_up_and_the_context_is_told(told, tmp_path):
    at = ("--uri", told, "--kind", "episodic")
    shown = succeed("timeline", *WHO, "last 3 days", *at)
    assert shown.index("tulips") < shown.index("Mia") and "car" not in shown
    assert "[bold]car[/bold]" in succeed("timeline", *WHO, "--end", "last month", *at) + succeed(
        "timeline", *WHO, *at
    )
    counted = succeed("timeline", *WHO, "last 7 days", "--by", "day", "--limit", "1", *at)
    assert 2 == counted.count("█" * 40) and "Mia" not in counted
    asked = ("--query", "flowers", "--json", "--by", "year")
    found = json.loads(succeed("timeline", *WHO, *asked, *at))
    assert 3 == len(found["memories"]) == sum(one["count"] for one in found["buckets"])
    assert "score" in found["memories"][0]
    assert "No memories are stored" in succeed("timeline", *WHO, "in 1999", *at)
    ran = run("timeline", *WHO, "whenever", "--uri", told)
    assert 1 == ran.exit_code
    [line] = ran.stderr.splitlines()
    assert line.startswith("Error: when 'whenever' names no time") and "last Tuesday" in line
    system = tmp_path / "system.txt"
    system.write_text("Be kind.", "utf-8")
    asked = ("context", *WHO, "t", "Who came for dinner?", "--system", str(system), "--uri", told)
    prompt = succeed(*asked).removesuffix("\n")
    assert prompt.startswith("Be kind.") and prompt.endswith("</query>")
    window = json.loads(succeed(*asked, "--json"))
    assert (prompt, count_tokens(prompt)) == (window["prompt"], window["tokens"])
    table = succeed(*asked, "--explain")
    assert f"{window['tokens']} of 8,000 tokens" in table
    assert "duplicate of h" in table and "[bold]" in table and "session t" in table
    assert {"system", "history", "query"} <= {item["section"] for item in window["items"]}
    ran = run(*asked, "--max-tokens", "10")
    assert 1 == ran.exit_code and "at least 64" in ran.stderr
    with PgHippocampusStore(told) as store:
        *_, recall_when = memory_tools(store, app=WHO[0], user_id=WHO[1], with_time=True)
        assert ("recall_when", {"when", "about"}) == (recall_when.name, set(recall_when.args))
        found = recall_when.invoke({"when": "last 3 days"})
        texts = {one["text"] for one in found["memories"]}
        assert {"I planted tulips.", "Mia came for dinner."} <= texts
        assert found["from"] < found["to"]
        best = recall_when.invoke({"when": "last 3 days", "about": "Who came for dinner?"})
        assert "Mia" in best["memories"][0]["text"]
        assert "names no time" in recall_when.invoke({"when": "whenever"})["error"]
        assert "empty" in recall_when.invoke({"when": " "})["error"]


async def test_a_model_looks_up_a_time_in_adk(told):
    from google.adk.agents import LlmAgent
    from google.adk.apps import App
    from google.adk.memory import InMemoryMemoryService
    from google.adk.runners import Runner
    from google.adk.sessions import InMemorySessionService
    from google.genai import types

    from adk_memory import OpenMemoryService, recall_when

    async def call(service: object, text: str) -> dict[str, object]:
        agent = LlmAgent(name="bot", model=Caller(model="m"), tools=[recall_when])
        runner = Runner(
            app=App(name=WHO[0], root_agent=agent), session_service=InMemorySessionService(),
            memory_service=service, auto_create_session=True,  # type: ignore[arg-type]
        )  # fmt: skip
        run = runner.run_async(user_id=WHO[1], session_id="s", new_message=types.UserContent(text))
        [answer] = [r.response async for event in run for r in event.get_function_responses()]
        assert answer is not None
        return answer

    async with OpenMemoryService(told) as service:
        found = await call(service, "recall_when when=last 3 days")
        assert "Mia came for dinner." in str(found["memories"])
        assert "car" not in str(found["memories"])
        assert "names no time" in str(await call(service, "recall_when when=whenever"))
    told = await call(InMemoryMemoryService(), "recall_when when=today")
    assert "cannot recall_when" in str(told)
    assert "no memory service" in str(await call(None, "recall_when when=today"))


def test_the_timeline_is_told_in_the_zone_and_says_which(dsn):
    at = datetime(2026, 11, 17, 2, 30, tzinfo=UTC)
    turn = said("e", "Tulips.", at, author="ann")

    memory = open_memory(dsn, worker=False)
    run_sync(memory.append_events(Scope(*WHO), "t", [turn]))
    run_sync(memory.close())
    for zone, clock, hour in (("Asia/Shanghai", "00:00", "10:30"), ("UTC", "00:00", "02:30")):
        shown = succeed("timeline", *WHO, "2026-11-17", "--zone", zone, "--by", "day", "--uri", dsn)
        head = f"2026-11-17 {clock} to 2026-11-18 {clock} ({zone})"
        assert shown.startswith(head) and f"2026-11-17 {hour}" in shown
        assert "2026-11-16" not in shown
    assert "this machine's time)" in succeed("timeline", *WHO, "2026-11-17", "--uri", dsn)
