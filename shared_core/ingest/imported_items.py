"""Items that come from elsewhere, with the times they had there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from shared_core.ingest import items
from shared_core.lifecycle import Handle
from shared_core.ports.items import (
    ImportMark,
    Item,
    ItemAddress,
    ItemResult,
    ItemStamp,
    MemoryRow,
    ReadItem,
    VectorRows,
    WriteItem,
)
from shared_core.ports.storage import Storage


class ImportedItems:
    """Reads and writes items for an import: engine.imported_items."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    async def read(self, addresses: Sequence[ItemAddress]) -> list[Item | None]:
        """Return the item at each address, without giving it more time to live."""
        storage = await self._handle.storage()
        reads = [ReadItem(address=address, refresh=False) for address in addresses]
        found = await items.run_item_ops(storage, self._handle.embedding, self._handle.clock, reads)
        return cast("list[Item | None]", found)

    async def marks(self, addresses: Sequence[ItemAddress]) -> Mapping[ItemAddress, ImportMark]:
        """Return what was imported to these addresses before, and deleted there since."""
        storage = await self._handle.storage()
        return await storage.items.import_marks(addresses)

    async def write(
        self, writes: Sequence[WriteItem], stamps: Sequence[ItemStamp]
    ) -> list[ItemResult]:
        """Write items, each with the times of its stamp, and note them as imported."""
        stamping = _StampingStorage(await self._handle.storage(), stamps)
        storage = cast(Storage, stamping)
        return await items.run_item_ops(storage, self._handle.embedding, self._handle.clock, writes)

    async def stamp(self, stamps: Sequence[ItemStamp]) -> None:
        """Note items as imported, and give them the times they have there, if they are older."""
        storage = await self._handle.storage()
        await storage.items.stamp_items(stamps)


class _StampingStorage:
    """A storage whose items have the times of their stamps from the beginning."""

    def __init__(self, storage: Storage, stamps: Sequence[ItemStamp]) -> None:
        self._storage = storage
        self._stamps = {stamp.address: stamp for stamp in stamps}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    async def put_memories(
        self,
        rows: Sequence[MemoryRow],
        vectors: VectorRows | None,
        forgotten: Sequence[ItemAddress] = (),
    ) -> None:
        """Write and stamp in one transaction: nobody writes in between."""
        stamps = [self._stamps[row.namespace, row.key] for row in rows]
        await self._storage.items.put_memories(rows, vectors, forgotten, stamps)
