"""Compares extracted edges with known ones: add, replace, or confirm. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from uuid import UUID

from shared_core.core.domain import Extraction, FactDraft, MemoryId, TripleDraft
from shared_core.knowledge.validity import Stated, ValidityEnd, first_of, next_ends, same_spell
from shared_core.nlp.relation_schema import Relations, triples_of
from shared_core.nlp.text import normalised, short_name
from shared_core.ports.runs import KnownEdge, PlannedEdge, PlannedFact


@dataclass(slots=True)
class EdgePlan:
    """The changes of a run to the graph.

    stated_by: pairs of an edge, old or new, and a draft that states it. bounds: edges that ended
    opened ones.
    """

    opened: list[PlannedEdge] = field(default_factory=list)
    closed: dict[UUID, datetime] = field(default_factory=dict)
    stated_by: list[tuple[UUID, TripleDraft]] = field(default_factory=list)
    bounds: list[UUID] = field(default_factory=list)

    @property
    def sources(self) -> list[tuple[UUID, tuple[str, ...]]]:
        """Edges, old and new, with the turns that jointly state each."""
        return [(one, (draft.event_id, *draft.other_event_ids)) for one, draft in self.stated_by]


def stated_edges(extraction: Extraction, relations: Relations) -> list[TripleDraft]:
    """Return the distinct edges of an extraction, under their declared names.

    Includes every fact that is a relation, even if the extractor returned no edge for it.
    """
    found: dict[tuple[str, str, str, str], TripleDraft] = {}
    for draft in relations.declared([*extraction.triples, *triples_of(extraction.facts)]):
        draft = replace(draft, subject=short_name(draft.subject), object=short_name(draft.object))
        ends = normalised(draft.subject), normalised(draft.object)
        found.setdefault((*ends, draft.relation, draft.event_id), draft)
    return list(found.values())


def plan_edges(
    drafts: Sequence[TripleDraft],
    known: Sequence[KnownEdge],
    facts: Sequence[PlannedFact],
    said_at: Mapping[str, datetime],
    new_id: Callable[[], UUID],
    restated_facts: Sequence[PlannedFact] = (),
    closing: Collection[UUID] = (),
) -> EdgePlan:
    """Return the changes that triples, in the order of their turns, make to the known edges.

    - A new subject and relation adds an edge. The same object adds provenance. Another object
      replaces the edge of a functional relation, and adds an edge otherwise.
    - The times of the turns decide: an edge stated before the current one, or before the end of an
      equal one, becomes history.
    - An edge that restates a fact of the same turn holds as long as the fact. It is forgotten with
      the fact unless other turns state it.

    Args:
        drafts: in the order of their turns.
        known: current edges, and those that ended after the first draft.
        facts: new facts of the run.
        said_at: maps event ids to the times of the turns.
        new_id: makes edge ids.
        restated_facts: known facts that the run states again (FactPlan.restated_facts).
        closing: facts that the run ends, and their edges with them; a new fact in the place of one
            states its edge anew.
    """
    fold = _EdgeFold(known, facts, restated_facts, new_id, closing)
    for draft in drafts:
        if normalised(draft.subject) and normalised(draft.object):
            fold.state(draft, said_at[draft.event_id])
    return fold.plan


class _EdgeFold:
    """The edges of each subject and relation after each draft."""

    def __init__(
        self,
        known: Sequence[KnownEdge],
        facts: Sequence[PlannedFact],
        restated_facts: Sequence[PlannedFact],
        new_id: Callable[[], UUID],
        closing: Collection[UUID],
    ) -> None:
        self.plan = EdgePlan()
        self._facts = facts
        self._restated_facts = restated_facts
        self._new_id = new_id
        self._closing = {one.edge_id for one in known if one.fact_id in closing}
        self._stated: dict[tuple[str, str], list[Stated]] = {}
        for one in known:
            times = sorted(one.stated_at) or [one.valid_from]
            stated = Stated(
                one.edge_id, normalised(one.object), one.valid_from, one.valid_until, times
            )
            self._stated.setdefault((normalised(one.subject), one.relation), []).append(stated)

    def state(self, draft: TripleDraft, at: datetime) -> None:
        subject, value = normalised(draft.subject), normalised(draft.object)
        edges = self._stated.setdefault((subject, draft.relation), [])
        same = [one for one in edges if one.value == value]
        others = [one for one in edges if one.value != value] if draft.functional else []
        fact = self._fact_of(draft)
        if fact and fact.valid_from > at and fact.valid_until == fact.valid_from:
            return  # it fell through before it was read
        if fact and fact in self._facts:  # what is to end or to begin is of another fact
            ends = (None, fact.valid_until)
            same = [one for one in same if one.valid_from <= at and one.valid_until in ends]
            same = [one for one in same if one.row_id not in self._closing]
        anew = fact if fact in self._facts else None
        begins = fact.valid_from if fact and (anew or fact.valid_from > at) else None
        latest = max(at, begins or at)
        before = [one for one in others if one.holds(at) or at < one.stated_at[0] <= latest]
        before = [one for one in before if not one.stated_after(latest)]
        begins = begins or _begins(draft, at, before)
        rivals = [one for one in others if begins <= at or one.valid_from >= begins]
        later = next_ends(at, same, rivals, _end_of(fact))
        known, end = same_spell(at, same, later), first_of(later, begins)
        for other in before:
            if not other.is_to_come(begins):
                self._close(other, begins)
        if known is not None:
            known.add(at)
            self.plan.stated_by.append((known.row_id, draft))
            return
        rests = anew and _grounds(draft) <= _grounds(anew.draft)
        until = end.of(begins) if end else None
        if fact and fact.valid_until:
            until = max(begins, fact.valid_until)
        edge = PlannedEdge(
            edge_id=self._new_id(),
            draft=draft,
            subject_key=subject,
            object_key=value,
            memory_id=anew.memory_id if anew and rests else None,
            fact_id=fact.memory_id if fact else None,
            valid_from=begins,
            valid_until=until,
        )
        self.plan.opened.append(edge)
        if not rests:
            self.plan.stated_by.append((edge.edge_id, draft))
        self.plan.bounds += [end.row_id] if end else []
        edges.append(Stated(edge.edge_id, value, begins, edge.valid_until, [at]))

    def _fact_of(self, draft: TripleDraft) -> PlannedFact | None:
        """Return the fact that an edge repeats; if it fell through, the one in its place."""
        restated = (draft.event_id, normalised(draft.object))
        for fact in (*self._facts, *self._restated_facts):
            if not draft.event_id and normalised(fact.draft.subject) != normalised(draft.subject):
                continue  # no turn tells them apart
            if restated == (fact.draft.event_id, normalised(fact.draft.value)):
                moved = (one for one in self._facts if one.key == fact.key
                         and normalised(one.draft.value) == restated[1]
                         and one.valid_from != one.valid_until)  # fmt: skip
                return next(moved, fact) if fact.valid_from == fact.valid_until else fact
        return None

    def _close(self, edge: Stated, at: datetime) -> None:
        edge.valid_until = until = max(at, edge.valid_from)
        for place, opened in enumerate(self.plan.opened):
            if opened.edge_id == edge.row_id:
                self.plan.opened[place] = replace(opened, valid_until=until)
                return
        self.plan.closed[edge.row_id] = until


def _grounds(draft: TripleDraft | FactDraft) -> set[str | MemoryId]:
    return {draft.event_id, *draft.other_event_ids, *draft.people}


def _begins(draft: TripleDraft, at: datetime, before: Sequence[Stated]) -> datetime:
    """Return when an edge began, after the start of the edges it replaces."""
    begins = draft.valid_from
    if begins is None or begins > at or any(begins <= one.valid_from for one in before):
        return at
    return begins


def _end_of(fact: PlannedFact | None) -> list[ValidityEnd]:
    if fact is None or fact.valid_until is None:
        return []
    return [ValidityEnd(fact.valid_until, fact.valid_until, fact.memory_id)]
