"""The marks of imports: which items came from elsewhere, and which of them were deleted since."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from shared_core.core.namespaces import rest_of, tenant_of
from shared_core.ports.items import ImportMark, ItemAddress, ItemStamp
from shared_core.storage.postgres.connection.pipeline import Rows, Statement
from shared_core.storage.postgres.connection.sql_files import statement

ALL = b""
"""The hash that stands for every item of a tenant."""


def mark_imported(stamps: Sequence[ItemStamp]) -> Statement:
    """Return what notes that items were imported."""
    values = _columns(stamp.address for stamp in stamps)
    values["updated_at"] = [stamp.updated_at for stamp in stamps]
    return statement("mark_imported"), values


def mark_deleted(addresses: Sequence[ItemAddress], now: datetime) -> Statement:
    """Return what notes that items were deleted, if they were imported."""
    return statement("mark_deleted"), {**_columns(addresses), "now": now}


def read_marks(addresses: Sequence[ItemAddress]) -> Statement:
    """Return what reads the marks of items and of their tenants."""
    return statement("import_marks"), _columns(addresses)


def marks_by_address(
    addresses: Sequence[ItemAddress], rows: Rows
) -> Mapping[ItemAddress, ImportMark]:
    """Return the mark of each item that has one, or whose tenant has one."""
    found = {
        (tenant, bytes(digest)): ImportMark(updated_at=updated_at, deleted_at=deleted_at)
        for tenant, digest, updated_at, deleted_at in rows
    }
    marks: dict[ItemAddress, ImportMark] = {}
    for address in addresses:
        tenant = tenant_of(address[0])
        own, shared = found.get((tenant, _hash(address))), found.get((tenant, ALL))
        if own and shared:
            marks[address] = own.after(shared)
        elif mark := own or shared:
            marks[address] = mark
    return marks


def _columns(addresses: Iterable[ItemAddress]) -> dict[str, object]:
    named = list(addresses)
    return {
        "tenants": [tenant_of(namespace) for namespace, _ in named],
        "hashes": [_hash(address) for address in named],
    }


def _hash(address: ItemAddress) -> bytes:
    namespace, key = address
    return hashlib.sha256(f"{rest_of(namespace)}\0{key}".encode(errors="surrogatepass")).digest()
