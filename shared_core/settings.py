"""Settings of a memory: address, limits and switches, from arguments and the environment."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from shared_core.core.environment import ADDRESS, check_variables
from shared_core.core.model_limits import ModelLimits, limits_in
from shared_core.core.uri_validation import EMBEDDED, check_uri
from shared_core.errors import InvalidInput

ANN_THRESHOLD = 20_000
"""Vectors of a tenant up to which an exact scan is fast enough."""
OCEANBASE_ANN_THRESHOLD = 100_000
"""The same limit on OceanBase, where the index is slower than a scan of 25,000 vectors."""
RESIDENT_MB = 256
"""Megabytes for indexes of users: 100,000 memories with vectors of 384 dimensions."""
MAX_CLEANUP_HOURS = 87_600
"""Ten years."""
OCEANBASE = ("seekdb:", "oceanbase:")
ROOT_HOME = Path("/var/lib/hippocampus")
"""The default folder of root, whose own home is closed to the OS user that runs its server."""
LIBPQ = ("postgresql:", "postgres:")
_SCHEMA_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of one memory.

    Attributes:
        uri: "embedded" is a private PostgreSQL in `home`, "embedded:///folder" one in that folder.
            "postgresql://..." or a libpq keyword string is a server. "seekdb:///folder" is a
            private SeekDB; "seekdb://..." and "oceanbase://..." are servers.
        db_schema: the schema that holds every table.
        pool_size: maximum number of connections.
        connect_timeout_s: seconds to wait for a connection.
        statement_timeout_s: seconds that one statement may take.
        privacy: the name of a preset of shared_core.privacy.
        ann_threshold: a tenant with more vectors is searched by its approximate index, once it has
            one. None makes every search exact.
        graph: whether there is a knowledge graph.
        cleanup_hours: hours between two scheduled cleanups; None schedules none.
        profiles: whether each consolidation updates the profile of the user.
        create: False raises where there is no memory, and creates nothing.
        forget_requests: whether "Forget what I said about X" in a turn of the user is carried out.
        prepare: whether PostgreSQL keeps statements prepared. A pooler may not keep them.
        resident_mb: megabytes that indexes of users for recall may take in a process; 0 for none.
        llm_limits: limits of the calls of the language model.
        timezone: the zone of the user, by its name or offset; None for UTC.
    """

    uri: str = EMBEDDED
    home: Path
    db_schema: str = "hippocampus"
    pool_size: int = 16
    connect_timeout_s: float = 10.0
    statement_timeout_s: float = 60.0
    privacy: str = "default"
    ann_threshold: int | None = ANN_THRESHOLD
    graph: bool = True
    cleanup_hours: float | None = None
    profiles: bool = False
    create: bool = True
    forget_requests: bool = True
    prepare: bool = True
    resident_mb: int = RESIDENT_MB
    llm_limits: ModelLimits | None = None
    timezone: str | None = None

    def __post_init__(self) -> None:
        if not _SCHEMA_NAME.fullmatch(self.db_schema) or self.db_schema.startswith("pg_"):
            raise InvalidInput(
                f"schema {self.db_schema!r} is not usable: take at most 63 lower-case letters,"
                " digits and _, and do not start with a digit or pg_"
            )
        if self.pool_size < 1:
            raise InvalidInput(f"pool_size must be at least 1, got {self.pool_size}")

    @property
    def embedded_home(self) -> Path | None:
        """The folder of the embedded PostgreSQL, or None if uri names a server."""
        if self.uri == EMBEDDED:
            return self.home
        if self.uri.startswith("embedded://"):
            return Path(self.uri.removeprefix("embedded://")).expanduser()
        return None


def load_settings(
    uri: str | Path | None = None,
    *,
    schema: str | None = None,
    pool_size: int | None = None,
    create: bool = True,
) -> Settings:
    """Return the settings from the arguments, else from the environment, else the defaults.

    Variables: HIPPOCAMPUS_URI, _HOME, _SCHEMA, _PRIVACY, _ANN_THRESHOLD (vectors, or "off"),
    _CLEANUP_HOURS (hours, or "off"), _RESIDENT_MB (megabytes, or "off"), _TIMEZONE, _GRAPH,
    _PROFILES and _PREPARE ("on" or "off"), and those of limits_in(). In the query of a
    postgresql:// uri, prepare=off or prepare=on comes before the variable.
    It warns of other variables with this prefix. Raises InvalidInput for a value of no known form,
    and for an address in a variable that nothing reads.
    """
    given = uri if uri is not None else os.environ.get(ADDRESS)
    check_variables(os.environ, address_is_given=bool(given))
    chosen = str(given or EMBEDDED)
    if isinstance(uri, Path):
        chosen = f"embedded://{uri}"
    check_uri(chosen)
    chosen, prepare = _split_prepare(chosen)
    return Settings(
        uri=chosen,
        home=_home(chosen) or _default_home(chosen),
        db_schema=schema or os.environ.get("HIPPOCAMPUS_SCHEMA") or "hippocampus",
        pool_size=pool_size or 16,
        privacy=os.environ.get("HIPPOCAMPUS_PRIVACY") or "default",
        ann_threshold=_ann_threshold(os.environ.get("HIPPOCAMPUS_ANN_THRESHOLD", ""), chosen),
        graph=_on_or_off("HIPPOCAMPUS_GRAPH"),
        profiles=_on_or_off("HIPPOCAMPUS_PROFILES", "off"),
        cleanup_hours=_cleanup_hours(os.environ.get("HIPPOCAMPUS_CLEANUP_HOURS", "")),
        create=create,
        forget_requests=_on_or_off("HIPPOCAMPUS_FORGET_REQUESTS"),
        prepare=_on_or_off("HIPPOCAMPUS_PREPARE") if prepare is None else prepare,
        resident_mb=_resident_mb(os.environ.get("HIPPOCAMPUS_RESIDENT_MB", "")),
        llm_limits=limits_in(os.environ),
        timezone=os.environ.get("HIPPOCAMPUS_TIMEZONE") or None,
    )


def _home(uri: str) -> Path | None:
    named = os.environ.get("HIPPOCAMPUS_HOME")
    if not named:
        return None
    home = Path(named).expanduser()
    if uri == EMBEDDED and not home.is_absolute():
        raise InvalidInput(
            f"HIPPOCAMPUS_HOME must be a folder named from the root, got {named!r}: write"
            f" {str(home.absolute())!r}"
        )
    return home


def redacted(text: str) -> str:
    """Return a uri, or a message that contains uris, with every password masked.

    Example uris in error messages stay unchanged.
    """
    text = _WORD.sub(_without_password, text)
    text = _QUERY_PARAMETER.sub(r"\1***", text)
    return _LIBPQ_KEYWORD.sub(r"\1***", text)


_EXAMPLE = r"(?!(?:(?<=//user:)|(?<=//user@tenant#cluster:))password@host[:/])"
_WORD = re.compile(r"\S+")
_BEFORE_PASSWORD = (
    re.compile(rf"(?:seekdb|oceanbase)://[^:/\s]*+:{_EXAMPLE}"),
    re.compile(rf"://[^:/@\s]*+:{_EXAMPLE}"),
)
"""A uri up to its password. An OceanBase user may contain an "@": user@tenant."""
_QUERY_PARAMETER = re.compile(r"([?&]password=)[^\s&]+")
_LIBPQ_KEYWORD = re.compile(
    r"((?<![?&])password\s*+=\s*+)('(?:[^'\\]|\\.)*'|(?:\\.|\S)+)", re.DOTALL
)
"""A libpq value: quoted, or up to the first unescaped blank."""


def _without_password(word: re.Match[str]) -> str:
    """Return a word with "***" for a uri's password, however long, which ends at the last "@"."""
    text, end = word[0], word[0].rfind("@")
    for before in _BEFORE_PASSWORD:
        if (found := before.search(text)) and found.end() <= end:
            return f"{text[: found.end()]}***{text[end:]}"
    return text


def _default_home(uri: str) -> Path:
    """Return the folder of the embedded PostgreSQL where HIPPOCAMPUS_HOME names none."""
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        return ROOT_HOME
    folder = Path()
    with suppress(RuntimeError):  # for a user without a home; an older platformdirs returns "~/..."
        folder = platformdirs.user_data_path("hippocampus")
    if uri == EMBEDDED and not folder.is_absolute():
        raise InvalidInput(
            "this OS user has no home folder: set HIPPOCAMPUS_HOME to a folder for the embedded"
            " PostgreSQL, or HIPPOCAMPUS_URI to a server"
        )
    return folder


def _split_prepare(uri: str) -> tuple[str, bool | None]:
    """Return a uri without its option "prepare", which libpq does not know, and its value."""
    found = _PREPARE.search(uri) if uri.startswith(LIBPQ) else None
    if found is None:
        return uri, None
    if found["value"] not in ("on", "off"):
        raise InvalidInput(f"prepare in the uri must be 'on' or 'off', got {found['value']!r}")
    begin = found["begin"] if found["rest"] else ""
    return f"{uri[: found.start()]}{begin}{found['rest']}", found["value"] == "on"


_PREPARE = re.compile(r"(?P<begin>[?&])prepare=(?P<value>[^&]*)&?(?P<rest>.*)\Z", re.DOTALL)


def _ann_threshold(text: str, uri: str) -> int | None:
    text = text.strip().lower()
    if text == "off":
        return None
    if text and not (text.isdecimal() and int(text) > 0):
        raise InvalidInput(
            f"HIPPOCAMPUS_ANN_THRESHOLD must be a number of vectors, or 'off', got {text!r}"
        )
    if text:
        return int(text)
    return OCEANBASE_ANN_THRESHOLD if uri.startswith(OCEANBASE) else ANN_THRESHOLD


def _cleanup_hours(text: str) -> float | None:
    text = text.strip().lower()
    if text in ("", "off"):
        return None
    try:
        hours = float(text)
    except ValueError:
        hours = 0.0
    if not 0 < hours <= MAX_CLEANUP_HOURS:
        raise InvalidInput(
            "HIPPOCAMPUS_CLEANUP_HOURS must be a number of hours above 0 and up to"
            f" {MAX_CLEANUP_HOURS:,}, or 'off', got {text!r}"
        )
    return hours


def _resident_mb(text: str) -> int:
    text = text.strip().lower()
    if text in ("", "off"):
        return 0 if text else RESIDENT_MB
    if not text.isdecimal():
        raise InvalidInput(
            f"HIPPOCAMPUS_RESIDENT_MB must be a number of megabytes from 0, or 'off', got {text!r}"
        )
    return int(text)


def _on_or_off(name: str, default: str = "on") -> bool:
    text = os.environ.get(name, "").strip().lower() or default
    if text not in ("on", "off"):
        raise InvalidInput(f"{name} must be 'on' or 'off', got {text!r}")
    return text == "on"
