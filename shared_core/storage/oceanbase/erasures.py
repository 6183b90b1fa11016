"""OceanBaseStorage: the receipts of erasures."""

from __future__ import annotations

import json
from collections.abc import Sequence

from shared_core.core.namespaces import ROOT, path_end, to_path
from shared_core.policies.erasing import RECEIPT_COLUMNS, receipt_of
from shared_core.ports.erasures import ErasureReceipt
from shared_core.storage.oceanbase.base import OceanBasePart


class OceanBaseErasures(OceanBasePart):
    """The receipts of erasures."""

    async def receipts(self, app: str | None) -> Sequence[ErasureReceipt]:
        above = ROOT if app is None else to_path((app,))
        rows = await self._database.read(
            lambda tx: tx.rows(
                f"SELECT tenant_id, {', '.join(RECEIPT_COLUMNS)} FROM erasures"
                " WHERE tenant_id >= %s AND tenant_id < %s"
                " ORDER BY completed_at DESC, erasure_id DESC",
                [above, path_end(above)],
            )
        )
        return [
            receipt_of(tenant, (erasure_id, json.loads(target), json.loads(counts), *rest))
            for tenant, erasure_id, target, counts, *rest in rows
        ]
