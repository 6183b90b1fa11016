"""Lends empty databases on one embedded PostgreSQL. Copying one and dropping it takes a tenth of a
second, so they are reused: the rows of a test are removed after it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo

SCHEMA = "hippocampus"
KEPT = "schema_migrations"
CATALOGS = (
    "pg_attrdef", "pg_constraint", "pg_default_acl", "pg_event_trigger", "pg_extension",
    "pg_index", "pg_namespace", "pg_policy", "pg_publication", "pg_rewrite", "pg_statistic_ext",
    "pg_trigger", "pg_largeobject_metadata",
)  # fmt: skip
SHAPE = " UNION ALL ".join(
    [f"SELECT '{name}', count(*), sum(xmin::text::bigint) FROM {name}" for name in CATALOGS]
    + [
        f"SELECT '{name}', count(*), sum(xmin::text::bigint) FROM {name} WHERE {key} >= 16384"
        for name, key in [
            ("pg_class", "oid"),
            ("pg_attribute", "attrelid"),
            ("pg_proc", "oid"),
            ("pg_statistic", "starelid"),
        ]
    ]
    + [
        "SELECT 'database', count(*), sum(xmin::text::bigint) FROM pg_database"
        " WHERE datname = current_database()",
        "SELECT 'settings', count(*), sum(xmin::text::bigint) FROM pg_db_role_setting"
        " WHERE setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database())",
        f"SELECT 'kept', count(*), sum(xmin::text::bigint) FROM {SCHEMA}.{KEPT}",
    ]
)
"""Differs after any change of a table, function, right, setting or statistic of a database."""
TABLES = f"""
    SELECT string_agg(format('(SELECT %L FROM {SCHEMA}.%I LIMIT 1)', relname, relname),
        ' UNION ALL ')
    FROM pg_class WHERE relnamespace = '{SCHEMA}'::regnamespace AND relkind = 'r'
        AND relname <> '{KEPT}'"""
END_OTHERS = """
    SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()"""


class PostgresDatabases:
    """Lends the databases of one worker of the test run, copies of a template."""

    def __init__(self, server: str, template: str) -> None:
        self._server = server
        self._template = template
        self._free: list[tuple[str, list[Any]]] = []

    def lend(self) -> Iterator[str]:
        """Yield the DSN of an empty database, and empty it afterwards or, if changed, drop it."""
        name, shape = self._free.pop() if self._free else self._make()
        yield make_conninfo(self._server, dbname=name)
        with psycopg.connect(self._server, dbname=name, autocommit=True) as admin:
            admin.execute(END_OTHERS)
            unchanged = admin.execute(SHAPE).fetchall() == shape
            if unchanged:
                self._empty(admin)
                self._free.append((name, shape))
        if not unchanged:
            _drop(self._server, name)

    def _make(self) -> tuple[str, list[Any]]:
        name = _create(self._server, f"TEMPLATE {self._template}")
        with psycopg.connect(self._server, dbname=name) as admin:
            return name, admin.execute(SHAPE).fetchall()

    @staticmethod
    def _empty(admin: psycopg.Connection[Any]) -> None:
        (statement,) = admin.execute(TABLES).fetchone() or ("",)
        filled = [table for (table,) in admin.execute(statement)]
        admin.execute("SET session_replication_role = replica")  # no rows need their parents now
        for table in filled:
            admin.execute(f"DELETE FROM {SCHEMA}.{table}")


def new_database(server: str) -> Iterator[str]:
    """Yield the DSN of a new database without a schema, and drop it afterwards."""
    name = _create(server)
    yield make_conninfo(server, dbname=name)
    _drop(server, name)


def _create(server: str, template: str = "TEMPLATE template1") -> str:
    name = f"test_{uuid.uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as admin:
        # Copying files is twice as fast as logging pages.
        admin.execute(f"CREATE DATABASE {name} {template} STRATEGY FILE_COPY")
    return name


def _drop(server: str, name: str) -> None:
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)")
