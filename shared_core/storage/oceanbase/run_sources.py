"""What memories and edges of runs rest on: turns in bases, other memories, and until when."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from uuid import UUID

from shared_core.core.domain import Turn
from shared_core.errors import Conflict
from shared_core.ports.items import ItemAddress
from shared_core.ports.runs import RunPlan, Source
from shared_core.storage.oceanbase.connection.batching import pages
from shared_core.storage.oceanbase.connection.transactions import Transaction
from shared_core.storage.oceanbase.fact_reopening import moment
from shared_core.storage.oceanbase.forgetting import by_thread
from shared_core.storage.oceanbase.item_writes import ids_at
from shared_core.storage.oceanbase.run_records import note, note_of_turns, rows_in, set_each

_Said = tuple[UUID, Turn, int]
"""What was drawn from a turn, the turn, and the number of the basis in the plan."""


def add_sources(tx: Transaction, tenant: str, run_id: UUID, sources: Sequence[Source]) -> None:
    """Add turns that memories were drawn from; those of one basis say it together.

    What holds another falls with it, and tells when it was said again. What runs wrote of threads
    alone has more than the first; what a user wrote does not go with a turn.
    """
    ids = ids_at(tx, {source.address for source in sources})
    writers: dict[UUID, UUID | None] = dict(
        rows_in(
            tx,
            "SELECT memory_id, run_id FROM memories WHERE tenant_id = %s AND memory_id IN %s"
            " AND run_id IS NOT NULL AND thread_id IS NOT NULL",
            tenant,
            list(ids.values()),
        )
    )
    said = [
        (ids[source.address], source.turn, source.basis)
        for source in sources
        if source.address in ids
    ]
    _add_bases(tx, tenant, run_id, "memory", said, writers)


def add_edge_sources(tx: Transaction, tenant: str, run_id: UUID, sources: Sequence[_Said]) -> None:
    """Add turns that edges were drawn from, as add_sources()."""
    writers: dict[UUID, UUID | None] = dict(
        rows_in(
            tx,
            "SELECT edge_id, run_id FROM edges WHERE tenant_id = %s AND edge_id IN %s",
            tenant,
            list({edge_id for edge_id, _, _ in sources}),
        )
    )
    _add_bases(tx, tenant, run_id, "edge", sources, writers)


def _add_bases(
    tx: Transaction,
    tenant: str,
    run_id: UUID,
    what: str,
    said: Sequence[_Said],
    writers: Mapping[UUID, UUID | None],
) -> None:
    """Add bases that are new, and note those of what was there before the run."""
    given = _given(tx, tenant, [one for one in said if one[0] in writers])
    known = _known(tx, tenant, what, {target for target, _ in given})
    rows, noted = [], defaultdict(list)
    last: dict[UUID, int] = {}
    for (target, _), turns in sorted(given.items()):
        if turns in known[target].values():
            continue
        last[target] = basis = last.get(target, max(known[target], default=0)) + 1
        rows += [(tenant, target, *turn, basis) for turn in sorted(turns)]
        if writers[target] != run_id:
            for _, event_id in turns:
                noted[target, event_id].append(basis)
    tx.insert(
        f"{what}_sources", ("tenant_id", f"{what}_id", "thread_id", "event_id", "basis"), rows
    )
    changes = (
        (target, event_id, {"bases": sorted({*bases})})
        for (target, event_id), bases in noted.items()
    )
    note_of_turns(tx, tenant, run_id, "sourced", changes)


def _given(
    tx: Transaction, tenant: str, said: Sequence[_Said]
) -> dict[tuple[UUID, int], frozenset[Turn]]:
    """Return the turns of each basis, of those that are there."""
    there = _there(tx, tenant, {turn for _, turn, _ in said})
    given: dict[tuple[UUID, int], set[Turn]] = defaultdict(set)
    for target, turn, basis in said:
        if tuple(turn) in there:
            given[target, basis].add(turn)
    return {place: frozenset(turns) for place, turns in given.items()}


def _there(tx: Transaction, tenant: str, turns: Iterable[Turn]) -> set[tuple[str, str]]:
    return {
        (thread_id, event_id)
        for thread_id, event_ids in by_thread(turns).items()
        for page in pages(event_ids)
        for (event_id,) in tx.rows(
            "SELECT event_id FROM events"
            " WHERE tenant_id = %s AND thread_id = %s AND event_id IN %s",
            tenant,
            thread_id,
            page,
        )
    }


def _known(
    tx: Transaction, tenant: str, what: str, targets: Iterable[UUID]
) -> dict[UUID, dict[int, frozenset[Turn]]]:
    """Return the bases that memories, or edges, have."""
    found: dict[UUID, dict[int, set[Turn]]] = defaultdict(lambda: defaultdict(set))
    for target, basis, thread_id, event_id in rows_in(
        tx,
        f"SELECT {what}_id, basis, thread_id, event_id FROM {what}_sources"
        f" WHERE tenant_id = %s AND {what}_id IN %s",
        tenant,
        list(targets),
    ):
        found[target][basis].add((thread_id, event_id))
    known: dict[UUID, dict[int, frozenset[Turn]]] = defaultdict(dict)
    for target, bases in found.items():
        known[target] = {basis: frozenset(turns) for basis, turns in bases.items()}
    return known


def inherit(tx: Transaction, tenant: str, inherited: Sequence[tuple[ItemAddress, UUID]]) -> None:
    """Note what memories were drawn from; they rest on all that that rests on.

    Raises Conflict if any of it was forgotten or ended meanwhile.
    """
    ids = ids_at(tx, {address for address, _ in inherited})
    drawn = [(ids[address], basis_id) for address, basis_id in inherited if address in ids]
    basis_ids = list({basis_id for _, basis_id in drawn})
    turns = defaultdict(set)
    for memory_id, thread_id, event_id in rows_in(
        tx,
        "SELECT memory_id, thread_id, event_id FROM memory_sources"
        " WHERE tenant_id = %s AND memory_id IN %s",
        tenant,
        basis_ids,
    ):
        turns[memory_id].add((thread_id, event_id))
    tx.insert(
        "memory_sources",
        ("tenant_id", "memory_id", "thread_id", "event_id"),
        sorted({(tenant, one, *turn) for one, basis in drawn for turn in turns[basis]}),
        ignore=True,
    )
    holding = {
        row[0]
        for row in rows_in(
            tx,
            "SELECT memory_id FROM memories WHERE tenant_id = %s AND memory_id IN %s"
            " AND superseded_at IS NULL",
            tenant,
            basis_ids,
        )
    }
    if len(drawn) != len(inherited) or not holding.issuperset(basis_ids):
        raise Conflict("a memory was ended meanwhile")
    tx.insert(
        "memory_bases",
        ("tenant_id", "memory_id", "basis_id"),
        [(tenant, one, basis) for one, basis in drawn],
    )


def add_summary_sources(
    tx: Transaction, tenant: str, plan: RunPlan, summary_id: UUID, *, replaces: bool
) -> None:
    """A summary tells of every turn it went through; replaces: after another one did."""
    if plan.summed is None:
        return
    tx.run(
        "INSERT IGNORE INTO memory_sources (tenant_id, memory_id, thread_id, event_id)"
        " SELECT e.tenant_id, %s, e.thread_id, e.event_id FROM events e"
        " WHERE e.tenant_id = %s AND e.thread_id = %s AND e.memory_seq <= %s AND e.memory_seq > %s",
        summary_id,
        tenant,
        plan.thread_id,
        plan.summed.to,
        plan.summed.mark if replaces else 0,
    )


def renew(tx: Transaction, tenant: str, run_id: UUID, sources: Sequence[Source]) -> None:
    """What was said again expires with the last of its bases, or never; each with a first turn."""
    ids = ids_at(tx, {source.address for source in sources})
    rows = list(
        rows_in(
            tx,
            "SELECT memory_id, run_id, expires_at FROM memories"
            " WHERE tenant_id = %s AND memory_id IN %s AND expires_at IS NOT NULL",
            tenant,
            list(ids.values()),
        )
    )
    bases: dict[UUID, list[datetime | None]] = defaultdict(list)
    for memory_id, _, expires_at in rows_in(
        tx,
        "SELECT s.memory_id, s.basis, min(e.expires_at) FROM memory_sources s"
        " JOIN events e ON e.tenant_id = s.tenant_id AND e.thread_id = s.thread_id"
        " AND e.event_id = s.event_id WHERE s.tenant_id = %s AND s.memory_id IN %s"
        " GROUP BY s.memory_id, s.basis",
        tenant,
        [row[0] for row in rows],
    ):
        bases[memory_id].append(expires_at)
    renewed = {}
    noted = []
    for memory_id, writer, old in rows:
        if memory_id not in bases:
            continue
        ends = [end for end in bases[memory_id] if end is not None]
        new = max(ends) if len(ends) == len(bases[memory_id]) else None
        if new != old:
            renewed[memory_id] = (new,)
            if writer != run_id:
                noted.append((memory_id, {"expires_at": moment(old)}))
    set_each(tx, "memories", "memory_id", tenant, ("expires_at",), renewed)
    note(tx, tenant, run_id, "renewed", noted)
