"""Transactions on a real SeekDB: all or nothing, in line, and as text and bytes were given."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pytest
from seekdb_databases import SeekdbDatabases

from shared_core import InvalidInput, StorageUnavailable
from shared_core.settings import Settings
from shared_core.storage.oceanbase.connection.connections import location_of
from shared_core.storage.oceanbase.connection.database import OceanBaseDatabase
from shared_core.storage.oceanbase.connection.migrate import checked_version
from shared_core.storage.oceanbase.connection.transactions import Transaction

COLUMNS = ("tenant_id", "state", "updated_at")
NOW = datetime(2026, 3, 1, 12, 30, 15, 123456, tzinfo=UTC)


@pytest.fixture
async def database(seekdb: SeekdbDatabases) -> AsyncIterator[OceanBaseDatabase]:
    lent = seekdb.lend()
    database = OceanBaseDatabase(Settings(uri=next(lent), home=Path()))
    await database.open()
    yield database
    await database.close()
    next(lent, None)


@pytest.mark.parametrize(
    "text", ["it's", "\\", "\0", "中😀", "%s", "a ", "", "'; DROP TABLE x; --"]
)
async def test_text_comes_back_as_it_was_given(database: OceanBaseDatabase, text: str) -> None:
    row = f"/x{text}/", text, NOW
    await database.write(lambda tx: tx.insert("shared_state", COLUMNS, [row]))
    found = await database.read(
        lambda tx: tx.rows("SELECT * FROM shared_state WHERE tenant_id = %s", [row[0]])
    )
    assert found == [row]


@pytest.mark.parametrize("tenant", ["/", "/app/", "/app/ana/x/", "/app//", "/app/ana"])
async def test_a_thread_belongs_to_an_application_and_a_user(
    database: OceanBaseDatabase, tenant: str
) -> None:
    columns = ("tenant_id", "thread_id", "state", "created_at", "updated_at")
    row = (tenant, "t", "{}", NOW, NOW)
    with pytest.raises(InvalidInput, match="check constraint"):
        await database.write(lambda tx: tx.insert("threads", columns, [row]))


@pytest.mark.parametrize("year", [1, 9999])
async def test_moments_are_utc_in_every_year(database: OceanBaseDatabase, year: int) -> None:
    moment = datetime(year, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
    await database.write(lambda tx: tx.insert("shared_state", COLUMNS, [("/a/", "", moment)]))
    assert await database.read(lambda tx: tx.one("SELECT updated_at FROM shared_state")) == (
        moment,
    )


async def test_ids_that_look_alike_are_different(database: OceanBaseDatabase) -> None:
    names = ["/alice/", "/Alicé/", "/Alice/", "/Alice /", "/ALICE/", "/ａlice/"]
    rows = [(name, str(place), NOW) for place, name in enumerate(names)]
    await database.write(lambda tx: tx.insert("shared_state", COLUMNS, rows))
    for place, name in enumerate(names):
        assert await database.read(
            lambda tx, name=name: tx.rows(
                "SELECT state FROM shared_state WHERE tenant_id = %s", [name]
            )
        ) == [(str(place),)]
    some = await database.read(
        lambda tx: tx.rows("SELECT state FROM shared_state WHERE tenant_id IN %s", [names[:2]])
    )
    assert sorted(some) == [("0",), ("1",)]


async def test_what_raises_is_undone(database: OceanBaseDatabase) -> None:
    def work(tx: Transaction) -> None:
        tx.insert("shared_state", COLUMNS, [("/a/", "", NOW)])
        raise LookupError("half-way")

    with pytest.raises(LookupError, match="half-way"):
        await database.write(work)
    assert await database.read(lambda tx: tx.rows("SELECT * FROM shared_state")) == []


async def test_writers_of_a_tenant_stand_in_line(database: OceanBaseDatabase) -> None:
    def count(tx: Transaction) -> None:
        tx.lock("/a/b/")
        row = tx.one("SELECT extractions FROM extraction_counts WHERE tenant_id = '/a/b/'")
        value = row[0] + 1 if row else 1
        tx.insert(
            "extraction_counts",
            ("tenant_id", "extractions"),
            [("/a/b/", value)],
            update=("extractions",),
        )

    await asyncio.gather(*(database.write(count) for _ in range(40)))
    assert await database.read(lambda tx: tx.one("SELECT extractions FROM extraction_counts")) == (
        40,
    )


async def test_who_waits_for_each_other_tries_again(database: OceanBaseDatabase) -> None:
    """SeekDB does not see a deadlock: both wait until the time for a lock is over."""
    names = ("/a/1/", "/a/2/")
    await database.write(lambda tx: tx.lock(*names))
    both_hold_one, tries = threading.Barrier(2, timeout=30), []

    def work(tx: Transaction, first: str, second: str) -> None:
        tx.lock(first)
        if len(tries) < 2:
            tries.append(first)
            both_hold_one.wait()
        else:
            tries.append(first)
        tx.lock(second)
        tx.insert("shared_state", COLUMNS, [(first, "", NOW)])

    await asyncio.gather(
        database.write(lambda tx: work(tx, *names)),
        database.write(lambda tx: work(tx, *reversed(names))),
    )
    assert len(tries) > 2
    found = await database.read(lambda tx: tx.rows("SELECT tenant_id FROM shared_state"))
    assert sorted(found) == [("/a/1/",), ("/a/2/",)]


async def test_a_read_is_of_one_moment(database: OceanBaseDatabase) -> None:
    await database.write(lambda tx: tx.insert("shared_state", COLUMNS, [("/a/", "1", NOW)]))
    loop = asyncio.get_running_loop()

    def read(tx: Transaction) -> list[object]:
        before = tx.rows("SELECT state FROM shared_state")
        change = database.write(lambda tx: tx.run("UPDATE shared_state SET state = '2'"))
        asyncio.run_coroutine_threadsafe(change, loop).result()
        return [before, tx.rows("SELECT state FROM shared_state")]

    assert await database.read(read) == [[("1",)], [("1",)]]


async def test_an_id_of_sixteen_bytes_is_a_uuid(database: OceanBaseDatabase) -> None:
    given = uuid4()
    await database.write(
        lambda tx: tx.insert(
            "entity_aliases",
            ("tenant_id", "alias_id", "alias_key", "alias", "entity_key", "entity", "merged_at"),
            [("/a/b/", given, "a", "A", "b", "B", NOW)],
        )
    )
    found = await database.read(
        lambda tx: tx.rows("SELECT alias_id FROM entity_aliases WHERE alias_id IN %s", [[given]])
    )
    assert found == [(given,)]
    assert (
        await database.read(
            lambda tx: tx.rows("SELECT alias_id FROM entity_aliases WHERE alias_id IN %s", [[]])
        )
        == []
    )


async def test_what_is_too_long_is_said_so(database: OceanBaseDatabase) -> None:
    with pytest.raises(InvalidInput, match="too long: it takes at most 1,500 bytes"):
        await database.write(lambda tx: tx.insert("shared_state", COLUMNS, [("a" * 2000, "", NOW)]))


@pytest.mark.parametrize(
    ("column", "called"),
    [
        (
            "thread_id",
            "thread_id, the id of a thread or a session, is too long: it takes at most 1,500 bytes",
        ),
        ("event_id", "event_id is too long: it takes at most 1,500 bytes"),
    ],
)
async def test_a_name_that_is_too_long_is_called_as_callers_do(
    database: OceanBaseDatabase, column: str, called: str
) -> None:
    row = {"tenant_id": "/a/b/", "thread_id": "t", "event_id": "e", "deleted_at": NOW}
    row[column] = "x" * 1501
    with pytest.raises(InvalidInput, match=called) as raised:
        await database.write(lambda tx: tx.insert("tombstones", list(row), [list(row.values())]))
    assert "column" not in str(raised.value)


async def test_a_statement_that_is_too_long_says_what_to_do(database: OceanBaseDatabase) -> None:
    with pytest.raises(InvalidInput, match="texts this large.* max_allowed_packet"):
        await database.read(lambda tx: tx.rows("SELECT length(%s)", ["x" * 270_000_000]))


async def test_a_key_that_exists_is_passed_over_and_none_is_cut(
    database: OceanBaseDatabase,
) -> None:
    for state in ("first", "second"):
        await database.write(
            lambda tx, state=state: tx.insert(
                "shared_state", COLUMNS, [("/a/", state, NOW)], ignore=True
            )
        )
    assert await database.read(lambda tx: tx.rows("SELECT state FROM shared_state")) == [("first",)]
    with pytest.raises(InvalidInput, match="too long: it takes at most 1,500 bytes"):
        await database.write(
            lambda tx: tx.insert(
                "shared_state", COLUMNS, [(f"/{'a' * 1500}/", "", NOW)], ignore=True
            )
        )
    with pytest.raises(InvalidInput, match="too long: it takes at most 1,500 bytes"):
        await database.write(lambda tx: tx.lock("a" * 1501))


async def test_a_statement_that_takes_too_long_is_not_sent_again(seekdb: SeekdbDatabases) -> None:
    lent = seekdb.lend()
    sent: list[Transaction] = []
    database = OceanBaseDatabase(Settings(uri=next(lent), home=Path(), statement_timeout_s=1))
    await database.open()

    def work(tx: Transaction) -> None:
        sent.append(tx)
        tx.rows("SELECT sleep(5)")

    with pytest.raises(StorageUnavailable, match="longer than 1 s .* the disk is full"):
        await database.write(work)
    assert 1 == len(sent)
    await database.close()
    next(lent, None)


async def test_a_closed_database_says_so(database: OceanBaseDatabase) -> None:
    await database.close()
    with pytest.raises(StorageUnavailable, match="closed"):
        await database.read(lambda tx: tx.rows("SELECT 1"))


@pytest.mark.parametrize(
    ("uri", "user", "password", "host", "port", "database"),
    [
        (
            "oceanbase://root@shop#east:p@w#d@db:2883/app",
            "root@shop#east",
            "p@w#d",
            "db",
            2883,
            "app",
        ),
        ("seekdb://127.0.0.1", "", "", "", 0, ""),
        ("seekdb://ann@127.0.0.1", "ann", "", "127.0.0.1", 2881, "hippocampus"),
        ("oceanbase://a%3Ab:c%2Fd@[::1]:1/x", "a:b", "c/d", "::1", 1, "x"),
    ],
)
def test_servers_are_named_as_their_users_know_them(
    uri: str, user: str, password: str, host: str, port: int, database: str
) -> None:
    if not user:
        with pytest.raises(InvalidInput, match="seekdb://user"):
            location_of(uri)
        return
    place = location_of(uri)
    assert (place.user, place.password, place.host, place.port, place.database) == (
        user, password, host, port, database,
    )  # fmt: skip
    assert password not in repr(place) or not password


def test_a_schema_is_a_database_of_its_own() -> None:
    assert location_of("seekdb:///x", "other").database == "other"
    assert location_of("seekdb:///x?database=app", "other").database == "app_other"
    assert location_of("seekdb:///x?database=app").database == "app"


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("seekdb:///", "root of all files"),
        ("seekdb://", "seekdb://user:password@host"),
        ("seekdb://data/memory", f"'seekdb://{Path.cwd()}/data/memory'"),
        ("seekdb://~/memory", f"'seekdb://{Path.home()}/memory'"),
        ("oceanbase:///data/memory", "'seekdb:///data/memory'"),
        ("oceanbase://memory", "oceanbase://user@tenant#cluster"),
        ("seekdb:///x?typo=1&ssl=2", r"\['typo', 'ssl'\]: the options are database, ssl_ca"),
        (
            "oceanbase://u:geheim@h:99999/db",
            "port in the uri must be between 1 and 65535, got '99999'",
        ),
        ("oceanbase://u:geheim@h:0/db", "port .* got '0'"),
        ("oceanbase://u:geheim@h:port/db", "port .* got 'port'"),
        ("oceanbase://u:geheim@h/Some-Db", "database 'Some-Db' is not usable"),
        ("oceanbase://u:geheim@h/a/b", "database 'a/b' is not usable"),
        ("seekdb:///folder?database=oceanbase", "database 'oceanbase' is the server's own"),
        ("oceanbase://u:geheim@h/information_schema", "the server's own: name another"),
        ("seekdb://db.invalid:2881/memory", "'seekdb://root@db.invalid:2881/memory'"),
        ("oceanbase://u:ge?heim@h/db", "'\\?' as %3F"),
        ("oceanbase://u:ge?heim@h/db?database=x", "'\\?' as %3F"),
    ],
)
def test_a_bad_uri_is_refused_with_the_way_out(uri: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said) as refused:
        location_of(uri)
    assert "heim" not in str(refused.value)


def test_without_a_port_and_a_database_the_usual_ones_are_meant() -> None:
    for uri in ("seekdb://u:p@h", "seekdb://u:p@h:/", "seekdb://u:p@h?database=hippocampus"):
        assert (location_of(uri).port, location_of(uri).database) == (2881, "hippocampus")


def test_old_servers_are_refused() -> None:
    assert checked_version("5.7.25-OceanBase seekdb-v1.4.0.0") == ("SeekDB", (1, 4, 0, 0))
    assert checked_version("5.7.25-OceanBase-v4.3.5.3")[0] == "OceanBase"
    for text in ("5.7.25-OceanBase-v4.3.5.2", "5.7.25-OceanBase seekdb-v1.3.9.9", "8.0.33"):
        with pytest.raises(StorageUnavailable):
            checked_version(text)


async def test_a_lock_that_a_killed_process_left_locks_nobody_out(
    seekdb: SeekdbDatabases, database: OceanBaseDatabase
) -> None:
    name = f"{database.location.database}_locked"
    place = Settings(uri=f"seekdb://{database.location.folder}?database={name}", home=Path())
    with database.inspected() as cursor:
        cursor.execute("SELECT get_lock(%s, 1)", (f"hippocampus:{name}",))
        locked = OceanBaseDatabase(place)
        await locked.open()
        assert await locked.read(lambda tx: tx.rows("SELECT 1 FROM memories")) == []
        await locked.close()
