"""A connection of pymysql that reads what this project works with: UUIDs, aware moments, and text
of binary columns."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pymysql
from pymysql.constants import CLIENT, CR, FIELD_TYPE
from pymysql.converters import conversions

INIT = (
    "SET time_zone='+00:00', sql_mode='STRICT_ALL_TABLES', collation_connection=utf8mb4_bin,"
    " ob_query_timeout={query_us}, ob_trx_timeout={transaction_us}, ob_trx_lock_timeout=5000000"
)
"""The session's time zone is +08:00 by default; text compares as bytes do."""


def connect(
    options: Mapping[str, Any],
    *,
    timeout_s: float,
    statement_timeout_s: float,
    transaction_s: float | None = None,
) -> pymysql.Connection[Any]:
    """Return a connection outside of any transaction. Raises pymysql's errors.

    transaction_s: how long a transaction may take; None: ten times as long as a statement.
    """
    most_s = transaction_s or 10 * statement_timeout_s
    connection = pymysql.connect(
        **options,
        charset="utf8mb4",
        autocommit=True,
        client_flag=CLIENT.FOUND_ROWS,
        connect_timeout=max(1, int(timeout_s)),
        read_timeout=statement_timeout_s + 10,
        write_timeout=statement_timeout_s + 10,
        init_command=INIT.format(
            query_us=int(statement_timeout_s * 1_000_000), transaction_us=int(most_s * 1_000_000)
        ),
        conv=_CONVERSIONS,
        defer_connect=True,
    )
    path = options.get("unix_socket")
    connection.connect(_reached(path, timeout_s) if path else None)
    return connection


def _reached(path: str, timeout_s: float) -> socket.socket:
    """Return a socket of a server on this machine; the driver leaves one that fails open."""
    reached = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    reached.settimeout(timeout_s)
    try:
        reached.connect(path)
    except OSError as error:
        reached.close()
        raise pymysql.OperationalError(CR.CR_CONN_HOST_ERROR, str(error)) from error
    return reached


def _aware(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _id(value: str | bytes) -> str | bytes | UUID:
    return UUID(bytes=value) if isinstance(value, bytes) and len(value) == 16 else value


_CONVERSIONS: dict[Any, Any] = {
    **conversions,
    FIELD_TYPE.DATETIME: _aware,
    FIELD_TYPE.VAR_STRING: _text,
    FIELD_TYPE.VARCHAR: _text,
    FIELD_TYPE.STRING: _id,
}
"""BINARY(16) is read as a UUID, VARBINARY as text, DATETIME(6) as an aware
moment, BLOB as bytes."""
