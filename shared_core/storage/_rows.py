"""Conversions between rows and domain objects: words, memories, events and policies. Pure."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from numbers import Real
from typing import TYPE_CHECKING, Any, TypeVar

from shared_core.core.domain import (
    AsOf,
    Event,
    JsonValue,
    Memory,
    MemoryId,
    MemoryKind,
    Scope,
    ThreadId,
)
from shared_core.core.doubts import DOUBTED_AT, doubted_at, marked
from shared_core.core.namespaces import from_path, scope_path
from shared_core.core.retention_policy import RetentionPolicy, Rules, Strength, Traits
from shared_core.core.time_zones import in_zone
from shared_core.core.validation import name_of
from shared_core.errors import EmbeddingMismatch, InvalidInput
from shared_core.policies.timing import POLICY_COLUMNS
from shared_core.ports.items import Item

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

log = logging.getLogger("hippocampus")

T = TypeVar("T", bound="DataclassInstance")

MAX_TERMS = 16_000
MAX_TERM_BYTES = 800_000
"""Words with a place, and bytes of words, of a memory in full-text search: a tsvector holds places
up to 16,383, and 1 MB."""


def kept_terms(terms: Sequence[str]) -> list[str]:
    """Return the first MAX_TERMS words, and each other word once."""
    first = terms[:MAX_TERMS]
    known = set(first)
    return [*first, *(one for one in dict.fromkeys(terms[MAX_TERMS:]) if one not in known)]


def to_tsvector(terms: Sequence[str]) -> str:
    """Return words as a tsvector, as PostgreSQL writes it, the first with places; "" is none."""
    positions: dict[str, list[str]] = {}
    room = MAX_TERM_BYTES
    for position, term in enumerate(kept_terms(terms), start=1):
        if not term:
            continue
        room -= len(term.encode()) if term not in positions else 0
        if room < 0:
            break
        places = positions.setdefault(term, [])
        if position <= MAX_TERMS:
            places.append(str(position))
    return " ".join(
        quoted_term(term) + (f":{','.join(positions[term][:255])}" if positions[term] else "")
        for term in sorted(positions, key=str.encode)
    )


def quoted_term(term: str) -> str:
    """Return one word as the quoted lexeme of a tsvector or tsquery literal."""
    return "'" + term.replace("\\", "\\\\").replace("'", "''") + "'"


def any_term(terms: Sequence[str]) -> str:
    """Return a tsquery literal that matches at least one of the words."""
    return " | ".join(quoted_term(term) for term in dict.fromkeys(terms))


def scope_of(tenant: str) -> Scope:
    """Return the scope of a tenant. Raises ValueError unless scope_path() writes this path."""
    fault = f"tenant_id must be '/application/user/', got {tenant!r}"
    labels = from_path(tenant)
    if len(labels) != 2:
        raise ValueError(fault)
    scope = Scope(*labels)
    try:
        written = scope_path(scope)
    except InvalidInput as error:
        raise ValueError(f"{fault}: {error}") from error
    if written != tenant:
        raise ValueError(fault)
    return scope


def scopes_of(tenants: Iterable[str], what: str) -> list[Scope]:
    """Return the scopes of tenants; log a warning, naming what, for a path of no scope."""
    found = []
    for tenant in tenants:
        try:
            found.append(scope_of(tenant))
        except ValueError as error:
            log.warning("%s is left out, correct or delete its row: %s", what, error)
    return found


def memory_from_row(row: Sequence[Any]) -> Memory:
    """Return the memory in the first 15 columns, in the order of {memory_columns}."""
    return Memory(
        memory_id=MemoryId(row[0]),
        namespace=from_path(row[1]),
        key=row[2],
        kind=row[3],
        text=row[4],
        value=json.loads(row[5]),
        author=row[6],
        importance=row[7],
        occurred_at=row[8],
        created_at=row[9],
        updated_at=row[10],
        expires_at=row[11],
        superseded_at=row[12],
        thread_id=row[13] and ThreadId(row[13]),
        source_event_ids=tuple(row[14] or ()),
    )


MEMORY_COLUMNS = 15


def as_known(memory: Memory, as_of: AsOf | None) -> Memory:
    """Return a memory as of a moment: without a retirement recorded later, or a later doubt."""
    if as_of is None:
        return memory
    retired, known, doubted = memory.superseded_at, as_of.known, doubted_at(memory.value)
    if doubted and any(moment and doubted > moment for moment in (as_of.valid, known)):
        memory = replace(memory, value=marked(memory.value, None))
    return replace(memory, superseded_at=None) if retired and known and retired > known else memory


def is_doubtful(value: str, memory: Callable[[], Memory]) -> bool:
    """Return whether a memory is a doubtful fact; few are built. value: as JSON text."""
    return DOUBTED_AT in value and memory().doubted_at is not None


def fact_slot(kind: MemoryKind, value: str) -> str:
    """Return the slot of a fact, or "" for other memories. value: as JSON text."""
    if kind != "semantic":
        return ""
    metadata = json.loads(value).get("metadata")
    slot = metadata.get("slot") if isinstance(metadata, dict) else None
    return slot if isinstance(slot, str) else ""


def moments(as_of: AsOf | None) -> dict[str, object]:
    """Return the parameters %(valid)s and %(known)s."""
    return {"valid": as_of.valid if as_of else None, "known": as_of.known if as_of else None}


def item_from_row(row: Sequence[Any]) -> Item:
    """Return the item in the columns of {item_columns}, optionally followed by a similarity."""
    return Item(
        namespace=from_path(row[0]),
        key=row[1],
        value=row[2],
        created_at=row[3],
        updated_at=row[4],
        has_ttl=row[5] is not None,
        similarity=row[6] if len(row) > 6 else None,
        score=row[6] if len(row) > 6 else None,
    )


def record(kind: type[T], values: Sequence[Any], **others: Any) -> T:
    """Return a dataclass: its fields have the values, in order, except the others, by name."""
    names = [field.name for field in fields(kind) if field.name not in others]
    return kind(**dict(zip(names[: len(values)], values, strict=True)), **others)


def event_from_row(row: Sequence[Any]) -> Event:
    """Return the event in the columns of {event_columns} after the number."""
    event_id, author, role, text, occurred_at, zone, metadata, importance, expires_at = row
    return Event(
        event_id=event_id,
        author=author,
        role=role,
        text=text,
        occurred_at=in_zone(occurred_at, zone),
        metadata=metadata,
        importance=importance,
        expires_at=expires_at,
    )


def initial_of(
    strength: Strength,
    kind: MemoryKind,
    text: str,
    importance: float,
    value: Mapping[str, JsonValue],
) -> float | None:
    """Return the initial strength that the caller's function gives a new memory.

    Raises InvalidInput, naming the function, if it raises or returns anything but 0 to 1 or None.
    """
    metadata = value.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    traits = Traits(
        kind=kind, text=text, importance=importance, arousal=_arousal(metadata), metadata=metadata
    )
    function = f"the function {name_of(strength)} given as strength"
    try:
        initial = strength(traits)
    except Exception as error:
        raise InvalidInput(
            f"{function} raised {type(error).__name__} for {text!r:.60}: {error}. Nothing was"
            " written; it may return None if it cannot tell"
        ) from error
    if initial is None:
        return None
    if isinstance(initial, bool) or not isinstance(initial, Real) or not 0 <= float(initial) <= 1:
        raise InvalidInput(
            f"{function} must return a number from 0 to 1, or None, got {initial!r:.80}. Nothing"
            " was written"
        )
    return float(initial)


def _arousal(metadata: Mapping[str, JsonValue]) -> float:
    emotion = metadata.get("emotion")
    arousal = emotion.get("arousal") if isinstance(emotion, Mapping) else None
    if isinstance(arousal, bool) or not isinstance(arousal, int | float):
        return 0.0
    return min(max(float(arousal), 0.0), 1.0)


def policy_columns(rules: Rules) -> dict[str, list[Any]]:
    """Return the rules of a policy as columns with one entry for each kind."""
    kinds = list(rules)
    stored = [rules[kind] or RetentionPolicy() for kind in kinds]
    return {
        "kinds": kinds,
        "fades": [rules[kind] is not None for kind in kinds],
        **{name: [_number(getattr(policy, name)) for policy in stored] for name in POLICY_COLUMNS},
    }


def _number(value: float | bool | None) -> float | bool | None:
    return value if value is None or isinstance(value, bool) else float(value)


def check_dimensions(model: str, dimensions: int, known: int) -> None:
    """Raise EmbeddingMismatch if vectors of this name had other dimensions before."""
    if known != dimensions:
        raise EmbeddingMismatch(
            f"{model!r} made vectors of {known} dimensions here before, and makes {dimensions}"
            " now: one name must stand for one model"
        )
