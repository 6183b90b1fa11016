"""Between policies and rows: what a caller's strength function says, columns of policies. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

from shared_core.core.domain import JsonValue, MemoryId, MemoryKind
from shared_core.core.namespaces import from_path
from shared_core.core.retention_policy import STAGES, RetentionPolicy, Rules, Strength, Traits
from shared_core.core.validation import name_of
from shared_core.errors import InvalidInput
from shared_core.ports.retention import FATES, Counts, Fate, Kept
from shared_core.storage._rows import utc

POLICY_COLUMNS = (
    "decay_rate", "threshold", "min_age_days", "archive_threshold", "archive_after_days",
    "erase_threshold", "erase_after_days", "with_history",
)  # fmt: skip


def initial_of(
    strength: Strength,
    kind: MemoryKind,
    text: str,
    importance: float,
    value: Mapping[str, JsonValue],
) -> float | None:
    """Return what a caller's function gives a new memory.

    Raises InvalidInput, naming it, where it raises or returns no share of 1.
    """
    metadata = value.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    traits = Traits(
        kind=kind,
        text=text,
        importance=importance,
        arousal=_arousal(metadata),
        metadata=metadata,
    )
    asked = f"the function {name_of(strength)} given as strength"
    try:
        given = strength(traits)
    except Exception as error:
        raise InvalidInput(
            f"{asked} raised {type(error).__name__} for {text!r:.60}: {error}. Nothing was written;"
            " it may return None where it cannot tell"
        ) from error
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, Real) or not 0 <= float(given) <= 1:
        raise InvalidInput(
            f"{asked} must return a number from 0 to 1, or None, not {given!r:.80}. Nothing was"
            " written"
        )
    return float(given)


def _arousal(metadata: Mapping[str, JsonValue]) -> float:
    emotion = metadata.get("emotion")
    arousal = emotion.get("arousal") if isinstance(emotion, Mapping) else None
    if isinstance(arousal, bool) or not isinstance(arousal, int | float):
        return 0.0
    return min(max(float(arousal), 0.0), 1.0)


def policy_columns(rules: Rules) -> dict[str, list[Any]]:
    """Return the rules of a policy as columns, one entry a kind."""
    kinds = list(rules)
    stored = [rules[kind] or RetentionPolicy() for kind in kinds]
    return {
        "kinds": kinds,
        "fades": [rules[kind] is not None for kind in kinds],
        **{name: [_number(getattr(policy, name)) for policy in stored] for name in POLICY_COLUMNS},
    }


def _number(value: float | bool | None) -> float | bool | None:
    return value if value is None or isinstance(value, bool) else float(value)


def policy_of(row: Sequence[Any]) -> RetentionPolicy | None:
    """Return the policy in the columns fades and POLICY_COLUMNS; None if the kind never fades."""
    fades, *values = row
    if not fades:
        return None
    return RetentionPolicy(**dict(zip(POLICY_COLUMNS, values, strict=True)))


def counts_of(rows: Sequence[Sequence[Any]]) -> Counts:
    """Return the columns kind, fate and count as counts; fates that nothing met are there too."""
    counts: dict[Fate, dict[MemoryKind, int]] = {fate: {} for fate in FATES}
    for kind, fate, count in sorted(rows, key=tuple):
        if fate in counts:
            counts[fate][kind] = count
    return counts


def along_of(rows: Sequence[Sequence[Any]]) -> dict[MemoryKind, int]:
    """Return how many of each kind were erased along with others, from the same columns."""
    return {kind: count for kind, fate, count in sorted(rows, key=tuple) if fate == "along"}


def kept_of(row: Sequence[Any]) -> Kept:
    """Return how a memory is kept, from the columns of the statement kept."""
    return Kept(
        memory_id=MemoryId(row[0]),
        namespace=from_path(row[1]),
        key=row[2],
        kind=row[3],
        text=row[4],
        stage=STAGES[row[5]],
        staged_at=row[6] and utc(row[6]),
        pinned=row[7],
        strength=row[8],
        importance=row[9],
        arousal=row[10],
        access_count=row[11],
        last_accessed_at=row[12] and utc(row[12]),
        used_at=utc(row[13]),
        created_at=utc(row[14]),
        forget_at=row[15] and utc(row[15]),
        rule=policy_of(row[16:]),
    )
