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

    def lend(self) -> Iterator[str]:
        """Yield the DSN of a copy, and drop it afterwards."""
        yield from _database(self._server, self._template, self._admin)

    def close(self) -> None:
        self._admin.close()


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
