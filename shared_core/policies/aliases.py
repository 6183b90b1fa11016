"""Names that were merged into entities. No entity is an alias, and a name has one entity."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from uuid import UUID

from shared_core.errors import Conflict
from shared_core.policies.run_records import LAST_NUMBER, caller_run, noted
from shared_core.ports.graph import Alias
from shared_core.ports.operations import (
    Insert,
    Join,
    Last,
    Operation,
    Policy,
    Row,
    Select,
    Update,
    is_null,
    one_of,
)

ALIAS_COLUMNS = ("alias_id", "alias_key", "alias", "entity_key", "entity")
"""The columns of entity_aliases that are the fields of an Alias."""
_CURRENT = is_null("unmerged_at")


def select_aliases(keys: Sequence[str]) -> list[Select]:
    """Return what reads the current aliases of the entities that names stand for."""
    others = tuple(f"b.{column}" for column in ALIAS_COLUMNS)
    of_entity = Join("entity_aliases", "b", (("entity_key", "entity_key"),))
    alias = (one_of("alias_key", keys), _CURRENT, is_null("b.unmerged_at"))
    return [
        Select("entity_aliases", ALIAS_COLUMNS, (one_of("entity_key", keys), _CURRENT)),
        Select("entity_aliases", others, alias, (of_entity,)),
    ]


def aliases_of(rows: Iterable[Sequence[Row]]) -> list[Alias]:
    """Return the aliases in the rows of select_aliases(), each once, sorted by name."""
    found = {
        row[0]: Alias(**dict(zip(ALIAS_COLUMNS, row, strict=True))) for of in rows for row in of
    }
    return sorted(found.values(), key=lambda one: one.alias_key)


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
