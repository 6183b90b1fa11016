"""Options of one ingestion (ADK's custom_metadata) and of a memory service. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import cast, get_args

from shared_core import InvalidInput
from shared_core.core import JsonValue, MemoryKind, shown


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestOptions:
    """How a memory is stored.

    ttl: its lifetime; None keeps it forever. wait: whether the call returns after embedding and
    consolidation; None takes the service's setting. metadata: tags and every other key.
    """

    ttl: timedelta | None = None
    kind: MemoryKind | None = None
    importance: float = 5.0
    wait: bool | None = None
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, object] | None) -> IngestOptions:
        """Return the options in custom_metadata. Raises InvalidInput for an unusable value.

        ttl: seconds as a number, text like "3600s", or a timedelta. tags: a list of texts, or one.
        kind: "semantic", "episodic", ... importance: 1 to 10. wait: True or False.
        """
        if metadata is not None and not isinstance(metadata, Mapping):
            raise TypeError(f"custom_metadata must be a dict, got {type(metadata).__name__}")
        rest = dict(metadata or {})
        kind, wait = rest.pop("kind", None), rest.pop("wait", None)
        importance = rest.pop("importance", 5.0)
        ttl = _ttl(rest.pop("ttl", None))
        if kind is not None and kind not in get_args(MemoryKind):
            known = ", ".join(get_args(MemoryKind))
            raise InvalidInput(
                f"custom_metadata kind {shown(kind)} is unknown: take one of {known}"
            )
        if wait is not None and not isinstance(wait, bool):
            raise InvalidInput(f"custom_metadata wait must be True or False, got {shown(wait)}")
        if isinstance(importance, bool) or not isinstance(importance, int | float):
            raise InvalidInput(
                f"custom_metadata importance must be a number from 1 to 10, got {shown(importance)}"
            )
        if "tags" in rest:
            rest["tags"] = _tags(rest["tags"])
        return cls(
            ttl=ttl,
            kind=cast("MemoryKind | None", kind),
            importance=float(importance),
            wait=wait,
            # The storage refuses values that are not JSON.
            metadata=cast("dict[str, JsonValue]", rest),
        )

    def expires_at(self, now: datetime) -> datetime | None:
        """Return the expiry time of a memory stored now, or None."""
        return now + self.ttl if self.ttl else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceOptions:
    """The options that both the constructor and the URI of OpenMemoryService set; see its Args."""

    top_k: int
    max_chars: int
    min_relevance: float
    include_tool_results: bool
    wait: bool
    deadline_s: float
    fail_open: bool

    def __post_init__(self) -> None:
        for name, count in (("top_k", self.top_k), ("max_chars", self.max_chars)):
            if not isinstance(count, int) or count < 1:
                raise InvalidInput(
                    f"{name} must be a whole number of at least 1, got {shown(count)}"
                )
        for name, number in (
            ("min_relevance", self.min_relevance),
            ("deadline_s", self.deadline_s),
        ):
            if not isinstance(number, int | float):
                raise InvalidInput(f"{name} must be a number, got {shown(number)}")
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


def _tags(value: object) -> list[str]:
    tags = [value] if isinstance(value, str) else value
    if not isinstance(tags, list | tuple | set) or not all(isinstance(tag, str) for tag in tags):
        raise InvalidInput(f"custom_metadata tags must be a list of texts, got {shown(value)}")
    return [*tags]
