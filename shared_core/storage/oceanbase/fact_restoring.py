"""A fact that holds again, with what ended with it."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from shared_core.core.json_text import to_json
from shared_core.errors import Conflict
from shared_core.ports.facts import Restoration
from shared_core.storage.oceanbase.connection.batching import pages
from shared_core.storage.oceanbase.connection.transactions import Row, Transaction
from shared_core.storage.oceanbase.edge_rows import Edges
from shared_core.storage.oceanbase.fact_reads import rivals_of_edges
from shared_core.storage.oceanbase.fact_reopening import (
    ended_fact,
    moment,
    note_moves,
    reopen,
    reopen_told,
)
from shared_core.storage.oceanbase.retention_timing import retime
from shared_core.storage.oceanbase.run_records import changes_of, last_number

_IS_OPEN = "valid_until IS NULL AND superseded_at IS NULL"


def restore(tx: Transaction, tenant: str, wanted: Restoration, now: datetime) -> None:
    """Let a fact hold again, as a run of its own; the tenant is locked.

    Raises Conflict if it was changed since, or something that cannot hold beside it is current.
    """
    _add_run(tx, tenant, wanted.run_id, now)
    if rivals_of_edges(tx, Edges(tx, tenant, now, None), tenant, wanted.memory_id, now):
        raise Conflict("an edge has taken the place")
    ended = ended_fact(tx, tenant, wanted.memory_id)
    if ended is None or ended.superseded_at != wanted.closed_at:
        raise Conflict("the fact was changed meanwhile")
    if _is_taken(tx, tenant, wanted):
        raise Conflict("the place of the fact was taken meanwhile")
    reopen(tx, tenant, wanted.run_id, [ended], now)
    reopen_told(tx, tenant, wanted.run_id, wanted.memory_id, wanted.closed_at)
    _reopen_edges(tx, tenant, wanted)
    retime(tx, tenant, [one.target for one in changes_of(tx, tenant, wanted.run_id)])


def _add_run(tx: Transaction, tenant: str, run_id: UUID, now: datetime) -> None:
    tx.insert(
        "runs",
        ("tenant_id", "run_id", "kind", "extractor", "counts", "started_at", "finished_at",
         "number"),
        [(tenant, run_id, "restoration", "caller", to_json({"restored": 1}), now, now,
          last_number(tx, tenant) + 1)],
    )  # fmt: skip


def _is_taken(tx: Transaction, tenant: str, wanted: Restoration) -> bool:
    return bool(
        tx.rows(
            "SELECT 1 FROM facts f JOIN facts x ON x.tenant_id = f.tenant_id"
            " AND x.fact_type = f.fact_type WHERE f.tenant_id = %s AND f.memory_id = %s"
            " AND x.`key` IN %s AND x.valid_until IS NULL AND x.superseded_at IS NULL LIMIT 1",
            tenant,
            wanted.memory_id,
            list(wanted.keys),
        )
    )


def _reopen_edges(tx: Transaction, tenant: str, wanted: Restoration) -> None:
    """With a fact come back the edges that ended with it, unless others took their place."""
    rows = tx.rows(
        "SELECT edge_id, valid_until, superseded_at, subject_key, relation, object_key, functional"
        " FROM edges WHERE tenant_id = %s AND fact_id = %s AND superseded_at = %s",
        tenant,
        wanted.memory_id,
        wanted.closed_at,
    )
    free = _free(tx, tenant, rows)
    for page in pages([row[0] for row in free]):
        tx.run(
            "UPDATE edges SET valid_until = NULL, superseded_at = NULL"
            " WHERE tenant_id = %s AND edge_id IN %s",
            tenant,
            page,
        )
    before = (
        (row[0], {"valid_until": moment(row[1]), "superseded_at": moment(row[2])}) for row in free
    )
    note_moves(tx, tenant, wanted.run_id, before)


def _free(tx: Transaction, tenant: str, rows: list[Row]) -> list[Row]:
    """Return those edges in whose place no current one stands."""
    places = sorted({(row[3], row[4]) for row in rows})
    held = [
        row
        for page in pages(places)
        for row in tx.rows(
            "SELECT subject_key, relation, object_key, functional FROM edges"
            f" WHERE tenant_id = %s AND (subject_key, relation) IN %s AND {_IS_OPEN}",
            tenant,
            page,
        )
    ]

    def is_free(row: Row) -> bool:
        place, object_key, functional = row[3:5], row[5], row[6]
        return not any(
            other[:2] == place and (other[2] == object_key or (functional and other[3]))
            for other in held
        )

    return [row for row in rows if is_free(row)]
