"""Translates what the server refuses into errors of this project, and bounds names and texts.

Retries follow the codes here: which errors the server has undone, and which leave a doubt.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import pymysql

from shared_core.core.namespaces import ROOT, from_path, summary_key
from shared_core.core.uri_validation import ESCAPED
from shared_core.errors import (
    Conflict,
    InvalidInput,
    MemoryCoreError,
    StorageReadOnly,
    StorageUnavailable,
)
from shared_core.settings import Settings, redacted

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


LOCK_WAIT = 1205
DUPLICATE = 1062
TIMEOUT = 4012
"""Of a statement or a transaction."""
CHANGED = (6001, 6005, 6235)
"""Others wrote the same rows since this transaction began to read."""
UNKNOWN = 6225
"""The server does not know itself whether it was committed."""
UNDONE = (4038, 4654, 6002, 6211, 6213, 6223, 6224, UNKNOWN)
"""Another node leads now, or the server gave the transaction up for reasons of its own."""
ROLLED_BACK = (LOCK_WAIT, 1213, *CHANGED, *UNDONE)
"""All is undone; send it again."""
LOST = (2006, 2013, 2014, 0)
UNREACHED = (2002, 2003, 2006)
READ_ONLY = (1290, 1836, 5148)
TOO_LARGE = (1071, 1118, 1153, 1406, 1264, 1292, 1366)
"""A key, row, packet or value that the server does not take."""
ADVICE = {
    1044: "Grant the user all rights on that database, or name one where they are there:"
    " CREATE DATABASE it first if the user may not",
    1045: f"Check user and password; {ESCAPED}",
}


def code_of(error: pymysql.MySQLError) -> int:
    return error.args[0] if error.args and isinstance(error.args[0], int) else -1


def is_silent(error: pymysql.MySQLError) -> bool:
    """Tell whether a server did not answer in time: another call would wait as long again."""
    return isinstance(error.__context__, TimeoutError)


def meant(
    error: pymysql.MySQLError,
    settings: Settings,
    *,
    waiting_for: str | None = None,
    is_in_doubt: bool = False,
) -> MemoryCoreError:
    """Return what a caller is told.

    waiting_for: the tenant whose lock was not to be had. is_in_doubt: what was written may be
    committed.
    """
    code, where = code_of(error), redacted(settings.uri)
    said = str(error.args[1]) if len(error.args) > 1 else str(error)
    if is_in_doubt:
        return StorageUnavailable(
            f"the database at {where!r} went away while a write was committed: {said} ({code})."
            " Whether it is stored is not known: look before you repeat the call"
        )
    if code in TOO_LARGE:
        return InvalidInput(told_too_large(code, said))
    if code in READ_ONLY:
        return StorageReadOnly(f"the database at {where!r} is read only: {said}")
    if code == DUPLICATE:
        return Conflict(f"another writer was first to store what has this key: {said}; try again")
    if is_silent(error):
        return StorageUnavailable(
            f"the database at {where!r} does not answer: {said} ({code}). Look whether it hangs;"
            " whether the last call was committed is not known"
        )
    if code in LOST and code not in UNREACHED:
        return StorageUnavailable(
            f"the connection to the database at {where!r} was lost, again and again: {said}"
            f" ({code}). Nothing was written. Look whether the server runs"
        )
    if told := _passing(code, settings, waiting_for):
        return StorageUnavailable(f"{told}: {said} ({code})")
    return StorageUnavailable(
        f"the database at {where!r} cannot be used: {said} ({code})."
        f" {ADVICE.get(code, 'Check HIPPOCAMPUS_URI or the uri argument')}"
    )


def _passing(code: int, settings: Settings, waiting_for: str | None) -> str:
    """Return what is said of what passes by itself; "" of other errors."""
    limit = f"{settings.statement_timeout_s:g} s (statement_timeout_s)"
    if code == LOCK_WAIT:
        return (
            f"other writers of {_owner(waiting_for)} were at work for longer than {limit}; an"
            " import or an erasure may take that long. Nothing was written, try again later"
        )
    if code == TIMEOUT:
        return (
            f"a statement took longer than {limit} and was cancelled; when all of them do, look"
            " whether the disk is full"
        )
    if code == 1213:
        return "transactions waited for each other, again and again. Nothing was written, try again"
    if code in CHANGED:
        return "others changed the same rows, again and again. Nothing was written, try again"
    if code in UNDONE:
        return (
            "the server gave up a transaction, again and again, as it does while another node"
            " takes the lead. Try again in a few seconds"
        )
    return ""


def _owner(tenant: str | None) -> str:
    if tenant is None:
        return "the same rows"
    if tenant in ("", ROOT):
        return "all users alike"
    return repr("/".join(from_path(tenant)))
