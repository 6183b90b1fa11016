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

from shared_core.core.timestamps import EARLIEST
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
    """An embedded SeekDB (folder) or a server (host, port, user, password).

    user may name tenant and cluster: "root@shop#east". ssl_ca: certificate file of the authority
    that signed the server's certificate; None: connect without encryption.
    """

    folder: Path | None = None
    host: str = ""
    port: int = PORT
    user: str = "root"
    password: str = field(default="", repr=False)
    database: str = DEFAULT_DATABASE
    ssl_ca: str | None = None


def location_of(uri: str, schema: str = DEFAULT_DATABASE) -> Location:
    """Return the location a URI names; another schema than the default has its own database.

    "seekdb:///folder[?database=name]" or "seekdb://user:password@host:2881/database", the latter
    also with "oceanbase://". A user may hold "@tenant#cluster" literally; other special characters
    are escaped as %XX. Raises InvalidInput for anything else.
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
        raise InvalidInput(f"the uri has an unescaped '?': {ESCAPED}")
    if unknown:
        raise InvalidInput(
            f"the uri has unknown options {unknown}: the options are {', '.join(_OPTIONS)}"
        )
    return options


def _folder(scheme: str, path: str) -> Path:
    folder = Path(unquote(path)).expanduser()
    if scheme != "seekdb":
        raise InvalidInput(
            f"{scheme}:// needs a server, {_SERVERS}; for a SeekDB in a folder write"
            f" 'seekdb://{folder}'"
        )
    if folder == Path("/"):
        raise InvalidInput("uri 'seekdb:///' is the root of all files: name a folder below it")
    return folder


def _port(text: str | None) -> int:
    port = int(text) if text and text.isdecimal() else 0
    if text and not 0 < port < 65536:
        raise InvalidInput(f"the port in the uri must be between 1 and 65535, got {text!r}")
    return port or PORT


def _no_server(uri: str, scheme: str, rest: str) -> str:
    message = f"uri {redacted(uri)!r} names no server: its form is {_SERVERS}"
    if "@" in rest or scheme != "seekdb":
        return message
    if re.match(r"[^/]+:\d+(/|\Z)", rest):
        return f"{message}; put the user before the host, '{scheme}://root@{rest}'"
    folder = Path(unquote(rest)).expanduser().absolute()
    return f"{message}; give a folder by its absolute path, 'seekdb://{folder}'"


_SERVERS = (
    "'seekdb://user:password@host:2881/database' or"
    " 'oceanbase://user@tenant#cluster:password@host:2881/database'"
)


def _database(named: str | None, schema: str) -> str:
    """Return the name of the database, which contains the schema unless that is the default."""
    base = unquote(named) if named else DEFAULT_DATABASE
    if schema != DEFAULT_DATABASE:
        base = schema if base == DEFAULT_DATABASE else f"{base}_{schema}"
    if not _DATABASE.fullmatch(base):
        raise InvalidInput(
            f"database {base!r} is not usable: use at most 63 lower-case letters, digits and _,"
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
"""Sets the session up: its time zone is +08:00 by default, and text must compare by bytes."""


def connect(
    options: Mapping[str, Any],
    *,
    timeout_s: float,
    statement_timeout_s: float,
    transaction_s: float | None = None,
) -> pymysql.Connection[Any]:
    """Return a connection outside of any transaction. Raises pymysql's errors.

    transaction_s: time limit of a transaction; None: ten times that of a statement.
    """
    limit_s = transaction_s or 10 * statement_timeout_s
    path = options.get("unix_socket")
    connection = pymysql.connect(
        **options,
        charset="utf8mb4",
        autocommit=True,
        client_flag=CLIENT.FOUND_ROWS,
        connect_timeout=max(1, int(timeout_s)),
        read_timeout=statement_timeout_s + 10,
        write_timeout=statement_timeout_s + 10,
        init_command=INIT.format(
            query_us=int(statement_timeout_s * 1_000_000), transaction_us=int(limit_s * 1_000_000)
        ),
        conv=_CONVERSIONS,
        defer_connect=True,
        # Nothing leaves the machine, and reading its CA certificates takes 50 ms a connection.
        ssl_disabled=bool(path),
    )
    connection.connect(_unix_socket(path, timeout_s) if path else None)
    return connection


def _unix_socket(path: str, timeout_s: float) -> socket.socket:
    """Return a connected socket of a server on this machine."""
    connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connected.settimeout(timeout_s)
    try:
        connected.connect(path)
    except OSError as error:
        connected.close()  # the driver would leave a socket open that fails to connect
        raise pymysql.OperationalError(CR.CR_CONN_HOST_ERROR, str(error)) from error
    return connected


def _aware(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC)
    except ValueError:  # 0000-00-00, which a session without strict mode stores
        return EARLIEST


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
"""Reads BINARY(16) as UUID, VARBINARY as text, DATETIME(6) as aware datetime, BLOB as bytes."""
