"""Checks the uri of a memory, without showing its password, and loopback hosts. Pure."""

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
_BLANK: Final = re.compile(r"(?<!\S)password\s*+=\s*+(?!')(?:\\.|[^\s\\])++\s++[^\s=]++(?!\s*+=)")
"""Finds a word after the password that is not the name of another value."""
_OPTION: Final = re.compile(r"\?\w+=")
_HALF_ESCAPED: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_NO_PORT: Final = re.compile(r":(?!\d*(?:,|\Z))")


def is_oceanbase(uri: str) -> bool:
    """Return whether the scheme of a uri is that of OceanBase or SeekDB."""
    scheme, separator, _ = uri.partition("://")
    return bool(separator) and scheme in MYSQL


def check_uri(uri: str) -> None:
    """Raise InvalidInput for a uri of an unknown form, or one that would be misread.

    No message holds a password, not even part of one.
    """
    scheme, there, rest = uri.partition("://")
    if there and scheme in LIBPQ:
        _check_libpq(rest)
    elif there and scheme in MYSQL:
        _check_account(_account_of_mysql(rest))
    elif uri != EMBEDDED and not uri.startswith("embedded:///") and not _KEYWORDS.match(uri):
        raise InvalidInput(f"uri {_shown(uri)!r} has an unknown form: {_way_out(uri)}{FORMS}")
    if uri.startswith("embedded:///") and not rest.strip("/"):
        raise InvalidInput("uri 'embedded:///' is the root of all files: name a folder below it")
    if uri.startswith("embedded:///") and _OPTION.search(rest):
        raise InvalidInput(
            "an 'embedded:///folder' takes no options after '?': hippocampus:// URIs do"
        )
    if _STARS.search(uri):
        raise InvalidInput(_OF_STARS)
    if _KEYWORDS.match(uri) and _BLANK.search(uri):
        raise InvalidInput("a password with a blank goes in quotes: password='with a blank'")


def _check_libpq(rest: str) -> None:
    """Raise InvalidInput for a uri that libpq would split in an unintended place."""
    authority, _, path = rest.partition("/")
    hosts = re.sub(r"\[[^\[\]]*+\]", "", authority)
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
    """Return user and password, which may hold an unescaped '/'; "" for a folder."""
    return "" if rest.startswith("/") else rest.partition("?")[0].rpartition("@")[0]


def _check_account(account: str) -> None:
    """Raise InvalidInput for a bad user:password part."""
    if re.search(r"\s", account):
        raise _unescaped(" ")
    if re.fullmatch(r"\*+", account.partition(":")[2]):
        raise InvalidInput(_OF_STARS)


def _unescaped(character: str) -> InvalidInput:
    return InvalidInput(f"the uri has an unescaped {character!r}: {ESCAPED}")


def _way_out(uri: str) -> str:
    """Return advice on a frequent mistake, or ""."""
    scheme, there, path = uri.partition("://")
    if not there:
        scheme, colon, path = uri.partition(":")
        if not colon:
            scheme, path = "", uri
    kind = scheme.lower().partition("+")[0]
    if kind in ("mysql", "mariadb"):
        return (
            "MySQL is not supported; OceanBase and SeekDB, which speak its protocol, have schemes"
            " of their own; "
        )
    if kind in FOLDERS or not scheme:
        folder = Path(path).expanduser().absolute()
        return f"a folder is named from the root, '{kind or EMBEDDED}://{folder}'; "
    if kind in SCHEMES:
        return f"write '{kind}://'; "
    return ""


def _shown(uri: str) -> str:
    """Return the uri with everything that may be its password masked."""
    begin, end = re.search(r"://[^:/@]*+:", uri), uri.rfind("@")
    return f"{uri[: begin.end()]}***{uri[end:]}" if begin and begin.end() <= end else uri


_OF_STARS: Final = (
    "the password in the uri is masked with stars: write the password itself there (a star in it as"
    " %2A)"
)


def is_loopback(host: str) -> bool:
    """Return whether a host is a loopback address or 'localhost'."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
