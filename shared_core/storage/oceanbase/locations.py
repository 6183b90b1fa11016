"""Where an OceanBase is: in a folder (SeekDB embedded), or behind a host and a port. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, unquote

from shared_core.errors import InvalidInput

SCHEMES = ("seekdb", "oceanbase")
PORT = 2881
DEFAULT_DATABASE = "hippocampus"
_DATABASE = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_SERVER = re.compile(
    r"(?P<user>[^:]*)(?::(?P<password>.*))?@(?P<host>\[[^\]]+\]|[^:/@]+)(?::(?P<port>\d+))?"
    r"(?:/(?P<database>[^/]*))?"
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


def is_oceanbase(uri: str) -> bool:
    """Tell whether uri names an OceanBase, by its scheme."""
    return uri.partition("://")[0] in SCHEMES and "://" in uri


def location_of(uri: str, schema: str = DEFAULT_DATABASE) -> Location:
    """Return where uri points to; the tables of another schema stand in a database of their own.

    "seekdb:///folder[?database=name]" or "seekdb://user:password@host:2881/database", the same with
    "oceanbase://". A user may hold "@tenant#cluster" as it is; what else is not plain is written
    as %XX. Raises InvalidInput for anything else.
    """
    scheme, _, rest = uri.partition("://")
    rest, _, query = rest.partition("?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    if unknown := [name for name in options if name not in _OPTIONS]:
        raise InvalidInput(
            f"the uri has unknown options {unknown}: {', '.join(_OPTIONS)} are known"
        )
    named = options.get("database")
    if rest.startswith("/"):
        folder = Path(unquote(rest)).expanduser()
        if scheme != "seekdb" or folder == Path("/"):
            raise InvalidInput(_FORMS)
        return Location(folder=folder, database=_database(named, schema))
    match = _SERVER.fullmatch(rest)
    if match is None:
        raise InvalidInput(_FORMS)
    return Location(
        host=match["host"].strip("[]"),
        port=int(match["port"] or PORT),
        user=unquote(match["user"]) or "root",
        password=unquote(match["password"] or ""),
        database=_database(named or match["database"], schema),
        ssl_ca=options.get("ssl_ca"),
    )


_FORMS = (
    "an OceanBase is named 'seekdb:///folder', 'seekdb://user:password@host:2881/database' or"
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
    return base
