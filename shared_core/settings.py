"""Settings of a memory: address, limits and switches, from arguments and the environment."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import tzinfo
from pathlib import Path

import platformdirs

from shared_core.core.environment import (
    ADDRESS,
    MOST_CONNECTIONS,
    check_variables,
    setting,
    switched,
)
from shared_core.core.model_limits import ModelLimits, limits_in
from shared_core.core.uri_validation import EMBEDDED, check_uri
from shared_core.core.validation import schema_name, whole_number
from shared_core.errors import InvalidInput

ANN_THRESHOLD = 20_000
"""Vectors of a tenant up to which an exact scan is fast enough."""
OCEANBASE_ANN_THRESHOLD = 100_000
"""The same limit on OceanBase, where the index is slower than a scan of 25,000 vectors."""
RESIDENT_MB = 256
"""Megabytes for indexes of users: 100,000 memories with vectors of 384 dimensions."""
OCEANBASE = ("seekdb:", "oceanbase:")
ROOT_HOME = Path("/var/lib/hippocampus")
"""The default folder of root, whose own home is closed to the OS user that runs its server."""
LIBPQ = ("postgresql:", "postgres:")


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
        timezone: the zone of the user; None for UTC.
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
    timezone: tzinfo | None = None

    def __post_init__(self) -> None:
        schema_name(self.db_schema, "schema")
        whole_number(self.pool_size, "pool_size", 1, MOST_CONNECTIONS)

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

    In the query of a postgresql:// uri, prepare=off or prepare=on comes before the variable.
    It warns of variables with our prefix that nothing reads. Raises InvalidInput for a setting with
    a wrong value, and for an address in a variable that nothing reads.
    """
    given = setting(ADDRESS) if uri is None else uri
    check_variables(os.environ, address_is_given=given is not None)
    chosen = str(EMBEDDED if given is None else given)
    if isinstance(uri, Path):
        chosen = f"embedded://{uri}"
    check_uri(chosen)
    chosen, prepare = _split_prepare(chosen)
    vectors = setting("HIPPOCAMPUS_ANN_THRESHOLD")
    if vectors is None:
        vectors = OCEANBASE_ANN_THRESHOLD if chosen.startswith(OCEANBASE) else ANN_THRESHOLD
    return Settings(
        uri=chosen,
        home=_home(chosen) or _default_home(chosen),
        db_schema=setting("HIPPOCAMPUS_SCHEMA", "hippocampus") if schema is None else schema,
        pool_size=16 if pool_size is None else pool_size,
        privacy=setting("HIPPOCAMPUS_PRIVACY", "default"),
        ann_threshold=vectors or None,
        graph=setting("HIPPOCAMPUS_GRAPH", default=True),
        profiles=setting("HIPPOCAMPUS_PROFILES", default=False),
        cleanup_hours=setting("HIPPOCAMPUS_CLEANUP_HOURS") or None,
        create=create,
        forget_requests=setting("HIPPOCAMPUS_FORGET_REQUESTS", default=True),
        prepare=setting("HIPPOCAMPUS_PREPARE", default=True) if prepare is None else prepare,
        resident_mb=setting("HIPPOCAMPUS_RESIDENT_MB", RESIDENT_MB),
        llm_limits=limits_in(os.environ),
        timezone=setting("HIPPOCAMPUS_TIMEZONE"),
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
    prepares = switched(found["value"], "prepare in the uri")
    begin = found["begin"] if found["rest"] else ""
    return f"{uri[: found.start()]}{begin}{found['rest']}", prepares


_PREPARE = re.compile(r"(?P<begin>[?&])prepare=(?P<value>[^&]*)&?(?P<rest>.*)\Z", re.DOTALL)
