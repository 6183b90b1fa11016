"""What `hippocampus facts` shows, and which fact a name on the command line means."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.table import Table

from shared_core.cli.app import word_table
from shared_core.core.domain import JsonValue, Scope
from shared_core.core.ids import chosen_id, short_id, whole_id
from shared_core.engine import MemoryEngine
from shared_core.errors import NotFound
from shared_core.ports.runs import Fact

PART_OF_ID = re.compile(r"[0-9a-fA-F-]+")


async def named_fact(memory: MemoryEngine, scope: Scope, name: str) -> str:
    """Return the key of a fact by that key, or by how the key of one begins or ends.

    Raises InvalidInput for a part of no key, or of more than one.
    """
    if whole_id(name) is not None or not PART_OF_ID.fullmatch(name.strip()):
        return name
    ids = [fact.memory_id for fact in await memory.facts(scope, history=True)]
    command = f"hippocampus facts {scope.app} {scope.user} --history"
    return str(chosen_id(name, ids, what="fact", shown_by=command))


def unknown_fact(name: str, scope: Scope) -> NotFound:
    """Return the error for a name that is none of a fact, with the command that shows them."""
    return NotFound(
        f"there is no memory {name!r} of {scope}: hippocampus facts {scope.app} {scope.user}"
        " --history shows all facts, and the key of each"
    )


def facts_json(found: Sequence[Fact]) -> list[JsonValue]:
    """Return facts as JSON values."""
    return [
        {
            "key": fact.key,
            "slot": fact.slot,
            "value": fact.value,
            "statement": fact.statement,
            "fact_type": fact.fact_type,
            "confidence": round(fact.confidence, 4),
            "extractor": fact.extractor,
            "pattern": fact.pattern,
            "valid_from": fact.valid_from.isoformat(),
            "valid_until": fact.valid_until.isoformat() if fact.valid_until else None,
            "recorded_at": fact.recorded_at.isoformat() if fact.recorded_at else None,
            "superseded_at": fact.superseded_at.isoformat() if fact.superseded_at else None,
            "thread_id": fact.thread_id,
            "source_event_ids": list(fact.source_event_ids),
        }
        for fact in found
    ]


def facts_table(found: Sequence[Fact]) -> Table:
    """Return facts as a table, what has ended dimmed; keys by how they end."""
    rows = [
        (
            short_id(fact.key),
            fact.slot,
            fact.value,
            f"{fact.valid_from:%Y-%m-%d}",
            f"{fact.valid_until:%Y-%m-%d}" if fact.valid_until else "",
        )
        for fact in found
    ]
    return word_table(
        ("key", "slot", "value", "since", "until"),
        rows,
        dim=[fact.valid_until is not None for fact in found],
    )


def told(fact: Fact) -> str:
    """Return a fact in one line: what it says, since when, until when, and its key."""
    until = f", until {fact.valid_until:%Y-%m-%d %H:%M} UTC" if fact.valid_until else ""
    return f"{fact.statement} (since {fact.valid_from:%Y-%m-%d %H:%M} UTC{until}; key {fact.key})"
