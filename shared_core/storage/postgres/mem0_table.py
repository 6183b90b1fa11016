"""Reads the table of mem0's pgvector store, a page at a time, and never writes there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, LiteralString
from uuid import UUID

import psycopg
from psycopg import Connection, sql

from shared_core.errors import InvalidInput, NotFound, StorageUnavailable
from shared_core.settings import redacted
from shared_core.storage.postgres.connection.connecting import client_parameters

PAGE = 500
CONNECT_TIMEOUT_S = 10

_LIKE_IT: LiteralString = """
SELECT table_schema || '.' || table_name FROM information_schema.columns
WHERE column_name IN ('id', 'vector', 'payload') AND table_schema NOT LIKE 'pg\\_%'
GROUP BY table_schema, table_name HAVING count(*) = 3 ORDER BY 1"""
_COLUMNS: LiteralString = """
SELECT count(*) FROM pg_attribute
WHERE attrelid = to_regclass(%s) AND attname IN ('id', 'payload') AND NOT attisdropped"""


class Mem0Table:
    """The table of a collection of mem0. table: the collection, "schema.collection" elsewhere."""

    def __init__(self, dsn: str, table: str = "mem0") -> None:
        if not all(table.split(".")) or len(table.split(".")) > 2:
            raise InvalidInput(
                f"table must be a name such as 'mem0' or 'my_schema.mem0', got {table!r}"
            )
        self._dsn = dsn
        self._table = table

    @property
    def name(self) -> str:
        """The table, and the DSN without its password."""
        return f"the table {self._table!r} at {redacted(self._dsn)!r}"

    def entries(self) -> Iterator[object]:
        """Yield the memory in each row with its id, in the order of ids.

        Raises:
            NotFound: There is no such table.
            StorageUnavailable: The database cannot be read.
        """
        table = sql.Identifier(*self._table.split("."))
        page = sql.SQL("SELECT id, payload FROM {} WHERE id > %s ORDER BY id LIMIT {}").format(
            table, sql.Literal(PAGE)
        )
        try:
            with self._connection() as connection:
                self._require_table(connection, table)
                after = UUID(int=0)
                while rows := connection.execute(page, (after,)).fetchall():
                    for row in rows:
                        yield _entry(row)
                    after = rows[-1][0]
        except psycopg.ProgrammingError as error:
            raise InvalidInput(f"{self.name} is no table of mem0: {_said(error)}") from error
        except psycopg.Error as error:
            raise StorageUnavailable(f"{self.name} cannot be read: {_said(error)}") from error

    def _connection(self) -> Connection[Any]:
        try:
            parameters = client_parameters(self._dsn, CONNECT_TIMEOUT_S, "hippocampus import")
        except psycopg.ProgrammingError:  # its message may quote a part of the password
            raise InvalidInput("the DSN of mem0's store cannot be parsed: check it") from None
        # Each page is a transaction of its own, so a long import holds back no vacuum there.
        connection = psycopg.connect(self._dsn, autocommit=True, **parameters)
        connection.read_only = True
        return connection

    def _require_table(self, connection: Connection[Any], table: sql.Identifier) -> None:
        [[columns]] = connection.execute(_COLUMNS, (table.as_string(connection),)).fetchall()
        if columns == 2:
            return
        found = [row[0] for row in connection.execute(_LIKE_IT).fetchall()]
        there = (
            f"Found is {', '.join(found)}: name it with --table"
            if found
            else ("No table there has the columns id, vector and payload")
        )
        raise NotFound(f"there is no store of mem0 in {self.name}. {there}")


def _entry(row: tuple[UUID, object]) -> object:
    identity, payload = row
    return {**payload, "id": str(identity)} if isinstance(payload, dict) else payload


def _said(error: psycopg.Error) -> str:
    return redacted(str(error).strip().partition("\n")[0])
