"""`hippocampus import --from postgres-store`: a real PostgresStore into this memory."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from zlib import crc32

import psycopg
import pytest
from langgraph.store.base import PutOp
from langgraph.store.postgres import PostgresStore
from typer.testing import CliRunner, Result

from langgraph_store import PgHippocampusStore
from shared_core import ModelUnavailable
from shared_core.cli import StoreImport, import_store
from shared_core.cli.main import app
from shared_core.ingest import items as ingest_items
from shared_core.models.embedders import CallableEmbedder
from shared_core.policies import items
from shared_core.ports.operations import Update
from shared_core.storage.postgres.langgraph_tables import PostgresStoreSource

ALICE = ("support%2Ebot", "alice@example%2Ecom")


def word_vectors(texts: list[str]) -> list[list[float]]:
    """Bags of words: texts that share words are near."""
    bags = [[crc32(word.encode()) % 63 for word in text.lower().split()] for text in texts]
    return [[0.1, *(float(bag.count(n)) for n in range(63))] for bag in bags]


class CountingEmbedder(CallableEmbedder):
    """word_vectors under a name, and the passages it was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        super().__init__(self._embed, model="words-64", query_function=word_vectors)

    def _embed(self, texts: list[str]) -> list[list[float]]:
        self.asked += texts
        return word_vectors(texts)


INDEX: Any = {"dims": 64, "embed": word_vectors, "fields": ["text"]}


@pytest.fixture
def source(empty_dsn: str) -> Iterator[tuple[str, PostgresStore]]:
    """A PostgresStore with vectors, in a database of its own."""
    with PostgresStore.from_conn_string(empty_dsn, index=INDEX) as store:
        store.setup()
        yield empty_dsn, store


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["import", *arguments])


def execute(dsn: str, statement: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(statement.encode())


def scalar(dsn: str, query: str) -> Any:
    with psycopg.connect(dsn) as connection:
        [value] = connection.execute(query.encode()).fetchone() or [None]
    return value


def fill(store: PostgresStore, count: int, *, index: bool = True) -> None:
    for first in range(0, count, 500):
        store.batch(
            [
                PutOp(
                    ("app", f"user{number % 7}", "notes"),
                    f"note-{number}",
                    {"text": f"note {number} about topic{number % 50}", "number": number},
                    index=None if index else False,
                )
                for number in range(first, min(first + 500, count))
            ]
        )


def everything(store: PostgresStore | PgHippocampusStore) -> dict[tuple[Any, str], Any]:
    """Return all items of a store by namespace and key, in the order of a listing."""
    found: dict[tuple[Any, str], Any] = {}
    while page := store.search((), limit=1000, offset=len(found), refresh_ttl=False):
        found |= {
            (item.namespace, item.key): (item.value, item.created_at, item.updated_at)
            for item in page
        }
    return found


async def test_all_that_the_reference_finds_is_found(
    source: tuple[str, PostgresStore], dsn: str
) -> None:
    origin, theirs = source
    theirs.put(ALICE, "city", {"text": "lives in Lisbon by the river", "n": 1.5, "none": None})
    theirs.put(ALICE, "pet", {"text": "a cat called Miso", "tags": ["x", {"y": True}]})
    theirs.put(("a%b", "c/d", "名前"), "ключ/1", {"text": "something else entirely"})
    theirs.put(("one",), "shallow", {"text": "shallow waters"})
    theirs.put(ALICE, "hidden", {"text": "not to be found by meaning"}, index=False)
    fill(theirs, 300)
    embedder = CountingEmbedder()
    report = await import_store(
        StoreImport(dsn=origin, uri=dsn, embedder=embedder, vectors_from="words-64", batch=64)
    )
    assert (305, 305, True) == (report.in_source, report.copied, report.complete)
    assert [] == embedder.asked
    index: Any = {"embed": CountingEmbedder(), "fields": ["text"]}
    with PgHippocampusStore(dsn, index=index) as ours:
        assert everything(theirs) == everything(ours)
        assert theirs.get(ALICE, "pet").value == ours.get(ALICE, "pet").value
        assert theirs.list_namespaces(limit=100) == ours.list_namespaces(limit=100)
        for query in ("Lisbon river", "cat called", "topic7 note", "found by meaning"):
            for prefix in (ALICE, ("app", "user0"), ("app", "user3", "notes")):
                expected = theirs.search(prefix, query=query, limit=5)
                everything_found = ours.search(prefix, query=query, limit=5)
                found = [item for item in everything_found if item.score is not None]
                assert len(expected) == len(found)
                for one, other in zip(expected, found, strict=True):
                    assert one.score == pytest.approx(other.score, abs=2e-3)
        assert "city" == ours.search(ALICE, query="Lisbon river")[0].key
        hidden = [item for item in ours.search(ALICE, query="found by meaning") if not item.score]
        assert ["hidden"] == [item.key for item in hidden]


async def test_texts_are_embedded_anew_by_the_fields_that_had_vectors(
    source: tuple[str, PostgresStore], dsn: str
) -> None:
    origin, theirs = source
    theirs.put(ALICE, "city", {"text": "Lisbon", "content": "never embedded"})
    theirs.put(ALICE, "hidden", {"text": "kept out"}, index=False)
    embedder = CountingEmbedder()
    await import_store(StoreImport(dsn=origin, uri=dsn, embedder=embedder))
    assert ["Lisbon"] == embedder.asked
    again = await import_store(StoreImport(dsn=origin, uri=dsn, embedder=embedder, reembed=True))
    assert 2 == again.copied
    assert ["Lisbon", "Lisbon", "kept out"] == sorted(embedder.asked)


@pytest.mark.parametrize("kept", [True, False])
async def test_every_field_that_had_vectors_has_them_here(
    empty_dsn: str, dsn: str, kept: bool
) -> None:
    index: Any = {"dims": 64, "embed": word_vectors, "fields": ["text", "a[*].b", "c.d"]}
    value = {"text": "tea", "a": [{"b": "violin"}, {"b": "grand piano"}], "c": {"d": "rain"}}
    with PostgresStore.from_conn_string(empty_dsn, index=index) as theirs:
        theirs.setup()
        theirs.put(ALICE, "k", value)
        theirs.put(ALICE, "one", {"a": [{"b": "harp"}]})
        expected = {query: theirs.search(ALICE, query=query)[0] for query in ("violin", "piano")}
    task = StoreImport(dsn=empty_dsn, uri=dsn, embedder=CountingEmbedder(), vectors_from="words-64")
    for again in (task,) if kept else (replace(task, vectors_from=None, reembed=True),) * 2:
        assert 2 == (await import_store(again)).copied
    with psycopg.connect(dsn) as connection:
        fields = connection.execute("SELECT field FROM hippocampus.embeddings ORDER BY field")
        assert ["a[*].b", "a[*].b.0", "a[*].b.1", "c.d", "text"] == [row[0] for row in fields]
    with PgHippocampusStore(dsn, index={**index, "embed": CountingEmbedder()}) as ours:
        for query, item in expected.items():
            [found, *_] = ours.search(ALICE, query=query)
            assert (item.key, pytest.approx(item.score, abs=2e-3)) == (found.key, found.score)
    index["embed"] = CountingEmbedder()
    with PgHippocampusStore(dsn, index=index, search="text") as ours:
        assert ["k"] == [item.key for item in ours.search(ALICE, query="the violin")]
        assert [] == ours.search(ALICE, query="vector")


async def test_a_store_without_vectors_can_be_searched_afterwards(empty_dsn: str, dsn: str) -> None:
    with PostgresStore.from_conn_string(empty_dsn) as theirs:
        theirs.setup()
        theirs.put(ALICE, "city", {"content": "lives in Lisbon"})
    report = await import_store(StoreImport(dsn=empty_dsn, uri=dsn, embedder=word_vectors))
    assert (1, True) == (report.copied, report.complete)
    index: Any = {"embed": word_vectors}
    with PgHippocampusStore(dsn, index=index) as ours:
        [found] = ours.search(ALICE, query="Lisbon")
    assert "city" == found.key
    assert found.score > 0.4


async def test_times_to_live_go_on_where_they_were(
    source: tuple[str, PostgresStore], dsn: str
) -> None:
    origin, theirs = source
    theirs.put(ALICE, "hour", {"text": "an hour"}, ttl=60)
    theirs.put(ALICE, "gone", {"text": "gone"}, ttl=60)
    theirs.put(ALICE, "short", {"text": "under half a minute"}, ttl=0.3)
    theirs.put(ALICE, "ever", {"text": "for ever"})
    execute(origin, "UPDATE store SET expires_at = now() + '20 min' WHERE key = 'hour'")
    execute(origin, "UPDATE store SET expires_at = now() - '1 min'::interval WHERE key = 'gone'")
    report = await import_store(StoreImport(dsn=origin, uri=dsn, embedder=word_vectors))
    assert (4, 3, 1, True) == (report.in_source, report.copied, report.expired, report.complete)
    with psycopg.connect(dsn) as connection:
        rows = connection.execute(
            "SELECT key, expires_at, ttl_s FROM hippocampus.memories ORDER BY key"
        ).fetchall()
    left = {key: (expires_at, ttl_s) for key, expires_at, ttl_s in rows}
    assert (None, None) == left["ever"]
    now = datetime.now(UTC)
    assert timedelta(minutes=19) < left["hour"][0] - now <= timedelta(minutes=20)
    assert 3600 == left["hour"][1]
    assert 0 < left["short"][1] <= 18
    with PgHippocampusStore(dsn) as ours:
        assert ours.get(ALICE, "gone") is None
        assert ours.get(ALICE, "hour") is not None  # a read gives it its full hour again
    expires_at = scalar(dsn, "SELECT expires_at FROM hippocampus.memories WHERE key = 'hour'")
    assert expires_at - now > timedelta(minutes=59)


def test_killed_in_the_middle_and_started_again_nothing_is_doubled(
    source: tuple[str, PostgresStore], dsn: str
) -> None:
    origin, theirs = source
    fill(theirs, 2000)
    command = [
        sys.executable,
        "-m",
        "shared_core.cli.main",
        "import",
        "--from",
        "postgres-store",
        origin,
    ]
    command += ["--uri", dsn, "--batch", "100"]
    first = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    count = "SELECT count(*) FROM hippocampus.memories"
    while scalar(dsn, count) < 300 and time.monotonic() < deadline:
        time.sleep(0.05)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    there = scalar(dsn, count)
    assert 300 <= there < 2000
    ids = "SELECT md5(string_agg(memory_id::text, ',' ORDER BY key)) FROM hippocampus.memories"
    second = subprocess.run(command, capture_output=True, text=True)
    assert 0 == second.returncode, second.stderr
    assert f"Of 2,000 items {2000 - there:,} copied, {there:,} were here already" in second.stdout
    assert "The counts agree." in second.stdout
    assert 2000 == scalar(dsn, count)
    assert 2000 == scalar(dsn, "SELECT count(*) FROM hippocampus.embeddings")
    before = scalar(dsn, ids)
    third = subprocess.run(command, capture_output=True, text=True)
    assert "0 copied, 2,000 were here already, 0 failed" in third.stdout
    assert before == scalar(dsn, ids)
    with PgHippocampusStore(dsn) as ours:
        assert everything(theirs) == everything(ours)


def test_the_same_database_will_do_and_the_source_stays_as_it_is(dsn: str) -> None:
    with PostgresStore.from_conn_string(dsn, index=INDEX) as theirs:
        theirs.setup()
        fill(theirs, 40)
        theirs.put(ALICE, "city", {"text": "Lisbon"}, ttl=10)
        before = scalar(dsn, "SELECT md5(string_agg(s::text, ',' ORDER BY s::text)) FROM store s")
        ran = run(
            "--from", "postgres-store", dsn, "--uri", dsn, "--schema", "other", "--batch", "7"
        )
        assert 0 == ran.exit_code, ran.output
        assert "41 items, 0 expired, 41 with vectors of 64 dimensions" in ran.stdout
        assert "Of 41 items 41 copied" in ran.stdout
        after = scalar(dsn, "SELECT md5(string_agg(s::text, ',' ORDER BY s::text)) FROM store s")
    assert before == after
    assert 41 == scalar(dsn, "SELECT count(*) FROM other.memories")
    assert 0 == scalar(dsn, "SELECT count(*) FROM hippocampus.memories")


def test_a_prefix_is_of_whole_labels(source: tuple[str, PostgresStore], dsn: str) -> None:
    origin, theirs = source
    for labels in (("a", "b"), ("a", "b", "c"), ("a", "bb"), ("a",)):
        theirs.put(labels, "k", {"text": "hello"})
    at = ("--from", "postgres-store", origin, "--uri", dsn, "--prefix", "a.b")
    assert "2 items" in run(*at, "--dry-run").stdout
    assert 0 == scalar(dsn, "SELECT count(*) FROM hippocampus.memories")
    ran = run(*at)
    assert 0 == ran.exit_code, ran.output
    with PgHippocampusStore(dsn) as ours:
        assert [("a", "b"), ("a", "b", "c")] == ours.list_namespaces()


def test_what_cannot_be_stored_is_listed_and_the_rest_is_copied(
    source: tuple[str, PostgresStore], dsn: str
) -> None:
    origin, theirs = source
    fill(theirs, 20)
    long = "".join(f"{crc32(str(n).encode()):08x}" for n in range(315))
    with psycopg.connect(origin) as connection:
        connection.cursor().executemany(
            "INSERT INTO store (prefix, key, value) VALUES (%s, %s, %s)",
            [
                ("app.user1", "", '{"text": "no key"}'),
                ("app..user1", "k", '{"text": "an empty label"}'),
                ("", "root", '{"text": "no namespace"}'),
                ("app.user1", "list", '["no object"]'),
                ("app.user1", "huge", '{"text": "a number", "n": 1e5000}'),
                ("app.user1", "deep", '{"a":' * 600 + "1" + "}" * 600),
                ("app.user1", long, '{"text": "a long key"}'),
            ],
        )
    ran = run("--from", "postgres-store", origin, "--uri", dsn)
    assert 1 == ran.exit_code
    listed = [line for line in ran.stderr.splitlines() if line.startswith("✗")]
    told = [key for key in ("", "list", "huge", "deep") if f"/ {key!r}: " in ran.stderr]
    assert ["", "list", "huge", "deep"] == told
    assert "'app..user1' / 'k': a label of its namespace is empty" in listed[0] + listed[1]
    failed = len(listed)
    assert f"Of 27 items {27 - failed} copied" in ran.stdout
    assert f"{failed} failed" in ran.stdout
    assert 27 - failed == scalar(dsn, "SELECT count(*) FROM hippocampus.memories")
    assert failed in (6, 7)  # the long key may still fit


def test_what_was_written_here_later_stays_and_what_changed_there_comes(
    source: tuple[str, PostgresStore], dsn: str
) -> None:
    origin, theirs = source
    for key in ("ours", "theirs", "same"):
        theirs.put(ALICE, key, {"text": f"first {key}"})
    at = ("--from", "postgres-store", origin, "--uri", dsn)
    assert 0 == run(*at).exit_code
    theirs.put(ALICE, "theirs", {"text": "second theirs"})
    with PgHippocampusStore(dsn) as ours:
        ours.put(ALICE, "ours", {"text": "second ours"})
        ran = run(*at)
        assert "Of 3 items 1 copied, 1 were here already, 1 are newer here" in ran.stdout
        assert 0 == ran.exit_code
        values = {item.key: item.value["text"] for item in ours.search(ALICE)}
    assert {"ours": "second ours", "theirs": "second theirs", "same": "first same"} == values


async def test_items_and_their_times_come_together_or_not_at_all(
    source: tuple[str, PostgresStore], dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin, theirs = source
    fill(theirs, 30)
    real = items._stamped

    def late(*given: Any, **named: Any) -> Any:
        return [*real(*given, **named), Update("memories", {"importance": None}, ())]

    task = StoreImport(dsn=origin, uri=dsn, embedder=word_vectors)
    with monkeypatch.context() as patched:
        patched.setattr(items, "_stamped", late)
        with pytest.raises(psycopg.errors.NotNullViolation):
            await import_store(task)
    assert 0 == scalar(dsn, "SELECT count(*) FROM hippocampus.memories")
    assert 30 == (await import_store(task)).copied
    with PgHippocampusStore(dsn) as ours:
        assert everything(theirs) == everything(ours)


async def test_an_item_that_was_written_here_is_never_changed(
    source: tuple[str, PostgresStore], dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin, theirs = source
    for key in ("first", "since", "race"):
        theirs.put(ALICE, key, {"text": "tea"}, ttl=60)
    task = StoreImport(dsn=origin, uri=dsn, embedder=word_vectors)
    index: Any = {"embed": word_vectors}
    async with PgHippocampusStore(dsn, index=index) as ours:
        put = ingest_items.write_items
        written: list[str] = []

        async def followed(storage: Any, rows: Any, *more: Any) -> None:
            await put(storage, rows, *more)
            if any("race" == row.key for row in rows) and not written:
                written.append("race")
                await ours.aput(ALICE, "race", {"text": "coffee"})

        await ours.aput(ALICE, "first", {"text": "tea"})
        monkeypatch.setattr(ingest_items, "write_items", followed)
        await import_store(task)
        await ours.aput(ALICE, "since", {"text": "tea"})
        rows = "SELECT string_agg(m::text, ',' ORDER BY key) FROM hippocampus.memories m"
        before = scalar(dsn, rows)
        assert 0 == scalar(dsn, "SELECT count(expires_at) FROM hippocampus.memories")
        for reembed in (False, True):
            again = await import_store(replace(task, reembed=reembed))
            assert (2, 1, 0, True) == (again.here, again.newer, again.copied, again.complete)
        assert before == scalar(dsn, rows)


async def test_what_lives_longer_there_lives_longer_here_after_the_next_import(
    source: tuple[str, PostgresStore], dsn: str
) -> None:
    origin, theirs = source
    for key in ("ever", "read", "shorter", "read here", "same"):
        theirs.put(ALICE, key, {"text": "tea"}, ttl=60)
    execute(origin, "UPDATE store SET expires_at = now() + '5 min'")
    task = StoreImport(dsn=origin, uri=dsn, embedder=word_vectors)
    await import_store(task)
    theirs.put(ALICE, "ever", {"text": "tea"}, ttl=None)
    assert theirs.get(ALICE, "read", refresh_ttl=True) is not None
    theirs.put(ALICE, "shorter", {"text": "tea"}, ttl=2)
    async with PgHippocampusStore(dsn) as ours:
        assert await ours.aget(ALICE, "read here") is not None
    again = await import_store(task)
    assert (5, 0, True) == (again.here, again.copied, again.complete)
    with psycopg.connect(dsn) as connection:
        rows = connection.execute(
            "SELECT key, expires_at - now() FROM hippocampus.memories"
        ).fetchall()
    left = dict(rows)
    assert left["ever"] is None
    hour, five, two = (timedelta(minutes=minutes) for minutes in (59, 5, 2))
    assert left["read"] > hour and left["read here"] > hour
    assert left["shorter"] <= two
    assert two < left["same"] <= five


@pytest.mark.parametrize(("vectors", "largest"), [(True, 6), (False, 30)])
async def test_vectors_count_as_what_a_page_holds(
    source: tuple[str, PostgresStore], monkeypatch: pytest.MonkeyPatch, vectors: bool, largest: int
) -> None:
    origin, theirs = source
    fill(theirs, 30)
    monkeypatch.setattr("shared_core.storage.postgres.langgraph_tables.PAGE_BYTES", 12_000)
    async with PostgresStoreSource(origin) as opened:
        pages = [len(page) async for page in opened.pages(500, vectors=vectors)]
    assert 30 == sum(pages)
    assert largest == max(pages)


async def test_an_embedder_that_is_down_ends_the_import_and_the_next_goes_on(
    source: tuple[str, PostgresStore], dsn: str
) -> None:
    origin, theirs = source
    fill(theirs, 60)
    calls: list[int] = []

    def failing(texts: list[str]) -> list[list[float]]:
        calls.append(len(texts))
        if len(calls) > 2:
            raise OSError("no route to the model")
        return word_vectors(texts)

    task = {"dsn": origin, "uri": dsn, "batch": 20}
    broken = CallableEmbedder(failing, model="words-64")
    with pytest.raises(ModelUnavailable, match="no route"):
        await import_store(StoreImport(**task, embedder=broken))
    assert len(calls) < 30
    report = await import_store(StoreImport(**task, embedder=CountingEmbedder()))
    assert (20, 40, True) == (report.copied, report.here, report.complete)


def test_a_store_from_before_times_to_live_can_be_read(empty_dsn: str, dsn: str) -> None:
    execute(empty_dsn, "CREATE TABLE store (prefix text NOT NULL, key text NOT NULL, value jsonb"
                       " NOT NULL, created_at timestamptz, updated_at timestamptz,"
                       " PRIMARY KEY (prefix, key))")  # fmt: skip
    execute(empty_dsn, """INSERT INTO store VALUES ('a.b', 'k', '{"text": "old"}')""")
    ran = run("--from", "postgres-store", empty_dsn, "--uri", dsn)
    assert 0 == ran.exit_code, ran.output
    with PgHippocampusStore(dsn) as ours:
        assert {"text": "old"} == ours.get(("a", "b"), "k").value


def test_large_values_come_in_small_pages(
    source: tuple[str, PostgresStore], dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin, theirs = source
    monkeypatch.setattr("shared_core.storage.postgres.langgraph_tables.PAGE_BYTES", 1000)
    fill(theirs, 30)
    theirs.put(ALICE, "large", {"text": "word", "rest": [crc32(b"%d" % n) for n in range(5000)]})
    ran = run("--from", "postgres-store", origin, "--uri", dsn)
    assert "Of 31 items 31 copied" in ran.stdout, ran.output
