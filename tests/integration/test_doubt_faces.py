"""Each face shows which facts are doubtful, and why facts are held."""

import json
from collections.abc import Sequence

import pytest
from commands import run
from http_clients import client_of
from person import Person

import langgraph_store
from adk_memory import OpenMemoryService
from shared_core import open_memory, run_sync
from shared_core.mcp.access import ServedUsers
from shared_core.mcp.tools import MemoryTools
from tests.integration.doubting import ANN, PATTERN, Clock, Doubting, at

pytestmark = pytest.mark.both_engines

EN, ZH = "User lives in Boston. (perhaps no longer)", "用户喜欢爵士乐。（可能已不再如此）"
SAID = ("I live in Boston.", "我喜欢爵士乐。", "I might leave Boston.", "我可能要离开爵士乐。")


async def fill(dsn: str) -> None:
    clock = Clock()
    async with open_memory(dsn, clock=clock, worker=False, extractor=Doubting()) as engine:
        for day, text in enumerate(SAID, 1):
            await Person(engine, ANN, clock=clock).say(day, text, author="ann")


@pytest.fixture
async def memory(dsn):
    """A memory of one doubtful fact in English and one in Chinese."""
    await fill(dsn)
    async with open_memory(dsn, worker=False) as engine:
        yield engine


def ask(dsn: str, verb: str, *arguments: str) -> str:
    ran = run(verb, ANN.app, ANN.user, *arguments, "--uri", dsn, env={"COLUMNS": "200"})
    assert 0 == ran.exit_code, ran.output
    return ran.stdout


def test_the_command_marks_doubtful_facts_and_says_why(dsn):
    run_sync(fill(dsn))
    table = ask(dsn, "facts")
    assert "Boston (perhaps no longer)" in table and "爵士乐（可能已不再如此）" in table
    shown = {one["value"]: one for one in json.loads(ask(dsn, "facts", "--json"))}
    assert (True, at(3).isoformat()) == (
        shown["Boston"]["is_doubtful"], shown["Boston"]["doubted_at"])  # fmt: skip
    assert "why" not in shown["Boston"]
    told = ask(dsn, "facts", "--why")
    for part in (EN, ZH, "stated by rules", f"doubted by rules-v5 · {PATTERN} · run ",
                 *(f"“{text}”" for text in SAID), "session t · event e3"):  # fmt: skip
        assert part in told, told
    why = {one["value"]: one["why"] for one in json.loads(ask(dsn, "facts", "--why", "--json"))}
    assert "我可能要离开爵士乐。" == why["爵士乐"]["doubted"]["turns"][0]["text"]
    assert why["爵士乐"]["ended"] is None
    assert EN in ask(dsn, "recall", "Where does Ann live?")
    assert EN in ask(dsn, "recall", "Where does Ann live?", "--explain")
    hits = [json.loads(line) for line in ask(dsn, "recall", "Boston", "--json").splitlines()]
    assert [at(3).isoformat()] == [hit["doubted_at"] for hit in hits if hit["kind"] == "semantic"
                                   and "Boston" in hit["text"]]  # fmt: skip
    assert ZH in ask(dsn, "timeline", "--kind", "semantic")
    assert EN in ask(dsn, "context", "other", "Where do I live?")
    assert "uncertain" in ask(dsn, "context", "other", "Where do I live?", "--explain")
    state = ask(dsn, "state", "residence", "Boston")
    assert "(perhaps no longer)" not in state and state.startswith("User lives in Boston. (since ")
    assert "Boston (perhaps no longer)" not in ask(dsn, "facts")


async def test_http_marks_doubtful_facts_and_says_why(memory):
    async with client_of(memory) as client:
        who = {"user_id": ANN.user, "app": ANN.app}
        found = await client.post("/recall", json={**who, "query": "Where does Ann live?"})
        assert 200 == found.status_code, found.text
        marked = {hit["text"]: hit["doubted_at"] for hit in found.json()["hits"]}
        assert at(3).isoformat() == marked["User lives in Boston."]
        assert marked["I live in Boston."] is None
        listed = (await client.get(f"/facts/{ANN.user}", params={"app": ANN.app})).json()
        assert [True, True] == [fact["is_doubtful"] for fact in listed["facts"]]
        assert all("why" not in fact for fact in listed["facts"])
        params = {"app": ANN.app, "slot": "residence", "why": "true", "history": "true"}
        [fact] = (await client.get(f"/facts/{ANN.user}", params=params)).json()["facts"]
        assert ("I might leave Boston.", PATTERN) == (
            fact["why"]["doubted"]["turns"][0]["text"], fact["why"]["doubted"]["pattern"]
        )  # fmt: skip
        asked = {**who, "thread_id": "other", "query": "Where do I live?"}
        window = await client.post("/context", json=asked)
        assert EN in window.json()["prompt"] and ZH in window.json()["prompt"]
        answer = await client.post("/process", json={**who, "input": "Where do I live?"})
        assert EN in [one["content"] for one in answer.json()["memories"]]


async def test_mcp_adk_langgraph_and_the_block_before_an_answer_mark_doubtful_facts(memory):
    from langchain.agents import create_agent
    from langchain_core.messages import AIMessage, HumanMessage
    from scripted_chat import ScriptedChatModel

    served = MemoryTools(memory, ServedUsers(ANN.app, ANN.user))
    found = {one.content: one.uncertain for one in (await served.recall("Boston 爵士乐")).memories}
    assert (True, True, False) == (found[EN], found[ZH], found["I live in Boston."])
    service, who = OpenMemoryService(engine=memory), {"app_name": ANN.app, "user_id": ANN.user}
    found = await service.search_memory(**who, query="Where does Ann live? 爵士乐")
    listed = await service.list_memories(**who, memory_type="semantic")
    for entries in (found.memories, listed):
        marked = {
            one.content.parts[0].text: one.custom_metadata["hippocampus"].get("doubted_at")
            for one in entries
            if one.content.parts
        }
        assert (at(3).isoformat(), at(4).isoformat()) == (marked[EN], marked[ZH])
        assert all(moment is None for text, moment in marked.items() if text not in (EN, ZH))
    store = langgraph_store.PgHippocampusStore(engine=memory)
    namespace = langgraph_store.memories_namespace(ANN.app, ANN.user)
    found = await store.asearch(namespace, query="Where does Ann live?", limit=20)
    marked = {one.value["content"]: one.value["metadata"].get("doubted_at") for one in found
              if one.value["kind"] == "semantic"}  # fmt: skip
    assert at(3).isoformat() == marked["User lives in Boston."]
    config = {"configurable": {"user_id": ANN.user, "thread_id": "other"}}
    tools = langgraph_store.memory_tools(store, app=ANN.app)
    [recall] = [one for one in tools if one.name == "recall"]
    told = await recall.ainvoke({"query": "Where does Ann live?"}, config)
    assert EN in [one["text"] for one in told["memories"]]
    timed = langgraph_store.memory_tools(store, app=ANN.app, with_time=True)
    [recall_when] = [one for one in timed if one.name == "recall_when"]
    told = await recall_when.ainvoke({"when": "2026-03-02"}, config)
    assert EN in [one["text"] for one in told["memories"]], told
    model = ScriptedChatModel(answers=[AIMessage("In Boston, maybe.")])
    middleware = langgraph_store.HippocampusMiddleware(store, app=ANN.app)
    agent = create_agent(model, middleware=[middleware])
    await agent.ainvoke({"messages": [HumanMessage("Where do I live?")]}, config)
    texts: Sequence[str] = [str(message.text) for message in model.asked[0]]
    assert any(EN in text for text in texts), texts
