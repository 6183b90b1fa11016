"""Vectors of memories that are named by namespace and key."""

from __future__ import annotations

from collections import defaultdict
from uuid import UUID

from shared_core.item_ports import VectorRows
from shared_core.namespaces import rest_of, tenant_of
from shared_core.storage.oceanbase.transactions import Transaction
from shared_core.storage.oceanbase.vectors import add_vectors


def tenants_of(vectors: VectorRows | None) -> set[str]:
    """Return the tenants that vectors belong to."""
    return set() if vectors is None else {tenant_of(place) for place, _ in vectors.addresses}


def add_addressed(tx: Transaction, vectors: VectorRows | None) -> None:
    """Add vectors of memories; those of a key that is not there are dropped."""
    if vectors is None or not vectors.addresses:
        return
    places = [
        (tenant_of(namespace), rest_of(namespace), key) for namespace, key in vectors.addresses
    ]
    wanted: dict[tuple[str, str], list[str]] = defaultdict(list)
    for tenant, namespace, key in places:
        wanted[tenant, namespace].append(key)
    found: dict[tuple[str, str, str], UUID] = {}
    for (tenant, namespace), keys in wanted.items():
        for key, memory_id in tx.rows(
            "SELECT `key`, memory_id FROM memories"
            " WHERE tenant_id = %s AND namespace = %s AND `key` IN %s",
            tenant,
            namespace,
            keys,
        ):
            found[tenant, namespace, key] = memory_id
    add_vectors(
        tx,
        vectors.model,
        (
            (place[0], found[place], field, vector)
            for place, field, vector in zip(places, vectors.fields, vectors.vectors, strict=True)
            if place in found
        ),
    )
