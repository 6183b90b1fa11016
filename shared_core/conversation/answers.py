"""The answers of the conversation layer, as dicts of a fixed form. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
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
    asks_of_the_world,
    is_name_of_the_user,
    is_of_the_user_alone,
    shares_words,
    tells_of_another,
)
from shared_core.nlp.relation_phrases import (
    asked_kin,
    asked_slots,
    names_slots,
    past_label,
    topic_of,
)
from shared_core.nlp.relation_schema import slot_relations
from shared_core.nlp.text import Language, language, normalised
from shared_core.ports.conversations import Session
from shared_core.ports.graph import Edge
from shared_core.ports.runs import Fact

OF_THE_PAST: Final = re.compile(
    r"\b(?:used? to|before|previous(?:ly)?|former(?:ly)?|earlier|in the past|originally|once"
    r"|(?:last|old|first|past|other) (?:job|employer|company|home|place|house|flat|work)s?"
    r"|did (?:i|we) (?:ever |first )?(?:live|work)|(?:was|were) (?:i|we) (?:living|working)"
    r"|(?:have|had) (?:i|we) (?:ever |already )?(?:lived|worked|had))\b"
    r"|以前|之前|从前|过去|原来|曾|早先|当初|前东家|老东家|[上前]一?[份家个]|(?:住|工作|上班|干)过",
    re.IGNORECASE,
)
MARKS: Final[dict[Language, str]] = {"en": "{} (past, until {})", "zh": "{}（以前，至{}）"}


def past_slots(question: str) -> frozenset[str]:
    """Return the slots of the user's work and home whose past a question asks for."""
    return asked_slots(question) if OF_THE_PAST.search(question) else frozenset()


def ended_facts(facts: Iterable[Fact], now: datetime) -> list[Fact]:
    """Return what held once and does so no more, each value once, what ended last first.

    facts: with their history. What was taken back as never true is left out.
    """
    held = [*facts]
    lasting = {
        (fact.slot, normalised(fact.value))
        for fact in held
        if fact.valid_until is None or fact.valid_until > now
    }
    ended: dict[tuple[str, str], tuple[datetime, Fact]] = {}
    for fact in held:
        end, key = fact.valid_until, (fact.slot, normalised(fact.value))
        if end is None or key in lasting or end <= fact.valid_from:
            continue
        if key not in ended or ended[key][0] < end:
            ended[key] = end, fact
    return [fact for _, fact in sorted(ended.values(), key=lambda one: one[0], reverse=True)]


def past_text(fact: Fact) -> str:
    """Return the statement of a fact that ended, with its last day in UTC."""
    assert fact.valid_until is not None
    day = fact.valid_until.astimezone(UTC).date().isoformat()
    return MARKS[language(fact.statement)].format(fact.statement, day)


def past_relations(
    facts: Sequence[Fact], question: str, user_name: str
) -> list[tuple[str, str, str]]:
    """Return (source, relation, target) of facts that ended; none for a user without a name."""
    if not user_name:
        return []
    spoken = language(question)
    return [
        (user_name, past_label(slot_relations()[fact.slot], spoken), fact.value) for fact in facts
    ]


LEAST_RELEVANCE: Final = 0.14
"""What has less to do with an input is not returned; as OpenMemoryService does."""
LEAST_OF_THEM: Final = 0.07
"""A memory about the one of whom a question asks may have less to do with its words."""
CLEARLY_RELEVANT: Final = 0.35
"""What has as much to do with a question is told even if it seems to be about something else."""
LEAST_SHARE: Final = 1 / 3
"""Nor is what has so much less to do with it than the most relevant memory."""
ASKS_FOR_NAME: Final = re.compile(
    r"\b(?:name|who am i|call me|address me)\b|名字|姓名|我叫什么|我是谁|称呼|怎么叫我",
    re.IGNORECASE,
)


def of_its_subject(hits: Sequence[Hit], question: str, edges: Sequence[Edge]) -> list[Hit]:
    """Return the hits that have enough to do with a question, and are of whom it asks."""
    people = asked_people(question, edges)
    if people is not None:
        return _of_people(hits, people, question)
    if asks_of_the_world(question):
        return [
            hit
            for hit in _near_enough(hits)
            if score_of(hit) >= CLEARLY_RELEVANT or shares_words(hit.memory.text, question)
        ]
    asked = asked_slots(question)
    if asked:
        return _of_the_user(hits, asked, question)
    return _near_enough(hits)


def _near_enough(hits: Sequence[Hit], asked: Collection[str] = ()) -> list[Hit]:
    least = max([LEAST_RELEVANCE, *(LEAST_SHARE * score_of(hit) for hit in hits)])
    return [hit for hit in hits if score_of(hit) >= least or slot_of(hit) in asked]


def _of_people(hits: Sequence[Hit], people: AskedPeople, question: str) -> list[Hit]:
    """Return the hits about somebody around the user, and of the others what may be about them.

    What the user tells of themselves is left out, unless it is no fact of theirs and names what
    is asked for, as "I have an appointment" does for "my dentist's appointment". Their own name is
    told where a name is asked for and somebody's is known.
    """
    is_theirs = [(hit, people.are_in(hit.memory.text, slot_of(hit))) for hit in hits]
    best = max((score_of(hit) for hit, theirs in is_theirs if theirs), default=0.0)
    least = max(LEAST_OF_THEM, LEAST_SHARE * best)
    known = best >= least
    own = [value_of(hit) for hit in hits if slot_of(hit) and not slot_of(hit).startswith(OF_KIN)]
    topic = topic_of(question)

    def is_told(hit: Hit, theirs: bool | None) -> bool:
        text, score = hit.memory.text, score_of(hit)
        if theirs is not None:
            return theirs and score >= least
        if known and ASKS_FOR_NAME.search(question) and is_name_of_the_user(text):
            return score >= LEAST_RELEVANCE
        if is_of_the_user_alone(text):
            may_be = not slot_of(hit) and not holds_value(hit, own) and shares_words(text, topic)
            return may_be and score >= max(LEAST_RELEVANCE, least)
        shares = not known and shares_words(text, question)
        return score >= (LEAST_RELEVANCE if shares else CLEARLY_RELEVANT)

    return [hit for hit, theirs in is_theirs if is_told(hit, theirs)]


def _of_the_user(hits: Sequence[Hit], asked: Collection[str], question: str) -> list[Hit]:
    """Return the hits that tell of the user's own work or home, as asked for.

    Where its value is known, another one must name what is asked for, or clearly have to do with
    it and not tell another such value.
    """
    own = [hit for hit in hits if not tells_of_another(hit.memory.text, slot_of(hit))]
    near = _near_enough(own, asked)
    values = [value_of(hit) for hit in own if slot_of(hit) in asked]
    if not values:
        return near
    other_values = [value_of(hit) for hit in own if slot_of(hit) and slot_of(hit) not in asked]

    def is_told(hit: Hit) -> bool:
        if slot_of(hit) in asked or holds_value(hit, values) or names_slots(hit.memory.text, asked):
            return True
        return score_of(hit) >= CLEARLY_RELEVANT and not holds_value(hit, other_values)

    return [hit for hit in near if is_told(hit)]


def score_of(hit: Hit) -> float:
    """Return how much a hit has to do with the question, 0 to 1."""
    from shared_core.recall.ranking import relevance  # with numpy: not for who only imports us

    return round(min(max(relevance(hit), 0.0), 1.0), 4)


def holds_value(hit: Hit, values: Sequence[str]) -> bool:
    """Tell whether the text of a hit holds one of some values."""
    text = hit.memory.text.casefold()
    return any(value.casefold() in text for value in values if value)


def value_of(hit: Hit) -> str:
    """Return the value of a fact; "" for what is none."""
    value = about_of(hit).get("value")
    return value if isinstance(value, str) else ""


def slot_of(hit: Hit) -> str:
    """Return the slot of a fact; "" for what is none."""
    slot = about_of(hit).get("slot")
    return slot if isinstance(slot, str) else ""


def about_of(hit: Hit) -> Mapping[str, object]:
    """Return the metadata of a memory."""
    metadata = hit.memory.value.get("metadata")
    return metadata if isinstance(metadata, Mapping) else {}


class _DateTime:
    """Tells schemas of a text that it is a moment."""

    def __get_pydantic_json_schema__(
        self, schema: Any, handler: Callable[[Any], dict[str, Any]]
    ) -> dict[str, Any]:
        return {**handler(schema), "format": "date-time"}


Moment: TypeAlias = Annotated[str, _DateTime()]
"""In UTC, as "2026-01-22T10:00:00Z"."""


class FoundMemory(TypedDict):
    """A memory of an answer. score: 0 to 1."""

    content: str
    score: float


class FoundRelation(TypedDict):
    """An edge of the knowledge graph of an answer, in words."""

    source: str
    relation: str
    target: str


class AnswerMetadata(TypedDict):
    """How an answer came about. has_memory: whether anything was found.

    taken_in: only there where it is false, for an input whose event_id is that of a forgotten one.
    """

    retrieval_time_ms: int
    has_memory: bool
    taken_in: NotRequired[Literal[False]]


class ProcessedInput(TypedDict):
    """What is known from before that has to do with an input, best first.

    resolved_query: the input with its pronouns replaced.
    """

    status: Literal["success"]
    resolved_query: str
    memories: list[FoundMemory]
    relations: list[FoundRelation]
    metadata: AnswerMetadata


class EndedInfo(TypedDict):
    """A session that was ended."""

    event_count: int
    duration_seconds: int
    created_at: Moment
    ended_at: Moment


class EndedSession(TypedDict):
    """The session that ended, None if there was none; it is consolidated afterwards."""

    status: Literal["success"]
    message: str
    session_info: EndedInfo | None


class ActiveInfo(TypedDict):
    """A session that is active."""

    event_count: int
    created_at: Moment
    last_active_at: Moment
    time_until_timeout_seconds: int


class StatusOfSession(TypedDict):
    """Whether a user has an active session, and how it stands."""

    status: Literal["success"]
    has_active_session: bool
    session_info: ActiveInfo | None


class Debugging(ProcessedInput):
    """What an input would find, were it taken in, and the session that it would join."""

    query: str
    session_info: ActiveInfo | None


class DebuggedInput(Debugging):
    """What debug_process_memory returns. hits: what was looked at, with every part of each score.

    Each is what Hit.to_dict() returns.
    """

    hits: list[dict[str, JsonValue]]


MOST_MEMORIES: Final = 10
CANDIDATES: Final = 16
"""So many hits are looked at, for what says no more than another is left out."""


@dataclass(frozen=True, slots=True)
class Told:
    """A memory that is told. score: 0 to 1, its own or that of a fact which it tells."""

    hit: Hit
    score: float


def worth_telling(
    hits: Sequence[Hit], question: str, edges: Sequence[Edge] = (), most: int = MOST_MEMORIES
) -> list[Told]:
    """Return the hits that are told, best first.

    Left out is what has too little to do with the question and is no value it asks for, what is
    about somebody else than it asks of, and who only names somebody of whom another memory tells
    more. A fact that a statement of the same turns holds is told by it, in the user's words.
    edges: of the graph, that tell who is who.
    """
    from shared_core.recall.ranking import collapsed  # with numpy: not for who only imports us

    near = of_its_subject(collapsed(hits, len(hits)), question, edges)
    statements = [hit for hit in near if about_of(hit).get("statement")]
    names = [hit for hit in statements if is_name_of_the_user(hit.memory.text)]
    of_name = names if ASKS_FOR_NAME.search(question) else statements
    told: dict[str, Told] = {}
    for hit in near:
        known = of_name if slot_of(hit) == "name" else statements
        teller = _teller(hit, known) or hit
        key = teller.memory.text
        score = max(score_of(teller), score_of(hit), told[key].score if key in told else 0)
        told[key] = Told(teller, score)
    kept = [one for text, one in told.items() if not any(says_less(text, other) for other in told)]
    return _own_name_last(kept, question)[:most]


def _own_name_last(told: Sequence[Told], question: str) -> list[Told]:
    """Return what is told with the user's own name at the end, where somebody else is asked for.

    Its score is then the least there is: it only tells who is meant by it in the others.
    """
    if not asked_kin(question):
        return [*told]
    names = [one for one in told if is_name_of_the_user(one.hit.memory.text)]
    others = [one for one in told if one not in names]
    most = min([LEAST_RELEVANCE, *(one.score for one in others)])
    return others + [Told(one.hit, min(one.score, most)) for one in names]


def memories_told(kept: Sequence[Told], past: Sequence[str] = ()) -> list[FoundMemory]:
    """Return what is told, best first, each with a score from 0 to 1 that never rises.

    past: texts of what no longer holds and is asked for; they come first.
    """
    known = [(text, CLEARLY_RELEVANT) for text in past]
    known += [(one.hit.memory.text, one.score) for one in kept]
    scores = list(accumulate((score for _, score in reversed(known)), max))
    told: list[FoundMemory] = [
        {"content": text, "score": score}
        for (text, _), score in zip(known, reversed(scores), strict=True)
    ]
    return told[:MOST_MEMORIES]


def ended_answer(session: Session | None) -> EndedSession:
    """Return what end_session tells of the session that it ended."""
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
    """Return what get_session_status tells of the active session."""
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
    query: str,
    answer: ProcessedInput,
    session: Session | None,
    hits: Sequence[Hit],
    now: datetime,
) -> DebuggedInput:
    """Return what debug_process_memory tells of an input that is not taken in."""
    info = status_answer(session, now)["session_info"]
    shown = [hit.to_dict() for hit in hits]
    return {**answer, "query": query, "session_info": info, "hits": shown}


def moment(at: datetime) -> str:
    """Return a moment in UTC, to the second: "2026-01-22T10:00:00Z"."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _teller(hit: Hit, statements: Sequence[Hit]) -> Hit | None:
    """Return the statement of one of the turns of a fact that holds it; None if none does."""
    if not slot_of(hit) or not value_of(hit):
        return None
    turns = {*hit.memory.source_event_ids}
    return next(
        (
            one
            for one in statements
            if holds_value(one, [value_of(hit)]) and turns.intersection(one.memory.source_event_ids)
        ),
        None,
    )
