"""engine.facts: list facts as of any moment; state, retract and restore them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

from shared_core.core.domain import (
    USER,
    AsOf,
    Extraction,
    FactDraft,
    MemoryId,
    NewMemory,
    Scope,
    TripleDraft,
)
from shared_core.core.ids import uuid7
from shared_core.core.namespaces import (
    check_label,
    memories_namespace,
    rest_of,
    scope_path,
    storable,
)
from shared_core.core.shown import shown
from shared_core.core.timestamps import check_as_of, check_moment
from shared_core.errors import Conflict, InvalidInput, NotFound
from shared_core.extraction.stated_facts import (
    STATED,
    stated_draft,
    stated_slot,
    statement_language,
)
from shared_core.knowledge.edge_planning import EdgePlan, plan_edges, stated_edges
from shared_core.knowledge.fact_planning import (
    FactPlan,
    doubt_counts,
    fact_key,
    opposite_slot,
    plan_facts,
    slots_to_read,
)
from shared_core.knowledge.past_facts import asks_for_history, past_facts, past_slots
from shared_core.knowledge.reviving import faded_stated_again, plan_revival, revive
from shared_core.knowledge.run_rows import RunRows, add_privacy, applied, apply_run, until_applied
from shared_core.lifecycle import Handle
from shared_core.nlp.relation_schema import Relations
from shared_core.nlp.slots import Slot, near_slot, near_slot_message, slot_name
from shared_core.nlp.text import HAN_CHARACTER, normalised, short_name
from shared_core.policies.fact_reasons import explained
from shared_core.policies.facts import FactQuery, NamedMemory, NameQuery
from shared_core.policies.reopening import restore_fact
from shared_core.policies.run_reads import known_of
from shared_core.ports.retention import Revival
from shared_core.ports.runs import (
    CitedTurn,
    Fact,
    FactReason,
    FactReasons,
    Known,
    KnownFact,
    PlannedEdge,
    RunPlan,
)
from shared_core.ports.storage import Storage

if TYPE_CHECKING:
    from shared_core.ports.items import VectorRows
    from shared_core.ports.storage import Vectors
    from shared_core.privacy.sanitizing import Intake

MAX_VALUE_CHARACTERS = 2_000


class Facts:
    """Facts of one memory. Call it to list them: engine.facts(scope).

    relations: the relations that edges may have; None if the graph is switched off.
    """

    def __init__(self, handle: Handle, relations: Relations | None) -> None:
        self._handle = handle
        self._clock = handle.clock
        self._relations = relations

    async def __call__(
        self, scope: Scope, slot: str = "", *, history: bool = False, as_of: AsOf | None = None,
        why: bool = False,
    ) -> Sequence[Fact]:  # fmt: skip
        """Return the facts that hold now, or with history also those that ended.

        This is the documented verb `engine.facts(...)`. An unknown slot has no facts.

        Args:
            scope: application and user.
            slot: only the values of this slot, e.g. "employer", or another name that a model may
                give it ("company", "公司").
            history: include facts that ended.
            as_of: the facts that held at a moment, as they were known at a moment.
            why: also say why each is held: the turns that state, doubt or ended it (Fact.why).

        Raises:
            InvalidInput: for a slot without facts that differs from a known one by a letter.
        """
        check_as_of(as_of)
        scope_path(scope)
        if not isinstance(slot, str):
            raise InvalidInput(f"slot must be a text, e.g. 'employer', got {shown(slot)}")
        storage = await self._handle.storage()
        name, now = slot_name(slot), self._clock()
        query = FactQuery(now=now, slot=name, history=bool(history), as_of=as_of)
        found = await list_facts(storage, scope, query)
        ever = FactQuery(now=now, slot=name, history=True)
        if name and not found and near_slot(name) and not await list_facts(storage, scope, ever):
            raise InvalidInput(near_slot_message(slot, name))
        return await self._explained(scope, found) if why else found

    async def asked_of_the_past(self, scope: Scope, question: str) -> list[Fact]:
        """Return the ended facts that a question about the past asks for, the latest first.

        At most three, and none that the user asked to forget. A question about the present costs no
        call of the database.
        """
        if not (asks_for_history(question) or past_slots(question)):
            return []
        now = self._clock()
        storage = await self._handle.storage()
        query = FactQuery(now=now, history=True)
        return past_facts(await list_facts(storage, scope, query), question, now)

    async def _explained(self, scope: Scope, found: Sequence[Fact]) -> Sequence[Fact]:
        storage, reasons = await self._handle.storage(), partial(explained, found, self._clock())
        facts = await storage.query(scope_path(scope), reasons)
        return [replace(one, why=one.why and self._redacted(one.why)) for one in facts]

    async def explained(self, scope: Scope, memory_id: MemoryId) -> Fact | None:
        """Return the fact of a memory with the reasons why it is held, or None if it is no fact."""
        storage = await self._handle.storage()
        found = await _named(storage, scope, str(memory_id), self._clock())
        if found is None or found.fact is None:
            return None
        return next(iter(await self._explained(scope, [found.fact])), None)

    def _redacted(self, why: FactReasons) -> FactReasons:
        def redacted(reason: FactReason) -> FactReason:
            return replace(reason, turns=redacted_turns(reason.turns, self._handle.sanitizer))

        return FactReasons(
            stated=redacted(why.stated),
            doubted=why.doubted and redacted(why.doubted),
            ended=why.ended and redacted(why.ended),
        )

    async def state(
        self,
        scope: Scope,
        slot: str,
        value: str,
        *,
        subject: str | None = None,
        valid_from: datetime | None = None,
    ) -> Fact:
        """Store a fact as if the user had stated it, and return it.

        engine.state_fact() explains the arguments.
        """
        scope_path(scope)
        known_slot, begins = stated_slot(slot), _moment(valid_from)
        about = USER if subject is None else short_name(check_label(subject, "subject").strip())
        if not normalised(about):
            raise InvalidInput(
                f"subject must be a name, or None for the user, got {shown(subject)}"
            )
        about = USER if normalised(about) == USER else about
        text = self._value(value)
        embedded: dict[str, Vectors] = {}

        async def attempt() -> MemoryId:
            return await self._try(
                scope, await self._draft(scope, known_slot, text, about, begins), embedded
            )

        try:
            memory_id = await until_applied(attempt)
        except Conflict as error:
            raise Conflict(
                f"{slot!r} could not be stated, because other runs keep changing it: try again"
            ) from error
        return await self._stored(scope, memory_id)

    async def import_fact(
        self, scope: Scope, memory_id: MemoryId, draft: FactDraft, triple: TripleDraft
    ) -> bool:
        """Store a fact of another memory, and its edge; return whether it is new here.

        It counts as stated when it began to hold, so a later fact here makes it history. If the
        same fact holds here already, it stays as it is.

        Args:
            scope: application and user.
            memory_id: of the new fact.
            draft: with valid_from, and with valid_until if it has ended.
            triple: the edge, with draft.value as its object.
        """
        scope_path(scope)
        other = _Imported(memory_id, triple)
        embedded: dict[str, Vectors] = {}

        async def attempt() -> MemoryId:
            return await self._try(scope, draft, embedded, other)

        return await until_applied(attempt) == memory_id

    async def retract(
        self, scope: Scope, key: Fact | UUID | str, *, at: datetime | None = None
    ) -> Fact:
        """End a fact as of a moment, by default now, and return it with its end.

        Its edges and the memories derived from it end too. engine.retract() explains the arguments.
        """
        storage = await self._handle.storage()
        fact = await _fact_named(storage, scope, key, self._clock())
        now = self._clock()
        if fact.valid_until is not None and fact.valid_until <= now:
            raise Conflict(
                f"{fact.statement!r} has ended already, at {fact.valid_until.isoformat()}: restore"
                " it first to give it another end"
            )
        until = max(now, fact.valid_from) if at is None else _end_of(fact, at, now)
        plan = RunPlan(
            run_id=uuid7(),
            kind="retraction",
            scope=scope,
            thread_id=None,
            extractor="caller",
            started_at=now,
            close=[(fact.memory_id, until)],
            ended=[fact.memory_id],
            counts={"closed": 1},
        )
        try:
            await apply_run(storage, plan, self._clock)
        except Conflict as error:
            raise Conflict(
                f"{fact.statement!r} was changed or forgotten at the same time: try again"
            ) from error
        return replace(fact, valid_until=until, superseded_at=now)

    async def restore(self, scope: Scope, key: Fact | UUID | str) -> Fact:
        """Undo the end of a fact and of everything that ended with it; return the fact.

        engine.restore() lists the errors.
        """
        storage = await self._handle.storage()
        fact = await _fact_named(storage, scope, key, self._clock())
        if fact.valid_until is None or fact.superseded_at is None:
            raise Conflict(f"{fact.statement!r} has not ended: there is nothing to restore")
        tenant, run_id, now = scope_path(scope), uuid7(), self._clock()
        await storage.transact(tenant, lambda: restore_fact(tenant, fact, run_id, now))
        return replace(fact, valid_until=None, superseded_at=None)

    async def beside_edge(
        self, scope: Scope, slot: Slot, edge: PlannedEdge, plan: RunPlan
    ) -> tuple[PlannedEdge, RunPlan]:
        """Return an edge of the user and its run, both with the fact that the edge states.

        The run also ends the facts and edges that exclude this fact.
        """
        draft = await self._draft(
            scope, slot, self._value(edge.draft.object), USER, edge.valid_from
        )
        known, facts, _ = await self._planned(scope, draft, self._clock())
        facts.opened = [replace(one, valid_until=edge.valid_until) for one in facts.opened]
        rows, vectors = await self._rows(scope, plan.run_id, plan.started_at, facts, {})
        own = [one.memory_id for one in facts.opened]
        fact_ids = own or [memory_id for memory_id, _ in facts.seen_again]
        closed = {**dict(plan.close), **facts.closed}
        return (
            replace(edge, fact_id=fact_ids[0], memory_id=own[0] if own else None),
            replace(
                plan,
                close=list(closed.items()),
                move_facts=list(facts.moved.items()),
                ended=[one for one, until in closed.items() if until <= plan.started_at],
                facts=facts.opened,
                memories=rows.memories,
                vectors=vectors,
                slots=slots_to_read([draft]),
                known_number=min(plan.known_number, known.number),
                bounds=[*plan.bounds, *facts.bounds],
                counts={**plan.counts, "facts": len(facts.opened), "closed": len(closed)},
                revival=await self._revival(scope, known, facts, {}),
                doubted=list(facts.doubted.items()),
            ),
        )

    async def revive_faded(self, scope: Scope, facts: Sequence[MemoryId]) -> None:
        """Revive the faded ones of facts that were stated again."""
        storage = await self._handle.storage()
        await revive(storage, self._handle.embedding, scope, facts, self._handle.clock)

    async def _draft(
        self, scope: Scope, slot: Slot, value: str, subject: str, begins: datetime | None
    ) -> FactDraft:
        storage = await self._handle.storage()
        text, known = f"{slot.name} {value}", []
        if not HAN_CHARACTER.search(text):
            held = await list_facts(storage, scope, FactQuery(now=self._clock()))
            known = [one.statement for one in held]
        return stated_draft(slot, value, subject, begins, statement_language(text, known))

    async def _try(
        self,
        scope: Scope,
        draft: FactDraft,
        embedded: dict[str, Vectors],
        other: _Imported | None = None,
    ) -> MemoryId:
        """Write a fact and return its id. embedded: vectors of earlier tries, by text."""
        storage = await self._handle.storage()
        now = self._clock()
        known, facts, graph = await self._planned(scope, draft, now, other)
        if not (facts.opened or facts.closed or facts.moved or facts.doubted or graph.opened):
            await self.revive_faded(scope, faded_stated_again(known.facts, facts))
            return facts.seen_again[0][0]
        run_id = uuid7()
        rows, vectors = await self._rows(scope, run_id, now, facts, embedded)
        plan = RunPlan(
            run_id=run_id,
            kind="statement",
            scope=scope,
            thread_id=None,
            extractor=STATED,
            started_at=now,
            close=list(facts.closed.items()),
            move_facts=list(facts.moved.items()),
            ended=facts.ended(now),
            facts=facts.opened,
            memories=rows.memories,
            edges=graph.opened,
            close_edges=list(graph.closed.items()),
            vectors=vectors,
            counts={
                "facts": len(facts.opened), "closed": len(facts.closed),
                "edges": len(graph.opened), **doubt_counts(facts),
            },
            slots=slots_to_read([draft]),
            relations=self._pairs(draft, other),
            known_number=known.number,
            bounds=[*facts.bounds, *graph.bounds],
            revival=await self._revival(scope, known, facts, embedded),
            doubted=list(facts.doubted.items()),
        )  # fmt: skip
        await applied(apply_run(storage, plan, self._clock))
        return facts.opened[0].memory_id if facts.opened else facts.seen_again[0][0]

    async def _planned(
        self, scope: Scope, draft: FactDraft, now: datetime, other: _Imported | None = None
    ) -> tuple[Known, FactPlan, EdgePlan]:
        storage = await self._handle.storage()
        since = min(now, draft.valid_from or now)
        slots, pairs = slots_to_read([draft]), self._pairs(draft, other)
        known = await storage.query(scope_path(scope), partial(known_of, slots, pairs, since))
        imported_at = draft.valid_from if other else None
        at = {"": imported_at or _stated_at(draft, known.facts, now)}

        def new_id() -> MemoryId:
            return other.memory_id if other else MemoryId(uuid7())

        facts = plan_facts([draft], known.facts, at, new_id, known.retractions, now)
        triples = self._triples(draft, other)
        graph = plan_edges(triples, known.edges, facts.opened, at, uuid7, facts.restated_facts)
        return known, facts, graph

    async def _rows(
        self,
        scope: Scope,
        run_id: UUID,
        now: datetime,
        facts: FactPlan,
        embedded: dict[str, Vectors],
    ) -> tuple[RunRows, VectorRows | None]:
        rows = RunRows(scope, None, run_id, now, STATED)
        rows.add_facts(facts, ())
        vectors = await self._handle.embedding.rows(rows.texts(), embedded)
        await add_privacy(self._handle.embedding, rows, vectors)
        return rows, vectors

    async def _revival(
        self, scope: Scope, known: Known, facts: FactPlan, embedded: dict[str, Vectors]
    ) -> Revival | None:
        storage = await self._handle.storage()
        stated_again = faded_stated_again(known.facts, facts)
        return await plan_revival(storage, self._handle.embedding, scope, stated_again, embedded)

    def _triples(self, draft: FactDraft, other: _Imported | None = None) -> list[TripleDraft]:
        if self._relations is None:
            return []
        also = [other.triple] if other else []
        return stated_edges(Extraction(facts=[draft], triples=also), self._relations)

    def _pairs(self, draft: FactDraft, other: _Imported | None = None) -> list[tuple[str, str]]:
        triples = self._triples(draft, other)
        return sorted({(normalised(one.subject), one.relation) for one in triples})

    def _value(self, value: str) -> str:
        if not isinstance(value, str):
            raise InvalidInput(f"value must be a text, e.g. '{shown(value)}', got {shown(value)}")
        text = self._handle.sanitizer.memory(
            NewMemory(text=check_label(value, "value").strip())
        ).text.strip()
        if not normalised(text) or len(text) > MAX_VALUE_CHARACTERS:
            raise InvalidInput(
                f"value must be a text of 1 to {MAX_VALUE_CHARACTERS:,} characters with more than"
                f" punctuation, got {value[:80]!r}"
            )
        return text

    async def _stored(self, scope: Scope, memory_id: MemoryId) -> Fact:
        storage = await self._handle.storage()
        found = await _named(storage, scope, str(memory_id), self._clock())
        if found is None or found.fact is None:
            raise Conflict("the fact was forgotten at the same time: state it again")
        return found.fact


@dataclass(frozen=True, slots=True)
class _Imported:
    """The id of a fact of another memory, and its edge."""

    memory_id: MemoryId
    triple: TripleDraft


def redacted_turns(turns: Iterable[CitedTurn], sanitizer: Intake) -> tuple[CitedTurn, ...]:
    """Return turns without the secrets that a session log holds unredacted."""
    return tuple(
        replace(turn, text=turn.text and sanitizer.shown_text(turn.text)) for turn in turns
    )


async def list_facts(storage: Storage, scope: Scope, query: FactQuery) -> list[Fact]:
    """Return the facts of a scope that a query asks for, current ones first."""
    return query.facts(await storage.read(scope_path(scope), query.selects()))


async def _named(storage: Storage, scope: Scope, name: str, now: datetime) -> NamedMemory | None:
    query = NameQuery(now=now, namespace=rest_of(memories_namespace(scope)), name=name)
    return query.memory(await storage.read(scope_path(scope), query.selects()))


async def _fact_named(
    storage: Storage, scope: Scope, key: Fact | UUID | str, now: datetime
) -> Fact:
    scope_path(scope)
    if not isinstance(key, Fact | UUID | str):
        raise InvalidInput(
            f"fact must be a Fact, its key or its memory id as a UUID or a text, got {shown(key)}"
        )
    name = key.key if isinstance(key, Fact) else str(key)
    found: NamedMemory | None = None
    if storable(name):
        found = await _named(storage, scope, name, now)
    if found is None:
        raise NotFound(
            f"there is no memory {name!r} of {scope}: facts(scope, history=True) lists all facts,"
            " and Fact.key is the key of each"
        )
    if found.fact is None:
        raise InvalidInput(
            f"{name!r} is a memory of kind {found.kind!r}, not a fact: only facts can be retracted"
            " and restored; forget() removes any memory"
        )
    return found.fact


def _end_of(fact: Fact, at: datetime, now: datetime) -> datetime:
    check_moment(at, "at")
    if at < fact.valid_from:
        raise InvalidInput(
            f"{fact.statement!r} holds since {fact.valid_from.isoformat()} and cannot have ended"
            f" before, at {at.isoformat()}: forget() it if it never held"
        )
    if at > now:
        raise InvalidInput(f"at must not be in the future, got {at.isoformat()}: retract it then")
    return at.astimezone(UTC)


def _stated_at(draft: FactDraft, known: Sequence[KnownFact], now: datetime) -> datetime:
    """Return the moment that counts as the time of a statement: now, or when the fact begins.

    It is the beginning of a future fact, and of one that a later fact makes history.
    """
    begins = draft.valid_from
    if begins is None:
        return now
    if begins > now:
        return begins
    keys = {fact_key(draft)}
    if opposite := opposite_slot(draft.slot):
        keys.add(fact_key(replace(draft, slot=opposite)))
    later = any(
        one.valid_from >= begins and one.valid_from <= now
        and one.key in keys and normalised(one.value) != normalised(draft.value)
        for one in known
    )  # fmt: skip
    return begins if later else now


def _moment(valid_from: datetime | None) -> datetime | None:
    if valid_from is None:
        return None
    check_moment(valid_from, "valid_from")
    return valid_from.astimezone(UTC)
