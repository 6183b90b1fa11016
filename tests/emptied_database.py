"""Empties a database for tests that share its open store or service and use fixed names."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
from postgres_databases import PostgresDatabases
from psycopg import sql

from shared_core import MemoryEngine, run_sync

OF_TENANTS = """
    SELECT c.relname FROM pg_class c
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant_id'
    WHERE c.relnamespace = 'hippocampus'::regnamespace AND c.relkind IN ('r', 'p')
"""
"""Names the tables with rows of tenants: all but the schema's own and the models'."""
FUNCTION = """
    CREATE FUNCTION pg_temp.empty() RETURNS void LANGUAGE plpgsql AS $$ BEGIN {} END $$
"""
"""A function keeps the plans of its statements, which cost more than the few rows."""
NOTED = "UPDATE hippocampus.memory_changes SET write_ids = ARRAY[gen_random_uuid()];"
"""Notes a change that no reader knows."""


class EmptiedDatabase:
    """A database that its tests use one after another: each calls empty() first.

    dsn: of a database with the schema.
    """

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self._admin = psycopg.connect(dsn, autocommit=True)
        tables = {name for (name,) in self._admin.execute(OF_TENANTS)} - {"memory_changes"}
        names = [sql.Identifier("hippocampus", name) for name in sorted(tables)]
        deletes = [sql.SQL("DELETE FROM {};").format(name) for name in names]
        self._admin.execute("SET session_replication_role = replica")  # in any order of the tables
        noted = sql.SQL(NOTED)  # the indexes of users that processes keep read all anew
        self._admin.execute(sql.SQL(FUNCTION).format(sql.SQL(" ").join([*deletes, noted])))

    def empty(self, *engines: MemoryEngine) -> str:
        """Delete the rows of all tenants; return the DSN.

        engines: memories that are open on the database. They first do what they left for later.
        """
        for engine in engines:
            run_sync(engine.flush())
        self._admin.execute("SELECT pg_temp.empty()")
        return self.dsn

    def close(self) -> None:
        self._admin.close()


def lent(postgres: PostgresDatabases) -> Iterator[EmptiedDatabase]:
    """Yield a database for the tests of a module or class, and drop it afterwards."""
    for dsn in postgres.lend():
        database = EmptiedDatabase(dsn)
        yield database
        database.close()
