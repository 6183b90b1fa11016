"""Changes of a run outside its own rows: ends, summaries and sources, after checks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from uuid import UUID

from shared_core.core.domain import Turn
from shared_core.core.ids import uuid7
from shared_core.errors import Conflict
from shared_core.ports.items import ItemAddress
from shared_core.ports.runs import RunPlan, Source
from shared_core.storage.oceanbase.connection.transactions import Row, Transaction, pages
from shared_core.storage.oceanbase.forgetting import by_thread, delete_memories, kinds_of
from shared_core.storage.oceanbase.item_writes import ids_at
from shared_core.storage.oceanbase.run_reads import living_summary, shown
from shared_core.storage.oceanbase.run_records import (
    ends_before,
    iso,
    note,
    note_of_turns,
    set_each,
)
from shared_core.storage.oceanbase.vectors import vector_tables
from shared_core.storage.oceanbase.visibility import living

_ENDS = ("valid_until", "superseded_at")
KEPT = 10
"""Maximum number of replaced summaries that are kept for each thread."""
_COPIED = (
    "text, value, terms, term_count, author, importance, run_id, occurred_at, created_at,"
    " updated_at, expires_at"
)
_PLACED = "tenant_id, namespace, kind, thread_id"
_Source = tuple[UUID, Turn, int]
"""A memory or an edge, a turn it was derived from, and the number of the basis in the plan."""


def add_sources(tx: Transaction, tenant: str, run_id: UUID, sources: Sequence[Source]) -> None:
    """Add the turns that memories were derived from; the turns of one basis say it together.

    Only memories that a run derived from a thread get bases: a memory that a user wrote does not
    go with a turn.
    """
    ids = ids_at(tx, {source.address for source in sources})
    writers: dict[UUID, UUID | None] = dict(
        tx.rows_in(
            "SELECT memory_id, run_id FROM memories WHERE tenant_id = %s AND memory_id IN %s"
            " AND run_id IS NOT NULL AND thread_id IS NOT NULL",
            [tenant, list(ids.values())],
        )
    )
    derived = [
        (ids[source.address], source.turn, source.basis)
        for source in sources
        if source.address in ids
    ]
    _add_bases(tx, tenant, run_id, "memory", derived, writers)


def add_edge_sources(
    tx: Transaction, tenant: str, run_id: UUID, sources: Sequence[_Source]
) -> None:
    """Add the turns that edges were derived from, as add_sources() does."""
    writers: dict[UUID, UUID | None] = dict(
        tx.select(
            "edges", "edge_id, run_id", tenant, edge_id={edge_id for edge_id, _, _ in sources}
        )
    )
    _add_bases(tx, tenant, run_id, "edge", sources, writers)


def _add_bases(
    tx: Transaction,
    tenant: str,
    run_id: UUID,
    what: str,
    sources: Sequence[_Source],
    writers: Mapping[UUID, UUID | None],
) -> None:
    """Add new bases, and note those of rows that existed before the run."""
    added = _stored_bases(tx, tenant, [one for one in sources if one[0] in writers])
    known = _known(tx, tenant, what, {target for target, _ in added})
    rows, noted = [], defaultdict(list)
    last: dict[UUID, int] = {}
    for (target, _), turns in sorted(added.items()):
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


def _stored_bases(
    tx: Transaction, tenant: str, sources: Sequence[_Source]
) -> dict[tuple[UUID, int], frozenset[Turn]]:
    """Return the stored turns of each basis."""
    there = _stored_turns(tx, tenant, {turn for _, turn, _ in sources})
    found: dict[tuple[UUID, int], set[Turn]] = defaultdict(set)
    for target, turn, basis in sources:
        if tuple(turn) in there:
            found[target, basis].add(turn)
    return {place: frozenset(turns) for place, turns in found.items()}


def _stored_turns(
    tx: Transaction, tenant: str, turns: Iterable[Turn], condition: str = ""
) -> set[tuple[str, str]]:
    """Return those of some turns that are stored."""
    return {
        (thread_id, event_id)
        for thread_id, event_ids in by_thread(turns).items()
        for (event_id,) in tx.rows_in(
            "SELECT event_id FROM events"
            f" WHERE tenant_id = %s AND thread_id = %s AND event_id IN %s{condition}",
            [tenant, thread_id, event_ids],
        )
    }


def _known(
    tx: Transaction, tenant: str, what: str, targets: Iterable[UUID]
) -> dict[UUID, dict[int, frozenset[Turn]]]:
    """Return the stored bases of memories or edges."""
    found: dict[UUID, dict[int, set[Turn]]] = defaultdict(lambda: defaultdict(set))
    for target, basis, thread_id, event_id in tx.rows_in(
        f"SELECT {what}_id, basis, thread_id, event_id FROM {what}_sources"
        f" WHERE tenant_id = %s AND {what}_id IN %s",
        [tenant, targets],
    ):
        found[target][basis].add((thread_id, event_id))
    known: dict[UUID, dict[int, frozenset[Turn]]] = defaultdict(dict)
    for target, bases in found.items():
        known[target] = {basis: frozenset(turns) for basis, turns in bases.items()}
    return known


def inherit(tx: Transaction, tenant: str, inherited: Sequence[tuple[ItemAddress, UUID]]) -> None:
    """Note the memories that others were derived from, and copy their turns as sources.

    Raises Conflict if one of them was forgotten or ended meanwhile.
    """
    ids = ids_at(tx, {address for address, _ in inherited})
    drawn = [(ids[address], basis_id) for address, basis_id in inherited if address in ids]
    basis_ids = list({basis_id for _, basis_id in drawn})
    turns = defaultdict(set)
    for memory_id, thread_id, event_id in tx.select(
        "memory_sources", "memory_id, thread_id, event_id", tenant, memory_id=basis_ids
    ):
        turns[memory_id].add((thread_id, event_id))
    tx.insert(
        "memory_sources",
        ("tenant_id", "memory_id", "thread_id", "event_id"),
        sorted({(tenant, one, *turn) for one, basis in drawn for turn in turns[basis]}),
        ignore=True,
    )
    holding = set(
        tx.column_in(
            "SELECT memory_id FROM memories WHERE tenant_id = %s AND memory_id IN %s"
            " AND superseded_at IS NULL",
            [tenant, basis_ids],
        )
    )
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
    """Make all turns a summary covers its sources; replaces: only those after the last summary."""
    if plan.summed is None:
        return
    tx.run(
        "INSERT IGNORE INTO memory_sources (tenant_id, memory_id, thread_id, event_id)"
        " SELECT e.tenant_id, %s, e.thread_id, e.event_id FROM events e"
        " WHERE e.tenant_id = %s AND e.thread_id = %s AND e.memory_seq <= %s AND e.memory_seq > %s",
        [summary_id, tenant, plan.thread_id, plan.summed.to, plan.summed.mark if replaces else 0],
    )


def renew(tx: Transaction, tenant: str, run_id: UUID, sources: Sequence[Source]) -> None:
    """Let repeated memories expire with their last basis; a basis expires with its first turn."""
    ids = ids_at(tx, {source.address for source in sources})
    rows = tx.rows_in(
        "SELECT memory_id, run_id, expires_at FROM memories"
        " WHERE tenant_id = %s AND memory_id IN %s AND expires_at IS NOT NULL",
        [tenant, ids.values()],
    )
    bases: dict[UUID, list[datetime | None]] = defaultdict(list)
    for memory_id, _, expires_at in tx.rows_in(
        "SELECT s.memory_id, s.basis, min(e.expires_at) FROM memory_sources s"
        " JOIN events e ON e.tenant_id = s.tenant_id AND e.thread_id = s.thread_id"
        " AND e.event_id = s.event_id WHERE s.tenant_id = %s AND s.memory_id IN %s"
        " GROUP BY s.memory_id, s.basis",
        [tenant, [row[0] for row in rows]],
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
                noted.append((memory_id, {"expires_at": iso(old)}))
    set_each(tx, "memories", "memory_id", tenant, ("expires_at",), renewed)
    note(tx, tenant, run_id, "renewed", noted)


def keep_summary(
    tx: Transaction, tenant: str, namespace: str, plan: RunPlan, now: datetime
) -> UUID | None:
    """Copy the summary that a run replaces, superseded and with its vectors; keep the last copies.

    A summary that expired after the run began counts: the new one contains it. Returns the id of
    the copy, or None without a summary.
    """
    current = tx.one(
        "SELECT memory_id FROM memories m WHERE m.tenant_id = %s AND m.namespace = %s"
        " AND m.`key` = %s AND m.kind = 'summary' AND m.superseded_at IS NULL"
        " AND LENGTH(m.text) > 0"  # not archived
        " AND (m.expires_at IS NULL OR m.expires_at > %s)",
        [tenant, namespace, plan.summary_key, plan.started_at],
    )
    if current is None:
        return None
    replaced = tx.rows(
        "SELECT memory_id FROM memories WHERE tenant_id = %s AND thread_id = %s"
        " AND kind = 'summary' AND superseded_at IS NOT NULL"
        " ORDER BY superseded_at DESC, memory_id DESC",
        [tenant, plan.thread_id],
    )
    delete_memories(tx, tenant, [row[0] for row in replaced[KEPT - 1 :]])
    copy_id = uuid7()
    tx.run(
        f"INSERT INTO memories (memory_id, `key`, superseded_at, {_PLACED}, {_COPIED})"
        f" SELECT %s, CONCAT(`key`, '/', %s), %s, {_PLACED}, {_COPIED} FROM memories"
        " WHERE tenant_id = %s AND memory_id = %s",
        [copy_id, str(copy_id), now, tenant, current[0]],
    )
    _copy_vectors(tx, tenant, current[0], copy_id)
    note(tx, tenant, plan.run_id, "summary", [(current[0], {"copy": str(copy_id)})])
    return copy_id


def bound_summary(tx: Transaction, tenant: str, summary_id: UUID, copy_id: UUID) -> None:
    """Let a summary expire no later than the one it replaced."""
    until: dict[UUID, datetime | None] = dict(
        tx.select("memories", "memory_id, expires_at", tenant, memory_id=[summary_id, copy_id])
    )
    ends = [end for end in until.values() if end is not None]
    if ends and until[summary_id] != min(ends):
        tx.update("memories", {"expires_at": min(ends)}, tenant, memory_id=summary_id)


def _copy_vectors(tx: Transaction, tenant: str, from_id: UUID, to_id: UUID) -> None:
    for table in vector_tables(tx):
        tx.run(
            f"INSERT INTO {table} (tenant_id, model, memory_id, field, embedding)"
            f" SELECT tenant_id, model, %s, field, embedding FROM {table}"
            " WHERE tenant_id = %s AND memory_id = %s",
            [to_id, tenant, from_id],
        )


def close_facts(
    tx: Transaction,
    tenant: str,
    run_id: UUID,
    close: Sequence[tuple[UUID, datetime]],
    now: datetime,
) -> None:
    """End facts; a known end that is still to come moves to an earlier moment.

    Raises Conflict if one of them was ended or forgotten since the run read it.
    """
    until = dict(close)
    rows = tx.select(
        "facts", "memory_id, valid_from, valid_until, superseded_at", tenant, memory_id=until
    )
    ending = [row for row in rows if _may_end(row, until[row[0]], now)]
    if len(ending) != len(close):
        raise Conflict("a fact was changed by another run")
    _end(tx, "facts", "memory_id", tenant, run_id, "closed", ending, until, now)


def close_edges(
    tx: Transaction,
    tenant: str,
    run_id: UUID,
    close: Sequence[tuple[UUID, datetime]],
    with_facts: Sequence[tuple[UUID, datetime]],
    now: datetime,
) -> None:
    """End edges, and those that repeat an ended fact, unless their end has come."""
    until = dict(close)
    of_facts = dict(with_facts)
    columns = "edge_id, valid_from, valid_until, superseded_at, fact_id"
    where = "FROM edges WHERE tenant_id = %s AND"
    rows = {
        row[0]: row
        for ids, column in ((until, "edge_id"), (of_facts, "fact_id"))
        for row in tx.rows_in(f"SELECT {columns} {where} {column} IN %s", [tenant, ids])
    }
    ending, ends = [], {}
    for edge_id, row in rows.items():
        moments = (until.get(edge_id), of_facts.get(row[4]))
        possible = [at for at in moments if at is not None and _may_end(row, at, now)]
        if possible:
            ending.append(row)
            ends[edge_id] = min(possible)
    _end(tx, "edges", "edge_id", tenant, run_id, "edge", ending, ends, now)


def move_edge_ends(
    tx: Transaction,
    tenant: str,
    run_id: UUID,
    moves: Sequence[tuple[UUID, datetime]],
    now: datetime,
) -> None:
    """Move known ends that are still to come to an earlier moment."""
    until = dict(moves)
    rows = tx.select(
        "edges", "edge_id, valid_from, valid_until, superseded_at", tenant, edge_id=until
    )
    moved = [row for row in rows if row[2] and row[2] > max(until[row[0]], row[1])]
    _end(tx, "edges", "edge_id", tenant, run_id, "edge", moved, until, now)


def _may_end(row: Row, until: datetime, now: datetime) -> bool:
    _, valid_from, valid_until, superseded_at, *_ = row
    if valid_until is None:
        return superseded_at is None
    return bool(valid_until > max(until, valid_from, now))


def _end(
    tx: Transaction,
    table: str,
    id_column: str,
    tenant: str,
    run_id: UUID,
    change: str,
    ending: Sequence[Row],
    until: Mapping[UUID, datetime],
    now: datetime,
) -> None:
    """End rows (id, valid_from, valid_until, superseded_at, ...), and note their ends before."""
    ends = {row[0]: (max(until[row[0]], row[1]), now) for row in ending}
    set_each(tx, table, id_column, tenant, _ENDS, ends)
    note(tx, tenant, run_id, change, ((row[0], {}) for row in ending if row[2] is None))
    moved = ((row[0], ends_before(row[2], row[3])) for row in ending if row[2] is not None)
    note(tx, tenant, run_id, "moved", moved)


def retire_memories(
    tx: Transaction, tenant: str, run_id: UUID, ended: Sequence[UUID], now: datetime
) -> None:
    """Retire ended facts, and the statements of their turns that contain the ended values.

    A statement that another turn has repeated since the end stays.
    """
    _retire(tx, tenant, run_id, {*ended, *_statements_of(tx, tenant, ended)}, now)


def retire_drawn(tx: Transaction, tenant: str, run_id: UUID, now: datetime) -> None:
    """Retire memories that were derived from a retired one."""
    drawn = tx.rows(
        "SELECT DISTINCT d.memory_id FROM memory_bases d"
        " JOIN memories b ON b.tenant_id = d.tenant_id AND b.memory_id = d.basis_id"
        " JOIN memories m ON m.tenant_id = d.tenant_id AND m.memory_id = d.memory_id"
        " WHERE d.tenant_id = %s AND b.superseded_at IS NOT NULL AND m.superseded_at IS NULL",
        [tenant],
    )
    _retire(tx, tenant, run_id, [row[0] for row in drawn], now, own_too=True)


def _retire(
    tx: Transaction,
    tenant: str,
    run_id: UUID,
    memory_ids: Iterable[UUID],
    now: datetime,
    *,
    own_too: bool = False,
) -> None:
    """Retire memories, and note which; own_too: note those the run wrote as well."""
    living = "FROM memories WHERE tenant_id = %s AND memory_id IN %s AND superseded_at IS NULL"
    rows = tx.rows_in(f"SELECT memory_id, run_id {living}", [tenant, sorted(memory_ids)])
    retired = {row[0]: (now,) for row in rows}
    set_each(tx, "memories", "memory_id", tenant, ("superseded_at",), retired)
    noted = [row[0] for row in rows if own_too or row[1] != run_id]
    note(tx, tenant, run_id, "retired", ((one, {}) for one in noted), again=own_too)


def _statements_of(tx: Transaction, tenant: str, ended: Sequence[UUID]) -> set[UUID]:
    """Return the statements from the turns of ended facts that contain the ended value.

    Statements that a turn has repeated since the end without the fact are left out.
    """
    pairs = {
        (fact, statement, valid_until)
        for fact, value, valid_until, statement, text in tx.rows_in(
            "SELECT f.memory_id, f.value, f.valid_until, m.memory_id, m.text"
            " FROM memory_sources s"
            " JOIN facts f ON f.tenant_id = s.tenant_id AND f.memory_id = s.memory_id"
            " JOIN memory_sources o ON o.tenant_id = s.tenant_id AND o.thread_id = s.thread_id"
            " AND o.event_id = s.event_id"
            " JOIN memories m ON m.tenant_id = o.tenant_id AND m.memory_id = o.memory_id"
            " LEFT JOIN facts x ON x.tenant_id = m.tenant_id AND x.memory_id = m.memory_id"
            " WHERE s.tenant_id = %s AND s.memory_id IN %s AND m.kind = 'semantic'"
            " AND x.memory_id IS NULL",
            [tenant, ended],
        )
        if shown(value).lower() in text.lower()
    }
    if not pairs:
        return set()
    turns_of_facts = _turns_of(tx, tenant, {fact for fact, _, _ in pairs})
    turns_of_statements = _turns_of(tx, tenant, {statement for _, statement, _ in pairs})

    def is_repeated_since(fact: UUID, statement: UUID, valid_until: datetime | None) -> bool:
        repeated_by = turns_of_statements[statement]
        return valid_until is not None and any(
            at >= valid_until and turn not in turns_of_facts[fact]
            for turn, at in repeated_by.items()
        )

    return {
        statement
        for fact, statement, until in pairs
        if not is_repeated_since(fact, statement, until)
    }


def _turns_of(
    tx: Transaction, tenant: str, memory_ids: Iterable[UUID]
) -> Mapping[UUID, Mapping[tuple[str, str], datetime]]:
    """Return the turns of memories, and when each occurred."""
    turns: dict[UUID, dict[tuple[str, str], datetime]] = defaultdict(dict)
    for memory_id, thread_id, event_id, at in tx.rows_in(
        "SELECT s.memory_id, s.thread_id, s.event_id, e.occurred_at FROM memory_sources s"
        " JOIN events e ON e.tenant_id = s.tenant_id AND e.thread_id = s.thread_id"
        " AND e.event_id = s.event_id WHERE s.tenant_id = %s AND s.memory_id IN %s",
        [tenant, sorted(memory_ids)],
    ):
        turns[memory_id][thread_id, event_id] = at
    return turns


def require_unchanged(
    tx: Transaction, tenant: str, namespace: str, plan: RunPlan, now: datetime
) -> None:
    """Raise Conflict if the provenance of a run has changed since it read; the tenant is locked."""
    require_turns(tx, tenant, plan.drawn_from)
    require_memories(tx, tenant, {memory_id for _, memory_id in plan.inherited})
    if plan.summary_key is not None:
        summary = living_summary(tx, tenant, namespace, plan.summary_key, now)
        if (summary[1] if summary else None) != plan.summary_run:
            raise Conflict("the summary was changed meanwhile")
    if plan.slots or plan.relations:
        _require_known(tx, tenant, plan)
    lives = living(now)
    if tx.rows_in(
        "SELECT m.memory_id FROM memories m WHERE m.tenant_id = %s AND m.words_key IN %s"
        f" AND m.namespace = %s AND {lives.sql}",
        [tenant, plan.unsaid, namespace, *lives.values],
    ):
        raise Conflict("a statement was written by another run")


def require_turns(tx: Transaction, tenant: str, turns: Iterable[Turn]) -> None:
    """Raise Conflict if a turn is not remembered any more."""
    required = set(turns)
    if len(_stored_turns(tx, tenant, required, " AND memory_seq IS NOT NULL")) != len(required):
        raise Conflict("a turn was forgotten meanwhile")


def require_memories(tx: Transaction, tenant: str, memory_ids: Collection[UUID]) -> None:
    """Raise Conflict if a memory is gone."""
    if len(kinds_of(tx, tenant, memory_ids)) != len(memory_ids):
        raise Conflict("a memory was forgotten meanwhile")


def _require_known(tx: Transaction, tenant: str, plan: RunPlan) -> None:
    """Raise Conflict if a later run changed facts or retractions of the slots, or edges."""
    later = tx.column(
        "SELECT run_id FROM runs WHERE tenant_id = %s AND number > %s", [tenant, plan.known_number]
    )
    of_slot = "f.slot IN %s LIMIT 1"
    queries: list[tuple[str, Sequence[object]]] = [
        ("SELECT 1 FROM memories m JOIN facts f ON f.tenant_id = m.tenant_id"
         " AND f.memory_id = m.memory_id WHERE m.tenant_id = %s AND m.run_id IN %s"
         f" AND {of_slot}", plan.slots),
        ("SELECT 1 FROM run_changes c JOIN facts f ON f.tenant_id = c.tenant_id"
         " AND f.memory_id = c.target WHERE c.tenant_id = %s AND c.run_id IN %s"
         f" AND {of_slot}", plan.slots),
        (f"SELECT 1 FROM retractions f WHERE f.tenant_id = %s AND f.run_id IN %s AND {of_slot}",
         plan.slots),
        ("SELECT 1 FROM edges e WHERE e.tenant_id = %s AND e.run_id IN %s"
         " AND (e.subject_key, e.relation) IN %s LIMIT 1", plan.relations),
        ("SELECT 1 FROM run_changes c JOIN edges e ON e.tenant_id = c.tenant_id"
         " AND e.edge_id = c.target WHERE c.tenant_id = %s AND c.run_id IN %s"
         " AND c.`change` IN ('edge', 'moved')"
         " AND (e.subject_key, e.relation) IN %s LIMIT 1", plan.relations),
    ]  # fmt: skip
    for sql, places in queries:
        for page in pages(places):
            if tx.rows_in(sql, [tenant, later, page]):
                raise Conflict("a fact was changed by another run")


def require_places(
    tx: Transaction, tenant: str, facts: Iterable[UUID] = (), edges: Iterable[UUID] = ()
) -> None:
    """Raise Conflict if one of these facts or edges shares its place with another current one.

    A place has one current fact of a type and key; one edge of a subject, relation and object; and
    one edge of a subject and functional relation.
    """
    is_open = "{0}.valid_until IS NULL AND {0}.superseded_at IS NULL"
    taken = (
        "SELECT 1 FROM facts f JOIN facts o ON o.tenant_id = f.tenant_id"
        " AND o.fact_type = f.fact_type AND o.`key` = f.`key` AND o.memory_id <> f.memory_id"
        " WHERE f.tenant_id = %s AND f.memory_id IN %s"
        f" AND {is_open.format('f')} AND {is_open.format('o')} LIMIT 1"
    )
    if tx.rows_in(taken, [tenant, facts]):
        raise Conflict("another fact holds in its place")
    taken = (
        "SELECT 1 FROM edges e JOIN edges o ON o.tenant_id = e.tenant_id"
        " AND o.subject_key = e.subject_key AND o.relation = e.relation AND o.edge_id <> e.edge_id"
        " AND (o.object_key = e.object_key OR o.functional = 1 AND e.functional = 1)"
        " WHERE e.tenant_id = %s AND e.edge_id IN %s"
        f" AND {is_open.format('e')} AND {is_open.format('o')} LIMIT 1"
    )
    if tx.rows_in(taken, [tenant, edges]):
        raise Conflict("another edge holds in its place")
