"""What a run found out about turns: their importance and emotion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared_core.core.domain import JsonValue
from shared_core.policies.batches import Found, Reads
from shared_core.policies.run_records import RunChange
from shared_core.policies.timing import RuleOf, retimed, select_timed_turns, timed_of
from shared_core.ports.operations import Operation, UpdateEach
from shared_core.ports.runs import Annotation, RunPlan

_USUAL = 5.0
"""The importance of a turn that nobody rated."""


def select_rated(plan: RunPlan) -> Reads:
    """Return what reads the memories of the turns that a run rates."""
    if plan.thread_id is None or not plan.annotations:
        return {}
    event_ids = [annotation.event_id for annotation in plan.annotations]
    return {"rated": select_timed_turns(plan.thread_id, event_ids)}


def rate_turns(plan: RunPlan, found: Found, rule: RuleOf, log: list[RunChange]) -> list[Operation]:
    """Return what writes the importance of turns without one, and the emotion of turns without one.

    A memory that is written anew at the same moment stays as it is: its updated_at has risen.
    """
    turns: dict[str, list[Any]] = {}
    for event_id, *row in sorted(found["rated"], key=lambda row: row[1]):
        turns.setdefault(event_id, []).append(timed_of(tuple(row)))
    rated = []
    for annotation in plan.annotations:
        unfelt = [one for one in turns.get(annotation.event_id, ()) if not _has_emotion(one.value)]
        for one in unfelt[:1]:
            emotion = _emotion_of(annotation)
            before = {"importance": one.importance, "emotion": emotion is not None}
            log.append(RunChange("rated", one.memory_id, "", before))
            if one.importance == _USUAL and annotation.importance is not None:
                one.importance = annotation.importance
            if emotion is not None:
                one.value = _with(one.value, emotion)
            rated.append((one.memory_id, one.updated_at, one.importance, one.value))
    operations: list[Operation] = []
    if rated:
        key = ("memory_id", "updated_at")
        operations.append(UpdateEach("memories", key, ("importance", "value"), rated))
    counted = [one for memories in turns.values() for one in memories if one.is_counted]
    return operations + retimed(counted, rule)


def _has_emotion(value: Any) -> bool:
    metadata = value.get("metadata")
    return isinstance(metadata, Mapping) and "emotion" in metadata


def _emotion_of(annotation: Annotation) -> dict[str, JsonValue] | None:
    emotion = annotation.emotion
    if emotion is None:
        return None
    return {"valence": emotion.valence, "arousal": emotion.arousal, "label": emotion.label}


def _with(value: Any, emotion: Mapping[str, JsonValue]) -> JsonValue:
    """Return the value of a turn with an emotion in its metadata."""
    metadata = value.get("metadata")
    held = metadata if isinstance(metadata, Mapping) else {}
    return {**value, "metadata": {**held, "emotion": dict(emotion)}}
