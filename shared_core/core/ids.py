"""UUIDv7 ids, made here so that no insert has to hand one back."""

from __future__ import annotations

import os
import threading
import time
from hashlib import sha256
from typing import Final
from uuid import UUID

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
