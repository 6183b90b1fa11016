"""Options of one ingestion (ADK's custom_metadata) and of a memory service. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, Literal, get_args

from pydantic_core import to_json as to_json_bytes, to_jsonable_python

from shared_core import ExtractionStrategy, InvalidInput
from shared_core.core import (
    JsonValue,
    MemoryKind,
    ambient_zone,
    check_arguments,
    cleaned,
    shown,
    zone_of,
)

OWN: Final = "hippocampus"
"""Key of custom_metadata that holds our options on the way in and our words on the way out.

Every other key is the caller's, and comes back as it was given."""
USER_TIMEZONE: Final = "user:timezone"
"""Key of a session's state with the time zone of the user, e.g. "Australia/Sydney"."""
LEAST_RELEVANCE: Final = 0.16
"""Default floor of a search, chosen with benchmarks.relevance (docs/benchmarks.md)."""

Returned = Literal["all", "turns", "facts"]
"""What a search returns: everything, only turns, or only what was learned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestOptions:
    """How a memory is stored.

    ttl: its lifetime; None keeps it forever. wait: whether the call returns after embedding and
    consolidation; None takes the service's setting. strategy: when queued turns are consolidated,
    likewise. timezone: of the user, in which turns count "yesterday"; None takes the memory's.
    metadata: the caller's words, as JSON.
    """

    ttl: timedelta | None = None
    kind: MemoryKind | None = None
    importance: float = 5.0
    wait: bool | None = None
    strategy: ExtractionStrategy | None = None
    timezone: str | None = None
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, object] | None) -> IngestOptions:
        """Return the options in custom_metadata.

        Options under the key "hippocampus" are checked. Outside of it a key is the caller's word,
        which is kept as given, and serves as an option where it fits: kind "episodic", but not kind
        "preference". Only a ttl is checked in both places, because a memory with an unreadable
        lifetime would stay forever.

        Raises InvalidInput for an unusable option, and TypeError unless metadata is a dict.
        """
        if metadata is not None and not isinstance(metadata, Mapping):
            raise TypeError(f"custom_metadata must be a dict, got {type(metadata).__name__}")
        words = dict(metadata or {})
        own = words.pop(OWN, {})
        if not isinstance(own, Mapping) or (unknown := {*own} - _FITS.keys() - {"ttl"}):
            raise InvalidInput(
                f"custom_metadata {OWN!r} must be a dict of"
                f" {', '.join(sorted({*_FITS, 'ttl'}))}, got"
                f" {shown(own if not isinstance(own, Mapping) else sorted(map(str, unknown)))}"
            )
        given: dict[str, Any] = {
            name: value for name, value in words.items() if name in _FITS and _FITS[name][0](value)
        }
        for name, value in own.items():
            if name in _FITS and not _FITS[name][0](value):
                raise InvalidInput(
                    f"custom_metadata {OWN!r}: {name} must be {_FITS[name][1]}, got {shown(value)}"
                )
            given[name] = value
        return cls(
            ttl=_ttl(given.get("ttl", words.get("ttl"))),
            kind=given.get("kind"),
            importance=float(given.get("importance", 5.0)),
            wait=given.get("wait"),
            strategy=given.get("strategy"),
            timezone=given.get("timezone"),
            metadata={str(name): as_json(value) for name, value in words.items()},
        )

    def expires_at(self, now: datetime) -> datetime | None:
        """Return the expiry time of a memory stored now, or None."""
        return now + self.ttl if self.ttl else None


def as_json(value: object) -> JsonValue:
    """Return a value of any shape as JSON: times and unknown objects become texts, sets lists."""
    try:
        written = to_json_bytes(cleaned(value), inf_nan_mode="strings", bytes_mode="base64")
        plain: JsonValue = json.loads(written)
    except (ValueError, RecursionError):
        try:
            plain = to_jsonable_python(
                cleaned(value), inf_nan_mode="strings", bytes_mode="base64", serialize_unknown=True
            )
        except (ValueError, RecursionError):  # it contains itself, or is nested too deep
            plain = shown(value)
    return plain


def _is_kind(value: object) -> bool:
    return isinstance(value, str) and value in get_args(MemoryKind)


def _is_importance(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 1 <= value <= 10


def _is_zone(value: object) -> bool:
    try:
        return value is None or (isinstance(value, str) and zone_of(value) is not None)
    except InvalidInput:
        return False


_FITS: Final[Mapping[str, tuple[Callable[[object], bool], str]]] = {
    "kind": (_is_kind, f"one of {', '.join(get_args(MemoryKind))}"),
    "importance": (_is_importance, "a number from 1 to 10"),
    "wait": (lambda value: isinstance(value, bool), "True or False"),
    "strategy": (
        lambda value: isinstance(value, ExtractionStrategy | None),
        "an ExtractionStrategy or None",
    ),
    "timezone": (_is_zone, 'a time zone, e.g. "Australia/Sydney", or None'),
}
"""Options beside ttl: what fits them, and its description."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceOptions:
    """The options that both the constructor and the URI of OpenMemoryService set; see its Args."""

    memories: Returned
    top_k: int
    max_chars: int
    min_relevance: float
    include_tool_results: bool
    wait: bool
    deadline_s: float
    fail_open: bool

    def __post_init__(self) -> None:
        check_arguments(ServiceOptions, {name: getattr(self, name) for name in self.__slots__})
        for name, count in (("top_k", self.top_k), ("max_chars", self.max_chars)):
            if count < 1:
                raise InvalidInput(f"{name} must be a whole number of at least 1, got {count}")
        if not 0 <= self.min_relevance <= 1:
            raise InvalidInput(f"min_relevance must be between 0 and 1, got {self.min_relevance}")
        if self.deadline_s <= 0:
            raise InvalidInput(f"deadline_s must be above 0, got {self.deadline_s}")


def _ttl(value: object) -> timedelta | None:
    if value is None:
        return None
    try:
        if isinstance(value, str):
            value = float(value.strip().removesuffix("s"))
        ttl = value if isinstance(value, timedelta) else timedelta(seconds=value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        ttl = timedelta()
    if isinstance(value, bool) or not timedelta() < ttl <= timedelta(days=36_600):
        raise InvalidInput(
            f"custom_metadata ttl must be above 0 and up to 100 years, as seconds (3600, '3600s')"
            f" or a timedelta, got {shown(value)}"
        )
    return ttl


def timezone_of(state: Mapping[str, object]) -> str | None:
    """Return the time zone in the state of a session if there is such a zone, else None."""
    named = state.get(USER_TIMEZONE)
    return named if isinstance(named, str) and ambient_zone(named, USER_TIMEZONE) else None
