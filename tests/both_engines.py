"""Runs the same calls of one user on both engines, and compares their results and rows."""

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import psycopg

from shared_core.core.domain import Scope
from shared_core.core.namespaces import scope_path
from shared_core.errors import Conflict, NotFound
from shared_core.settings import Settings
from shared_core.storage.oceanbase.connection.transactions import Transaction
from shared_core.storage.oceanbase.storage import OceanBaseStorage
from shared_core.storage.postgres.storage import PostgresStorage

NOW = datetime(2026, 3, 1, tzinfo=UTC)
MODEL, DIMENSIONS = "m", 8
JSON = (
    "state", "metadata", "value", "counts", "result", "payload", "entries", "before", "input",
    "output",
)  # fmt: skip

Row = dict[str, Any]
World = dict[str, list[Row]]
T = TypeVar("T")


class Both:
    """A storage on PostgreSQL and one on SeekDB, with one clock and one model of vectors.

    Each test is a user of an application of its own: begin() makes one.
    """

    def __init__(self, postgres: str, seekdb: str) -> None:
        self._dsn = postgres
        self.begin()
        settings = [Settings(uri=uri, home=Path()) for uri in (postgres, seekdb)]
        self.postgres = PostgresStorage(settings[0], lambda: self.now)
        self.seekdb = OceanBaseStorage(settings[1], lambda: self.now)

    def begin(self) -> None:
        """Turn the clock to NOW, and take a user whom nobody knows."""
        self.now = NOW
        self.scope = Scope(f"app {uuid4().hex[:12]}", "ann 安")
        self.tenant = scope_path(self.scope)

    @property
    def storages(self) -> tuple[PostgresStorage, OceanBaseStorage]:
        return self.postgres, self.seekdb

    async def open(self) -> None:
        for storage in self.storages:
            await storage.open()
            await storage.use_model(MODEL, DIMENSIONS)

    async def close(self) -> None:
        await self.seekdb.close()
        await self.postgres.close()

    async def same(self, call: Callable[[Any], Awaitable[T]]) -> T:
        """Return the result of a call, which must be equal on both storages."""
        first, second = await call(self.postgres), await call(self.seekdb)
        assert second == first, f"{second!r:.2000}\nis not\n{first!r:.2000}"
        return first

    async def outcome(self, call: Callable[[Any], Awaitable[object]]) -> object:
        """Return the result or the text of the error, which must be equal on both storages."""
        found, why = list[object](), []
        for storage in self.storages:
            try:
                found.append(await call(storage))
            except (Conflict, NotFound) as error:
                found.append(f"{type(error).__name__}: {error}")
                why.append(error.__cause__)
        assert found[1] == found[0], why
        return found[0]

    async def put(self, world: World) -> None:
        """Write rows of the user, by table and column, into both storages."""
        with self._admin() as admin:
            for table, names, rows in _alike(self.tenant, world):
                admin.cursor().executemany(
                    f"INSERT INTO {table} ({', '.join(names)})"
                    f" VALUES ({', '.join(['%s'] * len(names))})",
                    [[_postgres(name, row[name]) for name in names] for row in rows],
                )
        await self.seekdb._database.write(lambda tx: _put(tx, self.tenant, world))

    async def change(self, statement: str, *values: object) -> None:
        """Run a statement on both storages; its last value is the tenant."""
        with self._admin() as admin:
            admin.execute(statement.encode(), [*values, self.tenant])
        await self.seekdb._database.write(lambda tx: tx.run(statement, [*values, self.tenant]))

    async def left(self, tables: Mapping[str, str], tenant: str = "") -> World:
        """Return rows of the user, or of another tenant, which must be equal on both storages.

        tables: column names by table.
        """
        tenant = tenant or self.tenant
        with self._admin() as admin:
            found = {
                table: admin.execute(_select(table, columns, ""), [tenant]).fetchall()
                for table, columns in tables.items()
            }
        first = {table: _read(tables[table], rows) for table, rows in found.items()}
        second = await self.seekdb._database.read(
            lambda tx: {
                table: _read(columns, tx.rows(_select(table, columns, "`"), [tenant]))
                for table, columns in tables.items()
            }
        )
        for table, rows in first.items():
            there = second[table]
            assert there == rows, f"{table}: {there!r:.2000}\nis not\n{rows!r:.2000}"
        return first

    def _admin(self) -> psycopg.Connection[Any]:
        options = "-c search_path=hippocampus,public -c timezone=UTC"
        return psycopg.connect(self._dsn, options=options)


def _select(table: str, columns: str, quote: str) -> str:
    names = ", ".join(f"{quote}{name}{quote}" for name in columns.split())
    return f"SELECT {names} FROM {table} WHERE tenant_id = %s"


def _put(tx: Transaction, tenant: str, world: World) -> None:
    for table, names, rows in _alike(tenant, world):
        quoted = [f"`{name}`" for name in names]
        tx.insert(table, quoted, [[_seekdb(name, row[name]) for name in names] for row in rows])


def _alike(tenant: str, world: World) -> Iterator[tuple[str, Sequence[str], Sequence[Row]]]:
    """Yield each table, its column names, and its rows with exactly these columns."""
    for table, rows in world.items():
        groups: dict[tuple[str, ...], list[Row]] = {}
        for row in rows:
            groups.setdefault(("tenant_id", *row), []).append({"tenant_id": tenant, **row})
        for names, alike in groups.items():
            yield table, names, alike


def _postgres(name: str, value: object) -> object:
    return json.dumps(value) if name in JSON and value is not None else value


def _seekdb(name: str, value: object) -> object:
    return json.dumps(value) if isinstance(value, list) else _postgres(name, value)


def _read(columns: str, rows: Sequence[Sequence[Any]]) -> list[Row]:
    names = columns.split()
    pairs = (zip(names, row, strict=True) for row in rows)
    return sorted(({name: _plain(name, value) for name, value in row} for row in pairs), key=repr)


def _plain(name: str, value: Any) -> Any:
    plain = json.loads(value) if name in JSON and isinstance(value, str) else value
    if isinstance(plain, dict):
        return {key: plain[key] for key in sorted(plain)}
    return plain.astimezone(UTC) if isinstance(plain, datetime) else plain
