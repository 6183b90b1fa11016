"""The answers of the conversation layer, as dicts of a fixed form. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import accumulate
from typing import Annotated, Any, Final, Literal, NotRequired, TypeAlias

from typing_extensions import TypedDict  # pydantic reads no other before Python 3.12

from shared_core.conversation.answer_hits import (
    ASKS_FOR_NAME,
    CLEARLY_RELEVANT,
    LEAST_RELEVANCE,
    about_of,
    holds_value,
    of_its_subject,
    score_of,
    slot_of,
    value_of,
)
from shared_core.conversation.standalone_statements import says_less
from shared_core.core.domain import Hit, JsonValue
from shared_core.nlp.question_subject import is_name_of_the_user
from shared_core.nlp.relation_phrases import asked_kin
from shared_core.ports.conversations import Session
from shared_core.ports.graph import Edge


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
