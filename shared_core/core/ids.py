"""Makes UUIDv7 ids, so that no insert has to return one, and resolves abbreviated ids."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable
from hashlib import sha256
from typing import Final
from uuid import UUID

from shared_core.errors import InvalidInput

OF_WORDS: Final = "words-"
"""How ids that are made of what was said begin; the statement drop_marks_of_words knows them."""

_lock = threading.Lock()
_last = 0


def uuid7() -> UUID:
    """Return a UUIDv7 (RFC 9562, section 5.7), greater than every one this process made before.

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


def is_uuid(text: str) -> bool:
    """Return whether a text names a UUID."""
    try:
        UUID(text)
    except ValueError:
        return False
    return True


def id_of_words(thread_id: str, place: int, role: str, text: str) -> str:
    """Return the id of a turn that came without one: said again in its place, it is the same.

    Who guesses the words can confirm them by it, so an erasure leaves no mark that holds one.
    """
    said = f"{thread_id}\n{place}\n{role}\n{text}".encode("utf-8", "surrogatepass")
    return OF_WORDS + sha256(said).hexdigest()[:32]


MOST_SHOWN = 5
SHORT = 8
"""Characters from the end of an id that tell it apart from others of one user, as a rule."""


def whole_id(name: str) -> UUID | None:
    """Return the id that a name is, written out; None if it is none."""
    return UUID(name) if is_uuid(name) else None


def chosen_id(name: str, ids: Iterable[UUID], *, what: str, shown_by: str) -> UUID:
    """Return the one id that a name is, or that begins or ends with it; hyphens may be left out.

    Ids of one time share their beginning, so their ends tell them apart.
    what: what the ids are of, in the singular. shown_by: the command that lists them.
    Raises InvalidInput for a name of none, and of more than one, which it names.
    """
    wanted = name.strip().lower().replace("-", "")
    found = [one for one in ids if wanted and _named(one, wanted)]
    if len(found) == 1:
        return found[0]
    if not found:
        raise InvalidInput(f"{name!r} names no {what}: {shown_by!r} shows them")
    shown = ", ".join(map(str, found[:MOST_SHOWN]))
    more = ", ..." if len(found) > MOST_SHOWN else ""
    raise InvalidInput(
        f"{name!r} names {len(found)} {what}s, {shown}{more}: give more of the one you mean, from"
        " its beginning or its end"
    )


def short_id(name: object) -> str:
    """Return the end of an id, which chosen_id() takes for it; another name as it is."""
    return str(name)[-SHORT:] if is_uuid(str(name)) else str(name)


def _named(one: UUID, wanted: str) -> bool:
    return one.hex.startswith(wanted) or one.hex.endswith(wanted)
