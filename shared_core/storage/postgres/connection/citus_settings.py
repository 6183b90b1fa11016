"""Settings of a transaction in the form that a Citus cluster sends on to its workers.

Only SET LOCAL with its value in the text reaches them; what set_config() says stays on the
coordinator, and row security then finds nothing on a worker, and an index is read as by default.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from shared_core.storage.postgres.connection.pipeline import LITERAL, Rows, Statement

_ONE = rb"set_config\(\s*'([\w.]+)'\s*,\s*(?:'([^']*)'|%\((\w+)\)s)\s*,\s*true\s*\)"
_SETTING = re.compile(_ONE)
_SETTINGS = re.compile(
    rb"\s*(?:--[^\n]*\n\s*)*SELECT\s+" + _ONE + rb"(?:\s*,\s*" + _ONE + rb")*\s*"
)


def bound_everywhere(values: Mapping[str, str]) -> list[Statement]:
    """Return what binds a transaction on every node."""
    return [
        (f"{LITERAL}search_path TO {values['search_path']}".encode(), {}),
        _set("statement_timeout", values["statement_timeout"]),
        _set("hippocampus.scope", values["scope"]),
    ]


def sent_on(step: Statement) -> list[Statement]:
    """Return a statement that only sets what is known beforehand as SET LOCALs; others as it is."""
    text, values = step
    if not _SETTINGS.fullmatch(text):
        return [step]
    return [
        _set(name.decode(), str(values[given.decode()]) if given else literal.decode())
        for name, literal, given in _SETTING.findall(text)
    ]


def answers_of(groups: list[list[Statement]], answers: list[Rows]) -> list[Rows]:
    """Return the answer of each group of statements, which is that of its last."""
    rest = iter(answers)
    return [[next(rest) for _ in group][-1] for group in groups]


def _set(name: str, value: str) -> Statement:
    quoted = "'" + value.replace("'", "''").replace("%", "%%") + "'"
    return f"{LITERAL}{name} TO {quoted}".encode(), {}
