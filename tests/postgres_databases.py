"""Databases for tests on one embedded PostgreSQL, which all workers of the run share."""

import uuid
from collections.abc import Iterator

import psycopg
from psycopg.conninfo import make_conninfo


class PostgresDatabases:
    """Lends copies of a template: a migrated schema without rows."""

    def __init__(self, server: str, template: str) -> None:
        self._server = server
        self._template = template
        self._admin = psycopg.connect(server, autocommit=True)
        self._emptied: dict[str, EmptiedDatabase] = {}

    def lend(self) -> Iterator[str]:
        """Yield the DSN of a copy, and drop it afterwards."""
        yield from _database(self._server, self._template, self._admin)

    def empty(self, dsn: str) -> None:
        """Delete all rows of a lent database that its template does not have."""
        if dsn not in self._emptied:
            self._emptied[dsn] = EmptiedDatabase(dsn, make_conninfo(dsn, dbname=self._template))
        self._emptied[dsn].empty()

    def close(self) -> None:
        for one in self._emptied.values():
            one.close()
        self._admin.close()


class EmptiedDatabase:
    """A database that tests use one after the other; its rows are deleted after each."""

    def __init__(self, dsn: str, template: str) -> None:
        with psycopg.connect(template) as connection:
            kept = _filled(connection, _tables(connection))
        options = "-c session_replication_role=replica"
        self._superuser = psycopg.connect(dsn, autocommit=True, options=options)
        self._tables = _tables(self._superuser) - kept

    def empty(self) -> None:
        for table in _filled(self._superuser, self._tables):
            self._superuser.execute(f"DELETE FROM {table}".encode())

    def close(self) -> None:
        self._superuser.close()


def _tables(connection: psycopg.Connection[tuple[object, ...]]) -> set[str]:
    found = connection.execute(
        "SELECT oid::regclass::text FROM pg_class"
        " WHERE relnamespace = 'hippocampus'::regnamespace AND relkind = 'r'"
    )
    return {str(name) for (name,) in found}


def _filled(connection: psycopg.Connection[tuple[object, ...]], tables: set[str]) -> set[str]:
    """Return the tables that have rows."""
    parts = (f"(SELECT '{one}' FROM {one} LIMIT 1)" for one in sorted(tables))
    return {str(name) for (name,) in connection.execute(" UNION ALL ".join(parts).encode())}


def new_database(server: str) -> Iterator[str]:
    """Yield the DSN of a new database without a schema, and drop it afterwards."""
    with psycopg.connect(server, autocommit=True) as admin:
        yield from _database(server, "template1", admin)


def _database(
    server: str, template: str, admin: psycopg.Connection[tuple[object, ...]]
) -> Iterator[str]:
    name = f"test_{uuid.uuid4().hex}"
    # Copying files is twice as fast as logging pages.
    admin.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY")
    yield make_conninfo(server, dbname=name)
    admin.execute(f"DROP DATABASE {name} WITH (FORCE)")
