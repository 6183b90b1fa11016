"""OceanBaseStorage: the knowledge graph."""

from __future__ import annotations

from collections.abc import Sequence

from shared_core.core.domain import AsOf, Scope
from shared_core.core.namespaces import scope_path
from shared_core.policies import edges
from shared_core.ports.graph import Walk
from shared_core.storage.oceanbase.base import OceanBasePart, reading
from shared_core.storage.oceanbase.connection.operations import queried
from shared_core.storage.oceanbase.connection.transactions import Transaction


class OceanBaseGraph(OceanBasePart):
    """The knowledge graph of one scope."""

    @reading
    def walk(
        self,
        tx: Transaction,
        scope: Scope,
        keys: Sequence[str],
        depth: int,
        limit: int,
        as_of: AsOf | None,
    ) -> Sequence[Walk]:
        tenant, now = scope_path(scope), self._clock()
        return [queried(tx, tenant, edges.walk(key, depth, limit, now, as_of)) for key in keys]
