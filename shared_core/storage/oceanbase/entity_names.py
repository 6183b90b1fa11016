"""The names that stand for an entity of the graph, as they were known at a moment."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from shared_core.ports.graph import Alias
from shared_core.storage.oceanbase.connection.transactions import Transaction
from shared_core.storage.oceanbase.visibility import Condition


class Root(NamedTuple):
    """The entity that a name stands for: its key, and its name where the name is an alias."""

    key: str
    entity: str | None


def alias_known(known: datetime | None, alias: str = "a") -> Condition:
    """Return {alias_known}: merged by then, and not parted again; None: what is merged now."""
    if known is None:
        return Condition(f"{alias}.unmerged_at IS NULL")
    return Condition(
        f"({alias}.unmerged_at IS NULL OR {alias}.unmerged_at > %s) AND {alias}.merged_at <= %s",
        (known, known),
    )


class Names:
    """The names of one tenant, looked up once each."""

    def __init__(self, tx: Transaction, tenant: str, known: datetime | None) -> None:
        self._tx = tx
        self._tenant = tenant
        self._known = alias_known(known)
        self._roots: dict[str, Root] = {}

    def roots(self, keys: Iterable[str]) -> dict[str, Root]:
        """Return of each name the entity it stands for: itself, unless it is an alias."""
        wanted = set(keys)
        if missing := wanted - self._roots.keys():
            self._roots |= {key: Root(key, None) for key in missing}
            for alias_key, entity_key, entity in self._tx.rows(
                "SELECT a.alias_key, a.entity_key, a.entity FROM entity_aliases a"
                f" WHERE a.tenant_id = %s AND a.alias_key IN %s AND {self._known.sql}",
                self._tenant,
                sorted(missing),
                *self._known.values,
            ):
                self._roots[alias_key] = Root(entity_key, entity)
        return {key: self._roots[key] for key in wanted}

    def root(self, key: str) -> str:
        """Return the key of the entity that a name stands for."""
        return self.roots([key])[key].key

    def with_aliases(self, roots: Sequence[str]) -> list[str]:
        """Return entities and all names that stand for one of them, sorted."""
        rows = self._tx.rows(
            "SELECT a.alias_key FROM entity_aliases a"
            f" WHERE a.tenant_id = %s AND a.entity_key IN %s AND {self._known.sql}",
            self._tenant,
            sorted(roots),
            *self._known.values,
        )
        return sorted({*roots, *(row[0] for row in rows)})

    def aliases_of(self, roots: Iterable[str]) -> dict[str, list[Alias]]:
        """Return of each entity its aliases, sorted."""
        found: dict[str, list[Alias]] = {root: [] for root in roots}
        for row in self._tx.rows(
            "SELECT a.alias_id, a.alias_key, a.alias, a.entity_key, a.entity"
            " FROM entity_aliases a"
            f" WHERE a.tenant_id = %s AND a.entity_key IN %s AND {self._known.sql}"
            " ORDER BY a.alias_key",
            self._tenant,
            sorted(found),
            *self._known.values,
        ):
            alias_id, alias_key, alias, entity_key, entity = row
            found[entity_key].append(
                Alias(
                    alias_id=alias_id,
                    alias_key=alias_key,
                    alias=alias,
                    entity_key=entity_key,
                    entity=entity,
                )
            )
        return found
