"""Memories of other products arrive once, with their times, where recall and ADK find them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from adk_memory import OpenMemoryService
from shared_core import AsOf, MemoryEngine, NewMemory, Scope
from shared_core.errors import InvalidInput, ModelUnavailable, NotFound
from shared_core.transfer.record_import import BATCH, RecordCounts, RecordOptions, RecordReport
from shared_core.transfer.sources import open_source

EXPORTS = Path(__file__).parents[1] / "exports"
ANA = Scope("app", "ana")
TO_ANA = RecordOptions(app="app", user="ana")


async def bring(
    memory: MemoryEngine, file: str | Path, options: RecordOptions = TO_ANA
) -> RecordReport:
    return await memory.imports.run(open_source(EXPORTS / file), options)


async def texts(memory: MemoryEngine, scope: Scope, query: str) -> list[str]:
    return [hit.memory.text for hit in await memory.recall(scope, query, limit=20)]


@pytest.mark.both_engines
async def test_conversations_become_turns_and_facts_of_their_own_time(memory: MemoryEngine) -> None:
    report = await bring(memory, "chatgpt.json")
    assert RecordCounts(read=7, written=7) == report.turns
    assert (["ana"], 2, True) == (report.users, report.threads, report.complete)
    turns = await memory.thread_turns(ANA, "chatgpt/c-en")
    assert datetime(2023, 11, 14, 22, 13, 20, 500_000, UTC) == turns[0].occurred_at
    assert "I live in Porto and I work as a vet." in await texts(memory, ANA, "What is her job?")
    facts = {(fact.slot, fact.value) for fact in await memory.facts(ANA)}
    assert {("job", "vet"), ("relation.cat", "Miso")} <= facts
    found = await OpenMemoryService(engine=memory).search_memory(
        app_name="app", user_id="ana", query="花生"
    )
    assert any("花生" in str(one.content) for one in found.memories)


@pytest.mark.both_engines
async def test_a_second_import_changes_nothing(memory: MemoryEngine) -> None:
    every = ("chatgpt.json", "claude.json", "letta.af", "zep.json", "mem0_get_all.json")
    options = [RecordOptions(app="app", user=None if "mem0" in file else "ana") for file in every]
    for file, one in zip(every, options, strict=True):
        await bring(memory, file, one)
    before = [line async for line in memory.export(app="app")]
    for file, one in zip(every, options, strict=True):
        report = await bring(memory, file, one)
        for outcome in (report.turns, report.statements, report.facts):
            assert RecordCounts(read=outcome.read, here=outcome.read) == outcome, file
    assert before == [line async for line in memory.export(app="app")]


@pytest.mark.both_engines
async def test_facts_of_a_graph_hold_when_they_held(memory: MemoryEngine) -> None:
    report = await bring(memory, "zep.json")
    assert RecordCounts(read=4, written=4) == report.facts
    homes = {one.value: one for one in await memory.facts(ANA, "residence", history=True)}
    assert {"Leeds", "Lisbon"} == homes.keys()
    assert datetime(2024, 5, 23, 9, tzinfo=UTC) == homes["Leeds"].valid_until
    assert "Ana lives in Lisbon." == homes["Lisbon"].statement
    then = AsOf(valid=datetime(2024, 4, 1, tzinfo=UTC))
    [home] = await memory.facts(ANA, "residence", as_of=then)
    assert "Leeds" == home.value
    edges = (await memory.graph.neighbourhood(ANA, "Theo", depth=1)).edges
    assert [("plays_chess_with", "user")] == [(one.relation, one.object) for one in edges]
    assert "Theo plays chess with Ana." in await texts(memory, ANA, "Who plays chess?")
    assert "Ana lives in Leeds." not in await texts(memory, ANA, "Where does Ana live?")


async def test_what_is_known_here_later_stays_and_history_comes_before_it(
    memory: MemoryEngine,
) -> None:
    now = await memory.state_fact(
        ANA, "residence", "Oslo", valid_from=datetime(2025, 1, 1, tzinfo=UTC)
    )
    await bring(memory, "graphiti.json")
    assert ["Oslo"] == [one.value for one in await memory.facts(ANA, "residence")]
    homes = {one.value: one for one in await memory.facts(ANA, "residence", history=True)}
    assert now.valid_from == homes["Lisbon"].valid_until


@pytest.mark.both_engines
async def test_statements_keep_their_times_and_what_was_changed_here_stays(
    memory: MemoryEngine, tmp_path: Path
) -> None:
    def export(text: str, day: int) -> Path:
        at = f"2024-05-{day:02}T00:00:00Z"
        entry = {"id": "1", "memory": text, "user_id": "ana", "created_at": "2024-05-01T00:00:00Z"}
        file = tmp_path / "mem0.json"
        file.write_text(json.dumps({"results": [{**entry, "updated_at": at}]}), "utf-8")
        return file

    options = RecordOptions(app="app")
    assert 1 == (await bring(memory, export("Ana likes tea.", 1), options)).statements.written
    [first] = await memory.list_memories(ANA, kinds=["semantic"])
    assert ("mem0/1", datetime(2024, 5, 1, tzinfo=UTC)) == (first.key, first.created_at)
    assert first.occurred_at == first.created_at
    assert 1 == (await bring(memory, export("Ana likes coffee.", 3), options)).statements.written
    assert ["Ana likes coffee."] == [one.text for one in await memory.list_memories(ANA)]
    await memory.remember(ANA, NewMemory(text="Ana likes cocoa.", key="mem0/1"))
    assert 1 == (await bring(memory, export("Ana likes milk.", 4), options)).statements.here
    assert ["Ana likes cocoa."] == [one.text for one in await memory.list_memories(ANA)]


@pytest.mark.both_engines
async def test_what_was_forgotten_here_stays_away_unless_it_is_restored(
    memory: MemoryEngine,
) -> None:
    await bring(memory, "zep.json")
    await bring(memory, "letta.af")
    await memory.forget_scope(ANA)
    assert [] == await memory.list_memories(ANA)
    zep, letta = await bring(memory, "zep.json"), await bring(memory, "letta.af")
    assert (0, 0, 4) == (zep.turns.written, zep.facts.written, zep.facts.deleted)
    assert (0, 2) == (letta.statements.written, letta.statements.deleted)
    assert [] == await memory.list_memories(ANA)
    options = RecordOptions(app="app", user="ana", restore=True)
    zep, letta = await bring(memory, "zep.json", options), await bring(memory, "letta.af", options)
    assert (4, 4, 2) == (zep.turns.written, zep.facts.written, letta.statements.written)


async def test_each_user_of_mem0_gets_their_own_memories(memory: MemoryEngine) -> None:
    report = await bring(memory, "mem0_get_all.json", RecordOptions(app="app"))
    assert ["ana", "ben", "小明"] == report.users
    assert 3 == len(await memory.list_memories(ANA))
    assert ["I am allergic to peanuts."] == await texts(memory, Scope("app", "ben"), "allergies")
    assert any("龙井" in one for one in await texts(memory, Scope("app", "小明"), "喝什么茶？"))


async def test_it_must_be_clear_who_gets_the_memories(memory: MemoryEngine) -> None:
    with pytest.raises(InvalidInput, match="does not say whose memories .* --user"):
        await bring(memory, "chatgpt.json", RecordOptions(app="app"))
    with pytest.raises(InvalidInput, match="of 'ana', 'ben', '小明', and --user would give all"):
        await bring(memory, "mem0_get_all.json")
    with pytest.raises(NotFound, match="nothing of 'eva', but of 'ana', 'ben', '小明'"):
        await bring(memory, "mem0_get_all.json", RecordOptions(app="app", source_user="eva"))
    with pytest.raises(InvalidInput, match="user_id"):
        await bring(memory, "chatgpt.json", RecordOptions(app="app", user=" "))
    one = RecordOptions(app="app", user="benjamin", source_user="ben")
    assert 1 == (await bring(memory, "mem0_get_all.json", one)).statements.written
    assert 1 == len(await memory.list_memories(Scope("app", "benjamin")))


async def test_conversations_of_another_account_of_claude_are_refused(
    memory: MemoryEngine, tmp_path: Path
) -> None:
    first, second = json.loads((EXPORTS / "claude.json").read_text("utf-8"))
    second["account"]["uuid"] = "account-2"
    second["chat_messages"] = first["chat_messages"]
    file = tmp_path / "claude.json"
    file.write_text(json.dumps([first, second]), "utf-8")
    with pytest.raises(InvalidInput, match="'account-1', 'account-2'.*--source-user"):
        await bring(memory, file)
    one = RecordOptions(app="app", user="ana", source_user="account-2")
    assert 1 == (await bring(memory, file, one)).threads
    with pytest.raises(InvalidInput, match="--user"):
        await bring(memory, "claude.json", RecordOptions(app="app"))


async def test_a_file_that_is_cut_off_writes_nothing(memory: MemoryEngine, tmp_path: Path) -> None:
    cut = tmp_path / "chatgpt.json"
    cut.write_text((EXPORTS / "chatgpt.json").read_text("utf-8")[:-10], "utf-8")
    with pytest.raises(InvalidInput, match="chatgpt.json was cut off"):
        await bring(memory, cut)
    assert [] == await memory.users("app")


class _DownAfter:
    """An embedder that fails from its second batch of passages on."""

    def __init__(self) -> None:
        self.batches = 0

    def __call__(self, texts: list[str]) -> list[list[float]]:
        self.batches += 1
        if self.batches > 1:
            raise OSError("no model")
        return [[1.0, float(len(text))] for text in texts]


def long_export(tmp_path: Path, count: int) -> Path:
    entries = [
        {"id": str(number), "memory": f"Ana saw film number {number}.", "user_id": "ana"}
        for number in range(count)
    ]
    file = tmp_path / "mem0.json"
    file.write_text(json.dumps(entries), "utf-8")
    return file


async def test_an_interrupted_import_goes_on_where_it_stopped(dsn: str, tmp_path: Path) -> None:
    from shared_core import open_memory

    source, options = open_source(long_export(tmp_path, 100)), RecordOptions(app="app")
    down = _DownAfter()
    async with open_memory(dsn, embedder=down, worker=False) as memory:
        with pytest.raises(ModelUnavailable):
            await memory.imports.run(source, options)
        down.batches = -100
        report = await memory.imports.run(source, options)
        assert RecordCounts(read=100, written=68, here=32) == report.statements
        assert 100 == len(await memory.list_memories(ANA, limit=200))


async def test_progress_moves(memory: MemoryEngine, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    await memory.imports.run(
        open_source(long_export(tmp_path, 100)), RecordOptions(app="app"),
        progress=lambda *step: seen.append(step),
    )  # fmt: skip
    assert [("Importing", done, 100) for done in (0, 32, 64, 96, 100)] == seen
    seen.clear()
    await memory.imports.run(
        open_source(EXPORTS / "chatgpt.json"), TO_ANA, progress=lambda *step: seen.append(step)
    )
    assert ("Importing", 7, 7) in seen and ("Consolidating", 2, 2) in seen


async def test_records_that_cannot_be_stored_are_named_and_stop_nothing(
    memory: MemoryEngine, tmp_path: Path
) -> None:
    entries = json.loads((EXPORTS / "zep.json").read_text("utf-8"))
    entries["edges"][2]["name"] = "!!!"
    file = tmp_path / "zep.json"
    file.write_text(json.dumps(entries), "utf-8")
    failed: list[tuple[str, str]] = []
    report = await memory.imports.run(
        open_source(file), TO_ANA, failed=lambda *one: failed.append(one)
    )
    assert RecordCounts(read=4, written=3, failed=1) == report.facts
    assert ["zep/edge-2"] == [name for name, _ in failed]
    assert not report.complete


async def test_turns_left_for_later_are_found_by_words_and_consolidated_by_a_worker(
    memory: MemoryEngine,
) -> None:
    options = RecordOptions(app="app", user="ana", later=True)
    assert 7 == (await bring(memory, "chatgpt.json", options)).turns.written
    assert await memory.flush()
    assert "Miso" in [one.value for one in await memory.facts(ANA)]


async def test_an_old_wish_to_forget_does_not_forget_what_is_known_here(
    memory: MemoryEngine, tmp_path: Path
) -> None:
    await memory.remember(ANA, "Theo is a friend of Ana.")
    said = {"sender": "human", "created_at": "2024-01-01T00:00:00Z"}
    message = {"uuid": "1", "text": "Forget what I said about Theo.", **said}
    file = tmp_path / "c.json"
    file.write_text(json.dumps([{"uuid": "k", "chat_messages": [message]}]), "utf-8")
    await bring(memory, file)
    assert "Theo is a friend of Ana." in await texts(memory, ANA, "Who is Theo?")


async def test_an_answer_at_the_border_of_two_batches_is_a_memory(
    memory: MemoryEngine, tmp_path: Path
) -> None:
    said = [("human", f"I saw film number {number}.") for number in range(BATCH - 1)]
    said += [("assistant", "Do you eat meat?"), ("human", "No.")]
    messages = [
        {"uuid": str(n), "sender": who, "text": text, "created_at": f"2024-01-01T00:00:{n:02}Z"}
        for n, (who, text) in enumerate(said)
    ]
    file = tmp_path / "c.json"
    file.write_text(json.dumps([{"uuid": "k", "chat_messages": messages}]), "utf-8")
    await bring(memory, file)
    assert "No." in [one.text for one in await memory.list_memories(ANA, limit=200)]


async def test_huge_texts_and_repeated_ids_come_over_once(
    memory: MemoryEngine, tmp_path: Path
) -> None:
    said = {"sender": "human", "created_at": "2024-01-01T00:00:00Z"}
    messages = [
        {"uuid": "1", "text": "word " * 100_000, **said},
        {"uuid": "1", "text": "b", **said},
    ]
    file = tmp_path / "c.json"
    file.write_text(json.dumps([{"uuid": "k", "chat_messages": messages}] * 2), "utf-8")
    report = await bring(memory, file)
    assert RecordCounts(read=4, written=1, here=3) == report.turns


async def test_secrets_are_masked_in_every_kind_of_record(
    memory: MemoryEngine, tmp_path: Path
) -> None:
    secret = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD"
    document = json.loads((EXPORTS / "graphiti.json").read_text("utf-8"))
    document["edges"][3]["fact"] = f"Theo plays chess, his key is {secret}."
    document["episodes"][0]["content"] = f"Ana: My key is {secret}."
    document["episodes"][4]["content"] = f"The key of Ana is {secret}."
    file = tmp_path / "graph.json"
    file.write_text(json.dumps(document), "utf-8")
    report = await bring(memory, file)
    assert (4, 2, 3) == (report.turns.written, report.statements.written, report.facts.written)
    assert secret not in "".join([line async for line in memory.export(app="app")])


async def test_a_memory_without_a_time_stays_forgotten(
    memory: MemoryEngine, tmp_path: Path
) -> None:
    file = long_export(tmp_path, 2)
    options = RecordOptions(app="app")
    assert 2 == (await bring(memory, file, options)).statements.written
    assert 1 == await memory.forget(ANA, "mem0/0")
    report = await bring(memory, file, options)
    assert RecordCounts(read=2, here=1, deleted=1) == report.statements


@pytest.mark.both_engines
async def test_what_others_say_in_an_episode_is_no_fact_of_the_user(
    memory: MemoryEngine, tmp_path: Path
) -> None:
    contents = [
        "Ana: I live in Malmo.\nassistant: I live in Berlin and I am allergic to nuts.\nAna: ok",
        "Ana: 我喜欢爵士乐\nOlga: I work at Volvo as a welder.",
    ]
    episodes = [
        {"uuid": f"e{n}", "source": "message", "content": text, "created_at": f"2024-01-0{n}"}
        for n, text in enumerate(contents, 1)
    ]
    file = tmp_path / "graph.json"
    file.write_text(json.dumps({"user_id": "ana", "episodes": episodes}), "utf-8")
    assert RecordCounts(read=5, written=5) == (await bring(memory, file)).turns
    assert {("residence", "Malmo"), ("like", "爵士乐")} == {
        (fact.slot, fact.value) for fact in await memory.facts(ANA)
    }
    assert "I work at Volvo as a welder." in await texts(memory, ANA, "Who works at Volvo?")
    assert RecordCounts(read=5, here=5) == (await bring(memory, file)).turns


async def test_a_past_relation_is_the_history_of_its_slot(
    memory: MemoryEngine, tmp_path: Path
) -> None:
    def edge(name: str, place: str, valid_at: str | None, invalid_at: str | None) -> dict[str, str]:
        given = {"valid_at": valid_at, "invalid_at": invalid_at, "created_at": "2024-03-01"}
        ids = {"uuid": f"{name}-{place}", "source_node_uuid": "ana", "target_node_uuid": place}
        kept = {key: value for key, value in given.items() if value}
        return {"name": name, "fact": f"Ana, {name}, {place}.", **ids, **kept}

    places = ("ana", "Leeds", "Oslo", "Bonn", "Acme", "Zenith")
    edges = [
        edge("LIVES_IN", "Oslo", "2022-01-01", None),
        edge("LIVED_IN", "Leeds", "2019-01-01", "2021-01-01"),
        edge("LIVED_IN", "Bonn", None, None),
        edge("WORKED_AT", "Acme", None, None),
        edge("WORKS_FOR", "Zenith", "2023-01-01", None),
    ]
    nodes = [{"uuid": one, "name": one} for one in places]
    file = tmp_path / "graph.json"
    file.write_text(json.dumps({"user_id": "ana", "nodes": nodes, "edges": edges}), "utf-8")
    assert RecordCounts(read=5, written=5) == (await bring(memory, file)).facts
    assert {("residence", "Oslo"), ("employer", "Zenith")} == {
        (fact.slot, fact.value) for fact in await memory.facts(ANA)
    }
    homes = {one.value: one for one in await memory.facts(ANA, "residence", history=True)}
    assert {"Oslo", "Leeds", "Bonn"} == homes.keys()
    assert datetime(2021, 1, 1, tzinfo=UTC) == homes["Leeds"].valid_until
    jobs = {one.value for one in await memory.facts(ANA, "employer", history=True)}
    assert {"Acme", "Zenith"} == jobs
    assert RecordCounts(read=5, here=5) == (await bring(memory, file)).facts
