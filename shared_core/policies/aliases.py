"""Names that were merged into entities. No entity is an alias, and a name has one entity."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from uuid import UUID

from shared_core.errors import Conflict
from shared_core.policies.run_records import LAST_NUMBER, caller_run, noted
from shared_core.ports.graph import Alias
from shared_core.ports.operations import (
    Condition,
    Insert,
    Join,
    Last,
    Operation,
    Policy,
    Row,
    Select,
    Update,
    compare,
    is_null,
    one_of,
    open_after,
)

ALIAS_COLUMNS = ("alias_id", "alias_key", "alias", "entity_key", "entity")
"""The columns of entity_aliases that are the fields of an Alias."""
_CURRENT = is_null("unmerged_at")


def merged_at(known: datetime | None, prefix: str = "") -> tuple[Condition, ...]:
    """Return the conditions of aliases that were merged by a moment and not parted; None: now."""
    parted_at = f"{prefix}unmerged_at"
    if known is None:
        return (is_null(parted_at),)
    return compare(f"{prefix}merged_at", "<=", known), open_after(parted_at, known)


def select_aliases(keys: Sequence[str], known: datetime | None = None) -> list[Select]:
    """Return what reads the aliases of the entities that names stand for; known: as of then."""
    others = tuple(f"b.{column}" for column in ALIAS_COLUMNS)
    of_entity = Join("entity_aliases", "b", (("entity_key", "entity_key"),))
    alias = (one_of("alias_key", keys), *merged_at(known), *merged_at(known, "b."))
    return [
        Select("entity_aliases", ALIAS_COLUMNS, (one_of("entity_key", keys), *merged_at(known))),
        Select("entity_aliases", others, alias, (of_entity,)),
    ]


def aliases_of(rows: Iterable[Sequence[Row]]) -> list[Alias]:
    """Return the aliases in the rows of select_aliases(), each once, sorted by name."""
    found = {
        row[0]: Alias(**dict(zip(ALIAS_COLUMNS, row, strict=True))) for of in rows for row in of
    }
    return sorted(found.values(), key=lambda one: one.alias_key)


def entity_of(key: str, aliases: Iterable[Alias]) -> str:
    """Return the key of the entity that a name stands for."""
    return next((one.entity_key for one in aliases if one.alias_key == key), key)


def names_of(root: str, aliases: Iterable[Alias]) -> list[str]:
    """Return the names of an entity, its aliases included, sorted."""
    return sorted({root, *(one.alias_key for one in aliases if one.entity_key == root)})


def change_aliases(
    run_id: UUID, ended: Sequence[UUID], added: Sequence[Alias], now: datetime
) -> Policy[None]:
    """End and add aliases, as a run. Raises Conflict if they changed meanwhile."""
    changed = Conflict("another call changed the aliases: try again")
    aliases = sorted({one.alias_key for one in added})
    entities = sorted({one.entity_key for one in added})
    if len(aliases) < len(added) or set(aliases) & set(entities):
        raise changed
    columns = ("alias_id",)
    last, ending, named, merged = yield [
        LAST_NUMBER,
        Select("entity_aliases", columns, (one_of("alias_id", ended), _CURRENT)),
        Select("entity_aliases", columns, (one_of("alias_key", [*aliases, *entities]), _CURRENT)),
        Select("entity_aliases", columns, (one_of("entity_key", aliases), _CURRENT)),
    ]
    staying = {row[0] for row in (*named, *merged)} - set(ended)
    if len(ending) != len(ended) or staying:
        raise changed
    counts = {"merged": len(added), "parted": len(ended)}
    operations: list[Operation] = [caller_run(run_id, "graph", counts, now, last)]
    if ended:
        operations.append(
            Update("entity_aliases", {"unmerged_at": now}, (one_of("alias_id", ended),))
        )
    if added:
        rows = [(*(getattr(one, name) for name in ALIAS_COLUMNS), now) for one in added]
        operations.append(Insert("entity_aliases", (*ALIAS_COLUMNS, "merged_at"), rows))
    changes = [(one, {"alias": "ended"}) for one in ended]
    changes += [(one.alias_id, {"alias": "added"}) for one in added]
    yield Last([*operations, *noted(run_id, "moved", changes)])
