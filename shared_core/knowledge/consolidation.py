"""Consolidation of one thread: new turns become knowledge, the whole of it a short summary."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, TypeAlias
from uuid import UUID

from shared_core.core.domain import (
    NO_USAGE,
    Event,
    Extraction,
    ForgetDraft,
    HeldFact,
    JsonValue,
    KnownPerson,
    Memory,
    MemoryId,
    MemoryKind,
    ModelUsage,
    Scope,
    ThreadId,
)
from shared_core.core.ids import uuid7
from shared_core.core.namespaces import scope_path, summary_key
from shared_core.core.timestamps import CLOCKS_APART
from shared_core.errors import Conflict, ModelOutputInvalid, ModelUnavailable
from shared_core.extraction.draft_validation import (
    ValidatedDrafts,
    identifying_facts,
    resting_on,
    validated,
    without_turns,
)
from shared_core.extraction.fact_operations import gives_orders
from shared_core.extraction.forget_topics import turns_to_forget
from shared_core.extraction.rule_based import RuleExtractor
from shared_core.extraction.transcript import shown_whole
from shared_core.knowledge.edge_planning import EdgePlan, plan_edges, stated_edges
from shared_core.knowledge.fact_planning import FactPlan, doubt_counts, plan_facts, slots_to_read
from shared_core.knowledge.held_nearness import with_nearness
from shared_core.knowledge.revision import cascaded, grounds, revised
from shared_core.knowledge.reviving import faded_stated_again, plan_revival
from shared_core.knowledge.run_rows import RunRows, add_privacy, applied, apply_run, until_applied
from shared_core.models.embedding import Embedding
from shared_core.nlp.relation_schema import Relations
from shared_core.nlp.slots import name_slots
from shared_core.nlp.text import normalised, place_of
from shared_core.policies.run_reads import held_facts, known_of
from shared_core.policies.setting_aside import turns_set_aside
from shared_core.ports.items import VectorRows
from shared_core.ports.jobs import JobType, ReflectionDue
from shared_core.ports.runs import Passage, ReadRequest, RunPlan, ThreadWindow
from shared_core.ports.storage import (
    Acquainted,
    Choosing,
    Clock,
    Extractor,
    Revisable,
    Storage,
    Summarising,
    is_judged,
)
from shared_core.recall.query import RecallOptions, recall

if TYPE_CHECKING:
    from shared_core.ports.storage import Vectors

log = logging.getLogger("hippocampus")

Forget: TypeAlias = Callable[[Scope, ThreadId, ForgetDraft, datetime], Awaitable[int | None]]
"""Carries out a request that the extractor found in a turn of a thread, said at a moment.

Returns the number of memories that it set aside, None if they are too many.
"""

WINDOW = 500
"""Maximum number of turns that one run reads."""
OVERLAP = 8
"""Number of earlier turns shown with a window, to resolve "she" and "that"."""
REPLAY = 1000
"""Maximum number of new turns that one run summarises."""
PEOPLE = 200
"""Maximum number of known people passed to the extractor with each window."""
HELD = 500
"""Maximum number of facts that hold, and of ended ones, that turns are compared with."""
SUMMARY_CHARACTERS = 200
NEAR = 20
"""Maximum number of memories near to a request to forget, and to each topic, to choose from."""
ROUNDS = 3
"""Maximum number of times that memories are offered for one request."""
MOST_CHOSEN = 20
"""Maximum number of memories that are chosen for one request."""
REQUEST_CHARACTERS = 500
"""Maximum number of characters of a request that such memories are searched for."""
SHORT_THREAD = 2
"""Number of turns up to which rules make no first summary: the turns tell it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """The result of a consolidation. events: number of new turns it read.

    statements, insights, edges: numbers of new ones beside facts. usage: of the model. skipped:
    number of turns of the user for which no model was asked. forgotten: number of memories that a
    request in the turns set aside. more: whether turns remain for another run. run_id: of the last
    run.
    """

    run_id: UUID | None
    events: int
    facts_opened: int
    facts_closed: int
    summary: str
    statements: int = 0
    insights: int = 0
    edges: int = 0
    skipped: int = 0
    forgotten: int = 0
    usage: ModelUsage = NO_USAGE
    more: bool = False

    def __add__(self, later: RunReport) -> RunReport:
        """Return the sum of both reports."""
        return replace(
            later,
            events=self.events + later.events,
            facts_opened=self.facts_opened + later.facts_opened,
            facts_closed=self.facts_closed + later.facts_closed,
            statements=self.statements + later.statements,
            insights=self.insights + later.insights,
            edges=self.edges + later.edges,
            skipped=self.skipped + later.skipped,
            forgotten=self.forgotten + later.forgotten,
            usage=self.usage + later.usage,
            run_id=later.run_id or self.run_id,
            summary=later.summary or self.summary,
        )


NOTHING_NEW = RunReport(run_id=None, events=0, facts_opened=0, facts_closed=0, summary="")


@dataclass(frozen=True, slots=True, kw_only=True)
class Formed:
    """The output of the extractor for turns, and for replay, the turns to summarise.

    summed_anew: the summary was lost and is rewritten from the first turn, window by window.
    summed_by_rules: the summary of the model was unusable. forgotten: number of memories that its
    requests set aside; refused: number of requests that were not carried out, by reason. grounds:
    facts that drafts may rest on, beside those that name people.
    """

    turns: Sequence[tuple[int, Event]]
    drafts: ValidatedDrafts
    replay: Sequence[tuple[int, Event]]
    summary: str
    summed_anew: bool
    summed_by_rules: bool
    usage: ModelUsage
    more: bool
    grounds: Sequence[KnownPerson] = ()
    forgotten: int = 0
    refused: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True, kw_only=True)
class Consolidation:
    """Turns the next unread turns of a thread into knowledge, in one run.

    A second run over the same turns changes nothing. If another run is applied first, this one
    starts over.

    Args:
        relations: names and cardinalities of relations; None writes no edges.
        job_type: FAST_REPLAY summarises, DEEP_REFLECTION extracts, FULL_CONSOLIDATION does both.
        instead_of: the failed extractor that this one replaces, noted in the record of the run.
        reflection: as in RunPlan.
        private_only: write no public statements or insights.
        forget: carries out the requests of the user to forget something; None if they are not.
        embedded: vectors of earlier tries, by text.
    """

    storage: Storage
    embedding: Embedding
    extractor: Extractor
    clock: Clock
    scope: Scope
    thread_id: ThreadId
    relations: Relations | None
    job_type: JobType
    instead_of: str | None
    reflection: ReflectionDue | None
    private_only: bool
    forget: Forget | None
    embedded: dict[str, Vectors] = field(default_factory=dict)
    _read: ThreadWindow | None = None
    _formed: Formed | None = None

    async def run(self) -> RunReport:
        """Apply one run and return what it did."""
        return await until_applied(self._attempt)

    async def _attempt(self) -> RunReport:
        extracts = self.job_type is not JobType.FAST_REPLAY
        request = ReadRequest(
            turns=WINDOW + 1 if extracts else 0,
            context=OVERLAP if extracts else 0,
            replay=0 if self.job_type is JobType.DEEP_REFLECTION else REPLAY + 1,
            reread=self.extractor.reread_turns,
            people=PEOPLE if extracts and isinstance(self.extractor, Acquainted) else 0,
        )
        started_at = self.clock()
        reading = await self.storage.runs.read_thread(self.scope, self.thread_id, request)
        held = await self._held() if extracts and reading and reading.turns else []
        shown = await self._shown(reading, held) if reading else None
        if _needs_reading(shown, self._read):  # else the output of the extractor stays valid
            held = await self._near(shown, held)
            self._formed = (
                await _form(self.extractor, shown, held, self.thread_id) if shown else None
            )
            self._read = shown
        if reading and self._formed and (asked := self._formed.drafts.extraction.forget):
            self._formed = await self._chosen(self._formed)
            # What may fail does so before the asking turns are set aside: a retry reads them blank.
            await self._plan(reading, self._formed, started_at)
            self._formed = await self._carried_out(self._formed)
            reading = await self._read_again(request, held, {one.event_id for one in asked})
        if reading is None or self._formed is None:
            return NOTHING_NEW
        plan, rows = await self._plan(reading, self._formed, started_at)
        await applied(self._apply(plan, reading, held))
        return _report(plan, self._formed, rows)

    async def _chosen(self, formed: Formed) -> Formed:
        """Add to each request to forget what the extractor chooses of the memories near to it.

        A request often names its matter in other words than were told: "that money trouble".
        """
        extractor, usage = self.extractor, formed.usage
        if self.forget is None or not isinstance(extractor, Choosing):
            return formed
        asking = {event.event_id: event for _, event in formed.turns}
        drafts: list[ForgetDraft] = []
        refused = Counter[str]()
        for draft in formed.drafts.extraction.forget:
            drafts.append(draft)
            try:
                chosen, spent = await self._told_of(extractor, asking[draft.event_id], draft.topics)
            except ModelOutputInvalid as error:  # what the first answer names goes all the same
                log.warning("what a request to forget is about was not chosen: %s", error)
                refused["answer that chooses nothing to forget"] += 1
                continue
            usage += spent
            if len(chosen) > MOST_CHOSEN:
                refused["request to forget too much"] += 1
            else:
                drafts[-1] = replace(draft, memory_ids=tuple({*draft.memory_ids, *chosen}))
        extraction = replace(formed.drafts.extraction, forget=tuple(drafts))
        return replace(
            formed,
            drafts=replace(formed.drafts, extraction=extraction),
            usage=usage,
            refused=refused,
        )

    async def _told_of(
        self, extractor: Choosing, turn: Event, topics: Sequence[str]
    ) -> tuple[set[MemoryId], ModelUsage]:
        """Return what the extractor chooses for a request, and its cost.

        What is near to something chosen is offered in the next round: "the retired dentist" leads
        to his name, and the name to the rest.
        """
        chosen, usage, shown = set[MemoryId](), NO_USAGE, set[MemoryId]()
        queries: Sequence[str] = [turn.text, *topics]
        for _ in range(ROUNDS):
            near = await self._memories_near(turn, queries)
            new = [one for one in near if one.memory_id not in shown]
            if not new:
                break
            found, spent = await extractor.telling(turn, topics, new)
            usage += spent
            chosen |= found
            shown |= {one.memory_id for one in new}
            queries = [one.text for one in new if one.memory_id in found]
        return chosen, usage

    async def _memories_near(self, turn: Event, queries: Sequence[str]) -> list[Memory]:
        """Return turns, facts, statements and reflections before a turn, near to one of these."""
        kinds: list[MemoryKind] = ["episodic", "semantic", "reflection"]
        options = RecallOptions(now=self.clock(), limit=NEAR, kinds=kinds)
        found: dict[MemoryId, Memory] = {}
        for query in dict.fromkeys(one[-REQUEST_CHARACTERS:] for one in queries[:NEAR]):
            hits = await recall(self.storage, self.embedding, self.scope, query, options)
            both = (*hits.merged, *hits.vector_results)
            found |= {hit.memory.memory_id: hit.memory for hit in both}
        return [
            one
            for one in found.values()
            if one.occurred_at <= turn.occurred_at
            and not (one.thread_id == self.thread_id and turn.event_id in one.source_event_ids)
            and not gives_orders(one.text)
        ]

    async def _carried_out(self, formed: Formed) -> Formed:
        """Carry out the requests to forget, before anything of the run is written."""
        said_at = {event.event_id: event.occurred_at for _, event in formed.turns}
        extraction, refused, forgotten = formed.drafts.extraction, Counter(formed.refused), 0
        for draft in extraction.forget:
            done: int | None = 0
            if self.forget is None:
                refused["request to forget, and these are switched off"] += 1
            else:
                done = await self.forget(self.scope, self.thread_id, draft, said_at[draft.event_id])
            refused["request to forget too much"] += done is None
            forgotten += done or 0
        drafts = replace(formed.drafts, extraction=replace(extraction, forget=()))
        return replace(formed, drafts=drafts, forgotten=forgotten, refused=+refused)

    async def _read_again(
        self, request: ReadRequest, held: Sequence[HeldFact], asking: Set[str]
    ) -> ThreadWindow | None:
        """Read the thread after something was forgotten; keep what the extractor drew of the rest.

        The asking turns are blank now, but what they tell beside is kept, unless it rests on a fact
        that went. If another turn or the summary of the thread is gone, the next run sums the
        thread up, because the summary of this one may tell of it.
        """
        reading = await self.storage.runs.read_thread(self.scope, self.thread_id, request)
        shown = await self._shown(reading, held) if reading else None
        before, formed, self._read = self._read, self._formed, shown
        if before is None or shown is None or formed is None:
            return None
        gone = (_blank(shown) - _blank(before)) - asking
        known = {one.memory_id for one in shown.people}
        known |= {one.memory_id for one in await self._held()}
        extraction = resting_on(without_turns(formed.drafts.extraction, gone), known)
        formed = replace(formed, drafts=replace(formed.drafts, extraction=extraction))
        if formed.summary and (gone or (before.summary and not shown.summary)):
            formed = replace(formed, replay=(), summary="", summed_anew=False, more=True)
        self._formed = formed
        return reading

    async def _apply(self, plan: RunPlan, reading: ThreadWindow, held: Sequence[HeldFact]) -> None:
        """Apply a run, unless a turn was set aside while the extractor read it.

        Requests after the plan conflict with the run when it is applied.
        """
        if _needs_reading(await self._shown(reading, held), self._read):
            raise Conflict("a turn was set aside meanwhile")
        await apply_run(self.storage, plan, self.clock)

    async def _near(
        self, shown: ThreadWindow | None, held: Sequence[HeldFact]
    ) -> Sequence[HeldFact]:
        """Return the held facts, for a model with how near they are to the turns."""
        by_rules = isinstance(self.extractor, Revisable) and self.extractor.needs_revision
        if shown is None or by_rules or not isinstance(self.extractor, Acquainted):
            return held
        turns = [event for _, event in shown.turns]
        return await with_nearness(self.storage, self.embedding, self.scope, turns, held)

    async def _held(self) -> Sequence[HeldFact]:
        tenant = scope_path(self.scope)
        return await self.storage.query(tenant, partial(held_facts, HELD, self.clock()))

    async def _shown(self, reading: ThreadWindow, held: Sequence[HeldFact]) -> ThreadWindow:
        """Return the window without the words of turns that were set aside.

        Inputs of a conversation have no memory that could be retired, so requests to forget them
        are looked for in the window.
        """
        tenant = scope_path(self.scope)
        turns = [*reading.context, *(event for _, event in (*reading.replay, *reading.turns))]
        reader = partial(turns_set_aside, self.thread_id, [one.event_id for one in turns])
        hidden, remembered = await self.storage.query(tenant, reader)
        if self.forget is not None:
            reads = is_judged(self.extractor)
            asked = await asyncio.to_thread(turns_to_forget, turns, held, reads=reads)
            hidden |= asked - remembered
        if not hidden:
            return reading

        def blank(event: Event) -> Event:
            return replace(event, text="") if event.event_id in hidden else event

        return replace(
            reading,
            turns=[(number, blank(event)) for number, event in reading.turns],
            context=[blank(event) for event in reading.context],
            replay=[(number, blank(event)) for number, event in reading.replay],
        )

    async def _plan(
        self, reading: ThreadWindow, formed: Formed, started_at: datetime
    ) -> tuple[RunPlan, RunRows]:
        """Return the plan and rows of a run, without writing anything."""
        drafts = formed.drafts.extraction
        said_at = {event.event_id: event.occurred_at for _, event in formed.turns}
        people = identifying_facts(drafts)
        slots = slots_to_read(drafts.facts)
        triples = stated_edges(drafts, self.relations) if self.relations else []
        pairs = sorted({(normalised(one.subject), one.relation) for one in triples})
        begun = (one.valid_from for one in drafts.facts if one.valid_from is not None)
        since = min([*said_at.values(), *begun], default=started_at)
        reader = partial(known_of, slots, pairs, since)
        known = await self.storage.query(scope_path(self.scope), reader)
        facts = plan_facts(
            drafts.facts, known.facts, said_at, lambda: MemoryId(uuid7()), known.retractions,
            started_at,
        )  # fmt: skip
        revival = await plan_revival(
            self.storage, self.embedding, self.scope, faded_stated_again(known.facts, facts),
            self.embedded,
        )  # fmt: skip
        graph = plan_edges(
            triples, known.edges, facts.opened, said_at, uuid7, facts.restated_facts, facts.closed
        )  # fmt: skip
        rows = self._rows(reading, formed, facts, graph)
        vectors = await self._vectors(rows)
        plan = RunPlan(
            run_id=rows.run_id,
            kind=self.job_type,
            scope=self.scope,
            thread_id=self.thread_id,
            extractor=self.extractor.name,
            started_at=started_at,
            read=_passage(reading.read_mark, formed.turns),
            summed=_passage(reading.replay_mark, formed.replay, anew=formed.summed_anew),
            close=list(facts.closed.items()),
            move_facts=list(facts.moved.items()),
            ended=facts.ended(started_at + CLOCKS_APART),
            facts=facts.opened,
            memories=rows.memories,
            sources=rows.sources,
            summary_key=summary_key(self.thread_id) if formed.summary else None,
            summary_run=reading.summary_run,
            edges=graph.opened,
            edge_sources=rows.edge_sources,
            close_edges=list(graph.closed.items()),
            annotations=rows.annotations,
            drawn_from=rows.drawn_from,
            vectors=vectors,
            counts=_counts(formed, facts, graph, rows, self.instead_of),
            reflection=self.reflection if formed.turns else None,
            unsaid=list(rows.free_keys().values()),
            # A concurrent run may have named another person of the same name.
            slots=sorted({*slots, *name_slots()}) if people else slots,
            relations=pairs,
            known_number=reading.known_number if people else known.number,
            retractions=facts.retracted,
            bounds=[*facts.bounds, *graph.bounds, *people],
            revival=revival,
            doubted=list(facts.doubted.items()),
        )
        return plan, rows

    async def _vectors(self, rows: RunRows) -> VectorRows | None:
        """Embed the rows, drop known ones, and classify what may be shown to whom."""
        vectors = await _without_likes(
            self.storage, self.embedding, self.scope, rows, self.embedded
        )
        await add_privacy(self.embedding, rows, vectors)
        if self.private_only:
            rows.drop_public()
            vectors = rows.vectors_of(vectors)
        return vectors

    def _rows(
        self, reading: ThreadWindow, formed: Formed, facts: FactPlan, graph: EdgePlan
    ) -> RunRows:
        run_id = MemoryId(uuid7())
        rows = RunRows(
            self.scope, self.thread_id, run_id, self.clock(), self.extractor.name,
            [*reading.people, *formed.grounds],
        )  # fmt: skip
        rows.add_facts(facts, [*reading.context, *(event for _, event in formed.turns)])
        rows.add_edges(graph)
        rows.add_drafts(formed.drafts.extraction)
        if formed.summary:
            rows.add_summary(formed.summary, [event for _, event in formed.replay])
        return rows


async def _form(
    extractor: Extractor, reading: ThreadWindow, held: Sequence[HeldFact], thread_id: ThreadId
) -> Formed | None:
    """Run the extractor, without holding a connection; return None if nothing is new.

    held: facts that hold or ended before the turns.
    """
    tokens = extractor.window_tokens
    turns = await asyncio.to_thread(_window, reading.turns, WINDOW, tokens)
    reread = extractor.reread_turns
    replay = await asyncio.to_thread(_window, reading.replay, REPLAY + reread, tokens)
    is_new = bool(replay) and replay[-1][0] > reading.replay_mark
    unsummed = is_new or (not reading.summary and len(replay) > SHORT_THREAD)
    if not turns and not unsummed:
        return None
    extraction, before = Extraction(), reading.summary if reading.summed > reread else ""
    # An answer sums up the turns before as well if it is shown all of them.
    before_turns = sum(number < turns[0][0] for number, _ in replay) if turns else 0
    along = bool(unsummed and turns) and before_turns <= len(reading.context)
    along = along and isinstance(extractor, Summarising)
    if turns:
        events = [event for _, event in turns]
        reader = extractor
        if along and isinstance(extractor, Summarising):
            reader = extractor.summing_up(before, SUMMARY_CHARACTERS)
        extraction = await _extracted(reader, events, reading, held, thread_id)
        turns = _before(turns, extraction.unread)
    summary, usage, by_rules, put_off = extraction.summary, extraction.usage, False, False
    if along:
        replay = [one for one in replay if one[0] <= turns[-1][0]]
    replayed = [event for _, event in replay]
    is_first = not reading.summary
    if along and not summary and (is_first or extraction.usage.calls):
        by_rules = extraction.usage.calls > 0
        asking = {one for draft in extraction.forget for one in (draft.event_id, *draft.event_ids)}
        kept = [event for event in replayed if event.event_id not in asking]
        summary, _ = await _summed(RuleExtractor(), kept, before, is_first=is_first)
    if unsummed and not along:
        summary, spent, by_rules, put_off = await _summed_apart(
            extractor, replayed, before, is_first=is_first, may_wait=bool(turns)
        )
        unsummed, usage = not put_off, usage + spent
    if not turns and not is_new and not summary:
        return None
    known = {person.memory_id for person in reading.people}
    beside = [one for one in grounds(extraction, held) if one.memory_id not in known]
    return Formed(
        turns=turns,
        drafts=validated(
            extraction,
            {event.event_id for _, event in turns},
            {event.event_id for event in reading.context},
            known.union(one.memory_id for one in beside),
        ),
        grounds=beside,
        replay=replay if unsummed else (),
        summary=summary.strip(),
        summed_anew=bool(summary.strip()) and not reading.summary,
        summed_by_rules=by_rules,
        usage=usage,
        more=put_off
        or len(turns) < len(reading.turns)
        or (unsummed and len(replay) < len(reading.replay)),
    )


async def _summed_apart(
    extractor: Extractor, turns: Sequence[Event], before: str, *, is_first: bool, may_wait: bool
) -> tuple[str, ModelUsage, bool, bool]:
    """Return _summed(), whether rules wrote it in place of a model, and whether it is put off.

    may_wait: turns were read before. That is paid for and valid, so a failure costs the summary
    alone.
    """
    try:
        return *await _summed(extractor, turns, before, is_first=is_first), False, False
    except ModelOutputInvalid as error:
        if not may_wait:
            raise
        log.warning("thread is summed up by rules in place of %s: %s", extractor.name, error)
        by_rules = await _summed(RuleExtractor(), turns, before, is_first=is_first)
        return *by_rules, True, False
    except ModelUnavailable as error:
        if not may_wait:
            raise
        log.warning("the summary is left to the next run: %s", type(error).__name__)
        return "", NO_USAGE, False, True


async def _summed(
    extractor: Extractor, turns: Sequence[Event], before: str, *, is_first: bool
) -> tuple[str, ModelUsage]:
    """Return the summary of a thread, from the one before and the turns since, and its cost.

    One by rules consists of sentences of the thread, so a thread of SHORT_THREAD turns gets none,
    and none stands in one turn alone. is_first: no summary stands; one that does is written anew
    without these rules, or it would lack the new turns and keep erased ones.
    """
    sparing = is_first and extractor.name == RuleExtractor.name
    if sparing and len(turns) <= SHORT_THREAD:
        return "", NO_USAGE
    summary, spent = await extractor.summarise(turns, before, SUMMARY_CHARACTERS)
    if sparing and any(normalised(summary) in normalised(one.text) for one in turns):
        summary = ""
    return summary, spent


async def _extracted(
    extractor: Extractor,
    turns: Sequence[Event],
    reading: ThreadWindow,
    held: Sequence[HeldFact],
    thread_id: ThreadId,
) -> Extraction:
    """Return what an extractor finds in turns, and what the turns do to the held facts."""
    reader = extractor
    if isinstance(extractor, Acquainted):
        reader = extractor.knowing(reading.people, held)
    found = await reader.extract(turns, reading.context)
    if isinstance(extractor, Revisable) and extractor.needs_revision:
        return await asyncio.to_thread(
            revised, turns, found, held, reading.context, thread_id, reader=extractor.reader
        )
    return cascaded(found, held)


def _blank(window: ThreadWindow) -> set[str]:
    """Return the ids of the turns without words in a window."""
    turns = (event for _, event in (*window.replay, *window.turns))
    return {event.event_id for event in turns if not event.text}


def _needs_reading(now: ThreadWindow | None, read: ThreadWindow | None) -> bool:
    """Tell whether a window says more or less than the one that an extractor read.

    Somebody named in another thread meanwhile matters if the window has the name.
    """
    if now is None or read is None:
        return now is not read
    if replace(now, people=()) != replace(read, people=()):
        return True
    before = {person.memory_id: person for person in read.people}
    added = [one for one in now.people if before.pop(one.memory_id, None) != one]
    if before or not added:
        return bool(before)
    text = normalised(
        " ".join(one.text for one in (*now.context, *(turn for _, turn in now.turns)))
    )
    names = (normalised(name) for one in added for name in (one.name, *one.aliases))
    return any(place_of(name, text) >= 0 for name in names)


def _before(
    turns: Sequence[tuple[int, Event]], unread: Collection[str]
) -> Sequence[tuple[int, Event]]:
    """Return the turns before the first unread one, or all if that is the first turn."""
    places = (place for place, (_, event) in enumerate(turns) if event.event_id in unread)
    return turns[: next(places, 0) or len(turns)]


def _window(
    turns: Sequence[tuple[int, Event]], most: int, tokens: int
) -> Sequence[tuple[int, Event]]:
    """Return the first turns that fit a prompt, at least one."""
    return turns[: max(1, shown_whole([event for _, event in turns[:most]], tokens))]


def _passage(
    mark: int, turns: Sequence[tuple[int, Event]], *, anew: bool = False
) -> Passage | None:
    """Return the processed passage; anew: the mark moves back to the end of a new summary."""
    last = turns[-1][0] if turns else mark
    return Passage(mark=mark, to=last if anew else max(mark, last)) if turns else None


async def _without_likes(
    storage: Storage,
    embedding: Embedding,
    scope: Scope,
    rows: RunRows,
    embedded: dict[str, Vectors],
) -> VectorRows | None:
    """Embed the rows, and drop statements and insights that are known already."""
    vectors = await embedding.rows(rows.texts(), embedded)
    keys = rows.free_keys()
    if not keys:
        return vectors
    free = vectors.only(keys) if vectors else None
    rows.drop_known(await storage.runs.like_texts(scope, ("semantic", "reflection"), keys, free))
    return rows.vectors_of(vectors)


def _counts(
    formed: Formed, facts: FactPlan, graph: EdgePlan, rows: RunRows, instead_of: str | None
) -> dict[str, JsonValue]:
    counts: dict[str, JsonValue] = {
        "events": len(formed.turns),
        "facts": len(facts.opened),
        "closed": len(facts.closed),
        "statements": rows.statements,
        "insights": rows.insights,
        "edges": len(graph.opened),
        "summaries": int(bool(formed.summary)),
        "rejected": formed.drafts.rejected,
        "needs_model": len(formed.drafts.extraction.needs_model),
        "skipped": len(formed.drafts.extraction.skipped),
        "forgotten": formed.forgotten,
        "model_calls": formed.usage.calls,
        "input_tokens": formed.usage.input_tokens,
        "output_tokens": formed.usage.output_tokens,
        **doubt_counts(facts),
    }
    if refused := Counter(formed.drafts.extraction.refused) + formed.refused:
        counts["refused"] = dict(sorted(refused.items()))
    if formed.summed_by_rules:
        counts["summed_by_rules"] = True
    return counts | ({"instead_of": instead_of} if instead_of else {})


def _report(plan: RunPlan, formed: Formed, rows: RunRows) -> RunReport:
    return RunReport(
        run_id=plan.run_id,
        events=len(formed.turns),
        facts_opened=len(plan.facts),
        facts_closed=len(plan.close),
        statements=rows.statements,
        insights=rows.insights,
        edges=len(plan.edges),
        skipped=len(formed.drafts.extraction.skipped),
        forgotten=formed.forgotten,
        usage=formed.usage,
        summary=formed.summary,
        more=formed.more,
    )
