"""The entries of a profile: statements with their facts, events, findings, relations. Pure.

Every entry is frozen, knows its provenance, and converts to a plain dict and back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from types import NoneType
from typing import Any, Final, Literal, Self, TypeAlias, cast, get_args, get_origin, get_type_hints
from uuid import UUID

from shared_core.core.domain import USER, FactType, JsonValue, Turn
from shared_core.core.namespaces import clean_text
from shared_core.core.shown import shown
from shared_core.core.timestamps import check_moment
from shared_core.errors import InvalidInput
from shared_core.nlp.keywords_and_topics import text_features
from shared_core.nlp.text import Language, language
from shared_core.nlp.uncertainty import uncertain

Subject = Literal["user", "agent"]
Dimension = Literal["intent", "emotion", "cognition", "social", "trend"]
Basis: TypeAlias = tuple[Turn, ...]
"""Turns that support an entry together: if one is forgotten, the support is gone."""

MAX_TEXT: Final = 20_000
"""Most characters of one text for a profile or one event."""


class _Entry:
    """A dataclass that converts to JSON values and back."""

    __slots__ = ()
    _what = "an entry"

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the entry as JSON values."""
        return {name: _json(value) for name, value in asdict(cast(Any, self)).items()}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Self:
        """Return the entry of a dict from to_dict(). Raises InvalidInput for any other dict."""
        try:
            entry: Self = _reader(cast(Any, cls))(given)
        except InvalidInput:
            raise
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InvalidInput(
                f"{cls._what} of a profile cannot be read ({type(error).__name__}: {error}): pass a"
                " dict that to_dict() returned"
            ) from error
        return entry


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


@lru_cache
def _reader(kind: Any) -> Callable[[Any], Any]:
    """Return the function that reads JSON as a type: a dataclass, tuple, literal or scalar."""
    inner = get_args(kind)
    if is_dataclass(kind):
        readers = {name: _reader(hint) for name, hint in get_type_hints(kind).items()}
        made = cast("Callable[..., Any]", kind)
        return lambda given: made(**{name: read(given[name]) for name, read in readers.items()})
    if get_origin(kind) is tuple:
        readers_in_order = [_reader(one) for one in inner if one is not Ellipsis]
        if inner[-1] is Ellipsis:
            return lambda given: tuple(map(readers_in_order[0], given))
        return lambda given: tuple(
            read(one) for read, one in zip(readers_in_order, given, strict=True)
        )
    if get_origin(kind) is Literal:
        return lambda given: inner[inner.index(given)]
    if NoneType in inner:
        read_known = _reader(inner[0])
        return lambda given: None if given is None else read_known(given)
    scalars: dict[Any, Callable[[Any], Any]] = {datetime: _moment, UUID: UUID, float: float}
    return scalars.get(kind, bool if kind is bool else _text)


def _text(given: object) -> str:
    if not isinstance(given, str):
        raise TypeError(f"the value must be a text, got {type(given).__name__}")
    return given


def _moment(given: object) -> datetime:
    moment = datetime.fromisoformat(_text(given))
    check_moment(moment, "a moment of a profile")
    return moment.astimezone(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClauseFact:
    """A fact in a clause. A later fact of the same functional slot supersedes it.

    key: see facts.fact_key. statement: one sentence that states this fact alone. doubted_at: when a
    turn last said that it may have ended.
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
    doubted_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """A clause of a sentence and its facts; () if no rule reads it."""

    text: str
    facts: tuple[ClauseFact, ...] = ()

    @property
    def shown(self) -> str:
        """Its text, marked if a fact in it is doubtful."""
        return uncertain(self.text) if any(fact.doubted_at for fact in self.facts) else self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement(_Entry):
    """A sentence of a profile. valid_until: None while it holds.

    said_at: the times it was stated. bases: the turns of each; () if an application wrote it.
    told: whether an application wrote it; otherwise it was derived from turns.
    """

    _what = "a statement"
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
        return sentence_of([clause.shown for clause in self.clauses])

    @property
    def facts(self) -> tuple[ClauseFact, ...]:
        """All facts of its clauses."""
        return tuple(fact for clause in self.clauses for fact in clause.facts)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventParagraph(_Entry):
    """An event in one paragraph. quoted: whether text is in the user's own words."""

    _what = "an event"
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding(_Entry):
    """A finding of theory of mind. confidence: 0 to 1. label: one word for it.

    quotes: the words it was concluded from; basis: their turns. extractor: the rules, or the model
    and the version of its prompt. valence: -1 to 1, only for an emotion.
    """

    _what = "a finding"
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
        raise InvalidInput(f"{what} must be a text, got {type(text).__name__}")
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


def restated(statement: Statement, at: datetime, basis: Basis) -> Statement:
    """Return a statement with one more time at which it was stated."""
    times = tuple(sorted({*statement.said_at, at}))
    known = any({*one} == {*basis} for one in statement.bases)
    bases = statement.bases if known or not basis else (*statement.bases, basis)
    return replace(statement, said_at=times, bases=bases)


def language_of(texts: Sequence[str], requested: str | None = None) -> Language:
    """Return the language to show texts in. requested: "en", "zh", or None for their own."""
    if requested is None:
        return language("\n".join(texts))
    if requested not in get_args(Language):
        raise InvalidInput(f"language must be 'en', 'zh' or None, got {shown(requested)}")
    return "zh" if requested == "zh" else "en"


RelationKind = Literal["replaces", "tells_of", "concluded_from", "follows"]

BY_TOPIC: Final = 0.6
"""Most confidence that two events with the same topics belong together: no turn says so."""
BACK: Final = 20
"""Number of earlier events each event is compared with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation(_Entry):
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
