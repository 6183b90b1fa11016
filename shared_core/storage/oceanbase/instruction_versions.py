"""The versions of instructions: the newest is an item among memories as well."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from shared_core.core.namespaces import rest_of, tenant_of
from shared_core.ports.items import ItemAddress
from shared_core.storage.oceanbase.connection.batching import pages
from shared_core.storage.oceanbase.connection.transactions import Row, Transaction
from shared_core.storage.oceanbase.transfer_values import jsonb_text

_COLUMNS = ("tenant_id", "instruction_key", "version", "content", "metadata", "created_at")


def add_versions(tx: Transaction, addresses: Iterable[ItemAddress]) -> None:
    """Add what stands in items as versions of them, unless the newest says the same.

    To the letter: 1 is not 1.0. The items are written and the tenants locked.
    """
    keys = _keys(addresses)
    newest = _newest(tx, keys)
    rows = []
    for tenant, key, text, value, updated_at in _items(tx, addresses):
        version, metadata = newest.get((tenant, key), (0, None))
        if metadata is None or jsonb_text(metadata) != jsonb_text(value):
            rows.append((tenant, key, version + 1, text, value, updated_at))
    tx.insert("instructions", _COLUMNS, rows)


def stamp_versions(tx: Transaction, addresses: Iterable[ItemAddress]) -> None:
    """Give the newest versions the times that their items had elsewhere."""
    newest = _newest(tx, _keys(addresses))
    rows = [
        (tenant, key, newest[tenant, key][0], "", "{}", updated_at)
        for tenant, key, _, _, updated_at in _items(tx, addresses)
        if (tenant, key) in newest
    ]
    tx.insert("instructions", _COLUMNS, rows, update=("created_at",))  # all are there


def drop_versions(tx: Transaction, addresses: Iterable[ItemAddress]) -> int:
    """Delete all versions of items; return how many there were."""
    return sum(
        tx.run("DELETE FROM instructions WHERE (tenant_id, instruction_key) IN %s", page)
        for page in pages(_keys(addresses))
    )


def _keys(addresses: Iterable[ItemAddress]) -> list[tuple[str, str]]:
    return list(dict.fromkeys((tenant_of(namespace), key) for namespace, key in addresses))


def _items(tx: Transaction, addresses: Iterable[ItemAddress]) -> list[Row]:
    places = [(tenant_of(namespace), rest_of(namespace), key) for namespace, key in addresses]
    return [
        row
        for page in pages(places)
        for row in tx.rows(
            "SELECT tenant_id, `key`, text, value, updated_at FROM memories"
            " WHERE (tenant_id, namespace, `key`) IN %s",
            page,
        )
    ]


def _newest(
    tx: Transaction, keys: list[tuple[str, str]]
) -> Mapping[tuple[str, str], tuple[int, str]]:
    """Return the number and value of the newest version of each that has one."""
    return {
        (tenant, key): (version, metadata)
        for page in pages(keys)
        for tenant, key, version, metadata in tx.rows(
            "SELECT i.tenant_id, i.instruction_key, i.version, i.metadata FROM instructions i"
            " JOIN (SELECT tenant_id, instruction_key, MAX(version) AS version FROM instructions"
            " WHERE (tenant_id, instruction_key) IN %s GROUP BY tenant_id, instruction_key) n"
            " ON n.tenant_id = i.tenant_id AND n.instruction_key = i.instruction_key"
            " AND n.version = i.version",
            page,
        )
    }
