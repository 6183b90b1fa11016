"""The memory of one agent, the store, commands and servers on a real SeekDB, as users meet them."""

import asyncio
import itertools
import json
import math
import os
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pylibseekdb
import pymysql
import pytest
from long_forms import LONG
from mcp.client import Client
from numpy.typing import NDArray
from toy_models import Letters, ToyModel
from turns import said
from typer.testing import CliRunner

import shared_core as core
from shared_core.cli.main import app
from shared_core.errors import StorageReadOnly
from shared_core.mcp import server as mcp_server
from shared_core.ports.retention import Accesses, NewAccesses
from shared_core.settings import Settings
from shared_core.storage.oceanbase.connection import migrate
from shared_core.storage.oceanbase.connection.database import OceanBaseDatabase

ANA, ZHU = core.Scope("app", "ana"), core.Scope("app", "朱莉")


@pytest.fixture(scope="module")
def uri(seekdb):
    """A database of all these tests: each is an agent or a user of its own."""
    yield from seekdb.lend()


@pytest.fixture
async def memory(uri):
    """The memory of an agent whom no other test knows."""
    async with core.OceanBaseMemoryProvider(uri, agent_id=uuid4().hex, worker=False) as memory:
        yield memory


def told(hits: object) -> list[str]:
    return [hit.memory.text for hit in hits]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "question", "said"),
    [("Alice", "What is the user's name?", "My name is Alice."),
     ("朱莉", "用户叫什么名字？", "我叫朱莉。")],
)  # fmt: skip
async def test_a_name_that_was_told_is_used_later(memory, name, question, said):
    assert isinstance(memory, core.MemoryManager)
    await memory.append_event("monday", said)
    assert (await memory.consolidate("monday")).facts_opened == 1
    window = await memory.context("friday", question, system_prompt="Be kind.", max_tokens=500)
    assert name in window.to_prompt()
    assert name in told(await memory.recall(question))[0]


async def test_an_event_is_there_in_the_next_statement(memory):
    missed = 0
    for number in range(100 if LONG else 30):
        await memory.append_event("s", f"The code of room {number} is {number * 7919}.")
        hits = await memory.recall(f"code of room {number}", limit=3)
        missed += not any(f"room {number} " in text for text in told(hits))
    assert missed == 0


async def test_an_event_is_appended_once_and_thoughts_and_tools_are_events_as_well(memory):
    again = [memory.append_event("s", "I like tea.", event_id="e1") for _ in range(5)]
    assert set(await asyncio.gather(*again)) == {"e1"}
    assert told(await memory.recall("tea")) == ["I like tea."]
    await memory.append_event("s", "The user seems to be in a hurry.", event_type="agent_thought")
    await memory.append_event("s", {"tool": "weather", "city": "Oslo"}, event_type="tool_call")
    call = {"text": "It rains in Oslo.", "tool": "weather", "millimetres": 3.5}
    await memory.append_event("s", call, event_type="agent_msg")
    [hit, *_] = [hit for hit in await memory.recall("rain in Oslo") if "rains" in hit.memory.text]
    assert hit.memory.text == "It rains in Oslo."
    assert hit.memory.value["metadata"] == {"event_type": "agent_msg", "content": call}


HOSTILE = ("'; DROP TABLE memories; --", '+"(*', "%s %(x)s 100%", "\\", "u1' OR '1'='1", "🙂")


async def test_no_text_is_read_as_a_statement(memory):
    await memory.append_event("s", "I like tea.")
    for text in HOSTILE:
        await memory.append_event(f"s {text}", f"My code is {text} today.", event_id=f"e {text}")
        found = told(await memory.recall(f"code {text}", limit=8))
        assert f"My code is {text} today." in found
        await memory.consolidate(f"s {text}")
        assert told(await memory.recall("tea", limit=1)) == ["I like tea."]


LOOK_ALIKE = (
    "alice", "Alicé", "Alice ", "ALICE", "u1' OR '1'='1", "alice\u00a0", "ａｌｉｃｅ",
    "alice\u200b", "alice\u0301", "🙂", "👩\u200d👧", "ali/ce", "ali%2Fce", "ali_ce", "ali%",
    "a\\", "ﬁ", "fi", "*",
)  # fmt: skip


async def test_agents_whose_names_look_alike_share_nothing(memory, uri):
    agents = [core.OceanBaseMemoryProvider(uri, agent_id=name).scope for name in LOOK_ALIKE]
    assert agents == [core.Scope("agents", name) for name in LOOK_ALIKE]
    for number, agent in enumerate(agents):
        turn = said("e", f"The secret number is {number}.")
        await memory.engine.append_events(agent, "s", [turn])
    for number, agent in enumerate(agents):
        found = told(await memory.engine.recall(agent, "secret number"))
        assert found == [f"The secret number is {number}."]


async def test_a_session_that_could_never_be_consolidated_is_refused_at_once(memory):
    with pytest.raises(
        core.InvalidInput, match="session, is too long: it takes at most 1,492 bytes"
    ):
        await memory.append_event("s" * 1493, "My name is Ann.")
    await memory.append_event("s" * 1492, "My name is Ann.")
    assert (await memory.consolidate("s" * 1492)).facts_opened == 1


class Odd(ToyModel):
    """An embedder whose vectors hold what no distance can be told of."""

    model = "odd"

    def __init__(self, value: float) -> None:
        self._value = value

    async def embed_passages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.full((len(texts), 8), self._value, dtype=np.float32)


async def test_a_vector_that_is_none_is_refused_and_one_without_direction_finds_words(seekdb_dsn):
    provider = partial(core.OceanBaseMemoryProvider, seekdb_dsn, agent_id="a", worker=False)
    for value in (math.nan, math.inf, -math.inf):
        async with provider(embedder=Odd(value)) as memory:
            with pytest.raises(core.MemoryCoreError):
                await memory.append_event("s", "I like tea.")
            assert await memory.engine.list_memories(memory.scope) == []
    async with provider(embedder=Odd(0.0)) as memory:
        await memory.append_event("s", "I like tea.")
        await memory.append_event("s", "It rains.")
        assert told(await memory.recall("tea", limit=1)) == ["I like tea."]


async def test_a_store_of_its_own_name_takes_an_oceanbase(uri):
    from langgraph_store import OceanBaseHippocampusStore

    async with OceanBaseHippocampusStore(uri) as store:
        await store.aput(("app", "朱莉", "memories"), "k1", {"text": "She plays the cello."})
        found = await store.asearch(("app", "朱莉", "memories"), query="cello")
        assert any("cello" in str(item.value) for item in found)
    with pytest.raises(core.InvalidInput, match="OceanBase, not in 'embedded'"):
        OceanBaseHippocampusStore()


async def test_what_is_important_is_found_among_much_that_is_not(memory):
    some = [core.NewMemory(text=f"Tea number {n} is nice.", importance=2.0) for n in range(200)]
    some += [core.NewMemory(text="The user once drank some tea.", importance=n) for n in (3.0, 5.7)]
    await memory.engine.remember(memory.scope, some)
    for least, count in ((0.0, 5), (0.3, 2), (0.57, 1), (0.58, 0)):
        hits = await memory.recall("Tea number 7", min_importance=least)
        assert len(hits) == count and all(hit.memory.importance >= 10 * least for hit in hits)


NOWHERE = "seekdb:///nowhere"
BAD_OPTIONS: list[tuple[dict[str, Any], str]] = [
    *(({"agent_id": name}, r"^agent_id ") for name in ("", "  ", None, 5, "a\0b")),
    *(({"app": name}, r"^app ") for name in ("", "  ", None, 5, "a\0b")),
    ({"later": "yes"}, "later must be True or False, got 'yes'"),
    ({"strategy": "x"}, "strategy must be an ExtractionStrategy, got 'x'"),
    ({"uri": "postgresql://localhost/x"}, "needs OceanBase"),
]


def test_an_option_that_cannot_be_is_named_and_a_variable_may_say_where_it_is(monkeypatch):
    for options, why in BAD_OPTIONS:
        with pytest.raises(core.InvalidInput, match=why):
            core.OceanBaseMemoryProvider(**{"uri": NOWHERE, "agent_id": "a", **options})
    monkeypatch.setenv("HIPPOCAMPUS_URI", "postgresql://localhost/x")
    with pytest.raises(core.InvalidInput, match="got 'postgresql://localhost/x'"):
        core.OceanBaseMemoryProvider(agent_id="a")
    monkeypatch.setenv("HIPPOCAMPUS_URI", NOWHERE)
    assert core.OceanBaseMemoryProvider(agent_id="a").scope == core.Scope("agents", "a")
    monkeypatch.delenv("HIPPOCAMPUS_URI")
    with pytest.raises(core.InvalidInput, match="uri or HIPPOCAMPUS_URI must be"):
        core.OceanBaseMemoryProvider(agent_id="a")


BAD_ARGUMENTS: dict[str, tuple[object, ...]] = {
    "content": ("", " ", {}, None, 5, b"x", ["x"], {"a": object()}, {1: 2}, {"x": math.nan}),
    "session_id": ("", None, 5, "a\0"), "event_id": ("", 5, "a\0"),
    "min_importance": (math.nan, -1, 2, 7, None, "0.5", True),
    "limit": (-1, 1.5, None, "5", 100_001),
}  # fmt: skip


async def test_errors_name_the_argument_that_was_given(memory):
    given: Any
    calls: dict[str, list[Callable[[Any], Any]]] = {
        "content": [lambda given: memory.append_event("s", given)],
        "session_id": [
            lambda given: memory.append_event(given, "x"),
            lambda given: memory.context(given, "x"),
            lambda given: memory.consolidate(given),
        ],
        "event_id": [lambda given: memory.append_event("s", "x", event_id=given)],
        "min_importance": [lambda given: memory.recall("x", min_importance=given)],
        "limit": [lambda given: memory.recall("x", limit=given, min_importance=0.5)],
    }
    for name, values in BAD_ARGUMENTS.items():
        for given, call in itertools.product(values, calls[name]):
            shown = rf".* got {given!r}$" if name == "limit" else ""
            with pytest.raises(core.InvalidInput, match=f"^{name} {shown}"):
                await call(given)
    assert await memory.recall("x", limit=100_000, min_importance=0.5) == []
    with pytest.raises(core.InvalidInput, match="event_type 'shout'"):
        await memory.append_event("s", "x", event_type="shout")


async def test_a_session_that_ended_is_consolidated_by_the_worker(seekdb_dsn):
    options: Any = {
        "agent_id": "a", "later": True, "strategy": core.ExtractionStrategy(delay_s=10_000),
    }  # fmt: skip
    async with core.OceanBaseMemoryProvider(seekdb_dsn, **options) as memory:
        await memory.append_event("s", "My name is Ann.")
        assert told(await memory.recall("name")) == ["My name is Ann."]
        assert [] == await memory.engine.facts(memory.scope)
        await memory.end_session("s")
        assert await memory.engine.flush(60)
        assert ["Ann"] == [fact.value for fact in await memory.engine.facts(memory.scope)]
        await memory.end_session("s")
        await memory.end_session("never begun")


async def test_another_model_takes_over(seekdb_dsn):
    texts = [f"Ana has seen {name}." for name in ("a zebra", "a quail", "an ox", "a lynx")]
    async with core.open_memory(seekdb_dsn, worker=False) as memory:
        await memory.remember(ANA, texts)
        report = await memory.reembed(Letters())
        assert (4, 0, 0) == (report.embedded, report.left, report.dropped)
    async with core.open_memory(seekdb_dsn, embedder=Letters(), worker=False) as memory:
        [hit, *_] = await memory.search(ANA, "zebra zebra")
        assert texts[0] == hit.memory.text
        await memory.remember(ANA, "Ana has seen an emu.")
        report = await memory.reembed(Letters(), drop_old=True)
        assert (0, 0, 4) == (report.embedded, report.left, report.dropped)
        with pytest.raises(core.EmbeddingMismatch, match="26 dimensions here before"):
            await memory.reembed(Letters(20))
    with pytest.raises(core.EmbeddingMismatch, match="letters"):
        async with core.open_memory(seekdb_dsn, worker=False) as memory:
            await memory.remember(ANA, "With the old one.")


def commanded(*arguments: str, exit_code: int = 0) -> str:
    """Return what a command prints, or what it complains of."""
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == exit_code, done.output
    return done.stderr if exit_code else done.stdout


def test_commands_work_as_on_postgresql(uri, tmp_path):
    at = ("--uri", uri)
    migrated = commanded("migrate", *at)
    assert "SeekDB" in migrated and "pgvector" not in migrated
    commanded("remember", "app", "ann", "I drink 绿茶 every day.", *at)
    assert "绿茶" in commanded("recall", "app", "ann", "绿茶", "--json", *at)
    commanded("stats", *at)
    assert [] == json.loads(commanded("index", "--dry-run", "--json", *at))
    report = json.loads(commanded("doctor", "--json", *at))
    checks = {one["check"]: one["status"] for one in report["findings"]}
    assert report["ok"]
    assert ["ok"] * 4 == [checks[name] for name in ("server", "schema", "vectors", "queue")]
    refused = commanded("migrate", "--distribute", *at, exit_code=1)
    assert "Citus" in refused and "Traceback" not in refused
    nowhere = f"seekdb://{tmp_path / 'none'}"  # the doctor makes nothing
    report = json.loads(commanded("doctor", "--json", "--uri", nowhere))
    [folder] = [one for one in report["findings"] if one["check"] == "folder"]
    assert "note" == folder["status"] and not (tmp_path / "none").exists()


async def test_it_is_served_over_mcp(uri):
    async with (
        core.open_memory(uri, worker=False) as memory,
        Client(mcp_server.build(memory, "app", "mcp")) as mcp,
    ):
        kept = await mcp.call_tool("remember", {"text": "My cat is called Mia."})
        assert not kept.is_error, kept.content
        found = await mcp.call_tool("recall", {"query": "What is the cat called?"})
        assert not found.is_error and "Mia" in json.dumps(found.structured_content)


# A server that is reached over TCP, its tables partitioned by the user as on a cluster


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    """The port of a server that listens; it ends with the tests."""
    package = Path(pylibseekdb.__file__).parent
    libraries = f"{package}:{package.parent / 'pylibseekdb.libs'}"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        chosen = free.getsockname()[1]
    with subprocess.Popen(
        [package / "seekdb", f"--base-dir={tmp_path_factory.mktemp('seekdb')}", "--nodaemon",
         "--port", str(chosen), "--parameter", "memory_budget=1G",
         "--parameter", "log_disk_size=2G"],
        env=os.environ | {"LD_LIBRARY_PATH": libraries, "TELEMETRY_ENABLED": "false"},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as server:  # fmt: skip
        while True:
            assert server.poll() is None, "the server ended"
            try:
                pymysql.connect(host="127.0.0.1", port=chosen, user="root").close()
                break
            except pymysql.MySQLError:
                time.sleep(0.1)
        yield chosen
        server.kill()


def executed(port: int, *statements: str, database: str | None = None) -> Any:
    """Run statements as the superuser; return the rows of the last one."""
    server = pymysql.connect(
        host="127.0.0.1", port=port, user="root", database=database, autocommit=True
    )
    with server, server.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return cursor.fetchall()


async def size_of(memory: core.MemoryEngine) -> int:
    """Return what the tables take, once the server tells it: not in its first seconds."""
    while True:
        size = (await memory.report()).size_bytes
        if size is not None:
            return size
        await asyncio.sleep(0.5)


@pytest.mark.tail
@pytest.mark.timeout(300)
async def test_the_whole_loop_runs_on_a_server(port):
    async with core.open_memory(f"seekdb://root@127.0.0.1:{port}/app", worker=False) as memory:
        report = await memory.report()
        assert (report.engine, report.schema) == ("SeekDB server", "app")
        turns = ["My name is Ana.", "I live in Oslo.", "I moved to Bergen."]
        await memory.append_events(ANA, "t1", [said(n, text) for n, text in enumerate(turns)])
        await memory.append_events(ZHU, "t1", [said(0, "我叫朱莉。"), said(1, "我住在深圳。")])
        for scope in (ANA, ZHU):
            await memory.consolidate(scope, "t1")
        assert "深圳" in (await memory.recall(ZHU, "我住在哪里？"))[0].memory.text
        assert {fact.value for fact in await memory.facts(ANA)} == {"Ana", "Bergen"}
        reader = f"seekdb://reader:r@127.0.0.1:{port}/app"
        executed(port, "CREATE USER reader IDENTIFIED BY 'r'", "GRANT SELECT ON app.* TO reader")
        async with core.open_memory(reader, worker=False, track_access=False) as read_only:
            assert "Bergen" in (await read_only.recall(ANA, "Where do I live?"))[0].memory.text
            with pytest.raises(core.StorageUnavailable, match="reader"):
                await read_only.append_events(ANA, "t1", [said(9, "I moved to Rome.")])
            [one, *_] = await read_only.list_memories(ANA)
            read = NewAccesses(ANA, one.memory_id, Accesses(1, one.occurred_at))
            with pytest.raises(StorageReadOnly, match="reads cannot be counted"):
                await read_only._storage.accesses.add_accesses([read])
        [run, *_] = await memory.runs(ANA)
        await memory.undo_run(ANA, run.run_id)
        assert await memory.facts(ANA) == []
        assert (await memory.erase(ZHU)).is_intact
        assert await memory.list_memories(ZHU) == []
        assert await size_of(memory) > 100_000
    [(_, definition)] = executed(port, "SHOW CREATE TABLE memories", database="app")
    assert "partition `p7`" in definition.lower()


async def test_who_may_not_log_in_is_told_so_without_the_password(port):
    uri = f"oceanbase://nobody@shop#east:s3cret@127.0.0.1:{port}/app"
    with pytest.raises(core.StorageUnavailable) as refused:
        async with core.open_memory(uri):
            pass
    assert "nobody@shop#east:***@127.0.0.1" in str(refused.value)
    assert "s3cret" not in str(refused.value)
    with pytest.raises(core.StorageUnavailable, match="cannot be used"):
        async with core.open_memory("seekdb://root@127.0.0.1:1/app"):
            pass


async def test_a_statement_that_is_too_long_says_what_to_do(port, monkeypatch):
    monkeypatch.setattr(migrate, "MOST_BYTES_SENT", 2_000_000)
    executed(port, "SET GLOBAL max_allowed_packet = 2000000")
    settings = Settings(uri=f"seekdb://root@127.0.0.1:{port}/app", home=Path())
    database = OceanBaseDatabase(settings)
    await database.open()
    with pytest.raises(core.InvalidInput, match="texts this large.* max_allowed_packet"):
        await database.read(lambda tx: tx.rows("SELECT length(%s)", ["x" * 3_000_000]))
    await database.close()
