"""Ids as people give them on a command line: whole, or by how they begin or end."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from shared_core.core.ids import is_uuid
from shared_core.errors import InvalidInput

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
