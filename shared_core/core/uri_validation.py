"""Checks addresses: what is wrong with the uri of a memory, and which hosts are loopback. Pure."""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path
from typing import Final

from shared_core.errors import InvalidInput

EMBEDDED: Final = "embedded"
FOLDERS: Final = ("embedded", "seekdb")
LIBPQ: Final = ("postgresql", "postgres")
MYSQL: Final = ("seekdb", "oceanbase")
SCHEMES: Final = (EMBEDDED, *LIBPQ, *MYSQL)
FORMS: Final = (
    "take 'embedded', 'embedded:///folder', 'postgresql://user:password@host:5432/database',"
    " a libpq string 'host=... dbname=...', 'seekdb:///folder' or"
    " 'oceanbase://user@tenant#cluster:password@host:2881/database'"
)
ESCAPED: Final = (
    "in a user or a password write '@' as %40, ':' as %3A, '/' as %2F, '?' as %3F, '#' as %23,"
    " '%' as %25 and a blank as %20, as urllib.parse.quote(password, safe='') does"
)
_KEYWORDS: Final = re.compile(r"\s*\w+\s*=")
_STARS: Final = re.compile(r"\bpassword\s*=\s*'?\*+'?(?:[\s&]|\Z)")
_BLANK: Final = re.compile(r"\bpassword\s*=\s*(?!')(?:\\.|[^\s\\])+\s+[^\s=]+(?![^\s=])(?!\s*=)")
"""A word after the password that is no name of another value."""
_HALF_ESCAPED: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_NO_PORT: Final = re.compile(r":(?!\d*(?:,|\Z))")


def check_uri(uri: str) -> None:
    """Raise InvalidInput for a uri of no known form, or one that is not read as it was meant.

    No message holds a password, also where only a part of it is read as one.
    """
    scheme, there, rest = uri.partition("://")
    if there and scheme in LIBPQ:
        _check_libpq(rest)
    elif there and scheme in MYSQL:
        _check_account(_account_of_mysql(rest))
    elif uri != EMBEDDED and not uri.startswith("embedded:///") and not _KEYWORDS.match(uri):
        raise InvalidInput(f"uri {_shown(uri)!r} is of no known form: {_way_out(uri)}{FORMS}")
    if uri.startswith("embedded:///") and not rest.strip("/"):
        raise InvalidInput("uri 'embedded:///' is the root of all files: name a folder below it")
    if _STARS.search(uri):
        raise InvalidInput(_OF_STARS)
    if _KEYWORDS.match(uri) and _BLANK.search(uri):
        raise InvalidInput("a password with a blank goes in quotes: password='with a blank'")


def _check_libpq(rest: str) -> None:
    """Refuse what libpq would take apart at another place than its writer meant."""
    authority, _, path = rest.partition("/")
    hosts = re.sub(r"\[[^\]]*\]", "", authority)
    if path.partition("?")[0].count("@") and ":" in authority:
        raise _unescaped("/")
    if "@" in path and "@" not in authority and _NO_PORT.search(hosts):
        raise _unescaped("/")
    if authority.count("@") > 1:
        raise _unescaped("@")
    account = authority.rpartition("@")[0]
    if _HALF_ESCAPED.search(account):
        raise _unescaped("%")
    _check_account(account)


def _account_of_mysql(rest: str) -> str:
    """Return user and password, which may hold '/' as it is; "" of a folder."""
    return "" if rest.startswith("/") else rest.partition("?")[0].rpartition("@")[0]


def _check_account(account: str) -> None:
    """account: user and password, as in a uri before the host."""
    if re.search(r"\s", account):
        raise _unescaped(" ")
    if re.fullmatch(r"\*+", account.partition(":")[2]):
        raise InvalidInput(_OF_STARS)


def _unescaped(character: str) -> InvalidInput:
    return InvalidInput(f"the uri has a {character!r} that is not read as meant: {ESCAPED}")


def _way_out(uri: str) -> str:
    """Return what is said of a frequent mistake, "" for none."""
    scheme, there, path = uri.partition("://")
    if not there:
        scheme, colon, path = uri.partition(":")
        if not colon:
            scheme, path = "", uri
    kind = scheme.lower().partition("+")[0]
    if kind in ("mysql", "mariadb"):
        return (
            "MySQL itself is no engine of this; OceanBase and SeekDB, which speak its protocol, go"
            " by their own names; "
        )
    if kind in FOLDERS or not scheme:
        folder = Path(path).expanduser().absolute()
        return f"a folder is named from the root, '{kind or EMBEDDED}://{folder}'; "
    if kind in SCHEMES:
        return f"write '{kind}://'; "
    return ""


def _shown(uri: str) -> str:
    """Return uri without whatever may be its password, which ends with the last '@'."""
    return re.sub(r"(://[^:/@]*):.*@", r"\1:***@", uri, flags=re.DOTALL)


_OF_STARS: Final = (
    "the password in the uri is stars: they stand for one that was not shown; write the password"
    " itself there (one that is stars as %2A)"
)


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches a host; False for a name but localhost."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
