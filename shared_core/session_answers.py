"""The answers of the conversation layer, as dicts of a fixed form. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import accumulate
from typing import Annotated, Any, Final, Literal, NotRequired, TypeAlias

from typing_extensions import TypedDict  # pydantic reads no other before Python 3.12

from shared_core.conversation_ports import Session
from shared_core.domain import Hit, JsonValue
from shared_core.question_subject import asks_of_the_world, is_name_of_the_user, shares_words
from shared_core.relation_words import asked_kin, asked_slots
from shared_core.session_statements import says_less


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
LEAST_RELEVANCE: Final = 0.14
"""What has less to do with an input is not returned; as OpenMemoryService does."""
CLEARLY_RELEVANT: Final = 0.35
"""What has as much to do with a question about the world is told even if it shares no word."""
LEAST_SHARE: Final = 1 / 3
"""Nor is what has so much less to do with it than the most relevant memory."""
ASKS_FOR_NAME: Final = re.compile(
    r"\b(?:name|who am i|call me|address me)\b|名字|姓名|我叫什么|我是谁|称呼|怎么叫我",
    re.IGNORECASE,
)


def worth_telling(hits: Sequence[Hit], question: str, most: int = MOST_MEMORIES) -> list[Hit]:
    """Return the hits that are told, best first.

    Left out is what has too little to do with the question and is no value it asks for, what a
    statement of the same turns that is told says in the user's words, and who only names somebody
    of whom another memory tells more.
    """
    from shared_core.ranking import collapsed  # with numpy: not for who only imports us

    hits = collapsed(hits, len(hits))
    least = max([LEAST_RELEVANCE, *(LEAST_SHARE * _score(hit) for hit in hits)])
    asked = asked_slots(question)
    near = [hit for hit in hits if _score(hit) >= least or _about(hit).get("slot") in asked]
    near = _of_its_subject(near, question)
    statements = [hit for hit in near if _about(hit).get("statement")]
    of_name = [] if ASKS_FOR_NAME.search(question) else statements
    kept = [
        hit
        for hit in near
        if not _told_already(hit, of_name if _about(hit).get("slot") == "name" else statements)
    ]
    texts = [hit.memory.text for hit in kept]
    kept = [hit for hit in kept if not any(says_less(hit.memory.text, one) for one in texts)]
    return kept[:most]


def _of_its_subject(hits: Sequence[Hit], question: str) -> list[Hit]:
    """Return the hits without what has little to do with a question about the world.

    The user's own name comes last where somebody around them is asked for.
    """
    if asks_of_the_world(question):
        return [
            hit
            for hit in hits
            if _score(hit) >= CLEARLY_RELEVANT or shares_words(hit.memory.text, question)
        ]
    if not asked_kin(question):
        return [*hits]
    return sorted(hits, key=lambda hit: is_name_of_the_user(hit.memory.text))


def memories_told(kept: Sequence[Hit]) -> list[FoundMemory]:
    """Return hits, best first, each with a score from 0 to 1 that never rises."""
    scores = list(accumulate((_score(hit) for hit in reversed(kept)), max))
    return [
        {"content": hit.memory.text, "score": score}
        for hit, score in zip(kept, reversed(scores), strict=True)
    ]


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


def _score(hit: Hit) -> float:
    from shared_core.ranking import relevance  # with numpy: not for who only imports us

    return round(min(max(relevance(hit), 0.0), 1.0), 4)


def _told_already(hit: Hit, statements: Sequence[Hit]) -> bool:
    """Tell whether a hit is a fact that a statement of one of its turns holds."""
    value = _about(hit).get("value")
    if "slot" not in _about(hit) or not isinstance(value, str):
        return False
    turns = {*hit.memory.source_event_ids}
    return any(
        value.casefold() in one.memory.text.casefold()
        and turns.intersection(one.memory.source_event_ids)
        for one in statements
    )


def _about(hit: Hit) -> Mapping[str, object]:
    metadata = hit.memory.value.get("metadata")
    return metadata if isinstance(metadata, Mapping) else {}
