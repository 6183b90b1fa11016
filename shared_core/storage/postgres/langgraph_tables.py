"""Reads the tables of LangGraph's PostgresStore, a page at a time, and never writes there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import accumulate
from types import TracebackType
from typing import Any

import psycopg
from psycopg import AsyncConnection, IsolationLevel

from shared_core.errors import InvalidInput, NotFound, StorageUnavailable
from shared_core.ports.transfer import SourceItem, SourceTally
from shared_core.settings import redacted
from shared_core.storage._rows import record
from shared_core.storage.postgres.connection.connecting import client_parameters
from shared_core.storage.postgres.connection.statements import statement

PAGE_BYTES = 16_000_000
"""Maximum bytes of the stored values and vectors of a page; one larger item is a page."""

CONNECT_TIMEOUT_S = 10

AFTER = "(s.prefix, s.key) > (%(after_prefix)s::text, %(after_key)s::text)"

Row = tuple[Any, ...]


class PostgresStoreSource:
    """The tables store and store_vectors behind a DSN. below: a prefix of whole labels, or "".

    Every page is a read-only transaction: it holds no locks and no vacuum horizon in between. A
    concurrent write appears if its key comes later.
    """

    def __init__(self, dsn: str, *, below: str = "") -> None:
        if not dsn.startswith(("postgresql://", "postgres://")) and "=" not in dsn:
            raise InvalidInput(
                "the DSN of the PostgresStore has an unknown form: write"
                " 'postgresql://user:password@host:5432/database' or a libpq string"
                " 'host=... dbname=...'"
            )
        if below and not all(below.split(".")):
            raise InvalidInput(
                f"a label of the prefix {below!r} is empty: separate labels with one dot,"
                " 'app.user'"
            )
        self._dsn = dsn
        self._below = below
        self._has_vectors = False

    @property
    def location(self) -> str:
        """The DSN without its password."""
        return redacted(self._dsn)

    async def __aenter__(self) -> PostgresStoreSource:
        try:
            self._connection = await AsyncConnection.connect(
                self._dsn, **client_parameters(self._dsn, CONNECT_TIMEOUT_S, "hippocampus import")
            )
        except psycopg.ProgrammingError:  # its message may quote a part of the password
            raise InvalidInput("the DSN of the PostgresStore cannot be parsed: check it") from None
        except psycopg.OperationalError as error:
            raise self._unavailable(error) from None
        try:
            await self._connection.set_read_only(True)
            await self._connection.set_isolation_level(IsolationLevel.REPEATABLE_READ)
            [[[there, self._has_vectors]]] = await self._read(("store_tables", {}))
            if not there:
                raise NotFound(
                    f"there is no PostgresStore at {self.location!r}: no table store with prefix,"
                    " key and value on the search path. Name its schema in the DSN, e.g."
                    " '...?options=-csearch_path%3Dmy_schema'"
                )
        except BaseException:
            await self._connection.close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._connection.close()

    async def tally(self) -> SourceTally:
        """Count the items and vectors at present."""
        [[(items, expired)]] = await self._read(("store_tally", {}))
        embedded, dimensions = 0, None
        if self._has_vectors:
            [[(embedded, dimensions)]] = await self._read(("store_vector_tally", {}))
        return SourceTally(items=items, expired=expired, embedded=embedded, dimensions=dimensions)

    async def pages(self, limit: int, *, vectors: bool) -> AsyncIterator[Sequence[SourceItem]]:
        """Yield all items by prefix and key, up to limit at a time, fewer if they are large.

        vectors: with their vectors; else only with the names of the fields that have one.
        """
        after: dict[str, object] = {}
        while page := await self._page(after, limit, vectors):
            yield page
            after = {"after_prefix": page[-1].prefix, "after_key": page[-1].key}

    async def _page(
        self, after: Mapping[str, object], limit: int, vectors: bool
    ) -> Sequence[SourceItem]:
        async with self._transaction():
            weighs = "store_sizes_with_vectors" if self._has_vectors and vectors else "store_sizes"
            sizes = await self._rows(
                statement(weighs, filter_sql=AFTER if after else "true"), {**after, "limit": limit}
            )
            taken = sizes[: _fitting([size for _, _, size in sizes])]
            columns = {"prefixes": [row[0] for row in taken], "keys": [row[1] for row in taken]}
            rows = await self._rows(statement("store_page"), columns) if taken else []
            found: dict[tuple[str, str], dict[str, Sequence[float] | None]] = defaultdict(dict)
            if self._has_vectors and rows:
                name = "store_vectors" if vectors else "store_fields"
                for prefix, key, field, vector in await self._rows(statement(name), columns):
                    found[prefix, key][field] = vector
        return [record(SourceItem, row, vectors=found.get((row[0], row[1]), {})) for row in rows]

    async def _read(self, *steps: tuple[str, Mapping[str, object]]) -> list[list[Row]]:
        async with self._transaction():
            return [await self._rows(statement(name), values) for name, values in steps]

    async def _rows(self, query: bytes, values: Mapping[str, object]) -> list[Row]:
        cursor = await self._connection.execute(
            query, {**values, "below": self._below}, binary=True
        )
        return await cursor.fetchall()

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[None]:
        try:
            async with self._connection.transaction():
                yield
        except psycopg.errors.InsufficientPrivilege as error:
            raise StorageUnavailable(
                f"the role {self._connection.info.user!r} may not read the PostgresStore:"
                f" {error.diag.message_primary}. GRANT SELECT ON store, store_vectors TO it"
            ) from error
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            raise self._unavailable(error) from error

    def _unavailable(self, error: Exception) -> StorageUnavailable:
        reason = redacted(str(error).strip())
        return StorageUnavailable(
            f"the PostgresStore at {self.location!r} cannot be read: {reason}"
        )


def _fitting(sizes: Sequence[int]) -> int:
    """Return how many of the first sizes fit into a page, at least one."""
    before = (0, *accumulate(sizes))
    return sum(size < PAGE_BYTES for size in before[: len(sizes)])
