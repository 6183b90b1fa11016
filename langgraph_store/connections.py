"""Finds the database behind a connection or a pool of psycopg."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from shared_core import MemoryEngine
from shared_core.core import shown
from shared_core.errors import InvalidInput

_NOT_SENT: Final = frozenset(
    ("autocommit", "prepare_threshold", "row_factory", "cursor_factory", "context")
)
"""Options of psycopg for an object of a connection: they name no database."""


def uri_of(conn: object) -> str | Path | None:
    """Return where the database of a connection or a pool is; an address stays as it is.

    A memory opens connections of its own there: each call of it is one message that binds role and
    user, which a connection that others use meanwhile cannot do.
    Raises InvalidInput for anything else.
    """
    if conn is None or isinstance(conn, str | Path):
        return conn
    from psycopg import AsyncConnection, Connection  # a caller with a connection has loaded it
    from psycopg.conninfo import make_conninfo

    if isinstance(conn, Connection | AsyncConnection):
        if conn.closed:
            raise InvalidInput("the connection is closed: give an open one, or the DSN")
        return make_conninfo(conn.info.dsn, password=conn.info.password or None)
    conninfo, options = getattr(conn, "conninfo", None), getattr(conn, "kwargs", None)
    if isinstance(conninfo, str) and isinstance(options, Mapping | None):
        return with_options(conninfo, options or {})
    if isinstance(conn, MemoryEngine):
        raise InvalidInput("conn is the first argument; give an engine by its name: engine=memory")
    raise InvalidInput(
        f"conn must be a DSN, a connection of psycopg or a pool of psycopg_pool whose conninfo is a"
        f" text, got {shown(conn)}"
    )


def size_of(conn: object) -> int | None:
    """Return the largest size of a pool, or None for anything else."""
    size = getattr(conn, "max_size", None)
    return size if isinstance(size, int) and not isinstance(conn, str | Path) else None


def with_options(address: str | Path | None, options: Mapping[str, Any]) -> str | Path | None:
    """Return a DSN with options of libpq. Raises InvalidInput for an unknown option."""
    sent = {name: value for name, value in options.items() if name not in _NOT_SENT}
    if not sent:
        return address
    if not isinstance(address, str) or not all(
        isinstance(name, str) and isinstance(value, str | int | float)
        for name, value in sent.items()
    ):
        raise InvalidInput(
            "options of connections need the DSN of a server, and names with texts or numbers, got"
            f" {', '.join(map(shown, sent))}"
        )
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict, make_conninfo

    try:
        return make_conninfo(address, **(conninfo_to_dict(address) | sent))
    except ProgrammingError as error:
        raise InvalidInput(f"the options of the connection cannot be used: {error}") from error
