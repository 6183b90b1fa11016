"""Reads the .sql files: named statements, and numbered migrations with checksums."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files

_HEAD = re.compile(r"^-- (name|fragment): (\w+)$", re.MULTILINE)
_UNREAD = re.compile(r"^ *(--.*\n)?", re.MULTILINE)
"""Indentation and lines of comment: for who reads the files."""
_SLOT = re.compile(r"\{(\w+)\}")
_MIGRATION_NAME = re.compile(r"(\d{4})_(\w+)\.sql")


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema. Its checksum tells when a released file was edited: an error."""

    version: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()[:16]


@cache
def named_pieces() -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Return the bodies of all named statements, and of all fragments they may share."""
    found: dict[str, dict[str, str]] = {"name": {}, "fragment": {}}
    folder = files("shared_core.storage.postgres") / "sql" / "queries"
    for file in sorted(folder.iterdir(), key=lambda item: item.name):
        parts = _HEAD.split(file.read_text("utf-8"))[1:]
        for kind, name, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
            if name in found[kind]:
                raise AssertionError(f"{name} stands twice in the query files")
            found[kind][name] = _UNREAD.sub("", body).strip()
    return found["name"], found["fragment"]


@lru_cache(maxsize=256)
def statement(
    name: str,
    *,
    one_tenant: bool = True,
    as_of: bool = False,
    filter_sql: str = "true",
    literals: tuple[tuple[str, str], ...] = (),
) -> bytes:
    """Return one named statement, ready to be sent.

    one_tenant: {tenant_scope} is one tenant, else a range of tenants. as_of: {current} and
    {ended} are what held at %(valid)s as known at %(known)s, of one tenant; else what holds now.
    filter_sql fills {filter}; it must hold no value of a caller, only columns, operators and
    placeholders. literals fill slots of their names; who makes them quotes them, and doubles every
    "%".
    """
    bodies, fragments = named_pieces()
    scope = fragments["one_tenant" if one_tenant else "tenant_range"]
    current = fragments["current_then" if as_of else "current"]
    ended = fragments["ended_then" if as_of else "ended_now"]
    pieces = {**fragments, "tenant_scope": scope, "current": current, "ended": ended}
    return _filled(bodies[name], pieces, {"filter": filter_sql, **dict(literals)}).encode()


def _filled(body: str, pieces: Mapping[str, str], final: Mapping[str, str]) -> str:
    """Fill the slots of a body: pieces may have slots of their own, what is final has none."""

    def fill(match: re.Match[str]) -> str:
        name = match[1]
        return final[name] if name in final else _filled(pieces[name], pieces, final)

    return _SLOT.sub(fill, body)


@cache
def migrations() -> tuple[Migration, ...]:
    """Return all migrations in order; their versions are 1, 2, 3, ..."""
    folder = files("shared_core.storage.postgres") / "sql" / "migrations"
    found = []
    for file in sorted(folder.iterdir(), key=lambda item: item.name):
        if match := _MIGRATION_NAME.fullmatch(file.name):
            found.append(Migration(int(match[1]), match[2], file.read_text("utf-8")))
    if [step.version for step in found] != list(range(1, len(found) + 1)):
        raise AssertionError("the migrations are not numbered 1, 2, 3, ...")
    return tuple(found)


def schema_sql() -> str:
    """Return the whole schema as one script: what all migrations together build."""
    return (files("shared_core.storage.postgres") / "sql" / "schema.sql").read_text("utf-8")
