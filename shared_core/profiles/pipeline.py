"""The pipeline of a profile: modification, update of profile and events, theory of mind.

It writes nothing. Only the first and the last stage call a model. The stages between are pure, so
they can be repeated after a conflict with another writer.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Final
from uuid import UUID

from shared_core.core.domain import (
    NO_USAGE,
    Event,
    Extraction,
    FactDraft,
    JsonValue,
    ModelUsage,
    ThreadId,
)
from shared_core.core.ids import uuid7
from shared_core.errors import ModelOutputInvalid
from shared_core.extraction.draft_validation import validated
from shared_core.extraction.rule_based import RuleExtractor
from shared_core.extraction.trained_reader import is_proposed_end
from shared_core.knowledge.fact_planning import FactPlan
from shared_core.nlp.affect import emotion_of
from shared_core.nlp.keywords_and_topics import topics
from shared_core.nlp.text import has_words
from shared_core.ports.profiles import StageRecord, StageStatus
from shared_core.ports.storage import Summarising
from shared_core.privacy.sanitizing import Intake, is_small_talk
from shared_core.profiles.entries import (
    Basis,
    EventParagraph,
    Finding,
    Mind,
    Relation,
    Statement,
    Subject,
    relations_of,
)
from shared_core.profiles.event_memory import EventMemory
from shared_core.profiles.memory import Memory
from shared_core.profiles.profile_memory import ProfileMemory, turns_of_subject
from shared_core.profiles.theory_of_mind import (
    Observed,
    PromptableExtractor,
    mind_by_rules,
    with_findings,
)
from shared_core.profiles.transcript import SessionConversation

if TYPE_CHECKING:
    from collections.abc import Collection

    from shared_core.policies.profiles import StoredReading
    from shared_core.ports.storage import Clock, Extractor


STAGES: Final = ("modification", "update_profile", "update_events", "theory_of_mind")


@dataclass(slots=True)
class Stages:
    """Times and records the stages of one run; a repeated stage replaces its record."""

    clock: Clock
    records: dict[str, StageRecord] = field(default_factory=dict)

    @contextmanager
    def timed(self, stage: str, given: Mapping[str, JsonValue]) -> Iterator[dict[str, JsonValue]]:
        """Record a stage. The caller fills the dict with counts, and "warning" with a reason."""
        began, start, out = self.clock(), time.perf_counter(), dict[str, JsonValue]()

        def record(status: StageStatus, error: str | None) -> StageRecord:
            return StageRecord(
                stage=stage, status=status, input=given, output=out, started_at=began,
                duration_s=time.perf_counter() - start, error=error,
            )  # fmt: skip

        try:
            yield out
        except BaseException as failure:
            self.records[stage] = record("error", type(failure).__name__)
            raise
        warning = out.pop("warning", None)
        reason = None if warning is None else str(warning)
        self.records[stage] = record("warning" if reason else "success", reason)

    @property
    def done(self) -> tuple[StageRecord, ...]:
        """The records in the order of the stages."""
        return tuple(self.records[name] for name in STAGES if name in self.records)


@dataclass(frozen=True, slots=True, kw_only=True)
class Modification:
    """A conversation, cleaned and redacted, and what was extracted from it.

    events: the turns that may be stored. read: the turns about the subject, in the role "user".
    user_turns: the source of summary. drafts: the facts in read. left_out: number of
    turns that are forgotten, expire, hold no words or only small talk. fallback: the error for
    which the rules replaced the model. by_model: whether a model may read the turns: not what
    consolidation read before.
    """

    thread_id: ThreadId
    subject: Subject
    events: tuple[Event, ...]
    read: tuple[Event, ...]
    user_turns: tuple[Event, ...]
    extraction: Extraction
    drafts: tuple[FactDraft, ...]
    summary: str
    quoted: bool
    topics: tuple[str, ...]
    left_out: int
    rejected: int
    at: datetime
    extractor: str
    usage: ModelUsage = NO_USAGE
    fallback: str | None = None
    by_model: bool = True

    def basis_of(self, draft: FactDraft) -> Basis:
        """Return the turns that support a draft together."""
        turns = dict.fromkeys((draft.event_id, *draft.other_event_ids))
        return tuple((self.thread_id, event_id) for event_id in turns)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileUpdate:
    """A profile after a conversation. ended: each ended statement and its successor, if any."""

    modification: Modification
    profile_memory: ProfileMemory
    opened: int
    said_again: int
    ended: tuple[tuple[Statement, Statement | None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventUpdate:
    """The events after a conversation."""

    modification: Modification
    event_memory: EventMemory
    changed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TheoryOfMind:
    """Findings of theory of mind. found: from this conversation; mind: with the earlier ones.

    relations: between all entries of the updated profile.
    """

    found: tuple[Finding, ...]
    mind: Mind
    extractor: str
    relations: tuple[Relation, ...] = ()
    usage: ModelUsage = NO_USAGE
    fallback: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineResult:
    """The result of a pipeline. changed: whether it wrote a new version.

    stages: the record of each stage. new_turns: number of turns that were not stored before. tries:
    1 if no other writer interfered.
    """

    run_id: UUID
    stages: tuple[StageRecord, ...]
    modification: Modification
    profile_update: ProfileUpdate
    event_update: EventUpdate
    theory_of_mind: TheoryOfMind
    previous_version: int
    version: int
    changed: bool
    new_turns: int = 0
    tries: int = 1

    @property
    def usage(self) -> ModelUsage:
        """The calls and tokens of the model."""
        return self.modification.usage + self.theory_of_mind.usage


def counts_of(modification: Modification) -> dict[str, JsonValue]:
    """Return the output record of the first stage."""
    counts: dict[str, JsonValue] = {
        "turns": len(modification.read),
        "left_out": modification.left_out,
        "drafts": len(modification.drafts),
        "rejected": modification.rejected,
        "needs_model": len(modification.extraction.needs_model),
        "topics": list(modification.topics),
        "summary_characters": len(modification.summary),
        "model_calls": modification.usage.calls,
        "extractor": modification.extractor,
    }
    return counts | ({"warning": modification.fallback} if modification.fallback else {})


def counts_of_mind(mind: TheoryOfMind) -> dict[str, JsonValue]:
    """Return the output record of the last stage."""
    counts: dict[str, JsonValue] = {
        "found": len(mind.found),
        "confidence": Mind(findings=mind.found).confidence,
        "model_calls": mind.usage.calls,
        "extractor": mind.extractor,
        "relations": len(mind.relations),
    }
    for finding in mind.found:
        counts[finding.dimension] = int(str(counts.get(finding.dimension, 0))) + 1
    return counts | ({"warning": mind.fallback} if mind.fallback else {})


log = logging.getLogger("hippocampus")

LEAST_CONFIDENCE: Final = 0.5
"""Least confidence of a fact in a profile."""
EVENT_CHARACTERS: Final = 400
"""Most characters of the event that one conversation adds."""


class ProfilePipeline:
    """The stages of the pipeline. extractor: reads turns; a model also does theory of mind."""

    def __init__(self, extractor: Extractor, intake: Intake, clock: Clock) -> None:
        self._extractor = extractor
        self._rules = RuleExtractor(reader=False)
        self._intake = intake
        self._clock = clock

    @property
    def name(self) -> str:
        """The name of the extractor, as it is stored."""
        return self._extractor.name

    @property
    def by_model(self) -> bool:
        """Whether the extractor asks a model."""
        return not isinstance(self._extractor, RuleExtractor)

    async def modification_stage(
        self,
        conversation: SessionConversation,
        *,
        subject: Subject = "user",
        forgotten: Collection[str] = frozenset(),
        stored: StoredReading | None = None,
    ) -> Modification:
        """Clean and redact a conversation, and extract its facts and its summary.

        A model answers both in one call. If it gives two useless answers, the rules replace it and
        fallback names the error. Raises ModelUnavailable if the model cannot be reached.

        Args:
            conversation: The turns.
            subject: Whom the profile is about.
            forgotten: Ids of turns that must not be read again.
            stored: What consolidation drew from the turns; no model is asked then.
        """
        kept = [event for event in self._intake.events(conversation.events)
                if event.event_id not in forgotten]  # fmt: skip
        spoken = [event for event in kept if _tells(event)]
        read = turns_of_subject(subject, spoken)
        if stored is not None:
            extraction, failure = _from_stored(stored, read), None
        else:
            extraction, failure = await self._extracted(read)
        summary, by_rules = extraction.summary, False
        if not summary:
            by_user = [event for event in spoken if event.role == "user"]
            summary, by_rules = await self._quoted(by_user), True
        sound = validated(extraction, {event.event_id for event in read}, set(), set())
        return Modification(
            thread_id=conversation.conversation_id,
            subject=subject,
            events=tuple(kept),
            read=tuple(read),
            user_turns=tuple(event for event in spoken if event.role == "user"),
            extraction=sound.extraction,
            drafts=tuple(
                draft
                for draft in sound.extraction.facts
                if draft.confidence >= LEAST_CONFIDENCE and not is_proposed_end(draft)
            ),
            summary=summary,
            quoted=by_rules,
            topics=tuple(topics("\n".join(event.text for event in spoken))),
            left_out=len(conversation.events) - len(spoken),
            rejected=sound.rejected,
            at=max((event.occurred_at for event in spoken), default=self._clock()),
            extractor=self._rules.name if failure else self._extractor.name,
            usage=extraction.usage,
            fallback=failure,
            by_model=stored is None,
        )

    async def _extracted(self, turns: Sequence[Event]) -> tuple[Extraction, str | None]:
        """Return the drafts of turns, with a summary if a model reads, and any failure."""
        if not turns:
            return Extraction(), None
        reader = self._extractor
        if isinstance(reader, Summarising):
            reader = reader.summing_up("", EVENT_CHARACTERS)
        try:
            return await reader.extract(turns, ()), None
        except ModelOutputInvalid as error:
            log.warning("a profile is read by rules in place of %s: %s", self.name, error)
            return await self._rules.extract(turns, ()), type(error).__name__

    async def _quoted(self, by_user: Sequence[Event]) -> str:
        """Return a summary in the user's words."""
        if not by_user:
            return ""
        summary, _ = await self._rules.summarise(by_user, "", EVENT_CHARACTERS)
        return summary

    def update_profile_stage(
        self, profile_memory: ProfileMemory, modification: Modification
    ) -> ProfileUpdate:
        """Merge a conversation into a profile; a superseded statement becomes history."""
        profile = profile_memory.copy()
        said_at = {event.event_id: event.occurred_at for event in modification.read}
        plan = profile.merge(modification.drafts, said_at, modification.basis_of)
        return ProfileUpdate(
            modification=modification,
            profile_memory=profile,
            opened=len(plan.opened),
            said_again=len(plan.restated),
            ended=tuple(_replaced(plan, profile)),
        )

    def update_event_stage(
        self, event_memory: EventMemory, modification: Modification
    ) -> EventUpdate:
        """Add the conversation to the events in time order, merged with related events."""
        events, changed = event_memory.copy(), False
        if modification.summary.strip():
            basis = tuple((modification.thread_id, one.event_id) for one in modification.user_turns)
            changed = events.add_event(
                EventParagraph(
                    event_id=uuid7(),
                    text=" ".join(modification.summary.split()),
                    occurred_at=modification.at,
                    thread_id=modification.thread_id,
                    bases=(basis,) if basis else (),
                    quoted=modification.quoted,
                )
            )
        return EventUpdate(modification=modification, event_memory=events, changed=changed)

    async def theory_of_mind_stage(
        self,
        profile_update: ProfileUpdate,
        event_update: EventUpdate,
        before: Mind,
        *,
        concluded: TheoryOfMind | None = None,
    ) -> TheoryOfMind:
        """Conclude findings from the turns. concluded: an earlier result of a model, to reuse."""
        observed, profile = _observed(profile_update), profile_update.profile_memory
        found = mind_by_rules(observed, before)
        asks = isinstance(self._extractor, PromptableExtractor)
        if not (asks and observed.turns and profile_update.modification.by_model):
            concluded = TheoryOfMind(found=tuple(found), mind=before, extractor=self._rules.name)
        elif concluded is None:
            concluded = await self._asked(observed, profile, found)
        mind = with_findings(before, concluded.found)
        relations = relations_of(
            profile.statements, profile.history, event_update.event_memory.events, mind
        )
        return replace(concluded, mind=mind, relations=relations)

    async def _asked(
        self, observed: Observed, profile: ProfileMemory, by_rules: Sequence[Finding]
    ) -> TheoryOfMind:
        from shared_core.profiles.llm_theory_of_mind import mind_by_model  # imports pydantic: slow

        assert isinstance(self._extractor, PromptableExtractor)
        try:
            found, usage = await mind_by_model(self._extractor, observed, profile.get_content())
        except ModelOutputInvalid as error:
            log.warning("a mind is read by rules in place of %s: %s", self.name, error)
            return TheoryOfMind(
                found=tuple(by_rules), mind=Mind(), extractor=self._rules.name,
                fallback=type(error).__name__,
            )  # fmt: skip
        changes = [one for one in by_rules if one.dimension == "trend"]
        return TheoryOfMind(found=(*found, *changes), mind=Mind(), extractor=self.name, usage=usage)

    def create_updated_memory(
        self,
        previous: Memory,
        profile_update: ProfileUpdate,
        event_update: EventUpdate,
        theory_of_mind: TheoryOfMind,
    ) -> Memory:
        """Return the previous memory with the results of the stages. It is not stored."""
        memory = previous.copy()
        memory.profile_memory = profile_update.profile_memory
        memory.event_memory = event_update.event_memory
        memory.mind = theory_of_mind.mind
        return memory

    async def updated(
        self,
        previous: Memory,
        modification: Modification,
        stages: Stages,
        concluded: TheoryOfMind | None = None,
    ) -> tuple[Memory, ProfileUpdate, EventUpdate, TheoryOfMind]:
        """Run and record the stages after the first; return the memory and their results."""
        given: JsonValue = len(modification.drafts)
        with stages.timed("update_profile", {"version": previous.version, "drafts": given}) as out:
            profile = await asyncio.to_thread(
                self.update_profile_stage, previous.profile_memory, modification
            )
            out |= {"opened": profile.opened, "ended": len(profile.ended),
                    "said_again": profile.said_again}  # fmt: skip
        with stages.timed("update_events", {"events": len(previous.event_memory.events)}) as out:
            events = self.update_event_stage(previous.event_memory, modification)
            out |= {"events": len(events.event_memory.events), "changed": events.changed}
        with stages.timed("theory_of_mind", {"turns": len(modification.read)}) as out:
            mind = await self.theory_of_mind_stage(
                profile, events, previous.mind, concluded=concluded
            )
            out |= counts_of_mind(mind)
        return self.create_updated_memory(previous, profile, events, mind), profile, events, mind


def _from_stored(stored: StoredReading, turns: Sequence[Event]) -> Extraction:
    """Return what consolidation drew from these turns; the rules read their emotions."""
    ids = {event.event_id for event in turns}
    emotions = {event.event_id: emotion_of(event.text) for event in turns}
    return Extraction(
        facts=[one for one in stored.facts if one.event_id in ids],
        emotions={event_id: emotion for event_id, emotion in emotions.items() if emotion},
        summary=stored.summary,
    )


def _tells(event: Event) -> bool:
    """Return whether a turn may add to a profile. A turn that expires never does."""
    has_content = event.role != "system" and has_words(event.text) and not is_small_talk(event.text)
    return has_content and event.expires_at is None


def _observed(update: ProfileUpdate) -> Observed:
    modification = update.modification
    return Observed(
        turns=modification.read,
        bases={event.event_id: ((modification.thread_id, event.event_id),)
               for event in modification.read},
        facts=[(draft, modification.basis_of(draft)) for draft in modification.drafts],
        emotions=modification.extraction.emotions,
        ended=update.ended,
        at=modification.at,
    )  # fmt: skip


def _replaced(plan: FactPlan, profile: ProfileMemory) -> list[tuple[Statement, Statement | None]]:
    """Return the statements a plan ended, each with its successor, if any."""
    by_fact = {
        fact.fact_id: one for one in [*profile.history, *profile.statements] for fact in one.facts
    }
    pairs: list[tuple[Statement, Statement | None]] = []
    for fact_id in plan.closed:
        old = by_fact.get(fact_id)
        if old is None:
            continue
        keys = {fact.key for fact in old.facts}
        new = (by_fact.get(one.memory_id) for one in plan.opened if one.key in keys)
        pairs.append((old, next(new, None)))
    return pairs
