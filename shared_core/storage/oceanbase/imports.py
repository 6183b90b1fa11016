"""The marks of imports: which items came from elsewhere, and which of them were deleted since."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from shared_core.core.namespaces import rest_of, tenant_of
from shared_core.ports.items import ImportMark, ItemAddress, ItemStamp
from shared_core.storage.oceanbase.connection.batching import pages
from shared_core.storage.oceanbase.connection.transactions import Transaction

ALL = bytes(32)
"""The hash that stands for every item of a tenant; the column is of this length."""

_COLUMNS = ("tenant_id", "address_hash", "updated_at", "deleted_at")


def mark_imported(tx: Transaction, stamps: Sequence[ItemStamp]) -> None:
    """Note that items were imported."""
    newest: dict[tuple[str, bytes], datetime] = {}
    for stamp in stamps:
        at = _mark_key(stamp.address)
        newest[at] = max(stamp.updated_at, newest.get(at, stamp.updated_at))
    rows = ((*at, updated_at, None) for at, updated_at in sorted(newest.items()))
    tx.insert("import_marks", _COLUMNS, rows, update=("updated_at",))


def mark_deleted(tx: Transaction, addresses: Iterable[ItemAddress], now: datetime) -> None:
    """Note that items were deleted, if they were imported."""
    for page in pages([_mark_key(address) for address in addresses]):
        tx.run(
            "UPDATE import_marks SET deleted_at = %s WHERE (tenant_id, address_hash) IN %s",
            now,
            page,
        )


def mark_all_deleted(tx: Transaction, tenant: str, now: datetime) -> None:
    """Replace all marks of a tenant that has any by one: all it has imported was deleted."""
    if tx.run("DELETE FROM import_marks WHERE tenant_id = %s", tenant):
        tx.insert("import_marks", _COLUMNS, [(tenant, ALL, now, now)])


def marks_of(tx: Transaction, addresses: Sequence[ItemAddress]) -> Mapping[ItemAddress, ImportMark]:
    """Return the mark of each item that has one, or whose tenant has one."""
    keys = {_mark_key(address) for address in addresses}
    asked = sorted(keys | {(tenant, ALL) for tenant, _ in keys})
    found = {
        (tenant, digest): ImportMark(updated_at=updated_at, deleted_at=deleted_at)
        for page in pages(asked)
        for tenant, digest, updated_at, deleted_at in tx.rows(
            f"SELECT {', '.join(_COLUMNS)} FROM import_marks WHERE (tenant_id, address_hash) IN %s",
            page,
        )
    }
    marks: dict[ItemAddress, ImportMark] = {}
    for address in addresses:
        at = _mark_key(address)
        own, shared = found.get(at), found.get((at[0], ALL))
        if own and shared:
            marks[address] = own.after(shared)
        elif mark := own or shared:
            marks[address] = mark
    return marks


def _mark_key(address: ItemAddress) -> tuple[str, bytes]:
    namespace, key = address
    named = f"{rest_of(namespace)}\0{key}".encode(errors="surrogatepass")
    return tenant_of(namespace), hashlib.sha256(named).digest()
