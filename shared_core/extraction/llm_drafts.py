"""Turn a language model's answer into drafts, and drop inadmissible ones. Pure.

A model is not trusted with the owner, the sources or the ends of memories:
- A draft needs the number of a shown user turn.
- A value must share a word with the turns, and a subject must be named in them.
- Only slots of the ontology hold one value at a time, and only those can be retracted.
- A retraction without a value is allowed once per turn, for a slot with one value.
- Secrets are dropped.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final, TypeVar

from shared_core.core.domain import (
    USER,
    Emotion,
    Event,
    Extraction,
    FactDraft,
    InsightDraft,
    StatementDraft,
    TripleDraft,
)
from shared_core.extraction.llm_schema import (
    FactItem,
    FeelingItem,
    InsightItem,
    RelationItem,
    SourcedTextItem,
    StatementItem,
)
from shared_core.extraction.transcript import Transcript
from shared_core.nlp.slots import Slot, edge_relation, is_kin, slot_about, slot_of
from shared_core.nlp.text import (
    CHINESE_FUNCTION_CHARACTERS,
    HAN_CHARACTER,
    language,
    normalised,
    search_terms,
)

Item = TypeVar("Item", bound=SourcedTextItem)
Sourced = TypeVar("Sourced", StatementDraft, InsightDraft)

USER_WORDS: Final = frozenset(("", "user", "the user", "i", "me", "myself", "用户", "我", "本人"))
MAX_BARE_RETRACTIONS: Final = 1
OLDEST_YEAR: Final = 1900
DATE: Final = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2}))?)?(?:[T ].*)?")
SECRET: Final = re.compile(
    r"\b(?:pass(?:word|code|phrase)|pin(?: code)?|(?:api|secret|private|access)[ _-]?key|cvv"
    r"|(?:card|account) number)\b.{0,40}?(?:\bis\b|[:=])"
    r"|(?:密码|口令|密钥|验证码|卡号|账号).{0,10}?(?:是|为|[:：=])",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAnswer:
    """The well-formed elements of an answer."""

    facts: Sequence[FactItem] = ()
    statements: Sequence[StatementItem] = ()
    insights: Sequence[InsightItem] = ()
    relations: Sequence[RelationItem] = ()
    feelings: Sequence[FeelingItem] = ()


@dataclass(slots=True)
class DraftedAnswer:
    """The drafts of an answer. left_out: number of dropped elements by reason."""

    extraction: Extraction
    left_out: Counter[str] = field(default_factory=Counter)


class AnswerDrafting:
    """Turns the elements of one answer about a conversation into drafts.

    known: text of the earlier turns the model was shown. pattern: name of the drafts' origin.
    """

    def __init__(self, shown: Transcript, known: str, pattern: str) -> None:
        text = f"{known}\n{shown.text}"
        self._turns = shown.turns
        self._text = normalised(text)
        self._terms = frozenset(search_terms(text))
        self._pattern = pattern
        self._order = {event.event_id: number for number, event in shown.turns.items()}
        self._left_out: Counter[str] = Counter()

    def drafts_from(self, answer: ModelAnswer) -> DraftedAnswer:
        emotions = self._emotions(answer.feelings)
        facts = self._facts(answer.facts, emotions)
        statements = [
            StatementDraft(
                text=item.text,
                event_ids=ids,
                importance=item.importance,
                emotion=next((emotions[one] for one in ids if one in emotions), None),
                privacy=item.privacy,
            )
            for item, ids in self._founded("statement", answer.statements)
        ]
        insights = [
            InsightDraft(
                text=item.text, category=item.category, importance=item.importance, event_ids=ids
            )
            for item, ids in self._founded("insight", answer.insights)
        ]
        extraction = Extraction(
            facts=facts,
            statements=statements,
            insights=insights,
            triples=self._triples(answer.relations),
            emotions=emotions,
            importance=self._importance(facts, statements),
        )
        return DraftedAnswer(extraction=extraction, left_out=self._left_out)

    def _facts(self, items: Iterable[FactItem], emotions: Mapping[str, Emotion]) -> list[FactDraft]:
        found: dict[tuple[str, str, str, str], FactDraft] = {}
        bare: Counter[str] = Counter()
        for item in items:
            draft = self._fact(item, emotions)
            if draft is None:
                continue
            if draft.operation == "retract" and not draft.value:
                bare[draft.event_id] += 1
            key = (draft.subject, draft.slot, normalised(draft.value), draft.operation)
            found.setdefault(key, draft)
        kept = [
            draft for draft in found.values() if draft.value or self._one_bare(bare[draft.event_id])
        ]
        return sorted(kept, key=lambda draft: self._order[draft.event_id])

    def _one_bare(self, in_turn: int) -> bool:
        if in_turn > MAX_BARE_RETRACTIONS:
            self._leave_out("retraction of everything")
        return in_turn <= MAX_BARE_RETRACTIONS

    def _fact(self, item: FactItem, emotions: Mapping[str, Emotion]) -> FactDraft | None:
        source = self._source(item.turns)
        if source is None:
            self._leave_out("fact without a turn of the user")
            return None
        slot = slot_of(item.slot)
        if slot is None or SECRET.search(item.statement):
            self._leave_out("fact with a secret or no slot")
            return None
        subject = USER if item.subject.casefold() in USER_WORDS else item.subject
        if subject != USER:
            if normalised(subject) not in self._text:
                self._leave_out("fact about somebody nobody named")
                return None
            own_slot, slot = slot, slot_about(subject, slot)
            if slot.name.startswith("relation.") and (slot != own_slot or is_kin(subject)):
                subject = USER
        if not self._may_say(item, slot):
            return None
        primary, others = source
        return FactDraft(
            fact_type=slot.fact_type,
            slot=slot.name,
            value=item.value,
            statement=item.statement,
            event_id=primary.event_id,
            functional=slot.functional,
            confidence=item.confidence,
            pattern=self._pattern,
            language=language(item.statement),
            operation=item.change,
            other_event_ids=others,
            subject=subject,
            valid_from=date_of(item.since, primary.occurred_at),
            importance=item.importance,
            emotion=emotions.get(primary.event_id),
            privacy=item.privacy,
        )

    def _may_say(self, item: FactItem, slot: Slot) -> bool:
        """Tell whether the value appears in the turns, and a model may make the change."""
        if item.value and not self._grounded(item.value):
            self._leave_out("fact with a value nobody said")
            return False
        if item.change == "assert":
            if not item.value:
                self._leave_out("fact without a value")
            return bool(item.value)
        if not slot.known or not (item.value or slot.functional):
            self._leave_out("retraction that names nothing known")
            return False
        return True

    def _triples(self, items: Iterable[RelationItem]) -> list[TripleDraft]:
        found: dict[tuple[str, str, str, str], TripleDraft] = {}
        for item in items:
            source = self._source(item.turn)
            relation, functional = edge_relation(item.relation)
            ends = [
                USER if end.casefold() in USER_WORDS else end for end in (item.subject, item.object)
            ]
            if source is None or not relation:
                self._leave_out("relation without a turn of the user")
            elif not all(end == USER or self._grounded(end) for end in ends):
                self._leave_out("relation of something nobody named")
            elif slot_of(item.relation) is None or SECRET.search(
                f"{item.relation} is {item.object}"
            ):
                self._leave_out("relation with a secret")
            else:
                key = (
                    normalised(ends[0]), relation, normalised(ends[1]), source[0].event_id
                )  # fmt: skip
                found.setdefault(
                    key,
                    TripleDraft(
                        subject=ends[0],
                        relation=relation,
                        object=ends[1],
                        event_id=source[0].event_id,
                        functional=functional,
                        confidence=item.confidence,
                        other_event_ids=source[1],
                    ),
                )
        return sorted(found.values(), key=lambda draft: self._order[draft.event_id])

    def _founded(self, kind: str, items: Iterable[Item]) -> list[tuple[Item, tuple[str, ...]]]:
        """Return the elements with a user turn as source, each text once, with the ids of its
        turns."""
        found: dict[str, tuple[Item, tuple[str, ...]]] = {}
        for item in items:
            source = self._source([*item.turns])
            if source is None:
                self._leave_out(f"{kind} without a turn of the user")
            elif SECRET.search(item.text):
                self._leave_out(f"{kind} with a secret")
            elif kind == "statement" and self._terms.isdisjoint(search_terms(item.text)):
                self._leave_out(f"{kind} without a word from the turns")
            else:
                ids = [source[0].event_id, *source[1]]
                ordered = tuple(sorted(ids, key=lambda event_id: self._order[event_id]))
                found.setdefault(normalised(item.text), (item, ordered))
        return list(found.values())

    def _emotions(self, items: Iterable[FeelingItem]) -> dict[str, Emotion]:
        found: dict[str, Emotion] = {}
        for item in items:
            event = self._turns.get(item.turn)
            if event is None or event.role != "user":
                self._leave_out("feeling of no turn of the user")
                continue
            emotion = Emotion(valence=item.valence, arousal=item.arousal, label=item.label)
            found.setdefault(event.event_id, emotion)
        return found

    def _source(self, numbers: Iterable[int]) -> tuple[Event, tuple[str, ...]] | None:
        """Return the last user turn among these numbers and the ids of the others, or None."""
        named = [self._turns[number] for number in sorted(set(numbers)) if number in self._turns]
        primary = next((event for event in reversed(named) if event.role == "user"), None)
        if primary is None:
            return None
        return primary, tuple(event.event_id for event in named if event is not primary)

    def _grounded(self, value: str) -> bool:
        terms = search_terms(value)
        if terms:
            return not self._terms.isdisjoint(terms)
        return normalised(value) in self._text

    def _importance(
        self, facts: Iterable[FactDraft], statements: Iterable[StatementDraft]
    ) -> dict[str, float]:
        weighted = [(fact.event_id, fact.importance) for fact in facts]
        weighted += [(one, item.importance) for item in statements for one in item.event_ids]
        most: dict[str, float] = {}
        for event_id, importance in weighted:
            most[event_id] = max(importance, most.get(event_id, 0.0))
        return most

    def _leave_out(self, reason: str) -> None:
        self._left_out[reason] += 1


def date_of(since: str, said_at: datetime) -> datetime | None:
    """Return the start of a date such as 2026-10 in the turn's time zone, or None."""
    match = DATE.fullmatch(since.strip())
    if match is None or int(match[1]) < OLDEST_YEAR:
        return None
    try:
        year, month, day = (int(part or 1) for part in match.groups())
        return datetime(year, month, day, tzinfo=said_at.tzinfo or UTC)
    except ValueError:
        return None


MAX_BEFORE: Final = 200
"""Maximum number of earlier turns that are searched for sources."""
LEAST_CHARACTERS: Final = 3
"""Shortest Latin word that counts as informative."""
GENERIC: Final = frozenset(
    search_terms(
        "user person people someone name call like love enjoy want know think feel say tell talk go"
        " come get make take use need work live plan try keep find give start still always often"
        " now day today time thing lot good new one two"
        " 用户 喜欢 觉得 知道 今天 现在 时候 一个 没有 可以 需要 什么 经常 正在 表示"
    )
)
"""Terms that occur in nearly every text about a user."""


class EarlierTurns:
    """The turns shown before those a model reads, with their informative words."""

    def __init__(self, turns: Sequence[Event]) -> None:
        self._words = {turn.event_id: telling_words(turn.text) for turn in turns[-MAX_BEFORE:]}

    def needed(self, text: str, own: Sequence[Event]) -> tuple[str, ...]:
        """Return the ids of earlier turns with an informative word that no turn of `own` has."""
        foreign = telling_words(text).difference(*(search_terms(turn.text) for turn in own))
        named = {turn.event_id for turn in own}
        return tuple(
            event_id
            for event_id, words in self._words.items()
            if event_id not in named and not foreign.isdisjoint(words)
        )


def telling_words(text: str) -> frozenset[str]:
    """Return the informative words of a text; for Chinese, pairs of characters."""
    return frozenset(term for term in search_terms(text) if _tells(term)) - GENERIC


def _tells(term: str) -> bool:
    if HAN_CHARACTER.search(term):
        return len(term) > 1 and CHINESE_FUNCTION_CHARACTERS.isdisjoint(term)
    return len(term) >= LEAST_CHARACTERS


def with_context(drafts: Extraction, turns: Sequence[Event], before: Sequence[Event]) -> Extraction:
    """Return the drafts with the earlier turns they draw on added as sources.

    An edge names one turn only, so the turns before it in the same window are searched too.
    """
    known, by_id = EarlierTurns(before), {turn.event_id: turn for turn in turns}

    def needed(text: str, event_ids: Sequence[str]) -> tuple[str, ...]:
        return known.needed(text, [by_id[one] for one in event_ids])

    places = {turn.event_id: place for place, turn in enumerate(turns)}
    earlier: dict[int, EarlierTurns] = {}

    def named_before(edge: TripleDraft) -> tuple[str, ...]:
        own = [by_id[one] for one in (edge.event_id, *edge.other_event_ids)]
        place = places[edge.event_id]
        if place not in earlier:
            earlier[place] = EarlierTurns([*before, *turns[:place]])
        return earlier[place].needed(f"{edge.subject}\n{edge.object}", own)

    def fact_sources(fact: FactDraft) -> tuple[str, ...]:
        text = f"{fact.statement}\n{fact.subject}\n{fact.value}"
        others = fact.other_event_ids
        return (*others, *needed(text, (fact.event_id, *others)))

    def with_sources(draft: Sourced) -> Sourced:
        return replace(draft, event_ids=(*draft.event_ids, *needed(draft.text, draft.event_ids)))

    return replace(
        drafts,
        triples=[
            replace(edge, other_event_ids=(*edge.other_event_ids, *named_before(edge)))
            for edge in drafts.triples
        ],
        facts=[replace(fact, other_event_ids=fact_sources(fact)) for fact in drafts.facts],
        statements=[with_sources(one) for one in drafts.statements],
        insights=[with_sources(one) for one in drafts.insights],
    )
