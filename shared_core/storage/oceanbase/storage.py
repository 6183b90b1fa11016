"""OceanBaseStorage: the storage port on SeekDB and OceanBase, put together from its parts."""

from __future__ import annotations

from pathlib import Path

from shared_core.ports import StorageReport
from shared_core.settings import redacted
from shared_core.storage.oceanbase.accesses import OceanBaseAccesses
from shared_core.storage.oceanbase.conversations import OceanBaseConversations
from shared_core.storage.oceanbase.erasures import OceanBaseErasures
from shared_core.storage.oceanbase.events import OceanBaseEvents
from shared_core.storage.oceanbase.facts import OceanBaseFacts
from shared_core.storage.oceanbase.graph import OceanBaseGraph
from shared_core.storage.oceanbase.indexes import OceanBaseIndexes
from shared_core.storage.oceanbase.instructions import OceanBaseInstructions
from shared_core.storage.oceanbase.items import OceanBaseItems
from shared_core.storage.oceanbase.jobs import OceanBaseJobs
from shared_core.storage.oceanbase.profiles import OceanBaseProfiles
from shared_core.storage.oceanbase.recall import OceanBaseRecall
from shared_core.storage.oceanbase.reembed import OceanBaseReembed
from shared_core.storage.oceanbase.retention import OceanBaseRetention
from shared_core.storage.oceanbase.runs import OceanBaseRuns
from shared_core.storage.oceanbase.sessions import OceanBaseSessions
from shared_core.storage.oceanbase.slices import OceanBaseSlices
from shared_core.storage.oceanbase.tokens import OceanBaseTokens
from shared_core.storage.oceanbase.transfer import OceanBaseTransfer
from shared_core.storage.oceanbase.vectors import OceanBaseVectors, active_model


class OceanBaseStorage(
    OceanBaseItems,
    OceanBaseEvents,
    OceanBaseSessions,
    OceanBaseConversations,
    OceanBaseInstructions,
    OceanBaseRuns,
    OceanBaseFacts,
    OceanBaseRecall,
    OceanBaseSlices,
    OceanBaseGraph,
    OceanBaseJobs,
    OceanBaseTokens,
    OceanBaseRetention,
    OceanBaseProfiles,
    OceanBaseTransfer,
    OceanBaseReembed,
    OceanBaseIndexes,
    OceanBaseAccesses,
    OceanBaseErasures,
    OceanBaseVectors,
):
    """The storage port on SeekDB 1.4 or newer, or OceanBase 4.3.5.3 or newer."""

    async def open(self) -> None:
        await self._database.open()

    async def close(self) -> None:
        await self._database.close()

    async def dsn(self) -> str:
        return self._settings.uri

    async def report(self) -> StorageReport:
        prepared, location = self._database.prepared, self._database.location
        assert prepared is not None
        size, model = await self._database.read(
            lambda tx: (
                tx.one(
                    "SELECT coalesce(sum(data_length + index_length), 0)"
                    " FROM information_schema.tables WHERE table_schema = %s",
                    location.database,
                )
                or (0,),
                active_model(tx),
            )
        )
        return StorageReport(
            engine=f"embedded {prepared.engine}"
            if location.folder
            else f"{prepared.engine} server",
            location=str(location.folder or redacted(self._settings.uri)),
            server_version=prepared.version,
            extension_version="built in",
            role=location.user,
            schema=location.database,
            schema_version=prepared.schema_version,
            model=model[0] if model else None,
            dimensions=model[1] if model else None,
            size_bytes=_bytes_in(location.folder) if location.folder else int(size[0]),
        )


def _bytes_in(folder: Path) -> int:
    """Return what the files of an embedded server take, its log of changes included.

    What its catalogue says leaves out all that is still in memory.
    """
    return sum(file.lstat().st_blocks * 512 for file in folder.rglob("*") if file.is_file())
