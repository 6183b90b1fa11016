"""Statements of the superuser, and database users for a test."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict


def execute(dsn: str, *statements: str) -> None:
    """Run statements, each in a transaction of its own."""
    with psycopg.connect(dsn, autocommit=True) as admin:
        for statement in statements:
            admin.execute(statement.encode())


def rows(dsn: str, query: str, values: Any = None) -> list[tuple[Any, ...]]:
    """Return the rows of a query, or of an UPDATE that returns some."""
    with psycopg.connect(dsn, autocommit=True) as admin:
        return admin.execute(query.encode(), values).fetchall()


def column(dsn: str, query: str, values: Any = None) -> list[Any]:
    """Return the first column of a query."""
    return [row[0] for row in rows(dsn, query, values)]


def name_of(dsn: str) -> str:
    """Return the name of the database of a DSN."""
    return str(conninfo_to_dict(dsn)["dbname"])


@contextmanager
def new_user(dsn: str, options: str = "") -> Iterator[str]:
    """Yield the name of a new database user, who is dropped with all they own in the database."""
    name = f"user_{uuid.uuid4().hex}"
    execute(dsn, f"CREATE ROLE {name} LOGIN {options}")
    try:
        yield name
    finally:
        execute(dsn, f"DROP OWNED BY {name} CASCADE", f"DROP ROLE {name}")
