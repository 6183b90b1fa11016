"""Choose the memories that answer an input, and shape the answers of the conversation layer. Pure.

Recall leaves out facts that ended; knowledge/past_facts.py picks those that an input asks for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import accumulate
from typing import Annotated, Any, Final, Literal, NotRequired, TypeAlias

from typing_extensions import TypedDict  # pydantic reads no other before Python 3.12

from shared_core.conversation.standalone_statements import says_less
from shared_core.core.domain import Hit, JsonValue
from shared_core.nlp.question_subject import (
    OF_KIN,
    AskedPeople,
    asked_people,
    asks_about_world,
    begins_with_user,
    is_about_another,
    shares_words,
    states_user_name,
)
from shared_core.nlp.relation_phrases import (
    asked_kin,
    names_slots,
    past_label,
    topic_of,
    work_and_home_slots,
)
from shared_core.nlp.relation_schema import slot_relations
from shared_core.nlp.text import Language, language
from shared_core.nlp.uncertainty import uncertain
from shared_core.ports.conversations import Session
from shared_core.ports.graph import Edge
from shared_core.ports.runs import Fact

PAST_FORMS: Final[dict[Language, str]] = {"en": "{} (past, until {})", "zh": "{}（以前，至{}）"}


def past_text(fact: Fact) -> str:
    """Return the statement of an ended fact with its last day in UTC."""
    assert fact.valid_until is not None
    day = fact.valid_until.astimezone(UTC).date().isoformat()
    return PAST_FORMS[language(fact.statement)].format(fact.statement, day)


def past_relations(
    facts: Sequence[Fact], question: str, user_name: str
) -> list[tuple[str, str, str]]:
    """Return (source, relation, target) of each ended fact, or [] if the user's name is unknown."""
    if not user_name:
        return []
    relations, asked_in = slot_relations(), language(question)
    return [(user_name, past_label(relations[fact.slot], asked_in), fact.value) for fact in facts]


LEAST_RELEVANCE: Final = 0.14
"""Least relevance, 0 to 1, of a returned memory."""
LEAST_ABOUT_PERSON: Final = 0.07
"""Least relevance of a memory about the person in the question: it may share fewer words."""
CLEARLY_RELEVANT: Final = 0.35
"""Relevance from which a memory is returned even if it seems to be about something else."""
LEAST_SHARE: Final = 1 / 3
"""Least relevance of a returned memory, as a share of the best memory's relevance."""
ASKS_FOR_NAME: Final = re.compile(
    r"\b(?:name|who am i|call me|address me)\b|名字|姓名|我叫什么|我是谁|称呼|怎么叫我",
    re.IGNORECASE,
)


def _hits_on_subject(hits: Sequence[Hit], question: str, edges: Sequence[Edge]) -> list[Hit]:
    """Return the hits that are relevant and about the person or thing in the question."""
    people = asked_people(question, edges)
    if people is not None:
        return _hits_about_people(hits, people, question)
    if asks_about_world(question):
        return [
            hit
            for hit in _relevant(hits)
            if _relevance(hit) >= CLEARLY_RELEVANT or shares_words(hit.memory.text, question)
        ]
    slots = work_and_home_slots(question)
    if slots:
        return _hits_about_user(hits, slots)
    return _relevant(hits)


def _relevant(hits: Sequence[Hit], slots: Collection[str] = ()) -> list[Hit]:
    least = max([LEAST_RELEVANCE, *(LEAST_SHARE * _relevance(hit) for hit in hits)])
    return [hit for hit in hits if _relevance(hit) >= least or _slot(hit) in slots]


def _hits_about_people(hits: Sequence[Hit], people: AskedPeople, question: str) -> list[Hit]:
    """Return the hits about people around the user, and other hits that may be about them.

    A hit about the user alone is dropped, with two exceptions. It stays if it is no fact and names
    the topic, as "I have an appointment" does for "my dentist's appointment". The user's own name
    stays if the question asks for a name and a memory about those people exists.
    """
    by_person = [(hit, people.is_about(hit.memory.text, _slot(hit))) for hit in hits]
    best = max((_relevance(hit) for hit, about_them in by_person if about_them), default=0.0)
    least = max(LEAST_ABOUT_PERSON, LEAST_SHARE * best)
    known = best >= least
    own = [_value(hit) for hit in hits if _slot(hit) and not _slot(hit).startswith(OF_KIN)]
    topic = topic_of(question)

    def stays(hit: Hit, about_them: bool | None) -> bool:
        text, score = hit.memory.text, _relevance(hit)
        if about_them is not None:
            return about_them and score >= least
        if known and ASKS_FOR_NAME.search(question) and states_user_name(text):
            return score >= LEAST_RELEVANCE
        if begins_with_user(text):
            on_topic = not _slot(hit) and not _holds_value(hit, own) and shares_words(text, topic)
            return on_topic and score >= max(LEAST_RELEVANCE, least)
        shares = not known and shares_words(text, question)
        return score >= (LEAST_RELEVANCE if shares else CLEARLY_RELEVANT)

    return [hit for hit, about_them in by_person if stays(hit, about_them)]


def _hits_about_user(hits: Sequence[Hit], slots: Collection[str]) -> list[Hit]:
    """Return the hits about the user's own work or home, for a question about these slots.

    If a value of the slots is known, any other hit stays if it names a slot. Without one it must be
    clearly relevant, and hold no value of a different slot.
    """
    own = [hit for hit in hits if not is_about_another(hit.memory.text, _slot(hit))]
    near = _relevant(own, slots)
    values = [_value(hit) for hit in own if _slot(hit) in slots]
    if not values:
        return near
    other_values = [_value(hit) for hit in own if _slot(hit) and _slot(hit) not in slots]

    def stays(hit: Hit) -> bool:
        if _slot(hit) in slots or _holds_value(hit, values) or names_slots(hit.memory.text, slots):
            return True
        return _relevance(hit) >= CLEARLY_RELEVANT and not _holds_value(hit, other_values)

    return [hit for hit in near if stays(hit)]


def _relevance(hit: Hit) -> float:
    """Return the relevance of a hit, 0 to 1."""
    from shared_core.recall.ranking import relevance  # deferred: it imports numpy

    return round(min(max(relevance(hit), 0.0), 1.0), 4)


def _holds_value(hit: Hit, values: Sequence[str]) -> bool:
    text = hit.memory.text.casefold()
    return any(value.casefold() in text for value in values if value)


def _value(hit: Hit) -> str:
    """Return the value of a fact, or "" for other memories."""
    value = _metadata(hit).get("value")
    return value if isinstance(value, str) else ""


def _slot(hit: Hit) -> str:
    """Return the slot of a fact, or "" for other memories."""
    slot = _metadata(hit).get("slot")
    return slot if isinstance(slot, str) else ""


def _metadata(hit: Hit) -> Mapping[str, object]:
    metadata = hit.memory.value.get("metadata")
    return metadata if isinstance(metadata, Mapping) else {}


class _DateTime:
    """Marks a text as a date-time in JSON schemas."""

    def __get_pydantic_json_schema__(
        self, schema: Any, handler: Callable[[Any], dict[str, Any]]
    ) -> dict[str, Any]:
        return {**handler(schema), "format": "date-time"}


Moment: TypeAlias = Annotated[str, _DateTime()]
"""A moment in UTC, e.g. "2026-01-22T10:00:00Z"."""


class AnswerMemory(TypedDict):
    """A memory in an answer. score: 0 to 1."""

    content: str
    score: float


class FoundRelation(TypedDict):
    """An edge of the knowledge graph in an answer, in words."""

    source: str
    relation: str
    target: str


class AnswerMetadata(TypedDict):
    """How an answer was found. has_memory: whether it holds any memory.

    taken_in: present only if false: the input has the event_id of a forgotten one.
    """

    retrieval_time_ms: int
    has_memory: bool
    taken_in: NotRequired[Literal[False]]
    set_aside: NotRequired[list[dict[str, Any]]]


class ProcessedInput(TypedDict):
    """The memories and relations relevant to an input, best first.

    resolved_query: the input with its pronouns replaced.
    """

    status: Literal["success"]
    resolved_query: str
    memories: list[AnswerMemory]
    relations: list[FoundRelation]
    metadata: AnswerMetadata


class EndedInfo(TypedDict):
    """An ended conversation."""

    event_count: int
    duration_seconds: int
    created_at: Moment
    ended_at: Moment


class EndedSession(TypedDict):
    """The conversation that ended, or None if none was active. A job consolidates it afterwards."""

    status: Literal["success"]
    message: str
    session_info: EndedInfo | None


class ActiveInfo(TypedDict):
    """An active conversation."""

    event_count: int
    created_at: Moment
    last_active_at: Moment
    time_until_timeout_seconds: int


class StatusOfSession(TypedDict):
    """Whether a user has an active conversation, and its state."""

    status: Literal["success"]
    has_active_session: bool
    session_info: ActiveInfo | None


class Debugging(ProcessedInput):
    """The answer an input would get, and the conversation it would join."""

    query: str
    session_info: ActiveInfo | None


class DebuggedInput(Debugging):
    """The answer of debug_process_memory. hits: every candidate, with the parts of its score."""

    hits: list[dict[str, JsonValue]]


MOST_MEMORIES: Final = 10
CANDIDATES: Final = 16
"""Number of hits to recall; more than MOST_MEMORIES, because redundant hits are dropped."""


@dataclass(frozen=True, slots=True)
class AnswerHit:
    """A memory in an answer. score: 0 to 1, its own or that of a fact it states.

    is_doubtful: it is a doubtful fact, or states one.
    """

    hit: Hit
    score: float
    is_doubtful: bool = False

    @property
    def text(self) -> str:
        """Its text, marked if it is doubtful."""
        text = self.hit.memory.text
        return uncertain(text) if self.is_doubtful else text


def answer_hits(
    hits: Sequence[Hit], question: str, edges: Sequence[Edge] = (), most: int = MOST_MEMORIES
) -> list[AnswerHit]:
    """Return the hits that answer a question, best first.

    Drop hits that have ended or tell nothing (composition.left_out()), irrelevant hits, hits about
    a different person, and hits that only name someone another hit describes better. A statement
    from the same turns replaces the fact it holds: it is in the user's own words. edges: graph
    edges that say how people are related.
    """
    from shared_core.context.composition import ENDED, TELLS_NOTHING, left_out, shown_memory
    from shared_core.recall.ranking import collapsed  # deferred, as above: they import numpy

    reasons = left_out(question, [*map(shown_memory, hits)])
    worth = [
        hit for place, hit in enumerate(hits) if reasons.get(place) not in (ENDED, TELLS_NOTHING)
    ]
    near = _hits_on_subject(collapsed(worth, len(worth)), question, edges)
    statements = [hit for hit in near if _metadata(hit).get("statement")]
    names = [hit for hit in statements if states_user_name(hit.memory.text)]
    of_name = names if ASKS_FOR_NAME.search(question) else statements
    by_text: dict[str, AnswerHit] = {}
    for hit in near:
        known = of_name if _slot(hit) == "name" else statements
        shown = _statement_of(hit, known) or hit
        text = shown.memory.text
        before = by_text.get(text, AnswerHit(shown, 0))
        score = max(_relevance(shown), _relevance(hit), before.score)
        is_doubtful = before.is_doubtful or hit.memory.doubted_at is not None
        by_text[text] = AnswerHit(shown, score, is_doubtful)
    kept = [
        one for text, one in by_text.items() if not any(says_less(text, other) for other in by_text)
    ]
    return _own_name_last(kept, question)[:most]


def _own_name_last(kept: Sequence[AnswerHit], question: str) -> list[AnswerHit]:
    """Move the user's own name to the end if the question is about a relative.

    It then gets the lowest score: it only says who is meant in the other memories.
    """
    if not asked_kin(question):
        return [*kept]
    names = [one for one in kept if states_user_name(one.hit.memory.text)]
    others = [one for one in kept if one not in names]
    most = min([LEAST_RELEVANCE, *(one.score for one in others)])
    return others + [replace(one, score=min(one.score, most)) for one in names]


def found_memories(kept: Sequence[AnswerHit], past: Sequence[str] = ()) -> list[AnswerMemory]:
    """Return the memories of an answer, best first, with scores that never rise.

    past: texts of ended facts that the question asks for; they come first.
    """
    known = [(text, CLEARLY_RELEVANT) for text in past]
    known += [(one.text, one.score) for one in kept]
    scores = list(accumulate((score for _, score in reversed(known)), max))
    found: list[AnswerMemory] = [
        {"content": text, "score": score}
        for (text, _), score in zip(known, reversed(scores), strict=True)
    ]
    return found[:MOST_MEMORIES]


def ended_answer(session: Session | None) -> EndedSession:
    """Return the answer of end_session for the conversation it ended."""
    if session is None or session.ended_at is None:
        return {"status": "success", "message": "No active session", "session_info": None}
    lasted = (session.ended_at - session.created_at).total_seconds()
    return {
        "status": "success",
        "message": "Session ending, consolidation started",
        "session_info": {
            "event_count": session.event_count,
            "duration_seconds": int(lasted),
            "created_at": moment(session.created_at),
            "ended_at": moment(session.ended_at),
        },
    }


def status_answer(session: Session | None, now: datetime) -> StatusOfSession:
    """Return the answer of get_session_status for the active conversation."""
    if session is None:
        return {"status": "success", "has_active_session": False, "session_info": None}
    return {
        "status": "success",
        "has_active_session": True,
        "session_info": {
            "event_count": session.event_count,
            "created_at": moment(session.created_at),
            "last_active_at": moment(session.last_active_at),
            "time_until_timeout_seconds": max(0, int((session.ends_at - now).total_seconds())),
        },
    }


def debug_answer(
    query: str, answer: ProcessedInput, session: Session | None, hits: Sequence[Hit], now: datetime
) -> DebuggedInput:
    """Return the answer of debug_process_memory for an input that is not stored."""
    info = status_answer(session, now)["session_info"]
    shown = [hit.to_dict(explain=True) for hit in hits]
    return {**answer, "query": query, "session_info": info, "hits": shown}


def moment(at: datetime) -> str:
    """Return a moment in UTC, to the second: "2026-01-22T10:00:00Z"."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _statement_of(hit: Hit, statements: Sequence[Hit]) -> Hit | None:
    """Return the statement that holds the value of a fact and shares a turn with it, or None."""
    if not _slot(hit) or not _value(hit):
        return None
    turns = {*hit.memory.source_event_ids}
    return next(
        (
            one
            for one in statements
            if _holds_value(one, [_value(hit)]) and turns.intersection(one.memory.source_event_ids)
        ),
        None,
    )
