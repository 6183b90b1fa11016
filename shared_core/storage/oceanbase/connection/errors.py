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
"""Maximum length of a name, in bytes of UTF-8."""
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
    """Raise InvalidInput if a thread id leaves no room for the key of its summary."""
    if len(summary_key(thread_id).encode()) > MOST_BYTES:
        limit = MOST_BYTES - len(summary_key("").encode())
        raise InvalidInput(_too_long(_CALLED["thread_id"], limit))


def _too_large(code: int, reason: str) -> str:
    """Return the message for a value that the server refuses as too large."""
    if code == PACKET:
        return (
            "OceanBase cannot store texts this large: a statement holds a text several times, and"
            " the server accepts no more than its max_allowed_packet. Split the text, store a"
            " reference to it, or raise max_allowed_packet of the server"
        )
    column = re.search(r"column '`?(\w+)`?'", reason)
    if code == TOO_LONG and column and column[1] in _CALLED:
        return _too_long(_CALLED[column[1]], MOST_BYTES)
    return f"OceanBase cannot store a value or key this large: {reason}"


def _too_long(what: str, limit: int) -> str:
    return (
        f"{what} is too long: it takes at most {limit:,} bytes in UTF-8 on OceanBase; use a shorter"
        " one, e.g. a hash of it"
    )


LOCK_WAIT = 1205
NO_PARENT = 1452
DUPLICATE = 1062
CHECKED = 3819
"""A row violates a CHECK."""
TIMEOUT = 4012
"""A statement or a transaction took too long."""
CHANGED = (6001, 6005, 6235)
"""Others wrote the same rows since this transaction began to read."""
UNKNOWN = 6225
"""The server itself does not know whether the transaction was committed."""
UNDONE = (4038, 4654, 6002, 6211, 6213, 6223, 6224, UNKNOWN)
"""Another node leads now, or the server ended the transaction."""
ROLLED_BACK = (LOCK_WAIT, 1213, *CHANGED, *UNDONE)
"""The server undid everything; the transaction can run again (decision 14)."""
LOST = (2006, 2013, 2014, 0)
UNREACHED = (2002, 2003, 2006)
READ_ONLY = (1290, 1836, 5148)
TOO_LARGE = (1071, 1118, 1153, 1406, 1264, 1292, 1366)
"""The server refuses a key, row, packet or value."""
ADVICE = {
    1044: "Grant the user all rights on that database, or name one on which the user has them:"
    " CREATE DATABASE it first if the user may not",
    1045: f"Check user and password; {ESCAPED}",
}


def code_of(error: pymysql.MySQLError) -> int:
    return error.args[0] if error.args and isinstance(error.args[0], int) else -1


def is_silent(error: pymysql.MySQLError) -> bool:
    """Return whether a server did not answer in time."""
    return isinstance(error.__context__, TimeoutError)


def translated(
    error: pymysql.MySQLError,
    settings: Settings,
    *,
    waiting_for: str | None = None,
    is_in_doubt: bool = False,
) -> MemoryCoreError:
    """Return the error of this project for an error of the driver.

    waiting_for: the tenant that the transaction waited to lock. is_in_doubt: the write may be
    committed.
    """
    code, where = code_of(error), redacted(settings.uri)
    reason = str(error.args[1]) if len(error.args) > 1 else str(error)
    if is_in_doubt:
        return StorageUnavailable(
            f"the database at {where!r} went away during a commit: {reason} ({code}). The write may"
            " or may not be stored: check before you repeat the call"
        )
    if code in TOO_LARGE:
        return InvalidInput(_too_large(code, reason))
    if code == CHECKED:
        return InvalidInput(f"OceanBase cannot store a value: {reason}")
    if code in READ_ONLY:
        return StorageReadOnly(f"the database at {where!r} is read only: {reason}")
    if code == NO_PARENT:
        return Conflict(f"a row that this write needs was deleted meanwhile: {reason}; try again")
    if code == DUPLICATE:
        return Conflict(f"another writer stored this key first: {reason}; try again")
    if is_silent(error):
        return StorageUnavailable(
            f"the database at {where!r} does not answer: {reason} ({code}). Check whether it hangs;"
            " the last call may or may not be committed"
        )
    if code in LOST and code not in UNREACHED:
        return StorageUnavailable(
            f"the connection to the database at {where!r} was lost repeatedly: {reason} ({code})."
            " Nothing was written. Check whether the server runs"
        )
    if message := _passing(code, settings, waiting_for):
        return StorageUnavailable(f"{message}: {reason} ({code})")
    return StorageUnavailable(
        f"the database at {where!r} cannot be used: {reason} ({code})."
        f" {ADVICE.get(code, 'Check HIPPOCAMPUS_URI or the uri argument')}"
    )


def _passing(code: int, settings: Settings, waiting_for: str | None) -> str:
    """Return the message for a temporary error, or "" for other errors."""
    limit = f"{settings.statement_timeout_s:g} s (statement_timeout_s)"
    if code == LOCK_WAIT:
        return (
            f"other writers of {_owner(waiting_for)} held the lock for longer than {limit}; an"
            " import or an erasure may take that long. Nothing was written, try again later"
        )
    if code == TIMEOUT:
        return (
            f"a statement took longer than {limit} and was cancelled; if all statements do, check"
            " whether the disk is full"
        )
    if code == 1213:
        return "transactions deadlocked repeatedly. Nothing was written, try again"
    if code in CHANGED:
        return "others changed the same rows repeatedly. Nothing was written, try again"
    if code in UNDONE:
        return (
            "the server gave up a transaction repeatedly, as it does while another node takes the"
            " lead. Try again in a few seconds"
        )
    return ""


def _owner(tenant: str | None) -> str:
    if tenant is None:
        return "the same rows"
    if tenant in ("", ROOT):
        return "all users alike"
    return repr("/".join(from_path(tenant)))
