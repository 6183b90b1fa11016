"""Lends PostgreSQL databases that earlier tests had: their rows are removed after each test.

Copying the template and dropping the copy takes many times as long. A database whose schema,
statistics or migrations a test changed is dropped, and the next test has a new copy.
"""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
from postgres_databases import PostgresDatabases
from psycopg import sql

KEPT = "schema_migrations"
"""The table with rows in an empty database."""

FILLED = """
    SELECT relname FROM pg_class
    WHERE relnamespace = 'hippocampus'::regnamespace AND relkind = 'r' AND relname <> %s
      AND pg_relation_size(oid) > 0
"""

CATALOGUES = {
    "pg_attribute": "true",
    "pg_class": "true",
    "pg_constraint": "true",
    "pg_db_role_setting": "setdatabase IN (SELECT oid FROM pg_database WHERE datname = {own})",
    "pg_extension": "true",
    "pg_index": "true",
    "pg_namespace": "nspname !~ '^pg_(toast_)?temp_'",
    "pg_policy": "true",
    "pg_proc": "true",
    "pg_statistic": "starelid IN (SELECT oid FROM pg_class"
    " WHERE relnamespace = 'hippocampus'::regnamespace)",
    "pg_trigger": "true",
    "pg_type": "true",
}
"""What a schema consists of, and its statistics; with the rows that count."""

STATE = " UNION ALL ".join(
    f"SELECT '{table}', count(*), max(xmin::text::bigint)::text FROM {table} WHERE {rows}"
    for table, rows in CATALOGUES.items()
).format(own="current_database()") + (
    f" UNION ALL SELECT '{KEPT}', count(*), md5(string_agg(one::text, '/'))"
    f" FROM hippocampus.{KEPT} AS one"
)
"""The newest transactions that changed the schema."""

OTHERS = """
    SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
"""


class _Database:
    """A database that is lent to one test after another."""

    def __init__(self, postgres: PostgresDatabases) -> None:
        self._lent = postgres.lend()
        self.dsn = next(self._lent)
        with psycopg.connect(self.dsn, autocommit=True) as admin:
            self._state = admin.execute(STATE).fetchall()

    def emptied(self) -> bool:
        """Remove all rows; return False where more than rows was changed."""
        try:
            return self._has_only_lost_rows()
        except psycopg.Error:  # a test dropped the schema, or the database
            return False

    def _has_only_lost_rows(self) -> bool:
        with psycopg.connect(self.dsn, autocommit=True) as admin:
            admin.execute(OTHERS)
            if admin.execute(STATE).fetchall() != self._state:
                return False
            filled = [sql.Identifier(name) for (name,) in admin.execute(FILLED, [KEPT])]
            if filled:
                admin.execute("SET search_path TO hippocampus")
                tables = sql.SQL("TRUNCATE {} CASCADE").format(sql.SQL(", ").join(filled))
                admin.execute(tables)
                self._state = admin.execute(STATE).fetchall()
        return True

    def drop(self) -> None:
        next(self._lent, None)


class EmptiedDatabases:
    """Lends the databases of one worker of the test run."""

    def __init__(self, postgres: PostgresDatabases) -> None:
        self._postgres = postgres
        self._free: list[_Database] = []

    def lend(self) -> Iterator[str]:
        """Yield the DSN of an empty database, and empty it afterwards."""
        database = self._free.pop() if self._free else _Database(self._postgres)
        yield database.dsn
        if database.emptied():
            self._free.append(database)
        else:
            database.drop()
