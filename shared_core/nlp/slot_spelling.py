"""Names of slots that are meant for a known one but for a letter. Pure."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from shared_core.nlp.slots import known_slot_names, slot_of

LEAST_CHARACTERS: Final = 6
"""Shorter names are often one letter apart and mean something else: "game" is no "name"."""


@lru_cache(maxsize=1024)
def near_slot(given: str) -> str | None:
    """Return the name of a known slot that is one edit away from an unknown name, or None.

    An edit is a letter more, less, another one, or two that have changed places.
    """
    known = known_slot_names()
    if len(given) < LEAST_CHARACTERS or "." in given or given in known:
        return None
    near = [one for one in known if len(one) >= LEAST_CHARACTERS and _one_edit(given, one)]
    return min(near, key=lambda one: (_canonical(one) != one, one), default=None)


def near_slot_told(given: str, name: str) -> str:
    """Return what to say of a name that near_slot() knows better."""
    near = near_slot(name) or ""
    slot = _canonical(near)
    meant = repr(near) if slot == near else f"{near!r} ({slot})"
    return (
        f"slot {given!r} is not known: did you mean {meant}? A slot of your own so near to it"
        f" needs a name with a dot, e.g. {'my.' + name!r}"
    )


def _canonical(name: str) -> str:
    found = slot_of(name)
    return found.name if found else name


def _one_edit(one: str, other: str) -> bool:
    if abs(len(one) - len(other)) > 1:
        return False
    start = next((at for at, pair in enumerate(zip(one, other, strict=False))
                  if pair[0] != pair[1]), min(len(one), len(other)))  # fmt: skip
    a, b = one[start:], other[start:]
    swapped = a[1:2] + a[:1] == b[:2] and len(a) > 1 and a[2:] == b[2:]
    return a != b and (swapped or a[1:] == b[1:] or a[1:] == b or a == b[1:])
