"""Reads the named SQL statements of the query files, and names the steps of a transaction."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, NamedTuple

from shared_core.storage.postgres.connection.pipeline import Statement

_HEAD = re.compile(r"^-- (name|fragment): (\w+)$", re.MULTILINE)
_UNSENT = re.compile(r"^ *(--.*\n)?", re.MULTILINE)
"""Indentation and lines of comment, which the server need not read."""
_SLOT = re.compile(r"\{(\w+)\}")


@cache
def named_pieces() -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Return the bodies of all named statements, and of all fragments they may share."""
    found: dict[str, dict[str, str]] = {"name": {}, "fragment": {}}
    folder = files("shared_core.storage.postgres") / "sql" / "queries"
    for file in sorted(folder.iterdir(), key=lambda item: item.name):
        pieces = _HEAD.split(file.read_text("utf-8"))[1:]
        for kind, name, body in zip(pieces[::3], pieces[1::3], pieces[2::3], strict=True):
            if name in found[kind]:
                raise AssertionError(f"{name} stands twice in the query files")
            found[kind][name] = _UNSENT.sub("", body).strip()
    return found["name"], found["fragment"]


@lru_cache(maxsize=256)
def statement(
    name: str,
    *,
    one_tenant: bool = True,
    as_of: bool = False,
    of_thread: bool = False,
    filter_sql: str = "true",
    literals: tuple[tuple[str, str], ...] = (),
) -> bytes:
    """Return the text of one named statement, ready to send.

    Args:
        name: the statement's name in the query files.
        one_tenant: {tenant_scope} is one tenant, which {its_tenant} names; else a range of
            tenants, and {its_tenant} is that of "m".
        as_of: {current} and {ended} mean what held at %(valid)s as known at %(known)s, of one
            tenant; else what holds now.
        of_thread: {listed_from} is the memories of the thread %(thread_id)s; else all memories.
        filter_sql: fills {filter}. It holds columns, operators and placeholders, never a value of
            a caller.
        literals: texts for slots by name. The caller quotes them and doubles every "%".
    """
    bodies, fragments = named_pieces()
    scope = fragments["one_tenant" if one_tenant else "tenant_range"]
    current = fragments["current_then" if as_of else "current"]
    ended = fragments["ended_then" if as_of else "ended_now"]
    listed = fragments["of_thread" if of_thread else "all_memories"]
    pieces = {
        **fragments, "tenant_scope": scope, "current": current, "ended": ended,
        "listed_from": listed,
    }  # fmt: skip
    if not one_tenant:
        pieces["its_tenant"] = "m.tenant_id"
    return _filled(bodies[name], pieces, {"filter": filter_sql, **dict(literals)}).encode()


def _filled(body: str, pieces: Mapping[str, str], final: Mapping[str, str]) -> str:
    """Fill the slots of a body: pieces may have slots of their own, final texts have none."""

    def fill(match: re.Match[str]) -> str:
        name = match[1]
        return final[name] if name in final else _filled(pieces[name], pieces, final)

    return _SLOT.sub(fill, body)


class Step(NamedTuple):
    """One named statement of a transaction, with the values of its placeholders."""

    name: str
    text: bytes
    values: Mapping[str, Any]

    @property
    def statement(self) -> Statement:
        return self.text, self.values


def step(name: str, values: Mapping[str, Any] | None = None, **options: Any) -> Step:
    """Return a step that sends one named statement; options are those of statement()."""
    return Step(name, statement(name, **options), values or {})


def steps(values: Mapping[str, Any], *names: str) -> list[Step]:
    """Return one step for each named statement, all with the same values."""
    return [step(name, values) for name in names]
