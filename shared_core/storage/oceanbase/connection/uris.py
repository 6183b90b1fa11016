"""Where an OceanBase is: in a folder (SeekDB embedded), or behind a host and a port. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, unquote

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
