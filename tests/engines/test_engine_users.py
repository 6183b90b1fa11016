"""A user with rows in every table is kept, forgotten, erased and moved alike on both engines."""

import json
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from datetime import datetime, timedelta
from operator import getitem
from typing import Any, TypeVar, get_args
from uuid import UUID

import pytest
from both_engines import NOW, Both

from shared_core import MemoryEngine, RetentionPolicy, Scope, open_memory, run_sync
from shared_core.core.domain import MemoryKind, ThreadId
from shared_core.core.namespaces import from_path, scope_path, to_path
from shared_core.errors import Conflict, InvalidInput
from shared_core.policies.profiles import profile_of
from shared_core.ports.erasures import ERASED_TOKEN, ErasureReceipt
from shared_core.ports.retention import Kept
from shared_core.ports.tables import tables
from shared_core.ports.transfer import TABLES, ExportScope
from shared_core.storage.oceanbase import transfer
from tests import forgetting_calls as calls
from tests.integration.retention_calls import Calls
from tests.integration.whole_user import START, WholeClock, populate, said, write_the_rest

T = TypeVar("T")
USER = "ana/ü%"
DAYS = timedelta(days=1)


class Whole(Both):
    """A user with rows in every table on both engines, each in a memory of its own."""

    def __init__(self, postgres: str, seekdb: str, lines: dict[bool, list[str]]) -> None:
        self._dsn = postgres
        self._lines = lines
        self.begin()
        uris = (postgres, seekdb)
        self.memories = [open_memory(uri, clock=lambda: self.now, worker=False) for uri in uris]

    async def open(self) -> None:
        for memory in self.memories:
            await memory.report()
        self.postgres, self.seekdb = [memory._storage for memory in self.memories]  # type: ignore[assignment]

    async def close(self) -> None:
        for memory in self.memories:
            await memory.close()

    def begin(self) -> None:
        super().begin()
        self.now = START + 600 * DAYS
        self.scope = Scope(self.scope.app.replace(" ", ""), USER)
        self.tenant = scope_path(self.scope)

    @property
    def calls(self) -> list[Calls]:
        return [Calls(storage, lambda: self.now) for storage in self.storages]

    def lines(self, *, vectors: bool = True) -> list[str]:
        """Return the export of the user, under the name of this test's application."""
        head, *rows = self._lines[vectors]
        header = json.loads(head)
        header["of"]["app"] = self.scope.app
        return [json.dumps(header), *(row.replace("/app/", f"/{self.scope.app}/") for row in rows)]

    async def arrive(self) -> None:
        """Import the user into both memories."""
        for memory in self.memories:
            await memory.import_lines(self.lines())

    async def rows(self) -> list[str]:
        """Return all rows of the user, which must be equal on both engines."""
        whose = ExportScope(app=self.scope.app, user=USER, path=self.tenant)
        held = []
        for storage in self.storages:
            async with storage.transfer.snapshot(whose, vectors=True) as snapshot:
                held.append([f"{row.table} {row.text}" async for row in snapshot.rows])
        assert held[1] == held[0]
        return held[0]

    async def alike(self, call: Callable[[Calls], Awaitable[T]]) -> T:
        """Return what a rule of retention says, which must be the same on both engines."""
        first, second = [await call(one) for one in self.calls]
        assert _rounded(second) == _rounded(first)
        return first


def _rounded(told: Any) -> Any:
    """Return what a storage told, strengths to 9 digits: so far do both formulas agree."""
    if isinstance(told, Kept):
        return replace(told, strength=round(told.strength, 9))
    if isinstance(told, list | tuple):
        return [_rounded(one) for one in told]
    return told


@pytest.fixture(scope="module")
def two_memories(postgres, seekdb):
    """A memory on each engine, and the exports of a user, without vectors and with them."""
    lent, clock = [postgres.lend(), postgres.lend(), seekdb.lend()], WholeClock()
    source, *uris = map(next, lent)

    async def made() -> dict[bool, list[str]]:
        ana = Scope("app", USER)
        async with open_memory(source, clock=clock, worker=False) as memory:
            await populate(memory, ana, clock)
            write_the_rest(source, scope_path(ana))
            return {
                vectors: [line async for line in memory.export(ana, vectors=vectors)]
                for vectors in (False, True)
            }

    whole = Whole(*uris, run_sync(made()))
    run_sync(whole.open())
    yield whole
    run_sync(whole.close())
    for one in lent:
        next(one, None)


@pytest.fixture(params=["postgres and seekdb"])
def empty(two_memories):
    """A memory on each engine, and a user who has not arrived there."""
    two_memories.begin()
    return two_memories


@pytest.fixture
async def whole(empty):
    """A user with rows in every table, the same on both engines."""
    await empty.arrive()
    return empty


# Retention


async def test_a_new_policy_is_carried_to_all_memories_below_it(whole):
    scope, path = whole.scope, to_path((whole.scope.app,))
    policy = RetentionPolicy(
        decay_rate=0.07, threshold=0.2, archive_threshold=0.3, archive_after_days=3,
        erase_threshold=0.5, erase_after_days=4,
    )  # fmt: skip
    rules = dict.fromkeys(get_args(MemoryKind), policy)
    await whole.alike(lambda one: one.set_rules(path, rules))
    assert rules != await whole.alike(lambda one: one.retention_rules(scope))
    await whole.alike(lambda one: one.set_rules(whole.tenant, None))
    assert rules == await whole.alike(lambda one: one.retention_rules(scope))
    assert {path, whole.tenant} <= {*await whole.alike(lambda one: one.retimings())}
    for place in (path, whole.tenant):
        looked = 1
        while looked:
            looked, _ = await whole.alike(lambda one, at=place: one.retime(at, 7))
    assert not {path, whole.tenant} & {*await whole.alike(lambda one: one.retimings())}
    before = await whole.rows()
    for _ in range(3):
        now = whole.now
        for of, app, limit in ((None, scope.app, 5), (scope, None, 100)):
            await whole.alike(lambda one, f=(of, app, now, limit): one.due(*f))
        await whole.alike(lambda one, now=now: one.forget_faded(scope, now, 100))
        after = await whole.rows()
        assert before != after
        before = after
        whole.now += timedelta(days=4, microseconds=3)


async def test_what_faded_is_read_as_it_was(whole):
    held = (await whole.left({"memories": "namespace key demoted_at"}))["memories"]
    faded = [one for one in held if one["demoted_at"] is not None]
    of = (whole.scope.app, whole.scope.user)
    places = [((*of, *from_path(one["namespace"])), one["key"]) for one in faded]
    assert places

    async def items(storage: Any) -> list[Any]:
        return sorted(await storage.items.get_items(places), key=repr)

    assert await whole.same(items)


async def test_the_clock_of_a_machine_is_compared_with_the_servers(empty):
    for storage in empty.storages:
        ahead = await storage.retention.ahead_of_server(datetime.now(START.tzinfo) + 2 * DAYS)
        assert 1.9 * DAYS < ahead < 2.1 * DAYS


# Forgetting and erasing


async def erased(whole: Whole, number: int, thread: str | None = None) -> ErasureReceipt:
    of = None if thread is None else ThreadId(thread)
    given = (whole.scope, of, UUID(int=number), whole.now)
    receipt = await whole.same(lambda s: calls.erase(s, *given))
    assert receipt.is_intact and USER not in json.dumps(dict(receipt.counts))
    await whole.rows()
    return receipt


async def lines_of(memory: MemoryEngine, scope: Scope, *, vectors: bool = True) -> list[str]:
    return [line async for line in memory.export(scope, vectors=vectors)]


async def test_an_erased_user_is_gone_from_every_table(whole):
    app, bob = whole.scope.app, Scope(whole.scope.app, "bob")
    for memory in whole.memories:
        await memory.append_events(bob, "t1", [said(1, "My name is Bob. I live in Rome.")])
        for label, users in (("phone", [USER]), ("family", ["bob", USER]), ("all", None)):
            await memory.tokens.create(app, users=users, label=label)
        await memory.consolidate(bob, "t1")
    others = [await lines_of(memory, bob) for memory in whole.memories]
    first = await erased(whole, 1, "t1")
    assert {"threads", "events", "memories", "embeddings", "tombstones"} < {*first.counts}
    second, third = await erased(whole, 2), await erased(whole, 3)
    assert 2 == second.counts["api_tokens"] and not third.counts.get("memories")
    left = {row.partition(" ")[0] for row in await whole.rows()}
    assert left == {"tombstones", "import_marks", "erasures"}
    assert others == [await lines_of(memory, bob) for memory in whole.memories]
    stored = [await memory.erasures(whole.scope) for memory in whole.memories]
    assert stored[0] == stored[1] and {1, 2, 3} < {one.erasure_id.int for one in stored[0]}
    for memory in whole.memories:
        assert stored[0] == await memory.erasures(app=app)
        every = await memory.erasures()
        assert all(one in every for one in stored[0])
        assert [] == await memory.erasures(bob) == await memory.erasures(app=app[:-1])
        tokens = {one.label: one for one in await memory.tokens.list(app)}
        assert {"", "family", "all"} == {*tokens}
        assert ((ERASED_TOKEN,), ("bob",)) == (tokens[""].users, tokens["family"].users)
        assert tokens[""].revoked_at is not None and tokens["family"].revoked_at is None
        again = [said(1, "My name is Ana. I live in Leeds.")]
        assert set() == await memory.append_events(whole.scope, "t1", again)
    for storage in whole.storages:
        assert app in await storage.transfer.applications()


async def test_a_version_that_names_no_memory_is_blurred_too(both):
    version = {
        "subject_kind": "user", "subject_id": "bot", "version": 1, "content_hash": b"told",
        "created_at": NOW, "memory_id": UUID(int=1), "entries": [{"role": "mind"}],
        "began_at": NOW,
    }  # fmt: skip
    await both.put({"profiles": [version]})
    await both.same(lambda s: calls.erase(s, both.scope, ThreadId("t"), UUID(int=2), NOW))
    for storage in both.storages:
        found = await storage.query(both.tenant, lambda: profile_of("user", "bot"))
        assert found is not None and b"told".hex() != found.version.content_hash


# Export and import


@pytest.mark.parametrize("vectors", [False, True])
async def test_an_export_goes_to_the_other_engine_and_back(empty, vectors, monkeypatch):
    monkeypatch.setattr(transfer, "FETCHED", 3)  # every table takes several pages
    lines, (postgres, seekdb) = empty.lines(vectors=vectors), empty.memories
    held = Counter(json.loads(line).get("table") for line in lines)
    assert {None, *TABLES} == set(held), {*TABLES} - {*held}
    report = await seekdb.import_lines(lines, text_of_field=getitem)
    assert (len(lines) - 2, 0, 0) == (report.written, report.here, report.unembedded)
    again = await seekdb.import_lines(lines, text_of_field=getitem)
    assert (0, len(lines) - 2, 0) == (again.written, again.here, again.differ)
    assert lines[1:] == (await lines_of(seekdb, empty.scope, vectors=vectors))[1:]
    await postgres.import_lines(await lines_of(seekdb, empty.scope))
    assert lines[1:] == (await lines_of(postgres, empty.scope, vectors=vectors))[1:]
    for wanted in (1, 2, len(lines) - 1):  # an export may be left early
        async with aclosing(seekdb.export(empty.scope, vectors=vectors)) as some:
            assert lines[1:wanted] == [await anext(some) for _ in range(wanted)][1:]


async def test_what_was_forgotten_here_comes_back_if_that_is_asked(whole):
    lines, seekdb = whole.lines(), whole.memories[1]
    columns = "(thread_id, event_id, deleted_at, tenant_id)"
    await whole.change(f"INSERT INTO tombstones {columns} VALUES ('t1', 'e2', '2026-01-01', %s)")
    number = 1 + next(n for n, line in enumerate(lines) if '"event_id":"e2"' in line)
    with pytest.raises(Conflict, match=f"line {number}, a row of events: this turn was forgotten"):
        await seekdb.import_lines(lines)
    assert 0 == (await seekdb.import_lines(lines, restore=True)).written
    assert lines[1:] == (await lines_of(seekdb, whole.scope))[1:]


def changed(lines: Sequence[str], table: str, **values: object) -> tuple[int, list[str]]:
    """Return the number of the first row of a table, and the lines with other values there."""
    place = next(n for n, line in enumerate(lines) if f'"table": "{table}"' in line)
    line = json.loads(lines[place])
    line["row"] |= values
    return place + 1, [*lines[:place], json.dumps(line), *lines[place + 1 :]]


REFUSED: list[tuple[str, str, object, str]] = [
    ("memories", "text", None, "null value"),
    ("memories", "kind", "no kind", "violates check constraint"),
    ("memories", "created_at", "yesterday-ish", "date/time|timestamp"),
    ("memories", "importance", "high", "invalid input syntax"),
    ("memories", "importance", 11, "violates check constraint"),
    ("memories", "text", "\ud800", "cannot be|invalid|surrogate"),
    ("memories", "value", {"a": "\0"}, "NUL"),
    ("memories", "mystery", 1, "memories has no 'mystery'"),
    ("facts", "valid_until", "1970-01-01T00:00:00+00:00", "OceanBase cannot"),
]


async def test_a_row_that_fits_no_table_or_place_is_named(empty):
    lines, seekdb = empty.lines(vectors=False), empty.memories[1]
    assert {"memories", "facts"} < {*tables()}
    for table, column, value, told in REFUSED:
        number, some = changed(lines, table, **{column: value})
        with pytest.raises(InvalidInput, match=f"line {number}, a row of {table}: .*({told})"):
            await seekdb.import_lines(some)
    await seekdb.import_lines(lines)
    _, some = changed(lines, "memories", memory_id="00000000-0000-4000-8000-000000000000")
    told = r"a row of memories: something else has its place .* is of '/.*/', .*key '"
    with pytest.raises(Conflict, match=told):
        await seekdb.import_lines(some)
