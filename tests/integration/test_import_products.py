"""Memories of other products arrive once, with their times, where recall and ADK find them.

`hippocampus import FILE` prints what came, and refuses what it cannot read.
"""

import json
import os
import re
import signal
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from commands import run, succeed
from every_case import every_case
from postgres_admin import execute
from typer.testing import Result

from adk_memory import OpenMemoryService
from shared_core import AsOf, MemoryEngine, NewMemory, Scope, open_memory
from shared_core.errors import InvalidInput, ModelUnavailable, NotFound
from shared_core.transfer import record_import
from shared_core.transfer.record_import import BATCH, RecordCounts, RecordOptions, RecordReport
from shared_core.transfer.sources import StatementRecord, open_source

EXPORTS = Path(__file__).parents[1] / "exports"
NOWHERE = "postgresql://nobody@127.0.0.1:1/none"
TO_ANA = ("--app", "app", "--user", "ana")
AT = "2024-05-01T00:00:00Z"


@dataclass
class Imports:
    """Imports into a memory, for Ana unless a file names its users."""

    memory: MemoryEngine
    ana: Scope
    folder: Path

    async def bring(self, given: object, **options: Any) -> RecordReport:
        """Import a file of tests/exports, a path, or a document as JSON."""
        file = EXPORTS / given if isinstance(given, str | Path) else self.written(given)
        return await self.run(file, RecordOptions(app=self.ana.app, **{"user": "ana"} | options))

    async def run(self, file: Path, options: RecordOptions, **calls: Any) -> RecordReport:
        return await self.memory.imports.run(open_source(file), options, **calls)

    def written(self, document: object) -> Path:
        file = self.folder / "export.json"
        file.write_text(json.dumps(document), "utf-8")
        return file

    def user(self, name: str) -> Scope:
        return Scope(self.ana.app, name)

    async def texts(self, query: str, user: str = "ana") -> list[str]:
        hits = await self.memory.recall(self.user(user), query, limit=20)
        return [hit.memory.text for hit in hits]

    async def listed(self) -> list[str]:
        return [one.text for one in await self.memory.list_memories(self.ana, limit=200)]

    async def facts(self, *slot: str, **options: Any) -> dict[str, Any]:
        """Return Ana's facts by their values."""
        found = await self.memory.facts(self.ana, *slot, **options)
        return {one.value: one for one in found}

    async def held(self) -> set[tuple[str, str]]:
        return {(fact.slot, value) for value, fact in (await self.facts()).items()}

    async def lines(self) -> list[str]:
        return [line async for line in self.memory.export(app=self.ana.app)]


@pytest.fixture
def imports(shared_memory, scope, tmp_path):
    return Imports(shared_memory, Scope(scope.app, "ana"), tmp_path)


def claude(*messages: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a conversation as Claude exports it."""
    said = {"sender": "human", "created_at": "2024-01-01T00:00:00Z"}
    chat = [{"uuid": str(number), **said, **one} for number, one in enumerate(messages)]
    return [{"uuid": "k", "chat_messages": chat}]


def films(count: int) -> list[dict[str, str]]:
    """Return memories of mem0 without times."""
    told = "Ana saw film number {}."
    return [{"id": f"{n}", "memory": told.format(n), "user_id": "ana"} for n in range(count)]


def export(file: str) -> Any:
    return json.loads((EXPORTS / file).read_text("utf-8"))


@pytest.mark.both_engines
async def test_conversations_become_turns_and_facts_of_their_own_time(imports):
    report = await imports.bring("chatgpt.json")
    assert RecordCounts(read=7, written=7) == report.turns
    assert (["ana"], 2, True) == (report.users, report.threads, report.complete)
    turns = await imports.memory.thread_turns(imports.ana, "chatgpt/c-en")
    assert datetime(2023, 11, 14, 22, 13, 20, 500_000, UTC) == turns[0].occurred_at
    assert "I live in Porto and I work as a vet." in await imports.texts("What is her job?")
    assert {("job", "vet"), ("relation.cat", "Miso")} <= await imports.held()
    who = {"app_name": imports.ana.app, "user_id": "ana"}
    found = await OpenMemoryService(engine=imports.memory).search_memory(**who, query="花生")
    assert any("花生" in str(one.content) for one in found.memories)


@pytest.mark.both_engines
async def test_a_second_import_changes_nothing(imports):
    every = ("chatgpt.json", "claude.json", "letta.af", "zep.json", "mem0_get_all.json")
    users = {"mem0_get_all.json": None}
    for file in every:
        await imports.bring(file, user=users.get(file, "ana"))
    before = await imports.lines()
    for file in every:
        report = await imports.bring(file, user=users.get(file, "ana"))
        for outcome in (report.turns, report.statements, report.facts):
            assert RecordCounts(read=outcome.read, here=outcome.read) == outcome, file
    assert before == await imports.lines()


@pytest.mark.both_engines
async def test_facts_of_a_graph_hold_when_they_held(imports):
    report = await imports.bring("zep.json")
    assert RecordCounts(read=4, written=4) == report.facts
    homes = await imports.facts("residence", history=True)
    assert {"Leeds", "Lisbon"} == homes.keys()
    assert datetime(2024, 5, 23, 9, tzinfo=UTC) == homes["Leeds"].valid_until
    assert "Ana lives in Lisbon." == homes["Lisbon"].statement
    then = AsOf(valid=datetime(2024, 4, 1, tzinfo=UTC))
    assert ["Leeds"] == [*await imports.facts("residence", as_of=then)]
    edges = (await imports.memory.graph.neighbourhood(imports.ana, "Theo", depth=1)).edges
    assert [("plays_chess_with", "user")] == [(one.relation, one.object) for one in edges]
    assert "Theo plays chess with Ana." in await imports.texts("Who plays chess?")
    assert "Ana lives in Leeds." not in await imports.texts("Where does Ana live?")


async def test_what_is_known_here_later_stays_and_history_comes_before_it(imports):
    since = datetime(2025, 1, 1, tzinfo=UTC)
    now = await imports.memory.state_fact(imports.ana, "residence", "Oslo", valid_from=since)
    await imports.bring("graphiti.json")
    assert ["Oslo"] == [*await imports.facts("residence")]
    assert now.valid_from == (await imports.facts("residence", history=True))["Lisbon"].valid_until


@pytest.mark.both_engines
async def test_statements_keep_their_times_and_what_was_changed_here_stays(imports):
    async def bring(text: str, day: int) -> RecordCounts:
        at = f"2024-05-{day:02}T00:00:00Z"
        entry = {"id": "1", "memory": text, "user_id": "ana", "created_at": AT, "updated_at": at}
        return (await imports.bring({"results": [entry]}, user=None)).statements

    assert 1 == (await bring("Ana likes tea.", 1)).written
    [first] = await imports.memory.list_memories(imports.ana, kinds=["semantic"])
    assert ("mem0/1", datetime(2024, 5, 1, tzinfo=UTC)) == (first.key, first.created_at)
    assert first.occurred_at == first.created_at
    assert 1 == (await bring("Ana likes coffee.", 3)).written
    assert ["Ana likes coffee."] == await imports.listed()
    await imports.memory.remember(imports.ana, NewMemory(text="Ana likes cocoa.", key="mem0/1"))
    assert 1 == (await bring("Ana likes milk.", 4)).here
    assert ["Ana likes cocoa."] == await imports.listed()


@pytest.mark.both_engines
async def test_what_was_forgotten_here_stays_away_unless_it_is_restored(imports):
    async def bring(**options: Any) -> tuple[RecordReport, RecordReport]:
        files = ("zep.json", "letta.af")
        zep, letta = [await imports.bring(file, **options) for file in files]
        return zep, letta

    await bring()
    await imports.memory.forget_scope(imports.ana)
    assert [] == await imports.listed()
    zep, letta = await bring()
    assert (0, 0, 4) == (zep.turns.written, zep.facts.written, zep.facts.deleted)
    assert (0, 2) == (letta.statements.written, letta.statements.deleted)
    assert [] == await imports.listed()
    zep, letta = await bring(restore=True)
    assert (4, 4, 2) == (zep.turns.written, zep.facts.written, letta.statements.written)


async def test_it_must_be_clear_who_gets_the_memories_and_each_user_of_mem0_gets_their_own(imports):
    for file, options, complaint in (
        ("chatgpt.json", {"user": None}, "does not say whose memories .* --user"),
        ("mem0_get_all.json", {}, "of 'ana', 'ben', '小明', and --user would give all"),
        ("chatgpt.json", {"user": " "}, "user_id"),
        ("claude.json", {"user": None}, "--user"),
    ):
        with pytest.raises(InvalidInput, match=complaint):
            await imports.bring(file, **options)
    with pytest.raises(NotFound, match="nothing of 'eva', but of 'ana', 'ben', '小明'"):
        await imports.bring("mem0_get_all.json", user=None, source_user="eva")
    one = await imports.bring("mem0_get_all.json", user="benjamin", source_user="ben")
    assert 1 == one.statements.written
    assert 1 == len(await imports.memory.list_memories(imports.user("benjamin")))
    assert ["ana", "ben", "小明"] == (await imports.bring("mem0_get_all.json", user=None)).users
    assert 3 == len(await imports.listed())
    assert ["I am allergic to peanuts."] == await imports.texts("allergies", "ben")
    assert any("龙井" in one for one in await imports.texts("喝什么茶？", "小明"))


async def test_a_file_that_is_cut_off_and_conversations_of_another_account_are_refused(imports):
    cut = imports.folder / "chatgpt.json"
    cut.write_text((EXPORTS / "chatgpt.json").read_text("utf-8")[:-10], "utf-8")
    with pytest.raises(InvalidInput, match="chatgpt.json was cut off"):
        await imports.bring(cut)
    assert [] == await imports.memory.users(imports.ana.app)
    first, second = export("claude.json")
    second["account"]["uuid"] = "account-2"
    second["chat_messages"] = first["chat_messages"]
    with pytest.raises(InvalidInput, match="'account-1', 'account-2'.*--source-user"):
        await imports.bring([first, second])
    assert 1 == (await imports.bring([first, second], source_user="account-2")).threads


async def test_an_interrupted_import_goes_on_where_it_stopped(dsn, tmp_path):
    batches = 0

    def down_after_one(texts: list[str]) -> list[list[float]]:
        nonlocal batches
        batches += 1
        if batches > 1:
            raise OSError("no model")
        return [[1.0, float(len(text))] for text in texts]

    async with open_memory(dsn, embedder=down_after_one, worker=False) as memory:
        imports = Imports(memory, Scope("app", "ana"), tmp_path)
        with pytest.raises(ModelUnavailable):
            await imports.bring(films(100), user=None)
        batches = -100
        report = await imports.bring(films(100), user=None)
        assert RecordCounts(read=100, written=68, here=32) == report.statements
        assert 100 == len(await imports.listed())


async def test_progress_moves(imports):
    async def steps(file: Path, user: str | None) -> list[tuple[str, int, int]]:
        seen: list[tuple[str, int, int]] = []
        options = RecordOptions(app=imports.ana.app, user=user)
        await imports.run(file, options, progress=lambda *step: seen.append(step))
        return seen

    importing = await steps(imports.written(films(100)), None)
    assert [("Importing", done, 100) for done in (0, 32, 64, 96, 100)] == importing
    seen = await steps(EXPORTS / "chatgpt.json", "ana")
    assert ("Importing", 7, 7) in seen and ("Consolidating", 2, 2) in seen


async def test_records_that_cannot_be_stored_are_named_and_stop_nothing(imports):
    entries = export("zep.json")
    entries["edges"][2]["name"] = "!!!"
    failed: list[tuple[str, str]] = []
    file, options = imports.written(entries), RecordOptions(app=imports.ana.app, user="ana")
    report = await imports.run(file, options, failed=lambda *one: failed.append(one))
    assert RecordCounts(read=4, written=3, failed=1) == report.facts
    assert ["zep/edge-2"] == [name for name, _ in failed]
    assert not report.complete


async def test_turns_left_for_later_are_found_by_words_and_consolidated_by_a_worker(imports):
    assert 7 == (await imports.bring("chatgpt.json", later=True)).turns.written
    await imports.memory.flush()
    assert "Miso" in await imports.facts()


async def test_an_old_wish_to_forget_does_not_forget_what_is_known_here(imports):
    await imports.memory.remember(imports.ana, "Theo is a friend of Ana.")
    await imports.bring(claude({"text": "Forget what I said about Theo."}))
    assert "Theo is a friend of Ana." in await imports.texts("Who is Theo?")


async def test_an_answer_at_the_border_of_two_batches_is_a_memory(imports):
    told = [("human", f"I saw film number {number}.") for number in range(BATCH - 1)]
    told += [("assistant", "Do you eat meat?"), ("human", "No.")]
    messages = [
        {"sender": who, "text": text, "created_at": f"2024-01-01T00:00:{n:02}Z"}
        for n, (who, text) in enumerate(told)
    ]
    await imports.bring(claude(*messages))
    assert "No." in await imports.listed()


async def test_huge_texts_and_repeated_ids_come_over_once(imports):
    messages = ({"uuid": "1", "text": "word " * 30_000}, {"uuid": "1", "text": "b"})
    report = await imports.bring(claude(*messages) * 2)
    assert RecordCounts(read=4, written=1, here=3) == report.turns


async def test_a_memory_without_a_time_stays_forgotten(imports):
    assert 2 == (await imports.bring(films(2), user=None)).statements.written
    assert 1 == await imports.memory.forget(imports.ana, "mem0/0")
    report = await imports.bring(films(2), user=None)
    assert RecordCounts(read=2, here=1, deleted=1) == report.statements


@pytest.mark.both_engines
async def test_what_others_say_in_an_episode_is_no_fact_of_the_user(imports):
    contents = [
        "Ana: I live in Malmo.\nassistant: I live in Berlin and I am allergic to nuts.\nAna: ok",
        "Ana: 我喜欢爵士乐\nOlga: I work at Volvo as a welder.",
    ]
    episodes = [
        {"uuid": f"e{n}", "source": "message", "content": text, "created_at": f"2024-01-0{n}"}
        for n, text in enumerate(contents, 1)
    ]
    document = {"user_id": "ana", "episodes": episodes}
    assert RecordCounts(read=5, written=5) == (await imports.bring(document)).turns
    assert {("residence", "Malmo"), ("like", "爵士乐")} == await imports.held()
    assert "I work at Volvo as a welder." in await imports.texts("Who works at Volvo?")
    assert RecordCounts(read=5, here=5) == (await imports.bring(document)).turns


async def test_a_past_relation_is_the_history_of_its_slot(imports):
    def edge(name: str, place: str, valid_at: str | None, invalid_at: str | None) -> dict[str, str]:
        given = {"valid_at": valid_at, "invalid_at": invalid_at, "created_at": "2024-03-01"}
        ids = {"uuid": f"{name}-{place}", "source_node_uuid": "ana", "target_node_uuid": place}
        kept = {key: value for key, value in given.items() if value}
        return {"name": name, "fact": f"Ana, {name}, {place}.", **ids, **kept}

    places = ("ana", "Leeds", "Oslo", "Bonn", "Acme", "Zenith")
    edges = [
        edge("LIVES_IN", "Oslo", "2022-01-01", None),
        edge("LIVED_IN", "Leeds", "2019-01-01", "2021-01-01"), edge("LIVED_IN", "Bonn", None, None),
        edge("WORKED_AT", "Acme", None, None), edge("WORKS_FOR", "Zenith", "2023-01-01", None),
    ]  # fmt: skip
    nodes = [{"uuid": one, "name": one} for one in places]
    document = {"user_id": "ana", "nodes": nodes, "edges": edges}
    assert RecordCounts(read=5, written=5) == (await imports.bring(document)).facts
    assert {("residence", "Oslo"), ("employer", "Zenith")} == await imports.held()
    homes = await imports.facts("residence", history=True)
    assert {"Oslo", "Leeds", "Bonn"} == homes.keys()
    assert datetime(2021, 1, 1, tzinfo=UTC) == homes["Leeds"].valid_until
    assert {"Acme", "Zenith"} == (await imports.facts("employer", history=True)).keys()
    assert RecordCounts(read=5, here=5) == (await imports.bring(document)).facts


async def test_secrets_are_masked_in_every_kind_of_record(imports):
    secret = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD"
    document = export("graphiti.json")
    document["edges"][3]["fact"] = f"Theo plays chess, his key is {secret}."
    document["episodes"][0]["content"] = f"Ana: My key is {secret}."
    document["episodes"][4]["content"] = f"The key of Ana is {secret}."
    report = await imports.bring(document)
    assert (4, 2, 3) == (report.turns.written, report.statements.written, report.facts.written)
    assert secret not in "".join(await imports.lines())


async def test_a_fact_that_tells_a_secret_keeps_only_its_masked_sentence(imports):
    nodes = [{"uuid": "a", "name": "Ana", "labels": ["User"]}, {"uuid": "b", "name": "hunter22"}]
    told = {
        "uuid": "e", "name": "HAS_PASSWORD", "fact": "Ana's password is hunter22",
        "source_node_uuid": "a", "target_node_uuid": "b", "valid_at": AT, "created_at": AT,
    }  # fmt: skip
    ended = told | {"uuid": "ended", "invalid_at": "2024-06-01T00:00:00Z"}
    document = {"user_id": "ana", "nodes": nodes, "edges": [told, ended]}
    report = await imports.bring(document)
    assert (1, 0) == (report.statements.written, report.facts.read)
    assert {"ended facts that tell a secret": 1} == report.skipped
    written = "".join(await imports.lines())
    assert "Ana's password is [REDACTED: password]" in written
    assert "hunter22" not in written
    assert 1 == (await imports.bring(document)).statements.here


async def test_titles_and_descriptions_are_masked_as_texts_are(imports):
    title = "The password for the wifi is: hunter22"
    [chat] = claude({"text": "Thank you for the wifi."})
    assert 1 == (await imports.bring([chat | {"name": title}])).turns.written
    noted = {"uuid": "t", "source": "text", "content": "The wifi is fast.", "created_at": AT}
    document = {"episodes": [noted | {"source_description": title}]}
    assert 1 == (await imports.bring(document)).statements.written
    written = "".join(await imports.lines())
    assert 2 <= written.count("The password for the wifi is: [REDACTED: password]")
    assert "hunter22" not in written


# `hippocampus import FILE`.


def test_a_dry_run_needs_no_memory():
    file = EXPORTS / "chatgpt.json"
    told = succeed("import", file, *TO_ANA, "--dry-run", "--uri", NOWHERE)
    assert "chatgpt.json (chatgpt), for 'ana' of 'app', in 2 threads" in told
    assert "Skipped: 3 tool, system and reasoning messages." in told
    assert "Nothing was written." in told


@every_case("chatgpt.json", "claude.json", "letta.af", "zep.json")
def test_what_is_skipped_is_told_in_chinese(file, monkeypatch):
    monkeypatch.setenv("HIPPOCAMPUS_LANG", "zh")
    told = run("import", EXPORTS / file, *TO_ANA, "--dry-run").stdout
    skipped = [line for line in told.splitlines() if line.startswith("跳过 ")]
    assert skipped
    assert not [line for line in skipped if re.search(r"[A-Za-z]+ [a-z]+", line)]


def test_the_counts_are_a_table_or_json_and_a_record_that_fails_is_named(dsn, tmp_path):
    archive = tmp_path / "export.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        packed.write(EXPORTS / "claude.json", "conversations.json")
    report = json.loads(run("import", archive, *TO_ANA, "--uri", dsn, "--json").stdout)
    assert {"read": 4, "written": 4, "here": 0, "deleted": 0, "failed": 0} == report["turns"]
    assert ("claude", ["ana"], True) == (report["product"], report["users"], report["complete"])
    again = run("import", archive, *TO_ANA, "--uri", dsn)
    [row] = [line for line in again.stdout.splitlines() if line.startswith("turns")]
    assert ["turns", "4", "0", "4"] == row.split()
    assert max(map(len, again.stdout.splitlines())) <= 80
    document = export("zep.json")
    document["edges"][0]["name"] = "!!!"
    (file := tmp_path / "zep.json").write_text(json.dumps(document), "utf-8")
    ran = run("import", file, *TO_ANA, "--uri", dsn)
    assert 1 == ran.exit_code
    assert "✗ 'zep/edge-0': relation must have a letter" in ran.stderr
    assert "failed" in ran.stdout


def test_what_was_forgotten_is_shown_with_the_way_back(dsn):
    at = (EXPORTS / "letta.af", *TO_ANA, "--uri", dsn)
    succeed("import", *at)
    records = open_source(EXPORTS / "letta.af").records()
    keys = [one.key for one in records if isinstance(one, StatementRecord)]
    succeed("forget", "app", "ana", *keys, "--uri", dsn)
    again = run("import", *at)
    assert "forgotten here" in again.stdout
    assert "--restore brings back what was forgotten here." in again.stdout
    restored = json.loads(run("import", *at, "--restore", "--json").stdout)
    assert 2 == restored["statements"]["written"]


@every_case(
    (["chatgpt.json"], 2, "memories of chatgpt need --app: name the application"),
    (["chatgpt.json", "--app", "a"], 1, "does not say whose memories it holds"),
    (["chatgpt.json", "--app", "a", "--user", " "], 1, "user_id must not be blank"),
    (["chatgpt.json", "--app", "", "--user", "u"], 1, "app must not be empty"),
    (["claude.json", "--from", "chatgpt", *TO_ANA], 1, "import it with --from claude"),
    (["mem0.sql", *TO_ANA], 1, "mem0.sql is no JSON: give the export"),
    (["absent.json", *TO_ANA], 1, "absent.json' cannot be read"),
    (["zep.json", *TO_ANA, "--reembed"], 2, "--reembed does not go with a source of zep"),
    (["mem0_get_all.json", *TO_ANA], 1, "'ana', 'ben', '小明', and --user would give all"),
)  # fmt: skip
def test_what_cannot_be_imported_is_said_in_one_line(arguments, code, told):
    name, *rest = arguments
    ran = run("import", EXPORTS / name, *rest, "--uri", NOWHERE)
    assert (code, "") == (ran.exit_code, ran.stdout), ran.output
    assert told in ran.stderr
    assert 1 == len(ran.stderr.splitlines())


@pytest.mark.parametrize("options", [(), ("--from", "chatgpt"), ("--from", "mem0")])
def test_an_empty_file_is_called_empty(options, tmp_path):
    for text in ("", " \n" * 3_000):
        (file := tmp_path / "empty.json").write_text(text, "utf-8")
        ran = run("import", file, *TO_ANA, *options, "--uri", NOWHERE)
        assert (1, "Error: empty.json is empty: export it again\n") == (ran.exit_code, ran.stderr)


@every_case(
    ({"guilds": [1], "messages": [{"a": 1}]}, "1 messages without text. Check that it is"),
    ({"results": [{"a": 1}, 7]}, "1 memories without text, 1 entries of an unknown form"),
    ([{"mapping": 7}], "1 entries of an unknown form"),
)  # fmt: skip
def test_a_file_without_a_single_memory_is_an_error(document, told, tmp_path):
    (file := tmp_path / "slack.json").write_text(json.dumps(document), "utf-8")
    for options in ((), ("--dry-run",)):
        ran = run("import", file, *TO_ANA, "--uri", NOWHERE, *options)
        assert (1, "") == (ran.exit_code, ran.stdout)
        assert f"slack.json holds nothing that can be imported: {told}" in ran.stderr


def test_a_user_without_memories_is_no_error(tmp_path):
    (file := tmp_path / "mem0.json").write_text('{"results": []}', "utf-8")
    succeed("import", file, *TO_ANA, "--uri", NOWHERE, "--dry-run")


@contextmanager
def pressing_ctrl_c(*, at_batch: int) -> Iterator[None]:
    """Send this process the signal of Ctrl-C before a batch is written."""
    written: list[int] = []
    write = record_import._RecordRun._write

    async def interrupted(self: record_import._RecordRun, batch: Sequence[object]) -> None:
        written.append(len(batch))
        if len(written) == at_batch:
            os.kill(os.getpid(), signal.SIGINT)
        await write(self, batch)  # type: ignore[arg-type] # the batch of _write()

    kept = signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(record_import._RecordRun, "_write", interrupted)
        yield
    signal.signal(signal.SIGINT, kept)


@pytest.mark.parametrize(("language", "told"), [
    ("en", "Interrupted: 64 of 100 statements are here; the same command goes on from there."),
    ("zh", "已中断：陈述 64/100 条已导入；再次运行同一命令即可继续。"),
])  # fmt: skip
def test_ctrl_c_tells_what_is_here_and_it_can_go_on(language, told, dsn, tmp_path, monkeypatch):
    (file := tmp_path / "mem0.json").write_text(json.dumps(films(100)), "utf-8")
    monkeypatch.setenv("HIPPOCAMPUS_LANG", language)
    with pressing_ctrl_c(at_batch=3):
        ran = run("import", file, *TO_ANA, "--uri", dsn)
    assert (130, "", told) == (ran.exit_code, ran.stdout, " ".join(ran.stderr.split()))
    report = json.loads(run("import", file, *TO_ANA, "--uri", dsn, "--json").stdout)["statements"]
    assert (36, 64) == (report["written"], report["here"])


# The table that mem0 itself wrote: `hippocampus import DSN --from mem0`.


@pytest.fixture
def mem0(shared_dsn, scope):
    """Runs `hippocampus import --from mem0`."""

    def mem0(at: object, *options: str) -> Result:
        line = ("import", at, "--from", "mem0", "--app", scope.app, "--uri", shared_dsn)
        return run(*line, *options)

    return mem0


def test_the_memories_of_a_store_go_to_their_users(mem0, empty_dsn, shared_dsn, scope):
    execute(empty_dsn, (EXPORTS / "mem0.sql").read_text("utf-8"))
    looked = mem0(empty_dsn, "--dry-run", "--json")
    assert 0 == looked.exit_code, looked.output
    assert {"of no user (give --user)": 1} == json.loads(looked.stdout)["skipped"]
    report = json.loads(mem0(empty_dsn, "--json").stdout)
    assert (5, ["ana", "ben", "小明"]) == (report["statements"]["written"], report["users"])
    again = mem0(empty_dsn)
    assert 0 == again.exit_code
    assert "statements 5 0 5" in " ".join(again.stdout.split())
    recall = ["recall", scope.app, "ana", "Where?", "--uri", shared_dsn, "--json"]
    assert "I live in Porto and work as a vet." in succeed(*recall)


def test_a_store_in_the_same_database_and_of_another_name_is_read(dsn):
    dump = (EXPORTS / "mem0.sql").read_text("utf-8")
    execute(dsn, "CREATE SCHEMA other", dump.replace(" mem0 ", ' other."My Notes" '))
    line = ["import", dsn, "--from", "mem0", "--app", "app", "--uri", dsn]
    missing = run(*line)
    assert 1 == missing.exit_code
    assert "Found is other.My Notes: name it with --table" in missing.stderr
    found = succeed(*line, "--table", "other.My Notes", "--json")
    assert 5 == json.loads(found)["statements"]["written"]


def test_a_database_without_a_store_is_named_and_no_memory_is_made(mem0, empty_dsn):
    ran = mem0(empty_dsn)
    assert 1 == ran.exit_code
    assert "there is no store of mem0 in the table 'mem0'" in ran.stderr
    assert "No table there has the columns id, vector and payload" in ran.stderr
    ran = mem0("postgresql://nobody:secret@127.0.0.1:1/none")
    assert 1 == ran.exit_code and "cannot be read" in ran.stderr and "secret" not in ran.stderr
    ran = mem0(empty_dsn, "--table", "a..b")
    assert 1 == ran.exit_code and "table must be a name" in ran.stderr


@pytest.mark.tail
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the packages that mem0 imports
def test_what_mem0_writes_today_comes_over(mem0, empty_dsn, tmp_path):
    pytest.importorskip("mem0", reason="pip install 'pg-hippocampus[peers]'")
    from tests.exports.make_mem0 import TOLD, tell_mem0

    execute(empty_dsn, "CREATE EXTENSION vector")
    answers = tell_mem0(empty_dsn, str(tmp_path))
    results = [one for answer in answers for one in answer["results"]]
    (file := tmp_path / "mem0.json").write_text(json.dumps({"results": results}), "utf-8")
    assert len(TOLD) == json.loads(mem0(file, "--json").stdout)["statements"]["written"]
    assert len(TOLD) == json.loads(mem0(empty_dsn, "--json").stdout)["statements"]["here"]
