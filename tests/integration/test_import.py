"""`hippocampus import --from postgres-store`: a real PostgresStore into this memory, and again.

A second import leaves out what was deleted or forgotten here since the first one.
"""

import asyncio
import os
import subprocess
import time
import uuid
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any
from zlib import crc32

import commands
import psycopg
import pytest
from every_case import every_case
from langgraph.store.base import PutOp
from langgraph.store.postgres import PostgresStore
from pages import PAGES, blocks_of
from postgres_admin import column, execute, rows
from postgres_databases import new_database
from practised import practised  # noqa: F401
from psycopg.conninfo import make_conninfo
from typer.testing import Result
from warm_python import run_warm, warm_python

from langgraph_store import PgHippocampusStore
from langgraph_store.conformance.samples import INDEX, word_vectors
from shared_core import InvalidInput, ModelUnavailable, Scope, open_memory, run_sync
from shared_core.cli import StoreImport, import_store
from shared_core.ingest import items as ingest_items
from shared_core.models.embedders import CallableEmbedder
from shared_core.policies import items
from shared_core.ports.operations import Update
from shared_core.storage.postgres.connection import embedded_server
from shared_core.storage.postgres.connection.embedded import embedded_behind
from shared_core.storage.postgres.langgraph_tables import PostgresStoreSource
from shared_core.transfer.importing import ImportReport

ALICE = ("support%2Ebot", "alice@example%2Ecom")
SECRET = "hunter2-secret"
PAGE_BYTES = "shared_core.storage.postgres.langgraph_tables.PAGE_BYTES"


class CountingEmbedder(CallableEmbedder):
    """word_vectors under a name, and the passages it was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        super().__init__(self._embed, model="words-64", query_function=word_vectors)

    def _embed(self, texts: list[str]) -> list[list[float]]:
        self.asked += texts
        return word_vectors(texts)


@dataclass
class Stores:
    """An application in a PostgresStore and in a memory of ours."""

    origin: str
    theirs: PostgresStore
    uri: str
    ours: PgHippocampusStore
    app: str

    def __post_init__(self) -> None:
        self.ana = (self.app, "ana", "memories")
        self.bob = (self.app, "bob", "memories")
        at = {"dsn": self.origin, "uri": self.uri, "prefix": self.app}
        self.task = StoreImport(**at, embedder=CountingEmbedder())

    def put(self, *keys: str, ttl: float | None = None) -> None:
        """Put memories of Ana into the PostgresStore, each with its key as its text."""
        for key in keys:
            self.theirs.put(self.ana, key, {"text": key}, ttl=ttl)

    def there(self, assignment: str, key: str = "%") -> None:
        """Change rows of the PostgresStore."""
        where = f"prefix LIKE '{self.app}.%' AND key LIKE '{key}'"
        execute(self.origin, f"UPDATE store SET {assignment} WHERE {where}")

    def rows(self, columns: str, table: str = "memories") -> list[Any]:
        """Return columns of all rows that the application has in a table of ours."""
        below = f"WHERE tenant_id LIKE '/{self.app}/%'"
        return rows(self.uri, f"SELECT {columns} FROM hippocampus.{table} {below}")

    def expire(self, key: str) -> None:
        """Let items of ours with a time to live expire a second ago."""
        past = "UPDATE hippocampus.memories SET expires_at = now() - '1 s'::interval"
        where = f"expires_at IS NOT NULL AND tenant_id LIKE '/{self.app}/%' AND key = '{key}'"
        execute(self.uri, f"{past} WHERE {where}")

    async def bring(self, **options: Any) -> ImportReport:
        return await import_store(replace(self.task, **options))

    async def brought(self, parts: str, **options: Any) -> Any:
        """Import; return the named parts of the report."""
        return attrgetter(*parts.split())(await self.bring(**options))

    async def keys(self, user: str = "ana") -> set[str]:
        found = await self.ours.asearch((self.app, user, "memories"), limit=100)
        return {item.key for item in found}

    def run(self, *arguments: str) -> Result:
        return run(self.origin, self.uri, "--prefix", self.app, *arguments)


@pytest.fixture(scope="module")
def origin(server):
    """A PostgresStore with vectors, in which each test is an application."""
    for dsn in new_database(server):
        with PostgresStore.from_conn_string(dsn, index=INDEX) as store:
            store.setup()
            yield dsn, store


@pytest.fixture(scope="module")
def target(postgres):
    """A memory with the model of INDEX, in which each test is an application."""
    for dsn in postgres.lend():
        memory = open_memory(dsn, embedder=CountingEmbedder(), worker=False)
        yield dsn, memory
        run_sync(memory.close())


@pytest.fixture
def app_name():
    return f"a{uuid.uuid4().hex[:12]}"


@pytest.fixture
def stores(origin, target, app_name):
    ours = PgHippocampusStore(engine=target[1], ttl={"omit_expired": True})
    return Stores(*origin, target[0], ours, app_name)


@pytest.fixture
def filled(stores):
    """Three memories of Ana and one of Bob, all there and none here."""
    stores.put("m0", "m1", "m2")
    stores.theirs.put(stores.bob, "m0", {"text": "tea"})
    return stores


@pytest.fixture
def bundled(origin, shared_dsn, shared_memory, app_name):
    """The same with the bundled model, as the command takes it."""
    return Stores(*origin, shared_dsn, PgHippocampusStore(engine=shared_memory), app_name)


@pytest.fixture
def source(empty_dsn):
    """A PostgresStore with vectors, in a database of its own."""
    with PostgresStore.from_conn_string(empty_dsn, index=INDEX) as store:
        store.setup()
        yield empty_dsn, store


def run(origin: str, uri: str, *arguments: str) -> Result:
    return commands.run("import", "--from", "postgres-store", origin, "--uri", uri, *arguments)


def fill(store: PostgresStore, count: int, app_name: str = "app") -> None:
    values = [{"text": f"note {n} about topic{n % 50}", "number": n} for n in range(count)]
    store.batch([
        PutOp((app_name, f"user{n % 7}", "notes"), f"note-{n}", value)
        for n, value in enumerate(values)
    ])  # fmt: skip


def everything(of: PostgresStore | PgHippocampusStore, *prefix: str) -> dict[tuple[Any, str], Any]:
    """Return all items of a store by namespace and key, in the order of a listing."""
    found: dict[tuple[Any, str], Any] = {}
    while page := of.search(prefix, limit=1000, offset=len(found), refresh_ttl=False):
        for item in page:
            found[item.namespace, item.key] = (item.value, item.created_at, item.updated_at)
    return found


async def test_all_that_the_reference_finds_is_found(source, dsn):
    origin, theirs = source
    theirs.put(ALICE, "city", {"text": "lives in Lisbon by the river", "n": 1.5, "none": None})
    theirs.put(ALICE, "pet", {"text": "a cat called Miso", "tags": ["x", {"y": True}]})
    theirs.put(("a%b", "c/d", "名前"), "ключ/1", {"text": "something else entirely"})
    theirs.put(("one",), "shallow", {"text": "shallow waters"})
    theirs.put(ALICE, "hidden", {"text": "not to be found by meaning"}, index=False)
    fill(theirs, 300)
    embedder = CountingEmbedder()
    at = {"dsn": origin, "uri": dsn, "embedder": embedder}
    report = await import_store(StoreImport(**at, vectors_from="words-64", batch=64))
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


async def test_texts_are_embedded_anew_by_the_fields_that_had_vectors(stores):
    stores.theirs.put(stores.ana, "city", {"text": "Lisbon", "content": "never embedded"})
    stores.theirs.put(stores.ana, "hidden", {"text": "kept out"}, index=False)
    embedder = CountingEmbedder()
    await stores.bring(embedder=embedder)
    assert ["Lisbon"] == embedder.asked
    assert 2 == (await stores.bring(embedder=embedder, reembed=True)).copied
    assert ["Lisbon", "Lisbon", "kept out"] == sorted(embedder.asked)


@pytest.mark.parametrize("kept", [True, False])
async def test_every_field_that_had_vectors_has_them_here(empty_dsn, dsn, kept):
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
    fields = column(dsn, "SELECT field FROM hippocampus.embeddings ORDER BY field")
    assert ["a[*].b", "a[*].b.0", "a[*].b.1", "c.d", "text"] == fields
    with PgHippocampusStore(dsn, index={**index, "embed": CountingEmbedder()}) as ours:
        for query, item in expected.items():
            [found, *_] = ours.search(ALICE, query=query)
            assert (item.key, pytest.approx(item.score, abs=2e-3)) == (found.key, found.score)
    index["embed"] = CountingEmbedder()
    with PgHippocampusStore(dsn, index=index, search="text") as ours:
        assert ["k"] == [item.key for item in ours.search(ALICE, query="the violin")]
        assert [] == ours.search(ALICE, query="vector")


async def test_a_store_without_vectors_can_be_searched_afterwards(empty_dsn, dsn):
    with PostgresStore.from_conn_string(empty_dsn) as theirs:
        theirs.setup()
        theirs.put(ALICE, "city", {"content": "lives in Lisbon"})
    report = await import_store(StoreImport(dsn=empty_dsn, uri=dsn, embedder=word_vectors))
    assert (1, True) == (report.copied, report.complete)
    with PgHippocampusStore(dsn, index={"embed": word_vectors}) as ours:
        [found] = ours.search(ALICE, query="Lisbon")
    assert "city" == found.key and found.score > 0.4


async def test_times_to_live_go_on_where_they_were(stores):
    stores.put("hour", "gone", ttl=60)
    stores.put("short", ttl=0.3)
    stores.put("ever")
    stores.there("expires_at = now() + '20 min'", "hour")
    stores.there("expires_at = now() - '1 min'::interval", "gone")
    assert (4, 3, 1, True) == await stores.brought("in_source copied expired complete")
    left = {key: more for key, *more in stores.rows("key, expires_at, ttl_s")}
    assert [None, None] == left["ever"]
    now = datetime.now(UTC)
    assert timedelta(minutes=19) < left["hour"][0] - now <= timedelta(minutes=20)
    assert 3600 == left["hour"][1]
    assert 0 < left["short"][1] <= 18
    assert await stores.ours.aget(stores.ana, "gone") is None
    # A read gives it its full hour again.
    assert await stores.ours.aget(stores.ana, "hour") is not None
    left = dict(stores.rows("key, expires_at"))
    assert left["hour"] - now > timedelta(minutes=59)


BLOCKED = """
CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NULL; END $$;
CREATE TRIGGER waits AFTER INSERT ON hippocampus.memories
FOR EACH ROW WHEN (NEW.key = 'note-12') EXECUTE FUNCTION wait();
"""


@pytest.mark.tail
@pytest.mark.usefixtures("practised")
def test_killed_in_the_middle_and_started_again_nothing_is_doubled(source, dsn):
    origin, theirs = source
    fill(theirs, 100)
    options = ("--from", "postgres-store", origin, "--uri", dsn, "--batch", "20")
    count, here = "SELECT count(*) FROM hippocampus.memories", "datname = current_database()"
    others = f"SELECT count(*) FROM pg_stat_activity WHERE {here} AND pid <> pg_backend_pid()"
    locks = "SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = database"
    waiting = f"{locks} WHERE locktype = 'advisory' AND NOT granted AND {here}"
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute(BLOCKED)
        admin.execute("SELECT pg_advisory_lock(1)")
        command = [*warm_python(), "-m", "shared_core.cli.main", "import", *options]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as first:
            while admin.execute(waiting).fetchone() == (0,):
                assert first.poll() is None, first.communicate()
                time.sleep(0.01)
            first.kill()
        admin.execute("SELECT pg_advisory_unlock(1)")
        while admin.execute(others).fetchone() != (0,):  # until its transaction has ended
            time.sleep(0.01)
        admin.execute("DROP FUNCTION wait CASCADE")
    [there] = column(dsn, count)
    assert 60 <= there < 100
    second = commands.run("import", *options)
    assert 0 == second.exit_code, second.stderr
    assert f"Of 100 items {100 - there} copied, {there} were here already" in second.stdout
    assert "The counts agree." in second.stdout
    assert [100] == column(dsn, count)
    assert [100] == column(dsn, "SELECT count(*) FROM hippocampus.embeddings")
    ids = "SELECT md5(string_agg(memory_id::text, ',' ORDER BY key)) FROM hippocampus.memories"
    before = column(dsn, ids)
    assert "0 copied, 100 were here already, 0 failed" in commands.run("import", *options).stdout
    assert before == column(dsn, ids)
    with PgHippocampusStore(dsn) as ours:
        assert everything(theirs) == everything(ours)


def test_the_same_database_will_do_and_the_source_stays_as_it_is(dsn):
    with PostgresStore.from_conn_string(dsn, index=INDEX) as theirs:
        theirs.setup()
        fill(theirs, 40)
        theirs.put(ALICE, "city", {"text": "Lisbon"}, ttl=10)
        before = column(dsn, "SELECT md5(string_agg(s::text, ',' ORDER BY s::text)) FROM store s")
        ran = run(dsn, dsn, "--schema", "other", "--batch", "7")
        assert 0 == ran.exit_code, ran.output
        assert "41 items, 0 expired, 41 with vectors of 64 dimensions" in ran.stdout
        assert "Of 41 items 41 copied" in ran.stdout
        after = column(dsn, "SELECT md5(string_agg(s::text, ',' ORDER BY s::text)) FROM store s")
    assert before == after
    assert [41] == column(dsn, "SELECT count(*) FROM other.memories")
    assert [0] == column(dsn, "SELECT count(*) FROM hippocampus.memories")


def test_a_prefix_is_of_whole_labels(bundled):
    name = bundled.app
    for labels in ((name, "b"), (name, "b", "c"), (name, "bb"), (name,)):
        bundled.theirs.put(labels, "k", {"text": "hello"})
    assert "2 items" in bundled.run("--prefix", f"{name}.b", "--dry-run").stdout
    assert [] == bundled.rows("key")
    ran = bundled.run("--prefix", f"{name}.b")
    assert 0 == ran.exit_code, ran.output
    assert [(name, "b"), (name, "b", "c")] == bundled.ours.list_namespaces(prefix=(name,))


def test_what_cannot_be_stored_is_listed_and_the_rest_is_copied(source, dsn):
    origin, theirs = source
    fill(theirs, 20)
    long = "".join(f"{crc32(str(n).encode()):08x}" for n in range(315))
    insert = "INSERT INTO store (prefix, key, value) VALUES (%s, %s, %s)"
    with psycopg.connect(origin) as connection:
        connection.cursor().executemany(insert, [
            ("app.user1", "", '{"text": "no key"}'),
            ("app..user1", "k", '{"text": "an empty label"}'),
            ("", "root", '{"text": "no namespace"}'), ("app.user1", "list", '["no object"]'),
            ("app.user1", "huge", '{"text": "a number", "n": 1e5000}'),
            ("app.user1", "deep", '{"a":' * 600 + "1" + "}" * 600),
            ("app.user1", long, '{"text": "a long key"}'),
        ])  # fmt: skip
    ran = run(origin, dsn)
    assert 1 == ran.exit_code
    listed = [line for line in ran.stderr.splitlines() if line.startswith("✗")]
    told = [key for key in ("", "list", "huge", "deep") if f"/ {key!r}: " in ran.stderr]
    assert ["", "list", "huge", "deep"] == told
    assert "'app..user1' / 'k': a label of its namespace is empty" in listed[0] + listed[1]
    failed = len(listed)
    assert f"Of 27 items {27 - failed} copied" in ran.stdout
    assert f"{failed} failed" in ran.stdout
    assert [27 - failed] == column(dsn, "SELECT count(*) FROM hippocampus.memories")
    assert failed in (6, 7)  # the long key may still fit


def test_what_was_written_here_later_stays_and_what_changed_there_comes(bundled):
    bundled.put("ours", "theirs", "same")
    assert 0 == bundled.run().exit_code
    bundled.theirs.put(bundled.ana, "theirs", {"text": "second theirs"})
    bundled.ours.put(bundled.ana, "ours", {"text": "second ours"})
    ran = bundled.run()
    assert "Of 3 items 1 copied, 1 were here already, 1 are newer here" in ran.stdout
    assert 0 == ran.exit_code
    values = {item.key: item.value["text"] for item in bundled.ours.search(bundled.ana)}
    assert {"ours": "second ours", "theirs": "second theirs", "same": "same"} == values


async def test_items_their_times_and_their_marks_come_together_or_not_at_all(stores, monkeypatch):
    fill(stores.theirs, 30, stores.app)
    real = items._stamped
    wrong = Update("memories", {"importance": None}, ())
    for steps in (lambda *given, **more: [*real(*given, **more), wrong], lambda *_, **__: [wrong]):
        with monkeypatch.context() as patched:
            patched.setattr(items, "_stamped", steps)
            with pytest.raises(psycopg.errors.NotNullViolation):
                await stores.bring()
        assert [] == stores.rows("key")
    assert 30 == (await stores.bring()).copied
    assert 30 == len(stores.rows("address_hash", "import_marks"))
    assert everything(stores.theirs, stores.app) == everything(stores.ours, stores.app)


async def test_an_item_that_was_written_here_is_never_changed(stores, monkeypatch):
    stores.put("first", "since", "race", ttl=60)
    put = ingest_items.write_items
    written: list[str] = []

    async def followed(storage: Any, rows: Any, *more: Any) -> None:
        await put(storage, rows, *more)
        if any("race" == row.key for row in rows) and not written:
            written.append("race")
            await stores.ours.aput(stores.ana, "race", {"text": "coffee"})

    await stores.ours.aput(stores.ana, "first", {"text": "first"})
    monkeypatch.setattr(ingest_items, "write_items", followed)
    await stores.bring()
    await stores.ours.aput(stores.ana, "since", {"text": "since"})
    before = sorted(stores.rows("memories::text"))
    assert [(None,)] * 3 == stores.rows("expires_at")
    for reembed in (False, True):
        again = await stores.bring(reembed=reembed)
        assert (2, 1, 0, True) == (again.here, again.newer, again.copied, again.complete)
    assert before == sorted(stores.rows("memories::text"))


async def test_what_lives_longer_there_lives_longer_here_after_the_next_import(stores):
    stores.put("ever", "read", "shorter", "read here", "same", ttl=60)
    stores.there("expires_at = now() + '5 min'")
    await stores.bring()
    stores.put("ever")
    assert stores.theirs.get(stores.ana, "read", refresh_ttl=True) is not None
    stores.put("shorter", ttl=2)
    assert await stores.ours.aget(stores.ana, "read here") is not None
    assert (5, 0, True) == await stores.brought("here copied complete")
    left = dict(stores.rows("key, expires_at - now()"))
    assert left["ever"] is None
    hour, five, two = (timedelta(minutes=minutes) for minutes in (59, 5, 2))
    assert left["read"] > hour and left["read here"] > hour
    assert left["shorter"] <= two
    assert two < left["same"] <= five


@pytest.mark.parametrize(("vectors", "largest"), [(True, 6), (False, 30)])
async def test_vectors_count_as_what_a_page_holds(stores, monkeypatch, vectors, largest):
    fill(stores.theirs, 30, stores.app)
    monkeypatch.setattr(PAGE_BYTES, 12_000)
    async with PostgresStoreSource(stores.origin, below=stores.app) as opened:
        pages = [len(page) async for page in opened.pages(500, vectors=vectors)]
    assert 30 == sum(pages)
    assert largest == max(pages)


async def test_an_embedder_that_is_down_ends_the_import_and_the_next_goes_on(stores):
    fill(stores.theirs, 60, stores.app)
    calls: list[int] = []

    def failing(texts: list[str]) -> list[list[float]]:
        calls.append(len(texts))
        if len(calls) > 2:
            raise OSError("no route to the model")
        return word_vectors(texts)

    broken = CallableEmbedder(failing, model="words-64")
    with pytest.raises(ModelUnavailable, match="no route"):
        await stores.bring(batch=20, embedder=broken)
    assert len(calls) < 30
    assert (20, 40, True) == await stores.brought("copied here complete", batch=20)


def test_a_store_from_before_times_to_live_can_be_read(empty_dsn, bundled):
    execute(empty_dsn, "CREATE TABLE store (prefix text NOT NULL, key text NOT NULL, value jsonb"
                       " NOT NULL, created_at timestamptz, updated_at timestamptz,"
                       " PRIMARY KEY (prefix, key))")  # fmt: skip
    execute(
        empty_dsn, f"""INSERT INTO store VALUES ('{bundled.app}.b', 'k', '{{"text": "old"}}')"""
    )
    ran = run(empty_dsn, bundled.uri)
    assert 0 == ran.exit_code, ran.output
    assert {"text": "old"} == bundled.ours.get((bundled.app, "b"), "k").value


def test_large_values_come_in_small_pages(bundled, monkeypatch):
    monkeypatch.setattr(PAGE_BYTES, 1000)
    fill(bundled.theirs, 30, bundled.app)
    large = {"text": "word", "rest": [crc32(b"%d" % n) for n in range(5000)]}
    bundled.theirs.put(bundled.ana, "large", large)
    ran = bundled.run()
    assert "Of 31 items 31 copied" in ran.stdout, ran.output


async def test_what_was_deleted_here_stays_deleted_unless_it_is_asked_for(filled):
    assert 4 == (await filled.bring()).copied
    await filled.ours.adelete(filled.ana, "m0")
    assert 1 == await filled.ours.engine.forget(Scope(filled.app, "ana"), "m1")
    for reembed in (False, True):
        assert (2, 0, True) == await filled.brought("deleted failed complete", reembed=reembed)
        assert {"m2"} == await filled.keys()
    assert {"m0"} == await filled.keys("bob")
    assert (2, 0, True) == await filled.brought("copied deleted complete", restore=True)
    assert {"m0", "m1", "m2"} == await filled.keys()
    await filled.ours.adelete(filled.ana, "m0")
    assert 1 == (await filled.bring()).deleted
    assert {"m1", "m2"} == await filled.keys()


async def test_a_user_who_was_erased_stays_erased_and_leaves_no_address(filled):
    await filled.bring()
    await filled.ours.engine.forget_scope(Scope(filled.app, "ana"))
    assert (3, 1, True) == await filled.brought("deleted here complete")
    assert set() == await filled.keys()
    marks = filled.rows("tenant_id, address_hash", "import_marks")
    ana = f"/{filled.app}/ana/"
    assert [(ana, b"")] == [row for row in marks if row[0] == ana]
    assert 3 == (await filled.bring(restore=True)).copied


async def test_what_was_new_there_before_a_user_was_erased_does_not_come(filled):
    await filled.bring()
    filled.put("m3")
    await filled.ours.engine.forget_scope(Scope(filled.app, "ana"))
    filled.put("m4")
    assert (4, 1) == await filled.brought("deleted copied")
    assert {"m4"} == await filled.keys()


async def test_what_came_both_ways_after_a_user_was_erased_can_be_deleted(filled):
    await filled.bring()
    await filled.ours.engine.forget_scope(Scope(filled.app, "ana"))
    filled.put("m0")
    await filled.ours.aput(filled.ana, "m0", {"text": "m0"})
    assert (2, 2) == await filled.brought("here deleted")
    await filled.ours.adelete(filled.ana, "m0")
    assert 3 == (await filled.bring()).deleted
    assert set() == await filled.keys()


async def test_a_deletion_outlasts_what_was_put_in_its_place(filled):
    filled.put("k", ttl=60)
    await filled.bring()
    await filled.ours.adelete(filled.ana, "k")
    await filled.ours.aput(filled.ana, "k", {"text": "another"}, ttl=60)
    assert 1 == (await filled.bring()).newer
    filled.expire("k")
    filled.there("expires_at = now() + '2 h'::interval", "k")
    assert 1 == (await filled.bring()).deleted
    assert await filled.ours.aget(filled.ana, "k") is None


async def test_what_was_replaced_here_stays_away_and_what_was_written_there_after_it_comes(filled):
    await filled.bring()
    await filled.ours.adelete(filled.ana, "m0")
    filled.theirs.put(filled.ana, "m0", {"text": "new"})
    assert 1 == (await filled.bring()).copied
    assert {"text": "new"} == (await filled.ours.aget(filled.ana, "m0")).value
    await filled.ours.aput(filled.ana, "m1", {"text": "for a moment"}, ttl=60)
    filled.expire("m1")
    for swept in (0, 1):
        assert 1 == (await filled.bring()).deleted
        assert (1 - swept) == await filled.ours.engine.sweep_expired((filled.app,))
    assert {"m0", "m2"} == await filled.keys()


async def test_what_was_here_before_an_import_counts_as_well(filled):
    await filled.ours.aput(filled.ana, "m0", {"text": "m0"})
    await filled.ours.aput(filled.ana, "m1", {"text": "another"})
    assert (1, 1, 2) == await filled.brought("here newer copied")
    await filled.ours.adelete(filled.ana, "m0")
    await filled.ours.adelete(filled.ana, "m1")
    assert 2 == (await filled.bring()).deleted
    assert {"m2"} == await filled.keys()


async def test_what_expired_here_and_was_read_there_comes_again(filled):
    filled.put("kept", "gone", ttl=60)
    await filled.bring()
    await filled.ours.adelete(filled.ana, "gone")
    filled.expire("kept")
    await filled.ours.engine.sweep_expired((filled.app,))
    filled.there("expires_at = CASE WHEN ttl_minutes > 0 THEN now() + '2 h'::interval END")
    assert (1, 1) == await filled.brought("copied deleted")
    assert {"m0", "m1", "m2", "kept"} == await filled.keys()


def test_the_command_says_what_it_left_out(bundled):
    bundled.put("m0", "m1", "m2", "m3")
    assert 0 == bundled.run().exit_code
    commands.succeed("forget", bundled.app, "ana", "m1", "--uri", bundled.uri)
    ran = bundled.run()
    assert 0 == ran.exit_code
    assert "0 copied, 3 were here already, 1 were deleted here since" in ran.stdout
    assert "1 copied" in bundled.run("--restore").stdout


@pytest.mark.tail
def test_the_command_reads_an_embedded_database_that_nobody_else_runs(tmp_path):
    home = f"embedded://{tmp_path}/home"
    with PgHippocampusStore(home, index={"embed": word_vectors, "dims": 64}) as ours:
        origin = asyncio.run(ours.engine.dsn())
        with PostgresStore.from_conn_string(origin) as theirs:
            theirs.setup()
            theirs.put(ALICE, "m0", {"text": "tea"})
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(make_conninfo(origin, connect_timeout=2))
    at = ("import", "--from", "postgres-store", origin, "--uri", home)
    assert "1 items" in commands.succeed(*at, "--dry-run")
    assert "Of 1 items 1 copied" in commands.succeed(*at)
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(make_conninfo(origin, connect_timeout=2))


def test_an_embedded_database_is_known_by_its_sockets(tmp_path):
    home, conninfo = tmp_path.resolve(), embedded_server.conninfo
    in_folder, *elsewhere = embedded_server.socket_directories(home / embedded_server.CLUSTER)
    in_folder.mkdir()
    assert embedded_behind(conninfo(in_folder, "any"), None) is None  # never initialised
    (in_folder / "PG_VERSION").write_text("18")
    assert embedded_behind(conninfo(in_folder, "any"), None) is not None
    for sockets in elsewhere:
        assert embedded_behind(conninfo(sockets, "any"), home) is not None
        assert embedded_behind(conninfo(sockets, "any"), home.parent) is None
    for other in ("postgresql://localhost/any", "host=/var/run/postgresql", "no DSN"):
        assert embedded_behind(other, home) is None


@every_case(
    ("{}..ana", "a label of the prefix '{}..ana' is empty"), (".{}", "is empty"),
    ("{}.", "is empty"), ("{}.nope", "there are no items below the prefix '{}.nope'"),
    ("gdp", "there are no items below the prefix 'gdp'"),
)  # fmt: skip
def test_a_prefix_that_names_nothing_is_told(prefix, message, bundled):
    bundled.put("m0")
    for options in ([], ["--dry-run"]):
        ran = bundled.run("--prefix", prefix.format(bundled.app), *options)
        assert 1 == ran.exit_code
        assert message.format(bundled.app) in ran.stderr
        assert 1 == len(ran.stderr.splitlines())


@every_case(
    ({"vectors_from": "words-63"}, "'words-64' cannot use vectors of 'words-63'"),
    ({"vectors_from": "words-64", "reembed": True}, "give either --vectors-from"),
    ({"batch": 0}, "batch must be"),
    (
        {"embedder": CallableEmbedder(lambda texts: [[1.0, 2.0] for _ in texts], model="short"),
         "vectors_from": "short"},
        "64 dimensions, those of 'short' have 2",
    ),
)  # fmt: skip
async def test_options_that_make_no_sense_are_refused(options, message, filled):
    with pytest.raises(InvalidInput, match=message):
        await filled.bring(**options)


def test_wrong_addresses_are_told_without_the_password(shared_dsn):
    user = f"postgresql://alice:{SECRET}@"
    for address, message in (
        (f"{user}127.0.0.1:1/memory?connect_timeout=2", "cannot be read"),
        (f"{user}127.0.0.1:1/memory?nonsense=1", "check it"),
        (f"{SECRET}", "has an unknown form"),
        (f"password={SECRET} {SECRET}", "check it"),
        (shared_dsn, "there is no PostgresStore"),
        (make_conninfo(shared_dsn, dbname="not_there"), "does not exist"),
    ):
        ran = run(address, shared_dsn)
        assert 1 == ran.exit_code, address
        assert message in ran.stderr
        assert SECRET not in ran.output
        assert 1 == len(ran.stderr.splitlines())


def test_a_role_without_rights_is_told(bundled, guest):
    bundled.put("city")
    poor = replace(bundled, origin=make_conninfo(bundled.origin, user=guest))
    ran = poor.run()
    assert 1 == ran.exit_code
    assert "may not read the PostgresStore" in ran.stderr
    execute(bundled.origin, f"GRANT SELECT ON store, store_vectors TO {guest}")
    assert 0 == poor.run().exit_code
    execute(bundled.origin, f"DROP OWNED BY {guest}")


CHECKS = {
    block.text
    for page in PAGES
    if page.name.startswith("from-postgres-store")
    for block in blocks_of(page)
    if block.value == "check.py"
}
"""The program as the pages print it, once if they agree."""


@pytest.fixture(params=sorted(CHECKS), ids=[f"check{n}" for n in range(len(CHECKS))])
def program(request, dsn, tmp_path):
    """The printed program, beside a database.py that names the database of the test."""
    (tmp_path / "database.py").write_text(f"DSN = {dsn!r}\n", "utf-8")
    (file := tmp_path / "check.py").write_text(request.param, "utf-8")
    return file


def test_the_check_counts_every_item_and_names_each_that_is_lost(program, dsn):
    def check() -> tuple[int, str, str]:
        ran = run_warm([str(program)], cwd=program.parent, env=dict(os.environ), timeout=100)
        return ran.returncode, ran.stdout, ran.stderr

    # More namespaces than a listing gives, and more items than a search gives, by default.
    puts = [PutOp(("app", f"user{one:03}"), "note", {"n": one}) for one in range(110)]
    puts += [PutOp(("app", "user007", "more"), f"{one}", {"n": one}) for one in range(1010)]
    puts += [PutOp(("app", "user007"), "0", {"n": "above"}), PutOp(("a%2Eb",), "名前", {"n": None})]
    count = len(puts)
    with PostgresStore.from_conn_string(dsn) as old:
        old.setup()
        old.batch(puts)
        old.put(("app", "user007"), "gone", {"n": 1}, ttl=60)  # it is not counted
    execute(dsn, "UPDATE store SET expires_at = now() - interval '1 day' WHERE key = 'gone'")
    asyncio.run(import_store(StoreImport(dsn=dsn, uri=dsn)))
    with PostgresStore.from_conn_string(dsn, ttl={"omit_expired": True}) as old:
        if old.get(("app", "user007"), "gone", refresh_ttl=False):  # before 3.1.1
            old.sweep_ttl()
    assert (0, f"112 namespaces, {count} items: all equal\n", "") == check()
    with PgHippocampusStore(dsn) as new:
        new.put(("app", "user109"), "note", {"n": "another"})
        new.put(("app", "later"), "note", {"n": "of the new store"})
        new.delete(("app", "user007", "more"), "1009")
    missing = "".join(f"missing or different: {one}\n" for one in (
        "('app', 'user007', 'more') 1009", "('app', 'user109') note"))  # fmt: skip
    assert (1, missing, f"2 of {count} items differ\n") == check()
