"""Checks the arguments of callers; errors name the argument. Pure."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, tzinfo
from numbers import Real
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from shared_core.core.domain import MemoryId
from shared_core.core.ids import is_uuid
from shared_core.core.shown import shown
from shared_core.core.timestamps import check_moment
from shared_core.errors import InvalidInput

_SCHEMA_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")


def number(value: object, what: str, low: float, high: float = math.inf) -> float:
    """Return a finite number from low to high. Raises InvalidInput, naming what."""
    # float and int by themselves: the check of an abstract class takes five times as long.
    if isinstance(value, bool) or not isinstance(value, float | int | Real):
        raise InvalidInput(f"{what} must be a number, e.g. {max(low, 0):g}, got {shown(value)}")
    exact: Any = value  # not as a float: a whole number may be too large for one
    if high < math.inf and not low <= exact <= high:
        raise InvalidInput(
            f"{what} must be between {low:,g} and {_bound(high)}, got {shown(value)}"
        )
    if not low <= exact <= sys.float_info.max:
        raise InvalidInput(f"{what} must be a finite number from {low:g}, got {shown(value)}")
    return float(value)


def whole_number(value: object, what: str, low: int, high: int) -> int:
    """Return a whole number from low to high. Raises InvalidInput, naming what."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise InvalidInput(
            f"{what} must be between {low:,} and {high:,}, a whole number, got {shown(value)}"
        )
    return value


def listed(values: object, what: str, example: str) -> list[Any]:
    """Return the elements of a list, tuple or the like. Raises InvalidInput, naming what."""
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise InvalidInput(f"{what} must be a list, e.g. {example}, got {shown(values)}")
    return list(values)


def mapping(value: object, what: str) -> Mapping[str, Any]:
    """Return a mapping. Raises InvalidInput for anything else, naming what."""
    if not isinstance(value, Mapping):
        raise InvalidInput(
            f'{what} must be a mapping, e.g. {{"source": "chat"}}, or left out, got {shown(value)}'
        )
    return value


def optional_function(value: object, what: str) -> None:
    """Raise InvalidInput, naming what, unless value is a function or None."""
    if value is not None and not callable(value):
        raise InvalidInput(f"{what} must be a function or None, got {shown(value)}")


def ids_of(ids: object, what: str) -> list[UUID]:
    """Return a list of ids from UUIDs or their texts. Raises InvalidInput, naming what."""
    return [id_of(one, f"each of {what}") for one in listed(ids, what, "[job.job_id]")]


def id_of(value: object, what: str) -> UUID:
    """Return an id from a UUID or its text. Raises InvalidInput, naming what."""
    if isinstance(value, UUID):
        return value
    if isinstance(value, str) and is_uuid(value):
        return UUID(value)
    raise InvalidInput(f"{what} must be a UUID, got {shown(value)}")


def names_of(keys: object, what: str = "keys") -> list[str]:
    """Return a key or memory id, or a list of them, as texts. Raises InvalidInput."""
    many = [keys] if isinstance(keys, str | UUID) else keys
    if isinstance(many, Iterable) and not isinstance(many, bytes | Mapping):
        names = list(many)
        if all(isinstance(name, str | UUID) for name in names):
            return [str(name) for name in names]
        keys = next(name for name in names if not isinstance(name, str | UUID))
    raise InvalidInput(
        f"{what} must be a key or memory id, or a list of them, got {shown(keys)}: list_memories()"
        " shows both"
    )


def memory_ids_of(ids: object) -> list[MemoryId]:
    """Return a memory id, or a list of them, from UUIDs or texts. Raises InvalidInput."""
    many = [ids] if isinstance(ids, str | UUID) else listed(ids, "memory_ids", "[hit.memory]")
    try:
        return [MemoryId(one if isinstance(one, UUID) else UUID(one)) for one in many]
    except (ValueError, AttributeError, TypeError):
        raise InvalidInput(
            f"memory_ids must be UUIDs, not keys, e.g. hit.memory.memory_id, got {shown(ids)}"
        ) from None


def zone_of(zone: tzinfo | str | None, what: str = "zone") -> tzinfo | None:
    """Return a time zone of a name or an offset. Raises InvalidInput, naming what."""
    if zone is None or isinstance(zone, tzinfo):
        return zone
    if isinstance(zone, str):
        try:
            if zone[:1] in ("+", "-"):
                return datetime.fromisoformat(f"2000-01-01T00:00{zone}").tzinfo
            return ZoneInfo(zone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            pass  # zoneinfo raises each of these for some unknown names, e.g. of a folder
    raise InvalidInput(
        f'{what} must be a time zone, e.g. "Asia/Shanghai", "+08:00", "UTC" or a tzinfo,'
        f" got {shown(zone)}"
    )


def schema_name(text: str, what: str) -> str:
    """Return the name of a database schema. Raises InvalidInput, naming what."""
    if not _SCHEMA_NAME.fullmatch(text) or text.startswith("pg_"):
        raise InvalidInput(
            f"{what} {shown(text)} is not usable: take at most 63 lower-case letters, digits and _,"
            " and do not start with a digit or pg_"
        )
    return text


def name_of(function: object) -> str:
    """Return the name of a caller's function for messages."""
    return getattr(function, "__qualname__", None) or type(function).__qualname__


def checked_clock(clock: Callable[[], datetime]) -> Callable[[], datetime]:
    """Return the clock, wrapped so that it raises InvalidInput unless it returns an aware moment.

    Raises InvalidInput if it is not callable.
    """
    if not callable(clock):
        raise InvalidInput(
            f"clock must be a function that returns a datetime with a time zone, e.g."
            f" lambda: datetime.now(UTC), got {shown(clock)}"
        )

    def now() -> datetime:
        moment = clock()
        check_moment(moment, f"what the clock {name_of(clock)} returned")
        return moment

    return now


def _bound(high: float) -> str:
    return f"{high:,g}" if high < 1e6 else f"{high:,.0f}"
