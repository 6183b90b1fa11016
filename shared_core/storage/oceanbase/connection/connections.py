"""Finds an OceanBase by its URI and opens connections of pymysql that read this project's types."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote
from uuid import UUID

import pymysql
from pymysql.constants import CLIENT, CR, FIELD_TYPE
from pymysql.converters import conversions

from shared_core.core.uri_validation import ESCAPED
from shared_core.errors import InvalidInput
from shared_core.settings import redacted

PORT = 2881
DEFAULT_DATABASE = "hippocampus"
_DATABASE = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_OF_THE_SERVER = (
    "information_schema", "lbacsys", "mysql", "oceanbase", "oraauditor", "sys", "__public",
    "__recyclebin",
)  # fmt: skip
_SERVER = re.compile(
    r"(?P<user>[^:]*)(?::(?P<password>.*))?@(?P<host>\[[^\]]+\]|[^:/@]+)(?::(?P<port>[^:/@]*))?"
    r"(?:/(?P<database>[^@]*))?"
)
_OPTIONS = ("database", "ssl_ca")


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """folder: of an embedded SeekDB, or None and host, port, user and password of a server.

    user may name tenant and cluster: "root@shop#east". ssl_ca: the file of the authority that
    signed the certificate of the server; None: no encryption is asked for.
    """

    folder: Path | None = None
    host: str = ""
    port: int = PORT
    user: str = "root"
    password: str = field(default="", repr=False)
    database: str = DEFAULT_DATABASE
    ssl_ca: str | None = None


def location_of(uri: str, schema: str = DEFAULT_DATABASE) -> Location:
    """Return where uri points to; the tables of another schema stand in a database of their own.

    "seekdb:///folder[?database=name]" or "seekdb://user:password@host:2881/database", the same with
    "oceanbase://". A user may hold "@tenant#cluster" as it is; what else is not plain is written
    as %XX. Raises InvalidInput for anything else.
    """
    scheme, _, rest = uri.partition("://")
    rest, _, query = rest.partition("?")
    options = _options(query)
    named = options.get("database")
    if rest.startswith("/"):
        return Location(folder=_folder(scheme, rest), database=_database(named, schema))
    match = _SERVER.fullmatch(rest)
    if match is None:
        raise InvalidInput(_no_server(uri, scheme, rest))
    return Location(
        host=match["host"].strip("[]"),
        port=_port(match["port"]),
        user=unquote(match["user"]) or "root",
        password=unquote(match["password"] or ""),
        database=_database(named or match["database"], schema),
        ssl_ca=options.get("ssl_ca"),
    )


def _options(query: str) -> dict[str, str]:
    options = dict(parse_qsl(query, keep_blank_values=True))
    unknown = [name for name in options if name not in _OPTIONS]
    if unknown and "@" in query:
        raise InvalidInput(f"the uri has a '?' that is not read as meant: {ESCAPED}")
    if unknown:
        raise InvalidInput(
            f"the uri has unknown options {unknown}: {', '.join(_OPTIONS)} are known"
        )
    return options


def _folder(scheme: str, path: str) -> Path:
    folder = Path(unquote(path)).expanduser()
    if scheme != "seekdb":
        raise InvalidInput(
            f"{scheme}:// names a server, {_SERVERS}; in a folder it is a SeekDB:"
            f" 'seekdb://{folder}'"
        )
    if folder == Path("/"):
        raise InvalidInput("uri 'seekdb:///' is the root of all files: name a folder below it")
    return folder


def _port(text: str | None) -> int:
    port = int(text) if text and text.isdecimal() else 0
    if text and not 0 < port < 65536:
        raise InvalidInput(f"port {text!r} of the uri is none: take a number from 1 to 65535")
    return port or PORT


def _no_server(uri: str, scheme: str, rest: str) -> str:
    said = f"uri {redacted(uri)!r} names no server: its form is {_SERVERS}"
    if "@" in rest or scheme != "seekdb":
        return said
    if re.match(r"[^/]+:\d+(/|\Z)", rest):
        return f"{said}; a user stands before the host, '{scheme}://root@{rest}'"
    folder = Path(unquote(rest)).expanduser().absolute()
    return f"{said}; a folder is named from the root, 'seekdb://{folder}'"


_SERVERS = (
    "'seekdb://user:password@host:2881/database' or"
    " 'oceanbase://user@tenant#cluster:password@host:2881/database'"
)


def _database(named: str | None, schema: str) -> str:
    """Return the name of the database; a schema that is no default is part of it."""
    base = unquote(named) if named else DEFAULT_DATABASE
    if schema != DEFAULT_DATABASE:
        base = schema if base == DEFAULT_DATABASE else f"{base}_{schema}"
    if not _DATABASE.fullmatch(base):
        raise InvalidInput(
            f"database {base!r} is not usable: take lower-case letters, digits and _, at most 63,"
            " not starting with a digit"
        )
    if base in _OF_THE_SERVER:
        raise InvalidInput(
            f"database {base!r} is the server's own: name another, e.g. {DEFAULT_DATABASE!r}"
        )
    return base


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
