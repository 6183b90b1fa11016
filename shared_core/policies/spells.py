"""The spells of a relation: every period in which a subject had it, under all its names."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from shared_core.core.domain import MemoryId
from shared_core.policies.aliases import aliases_of, entity_of, names_of, select_aliases
from shared_core.policies.run_records import LAST_NUMBER, last_number
from shared_core.ports.graph import KnownSpells, Spell
from shared_core.ports.operations import Policy, Row, Select, equal, one_of, open_after

_SPELL = ("edge_id", "object_key", "valid_from", "valid_until", "fact_id", "recorded_at")


def known_spells(
    subject_key: str, relation: str, object_key: str, *, alone: bool, now: datetime
) -> Policy[KnownSpells]:
    """Return the spells of a subject's relation, ended ones too, in time order.

    Keys are normalised names. alone: only those with this object. now: facts that have ended by
    this moment are left out of the spells.
    """
    last, *named = yield [LAST_NUMBER, *select_aliases([subject_key, object_key])]
    aliases = aliases_of(named)
    subject, value = entity_of(subject_key, aliases), entity_of(object_key, aliases)
    keys = names_of(subject, aliases)
    asked = [one_of("subject_key", keys), equal("relation", relation)]
    if alone:
        asked.append(one_of("object_key", names_of(value, aliases)))
    [rows] = yield [Select("edges", _SPELL, tuple(asked))]
    *named, facts = yield [
        *select_aliases(sorted({row[1] for row in rows})),
        _select_open_facts({row[4] for row in rows if row[4]}, now),
    ]
    aliases = aliases_of(named)
    held = {row[0] for row in facts if row[1] is not None or row[2] is None}
    spells = [
        Spell(
            edge_id=edge_id,
            value=entity_of(key, aliases),
            valid_from=begins,
            valid_until=ends,
            fact_id=fact if fact in held else None,
        )
        for edge_id, key, begins, ends, fact, _ in sorted(rows, key=_began)
    ]
    return KnownSpells(value=value, subject_keys=keys, spells=spells, number=last_number(last))


def _select_open_facts(memory_ids: Iterable[MemoryId], now: datetime) -> Select:
    columns = ("memory_id", "valid_until", "superseded_at")
    where = (one_of("memory_id", sorted(memory_ids)), open_after("valid_until", now))
    return Select("facts", columns, where)


def _began(row: Row) -> tuple[datetime, datetime, UUID]:
    return row[2], row[5], row[0]
