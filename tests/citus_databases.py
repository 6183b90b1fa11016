"""Lends one distributed schema of a Citus cluster, emptied after each test. Distributing takes
seconds, so it is done once."""

import os
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql

from shared_core import open_memory, run_sync
from shared_core.storage.postgres.connection.citus import bound_everywhere, referred_first, spread

CITUS_DSN = os.environ.get("HIPPOCAMPUS_TEST_CITUS_DSN", "")
"""A cluster: a user who is no superuser, and a database of its own with citus and vector."""
LIVE_TIMEOUT_S = 900
"""Timeout of a test on a cluster: a fixture may distribute a schema first, on a slow machine."""
KEPT = ("schema_migrations",)


class CitusDatabases:
    """Lends the schema of one process: run its tests with -n 0."""

    def __init__(self, dsn: str, schema: str = "hippocampus") -> None:
        self._dsn = dsn
        self._schema = schema
        self._is_made = False

    def lend(self) -> Iterator[str]:
        """Yield the DSN of the empty schema, and empty it afterwards."""
        if not self._dsn:
            pytest.skip("HIPPOCAMPUS_TEST_CITUS_DSN names no cluster")
        if not self._is_made:
            self._make()
        yield self._dsn
        self._empty()

    def _make(self) -> None:
        with psycopg.connect(self._dsn, autocommit=True) as owner:
            owner.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(self._name()))
        run_sync(_migrate(self._dsn, self._schema))
        spread(self._dsn, self._schema)
        self._is_made = True

    def _empty(self) -> None:
        """Delete all rows. The tables that refer to others come first."""
        with psycopg.connect(self._dsn) as owner:
            found = owner.execute(
                "SELECT tablename FROM pg_tables WHERE schemaname = %s", [self._schema]
            ).fetchall()
            names = [str(name) for (name,) in found if name not in KEPT]
            for bound in bound_everywhere(
                {"search_path": self._schema, "statement_timeout": "0", "scope": "/"}
            ):
                owner.execute(*bound)
            owner.execute("SET LOCAL citus.multi_shard_modify_mode TO 'sequential'")
            for name in reversed(referred_first(owner, self._schema, names)):
                if owner.execute(
                    sql.SQL("SELECT 1 FROM {} LIMIT 1").format(sql.Identifier(name))
                ).fetchone():
                    owner.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(name)))

    def _name(self) -> sql.Identifier:
        return sql.Identifier(self._schema)


async def _migrate(dsn: str, schema: str) -> None:
    async with open_memory(dsn, schema=schema, worker=False):
        pass
