"""Makes UUIDv7 ids, so that no insert has to return one, and resolves abbreviated ids."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable
from hashlib import sha256
from typing import Final
from uuid import NAMESPACE_URL, UUID, uuid5

from shared_core.errors import InvalidInput

OF_WORDS: Final = "words-"
"""Prefix of ids made from the words of a turn; the statement drop_marks_of_words uses it."""

_lock = threading.Lock()
_last = 0


def id_of_text(text: str) -> str:
    """Return the id that tools give a text to remember: the same text is kept once."""
    return str(uuid5(NAMESPACE_URL, f"hippocampus:remember:{text.strip()}"))


def uuid7() -> UUID:
    """Return a UUIDv7 (RFC 9562, section 5.7), greater than all earlier ones of this process.

    The 12 bits after the milliseconds hold their fraction (method 3 of section 6.2).
    """
    global _last
    stamp = time.time_ns() * 4096 // 1_000_000
    with _lock:
        stamp = _last = max(stamp, _last + 1)
    random_bits = int.from_bytes(os.urandom(8), "big") & (1 << 62) - 1
    return UUID(
        int=(stamp >> 12 & (1 << 48) - 1) << 80
        | 7 << 76
        | (stamp & 0xFFF) << 64
        | 2 << 62
        | random_bits
    )


def uuid7_of(unix_s: float) -> UUID:
    """Return the smallest UUIDv7 of a moment, in seconds since 1970."""
    return UUID(int=int(unix_s * 1000) << 80 | 7 << 76 | 2 << 62)


def is_uuid(text: str) -> bool:
    """Return whether a text is a UUID."""
    try:
        UUID(text)
    except ValueError:
        return False
    return True


def id_of_words(thread_id: str, place: int, role: str, text: str) -> str:
    """Return an id for a turn without one; the same turn in the same place gets the same id.

    The id confirms a guess of the words, so an erasure leaves no tombstone with such an id.
    """
    words = f"{thread_id}\n{place}\n{role}\n{text}".encode("utf-8", "surrogatepass")
    return OF_WORDS + sha256(words).hexdigest()[:32]


MOST_SHOWN = 5
SHORT = 8
"""Characters at the end of an id that usually distinguish it within one user."""


def whole_id(name: str) -> UUID | None:
    """Return a name as a UUID, or None if it is not a complete one."""
    return UUID(name) if is_uuid(name) else None


def chosen_id(name: str, ids: Iterable[UUID], *, what: str, shown_by: str) -> UUID:
    """Return the one id that equals, begins or ends with a name; hyphens are optional.

    Ids made at one time share their beginning, so their ends distinguish them.
    what: the kind of object, in the singular. shown_by: the command that lists the ids.
    Raises InvalidInput if the name matches no id, or several.
    """
    fragment = name.strip().lower().replace("-", "")
    found = [one for one in ids if fragment and _named(one, fragment)]
    if len(found) == 1:
        return found[0]
    if not found:
        raise InvalidInput(f"{name!r} matches no {what}: {shown_by!r} lists them")
    shown = ", ".join(map(str, found[:MOST_SHOWN]))
    more = ", ..." if len(found) > MOST_SHOWN else ""
    raise InvalidInput(
        f"{name!r} matches {len(found)} {what}s, {shown}{more}: give more characters of"
        " its beginning or its end"
    )


def short_id(name: object) -> str:
    """Return the end of an id, which chosen_id() accepts; other names stay unchanged."""
    return str(name)[-SHORT:] if is_uuid(str(name)) else str(name)


def _named(one: UUID, fragment: str) -> bool:
    return one.hex.startswith(fragment) or one.hex.endswith(fragment)
