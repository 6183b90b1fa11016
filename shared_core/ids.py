"""UUIDv7 ids, made here so that no insert has to hand one back."""

from __future__ import annotations

import os
import threading
import time
from uuid import UUID

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
