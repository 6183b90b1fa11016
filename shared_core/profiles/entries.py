"""The entries of a profile: statements with their facts, events, findings, relations. Pure.

Every entry is frozen, knows its provenance, and converts to a plain dict and back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeAlias, TypeVar, get_args
from uuid import UUID

from shared_core.core.domain import USER, FactType, JsonValue, ThreadId, Turn
from shared_core.core.namespaces import clean_text
from shared_core.core.timestamps import check_moment
from shared_core.errors import InvalidInput
from shared_core.nlp.keywords_and_topics import text_features
from shared_core.nlp.text import Language, language

Subject = Literal["user", "agent"]
Dimension = Literal["intent", "emotion", "cognition", "social", "trend"]
Basis: TypeAlias = tuple[Turn, ...]
"""Turns that support an entry together: if one is forgotten, the support is gone."""

MAX_TEXT: Final = 20_000
"""Most characters of one text for a profile or one event."""

E = TypeVar("E")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldFact:
    """A fact in a clause. A later fact of the same functional slot supersedes it.

    key: see facts.fact_key. statement: one sentence that states this fact alone.
    """

    fact_id: UUID
    fact_type: FactType
    slot: str
    key: str
    value: str
    functional: bool
    statement: str
    confidence: float
    subject: str = USER


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """A clause of a sentence and its facts; () if no rule reads it."""

    text: str
    facts: tuple[ToldFact, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A sentence of a profile. valid_until: None while it holds.

    said_at: each time it was said. bases: the turns of each time; () if an application wrote it.
    told: whether an application wrote it; otherwise it was derived from turns.
    """

    statement_id: UUID
    clauses: tuple[Clause, ...]
    said_at: tuple[datetime, ...]
    valid_from: datetime
    valid_until: datetime | None = None
    bases: tuple[Basis, ...] = ()
    told: bool = False

    @property
    def text(self) -> str:
        """The sentence."""
        return sentence_of([clause.text for clause in self.clauses])

    @property
    def facts(self) -> tuple[ToldFact, ...]:
        """All facts of its clauses."""
        return tuple(fact for clause in self.clauses for fact in clause.facts)

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the entry as JSON values."""
        return plain(self)

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Statement:
        """Return the statement of a dict from to_dict()."""
        return _read("a statement", given, _statement)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventParagraph:
    """An event in one paragraph. quoted: whether text is in the user's own words."""

    event_id: UUID
    text: str
    occurred_at: datetime
    thread_id: str | None = None
    bases: tuple[Basis, ...] = ()
    quoted: bool = False

    @property
    def shown(self) -> str:
        """The paragraph for readers."""
        if not self.quoted:
            return self.text
        day = self.occurred_at.date().isoformat()
        if language(self.text) == "zh":
            return f"{day}，用户说：“{self.text}”"
        return f'On {day} the user said: "{self.text}"'

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the entry as JSON values."""
        return plain(self)

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> EventParagraph:
        """Return the event of a dict from to_dict()."""
        return _read("an event", given, _event)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A finding of theory of mind. confidence: 0 to 1. label: one word for it.

    quotes: the words it was concluded from; basis: their turns. extractor: the rules, or the model
    and the version of its prompt. valence: -1 to 1, only for an emotion.
    """

    finding_id: UUID
    dimension: Dimension
    label: str
    text: str
    confidence: float
    found_at: datetime
    extractor: str
    quotes: tuple[str, ...] = ()
    basis: Basis = ()
    valence: float | None = None

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the entry as JSON values."""
        return plain(self)

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Finding:
        """Return the finding of a dict from to_dict()."""
        return _read("a finding", given, _finding)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mind:
    """The findings of theory of mind about a subject, newest last."""

    findings: tuple[Finding, ...] = field(default_factory=tuple)

    def of(self, dimension: Dimension) -> list[Finding]:
        """Return the findings of one dimension, newest last."""
        return [one for one in self.findings if one.dimension == dimension]

    @property
    def confidence(self) -> float | None:
        """The mean confidence of all findings, or None without any."""
        given = [one.confidence for one in self.findings]
        return sum(given) / len(given) if given else None


def checked_text(text: object, what: str) -> str:
    """Return a text as one paragraph that every database can store.

    Raises InvalidInput if it is no string, blank, or longer than MAX_TEXT.
    """
    if not isinstance(text, str):
        raise InvalidInput(f"{what} must be a text, not {type(text).__name__}")
    if len(text) > MAX_TEXT:
        raise InvalidInput(
            f"{what} must have at most {MAX_TEXT:,} characters, got {len(text):,}: shorten it, or"
            " store the whole text with engine.remember()"
        )
    paragraph = " ".join(clean_text(text).split())
    if not paragraph:
        raise InvalidInput(f"{what} must not be blank")
    return paragraph


def moment_of(at: datetime | None, what: str) -> datetime:
    """Return a moment in UTC, now for None. Raises InvalidInput if it has no time zone."""
    if at is None:
        return datetime.now(UTC)
    check_moment(at, what)
    return at.astimezone(UTC)


def sentence_of(clauses: Sequence[str]) -> str:
    """Return clauses as one sentence of their language."""
    texts = [clause.strip(" ,，;；") for clause in clauses]
    if not texts:
        return ""
    if language("".join(texts)) == "zh":
        return "，".join(texts).rstrip("。.") + "。"
    texts = [text.rstrip(".") for text in texts]
    joined = ", ".join(texts[:-1]) + (" and " if len(texts) > 1 else "") + texts[-1]
    return joined if joined.endswith(("!", "?", "…")) else f"{joined}."


def said_again(statement: Statement, at: datetime, basis: Basis) -> Statement:
    """Return a statement with one more time it was said."""
    said = tuple(sorted({*statement.said_at, at}))
    known = any({*one} == {*basis} for one in statement.bases)
    bases = statement.bases if known or not basis else (*statement.bases, basis)
    return replace(statement, said_at=said, bases=bases)


def language_of(texts: Sequence[str], wanted: str | None = None) -> Language:
    """Return the language to show texts in. wanted: "en", "zh", or None for that of the texts."""
    if wanted is None:
        return language("\n".join(texts))
    if wanted not in get_args(Language):
        raise InvalidInput(f"language must be 'en', 'zh' or None, not {wanted!r}")
    return "zh" if wanted == "zh" else "en"


def plain(part: Any) -> dict[str, JsonValue]:
    """Return an entry as JSON values."""
    return {name: _json(value) for name, value in asdict(part).items()}


def _json(value: Any) -> JsonValue:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, Mapping):
        return {str(name): _json(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_json(inner) for inner in value]
    known: JsonValue = value
    return known


def _read(what: str, given: Mapping[str, Any], reader: Callable[[Mapping[str, Any]], E]) -> E:
    try:
        return reader(given)
    except InvalidInput:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidInput(
            f"{what} of a profile cannot be read ({type(error).__name__}: {error}): pass a dict"
            " that to_dict() returned"
        ) from error


def _statement(given: Mapping[str, Any]) -> Statement:
    until = given["valid_until"]
    return Statement(
        statement_id=UUID(given["statement_id"]),
        clauses=tuple(
            Clause(text=_text(clause["text"]), facts=tuple(_fact(fact) for fact in clause["facts"]))
            for clause in given["clauses"]
        ),
        said_at=tuple(_moment(at) for at in given["said_at"]),
        valid_from=_moment(given["valid_from"]),
        valid_until=None if until is None else _moment(until),
        bases=tuple(_basis(basis) for basis in given["bases"]),
        told=bool(given["told"]),
    )


def _fact(given: Mapping[str, Any]) -> ToldFact:
    if given["fact_type"] not in get_args(FactType):
        raise ValueError(f"fact_type {given['fact_type']!r}")
    return ToldFact(**{**given, "fact_id": UUID(given["fact_id"])})


def _event(given: Mapping[str, Any]) -> EventParagraph:
    thread_id = given["thread_id"]
    return EventParagraph(
        event_id=UUID(given["event_id"]),
        text=_text(given["text"]),
        occurred_at=_moment(given["occurred_at"]),
        thread_id=None if thread_id is None else _text(thread_id),
        bases=tuple(_basis(basis) for basis in given["bases"]),
        quoted=bool(given["quoted"]),
    )


def _finding(given: Mapping[str, Any]) -> Finding:
    if given["dimension"] not in get_args(Dimension):
        raise ValueError(f"dimension {given['dimension']!r}")
    valence = given["valence"]
    return Finding(
        finding_id=UUID(given["finding_id"]),
        dimension=given["dimension"],
        label=_text(given["label"]),
        text=_text(given["text"]),
        confidence=float(given["confidence"]),
        found_at=_moment(given["found_at"]),
        extractor=_text(given["extractor"]),
        quotes=tuple(_text(quote) for quote in given["quotes"]),
        basis=_basis(given["basis"]),
        valence=None if valence is None else float(valence),
    )


def _basis(given: Sequence[Sequence[str]]) -> Basis:
    return tuple((ThreadId(_text(thread_id)), _text(event_id)) for thread_id, event_id in given)


def _text(given: object) -> str:
    if not isinstance(given, str):
        raise TypeError(f"a text is expected, not {type(given).__name__}")
    return given


def _moment(given: object) -> datetime:
    moment = datetime.fromisoformat(_text(given))
    check_moment(moment, "a moment of a profile")
    return moment.astimezone(UTC)


RelationKind = Literal["replaces", "tells_of", "concluded_from", "follows"]

BY_TOPIC: Final = 0.6
"""Most confidence that two events with the same topics belong together: no turn says so."""
BACK: Final = 20
"""Number of earlier events each event is compared with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """A relation from one entry of a profile to another. confidence: 0 to 1.

    - "replaces": a statement supersedes one that ended.
    - "tells_of": an event shares a turn with a statement.
    - "concluded_from": a finding shares a turn with a statement or an event.
    - "follows": an event shares a topic with an earlier event.
    """

    kind: RelationKind
    source_id: UUID
    target_id: UUID
    confidence: float

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the entry as JSON values."""
        return plain(self)


def relations_of(
    statements: Sequence[Statement],
    history: Sequence[Statement],
    events: Sequence[EventParagraph],
    mind: Mind,
) -> tuple[Relation, ...]:
    """Return the relations between the entries of a profile, each pair once per kind.

    history: the statements that ended. events: oldest first.
    """
    by_turn: dict[Turn, list[tuple[str, UUID]]] = {}
    for one in (*statements, *history):
        _note(by_turn, one.bases, "statement", one.statement_id)
    for event in events:
        _note(by_turn, event.bases, "event", event.event_id)
    found = [*_replaced(statements, history)]
    for event in events:
        found += [
            Relation(kind="tells_of", source_id=event.event_id, target_id=one, confidence=1.0)
            for what, one in _sharing(by_turn, event.bases)
            if what == "statement"
        ]
    for finding in mind.findings:
        found += [
            Relation(kind="concluded_from", source_id=finding.finding_id, target_id=one,
                     confidence=finding.confidence)
            for _, one in _sharing(by_turn, (finding.basis,))
        ]  # fmt: skip
    return tuple([*found, *_followed(events)])


def _note(
    by_turn: dict[Turn, list[tuple[str, UUID]]], bases: Iterable[Basis], what: str, one: UUID
) -> None:
    for turn in dict.fromkeys(turn for basis in bases for turn in basis):
        by_turn.setdefault(turn, []).append((what, one))


def _sharing(
    by_turn: dict[Turn, list[tuple[str, UUID]]], bases: Iterable[Basis]
) -> Iterable[tuple[str, UUID]]:
    """Return the entries derived from any of these turns, once each."""
    return dict.fromkeys(
        named for basis in bases for turn in basis for named in by_turn.get(turn, ())
    )


def _replaced(statements: Sequence[Statement], history: Sequence[Statement]) -> list[Relation]:
    """Return the relations of statements that began when another of the same slot ended."""
    began = {
        (fact.key, one.valid_from): one.statement_id
        for one in (*history, *statements)
        for fact in one.facts
    }
    found = []
    for old in history:
        places = ((fact.key, old.valid_until) for fact in old.facts)
        for new in dict.fromkeys(began[at] for at in places if at in began):
            if new != old.statement_id:
                sure = min(fact.confidence for fact in old.facts)
                found.append(
                    Relation(
                        kind="replaces", source_id=new, target_id=old.statement_id, confidence=sure
                    )
                )  # fmt: skip
    return found


def _followed(events: Sequence[EventParagraph]) -> list[Relation]:
    """Return the relation of each event to the nearest earlier event that shares a topic."""
    topics = [frozenset(text_features(event.text).topics) for event in events]
    found = []
    for place, event in enumerate(events):
        for back in reversed(range(max(0, place - BACK), place)):
            shared = topics[place] & topics[back]
            if shared:
                found.append(
                    Relation(
                        kind="follows", source_id=event.event_id,
                        target_id=events[back].event_id,
                        confidence=BY_TOPIC * len(shared) / len(topics[place] | topics[back]),
                    )
                )  # fmt: skip
                break
    return found
