"""How long names and texts may be, and what is said of those that are too long. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from shared_core.core.namespaces import summary_key
from shared_core.errors import InvalidInput

MOST_BYTES: Final = 1_500
"""Of a name, in UTF-8."""

TOO_LONG = 1406
PACKET = 1153

_CALLED: Final[Mapping[str, str]] = {
    "tenant_id": "the path of an application and its user",
    "namespace": "the path of a namespace, after its first two labels,",
    "key": "a key",
    "thread_id": "thread_id, the id of a thread or a session,",
    "event_id": "event_id",
    "model": "the name of an embedder",
    "relation": "a relation",
    "object": "what an edge leads to",
    "object_key": "what an edge leads to",
    "subject": "what an edge begins at",
    "subject_key": "what an edge or a profile is about",
    "alias": "an alias",
    "alias_key": "an alias",
    "entity": "an entity",
    "entity_key": "an entity",
    "slot": "what a fact is about",
    "field": "the path of an indexed field",
}


def check_thread_id(thread_id: str) -> None:
    """Raise InvalidInput for the id of a thread that leaves no room for the key of its summary."""
    if len(summary_key(thread_id).encode()) > MOST_BYTES:
        most = MOST_BYTES - len(summary_key("").encode())
        raise InvalidInput(_said(_CALLED["thread_id"], most))


def told_too_large(code: int, said: str) -> str:
    """Return what a caller should know where the server refuses a value as too large."""
    if code == PACKET:
        return (
            "OceanBase cannot store texts this large: a statement holds a text several times over,"
            " and the server takes as much as its max_allowed_packet: split the text, keep it"
            " elsewhere and remember where, or raise max_allowed_packet of the server"
        )
    column = re.search(r"column '`?(\w+)`?'", said)
    if code == TOO_LONG and column and column[1] in _CALLED:
        return _said(_CALLED[column[1]], MOST_BYTES)
    return f"OceanBase cannot store a value or key this large: {said}"


def _said(what: str, most: int) -> str:
    return (
        f"{what} is too long: it takes at most {most:,} bytes in UTF-8, OceanBase cannot store one"
        " this large; take a shorter one, e.g. a hash of it"
    )
