"""Where the memory lives and how long things may take; read from the environment once, here."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from shared_core.core.uri_validation import EMBEDDED, check_uri
from shared_core.errors import InvalidInput

ANN_THRESHOLD = 20_000
"""Up to so many vectors, reading all of a tenant is fast, and complete."""
OCEANBASE_ANN_THRESHOLD = 100_000
"""There reading 25,000 takes 50 ms, and the index 100, after some ten seconds at its first use."""
MOST_HOURS = 87_600
OCEANBASE = ("seekdb:", "oceanbase:")
_SCHEMA_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Where the memory is and how it is reached.

    uri: None or "embedded" for a private PostgreSQL in `home`; "embedded:///folder" for one in
    that folder; "postgresql://..." or a libpq keyword string for a server; "seekdb:///folder" for
    a private SeekDB in that folder, "seekdb://..." or "oceanbase://..." for a server of either.
    db_schema: the schema that holds every table. pool_size: connections at most.
    connect_timeout_s: how long to wait for a connection. statement_timeout_s: how long one
    statement may take. privacy: the name of a preset of shared_core.privacy. ann_threshold: a
    tenant with more vectors than this is searched by an approximate index as soon as it has one;
    None: every search is exact. graph: whether there is a knowledge graph. cleanup_hours: hours
    from one run of forgetting to the next; None: nothing is forgotten by itself. profiles: whether
    the profile of a user is updated after each consolidation. create: False refuses a place where
    no memory is, and makes nothing there.
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

    def __post_init__(self) -> None:
        if not _SCHEMA_NAME.fullmatch(self.db_schema) or self.db_schema.startswith("pg_"):
            raise InvalidInput(
                f"schema {self.db_schema!r} is not usable: take lower-case letters, digits and _,"
                " at most 63, not starting with a digit or pg_"
            )
        if self.pool_size < 1:
            raise InvalidInput(f"pool_size must be at least 1, not {self.pool_size}")

    @property
    def embedded_home(self) -> Path | None:
        """The folder of the embedded PostgreSQL, or None when uri names a server."""
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
    """Return the settings: arguments, then HIPPOCAMPUS_URI, _HOME, _SCHEMA, _PRIVACY, then these.

    HIPPOCAMPUS_ANN_THRESHOLD: a number of vectors, or "off". HIPPOCAMPUS_GRAPH and
    HIPPOCAMPUS_PROFILES: "on" or "off".
    HIPPOCAMPUS_CLEANUP_HOURS: a number of hours, or "off".
    Raises InvalidInput for a uri, a threshold or a switch of no known form.
    """
    home = os.environ.get("HIPPOCAMPUS_HOME")
    chosen = str(uri if uri is not None else os.environ.get("HIPPOCAMPUS_URI") or EMBEDDED)
    if isinstance(uri, Path):
        chosen = f"embedded://{uri}"
    check_uri(chosen)
    return Settings(
        uri=chosen,
        home=Path(home).expanduser() if home else platformdirs.user_data_path("hippocampus"),
        db_schema=schema or os.environ.get("HIPPOCAMPUS_SCHEMA") or "hippocampus",
        pool_size=pool_size or 16,
        privacy=os.environ.get("HIPPOCAMPUS_PRIVACY") or "default",
        ann_threshold=_ann_threshold(os.environ.get("HIPPOCAMPUS_ANN_THRESHOLD", ""), chosen),
        graph=_on_or_off("HIPPOCAMPUS_GRAPH"),
        profiles=_on_or_off("HIPPOCAMPUS_PROFILES", "off"),
        cleanup_hours=_cleanup_hours(os.environ.get("HIPPOCAMPUS_CLEANUP_HOURS", "")),
        create=create,
    )


def redacted(text: str) -> str:
    """Return a uri, or a message that holds some, without passwords, fit for messages and logs.

    The forms that messages give as an example stay as they are.
    """
    text = _OF_TENANTS.sub(r"\1:***@", text)
    text = _OF_SERVERS.sub(r"\1:***@", text)
    text = _OF_QUERIES.sub(r"\1***", text)
    return _OF_KEYWORDS.sub(r"\1***", text)


_EXAMPLE = r"(?!(?:(?<=//user:)|(?<=//user@tenant#cluster:))password@host[:/])"
_OF_TENANTS = re.compile(rf"((?:seekdb|oceanbase)://[^:/\s]*):{_EXAMPLE}\S*@")
"""Their users may be of a tenant: user@tenant."""
_OF_SERVERS = re.compile(rf"(://[^:/@\s]*):{_EXAMPLE}\S*@")
_OF_QUERIES = re.compile(r"([?&]password=)[^\s&]+")
_OF_KEYWORDS = re.compile(r"((?<![?&])password\s*=\s*)('(?:[^'\\]|\\.)*'|(?:\\.|\S)+)", re.DOTALL)
"""Values of libpq: in quotes, or up to a blank that no backslash escapes."""


def _ann_threshold(text: str, uri: str) -> int | None:
    text = text.strip().lower()
    if text == "off":
        return None
    if text and not (text.isdecimal() and int(text) > 0):
        raise InvalidInput(
            f"HIPPOCAMPUS_ANN_THRESHOLD must be a number of vectors, or 'off', not {text!r}"
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
    if not 0 < hours <= MOST_HOURS:
        raise InvalidInput(
            f"HIPPOCAMPUS_CLEANUP_HOURS must be a number of hours above 0, at most {MOST_HOURS:,},"
            f" or 'off', not {text!r}"
        )
    return hours


def _on_or_off(name: str, default: str = "on") -> bool:
    text = os.environ.get(name, "").strip().lower() or default
    if text not in ("on", "off"):
        raise InvalidInput(f"{name} must be 'on' or 'off', not {text!r}")
    return text == "on"
