"""Turn the turns of a conversation into statements that stand alone, with pronouns resolved. Pure.

"我女儿叫灿灿", "她今年5岁" and "她喜欢画画" become "灿灿是我的女儿，今年5岁，喜欢画画"; "我叫小朱"
and "我女儿叫灿灿" become "小朱有一个女儿叫灿灿". Questions, requests and small talk are no
statements. A clause with an unresolved pronoun is dropped.
"""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from shared_core.core.domain import USER, Event, FactDraft, KnownPerson, StatementDraft
from shared_core.errors import InvalidInput
from shared_core.extraction.grouping import DEICTIC, described_by, statements_of
from shared_core.extraction.reader_rules import load_reader_rules
from shared_core.extraction.rule_reader import ResolvedClause, read_turn
from shared_core.extraction.trained_reader import is_proposed
from shared_core.nlp.coreference import observe_turns, resolve_query
from shared_core.nlp.discourse import DiscourseState
from shared_core.nlp.kinship import Referent, title_for
from shared_core.nlp.text import HAN, Language, language
from shared_core.ports.storage import Extractor
from shared_core.privacy.classifier import OF_THE_USER
from shared_core.privacy.sanitizing import is_small_talk

OWN_IMPORTANCE: Final = 6.0
OTHER_IMPORTANCE: Final = 3.0
MAX_STATEMENTS: Final = 500
MAX_AS_SAID: Final = 400
"""Most statements kept of one conversation."""

REQUEST: Final = re.compile(
    r"(?:please|tell|give|show|help|let|remind|explain|write|make|find|send|call|do|can|could"
    r"|would|will|what|who|when|where|why|how|which|i (?:want|need|would like) you\b"
    r"|i(?:'d| would)? (?:want|like|love) to (?:know|ask|hear)|i (?:wonder|have a question))\b"
    r"|(?:请|帮|给我|替我|为我|让我|告诉|提醒|我想(?:知道|问|请|让|要你)|我(?:要|想)你|麻烦|能不能|可以)",
    re.IGNORECASE,
)
"""The beginning of a clause that asks for something."""
STANDS_ALONE: Final[dict[Language, re.Pattern[str]]] = {
    "en": re.compile(r"(?:the|a|an|[A-Z\u4e00-\u9fff][\w'-]*)(?: [\w'-]+){3,}\Z"),
    "zh": re.compile(r"(?![很太真挺好非也还都就不没有是])[\u4e00-\u9fffA-Za-z0-9·《》]{4,40}\Z"),
}
"""A clause about the world that seems to have a subject."""
NO_SUBJECT: Final = re.compile(
    "(?:也|还|都|很|最|特别|非常|现在)*(?:喜欢|热爱|爱(?![人情心好])|讨厌|害怕|擅长|住|来自|毕业于|从事"
    "|不(?:喜欢|爱|吃|喝|会)|会[说讲弹画唱游]|在.+(?:工作|上班|上学|读书))"
)
"""The beginning of a clause that shares the subject of the clause before it."""
BESIDE_HAN: Final = re.compile(f"(?<=[A-Za-z])(?=[{HAN}])")
NAMING: Final = re.compile(
    r"(.{1,80}?)有一个(.{1,80}?)叫(.+)|(.{1,80}?) has an? (.{1,80}?) called (.{1,80}?)\."
)


def session_statements(
    events: Sequence[Event], context: Sequence[Event] = (), people: Sequence[KnownPerson] = ()
) -> list[StatementDraft]:
    """Return the statements of the user in turns, in the order they begin.

    context: the turns before them. people: the people named before all of them. privacy is
    "private" for the user's life, and None where the words do not decide.
    """
    clauses, read = _clauses(events, context, people)
    grouped = _Grouped(statements_of(clauses)[:MAX_STATEMENTS])
    naming = _user_named(clauses)
    found: dict[str, StatementDraft] = {}
    name_told = False
    turn = ""
    for clause in clauses:
        if len(found) > MAX_STATEMENTS:
            break
        goes_on, turn = clause.event_id == turn, clause.event_id
        whole = grouped.holding(clause)
        if whole is not None:
            found.setdefault(whole.text, whole)
            continue
        named = _only_named(clause)
        if naming is not None and named is not None:
            name_told = True
            draft = _introduced(naming, named, clause)
        else:
            drafted = _own(clause)
            if drafted is None or (goes_on and NO_SUBJECT.match(drafted.text)):
                continue
            draft = drafted
        found.setdefault(draft.text, draft)
    if name_told and naming is not None:
        found.pop(_text(naming[0]), None)
    told = {event_id for one in found.values() for event_id in one.event_ids}
    for event in events:
        if event.event_id in read - told and not _speaks_of_others(event.text):
            found.setdefault(event.text, _as_said(event))
    return list(found.values())[:MAX_STATEMENTS]


def _speaks_of_others(text: str) -> bool:
    """Tell whether a text has a pronoun for somebody else, whom nothing else may name."""
    return bool(load_reader_rules(language(text)).words["others"].search(text))


def _as_said(event: Event) -> StatementDraft:
    """Return a turn as a statement, as it was said."""
    return StatementDraft(
        text=event.text.strip()[:MAX_AS_SAID],
        event_ids=(event.event_id,),
        importance=OWN_IMPORTANCE,
        privacy="private",
    )


def says_less(text: str, other: str) -> bool:
    """Return whether a text only names a person that another text also describes."""
    match = NAMING.fullmatch(text)
    if match is None or NAMING.fullmatch(other):
        return False
    _, title, name = (part for part in match.groups() if part)
    return name in other and title in other


def _clauses(
    events: Sequence[Event], context: Sequence[Event], people: Sequence[KnownPerson]
) -> tuple[list[ResolvedClause], set[str]]:
    """Return the clauses of turns, and the ids of those where the trained reader finds a fact."""
    discourse = DiscourseState(people)
    observe_turns(discourse, context)
    clauses: list[ResolvedClause] = []
    read: set[str] = set()
    for event in events:
        if event.role == "agent":
            observe_turns(discourse, [event])
        reading = read_turn(event, discourse, reader=True)
        clauses += reading.clauses
        if any(is_proposed(one) for one in reading.facts):
            read.add(event.event_id)
    return [one for one in clauses if one.complete and one.text.strip()], read


class _Grouped:
    """Statements of many clauses, indexed by turn and clause."""

    def __init__(self, statements: Sequence[StatementDraft]) -> None:
        self._by_text: dict[tuple[str, str], StatementDraft] = {}
        self._by_event: defaultdict[str, list[tuple[str, StatementDraft]]] = defaultdict(list)
        for one in statements:
            shown = one.text.casefold()
            for event_id in one.event_ids:
                self._by_text.setdefault((event_id, one.text), one)
                self._by_event[event_id].append((shown, one))

    def holding(self, clause: ResolvedClause) -> StatementDraft | None:
        """Return the first statement that contains a clause, or None."""
        parts = [(entity.name.casefold(), part.casefold()) for entity, part in described_by(clause)]
        if not parts:
            text = clause.text.strip(" 。" if clause.language == "zh" else " ")
            return self._by_text.get((clause.event_id, text))
        for shown, one in self._by_event[clause.event_id]:
            if all(name in shown and part in shown for name, part in parts):
                return one
        return None


def _user_named(clauses: Sequence[ResolvedClause]) -> tuple[ResolvedClause, FactDraft] | None:
    """Return the last clause that only gives the user's name, and its fact."""
    found = None
    for clause in clauses:
        if len(clause.facts) == 1 and clause.about is None:
            fact = clause.facts[0]
            if (fact.slot, fact.subject, fact.operation) == ("name", USER, "assert"):
                found = clause, fact
    return found


def _only_named(clause: ResolvedClause) -> Referent | None:
    """Return the user's relative or pet that a clause only names, or None."""
    parts = described_by(clause)
    if len(parts) != 1 or parts[0][1]:
        return None
    entity = parts[0][0]
    return entity if entity.named and entity.title and entity.relation else None


def _introduced(
    naming: tuple[ResolvedClause, FactDraft], entity: Referent, clause: ResolvedClause
) -> StatementDraft:
    user, title = naming[1].value, title_for(entity, clause.language)
    if clause.language == "zh":
        text = f"{user}有一个{title}叫{entity.name}"
    else:
        article = "an" if title[:1].lower() in "aeiou" else "a"
        text = f"{user} has {article} {title} called {entity.name}."
    return _draft(text, clause, naming[0].event_id)


def _own(clause: ResolvedClause) -> StatementDraft | None:
    """Return a clause as a statement, or None for a request, small talk or an unclear clause."""
    text = _text(clause)
    if not text or REQUEST.match(text) or is_small_talk(text):
        return None
    if clause.facts or clause.about or _is_of_the_user(text):
        return _draft(text, clause)
    bare = text.rstrip(".")
    if STANDS_ALONE[clause.language].match(bare) and not DEICTIC.search(bare):
        return StatementDraft(
            text=text, event_ids=(clause.event_id,), importance=OTHER_IMPORTANCE, privacy=None
        )
    return None


def _is_of_the_user(text: str) -> bool:
    spaced = BESIDE_HAN.sub(" ", text)
    return any(words.search(spaced) for words in OF_THE_USER.values())


def _draft(text: str, clause: ResolvedClause, *further: str) -> StatementDraft:
    importance = max((fact.importance for fact in clause.facts), default=OWN_IMPORTANCE)
    return StatementDraft(
        text=text,
        event_ids=tuple(dict.fromkeys([*further, clause.event_id, *clause.needs])),
        people=clause.people,
        importance=importance,
        privacy="private",
    )


def _text(clause: ResolvedClause) -> str:
    text = clause.text.strip(" ,，.。!！~～;；")
    if clause.language == "zh" or not text:
        return text
    return f"{text[:1].upper()}{text[1:]}."


class CoreferenceResolver:
    """Replaces pronouns in a query, and turns events into statements that stand alone.

    extractor: a model that resolves the events of a session; None takes the rules. Texts among
    the events count as turns of the user.
    """

    def __init__(self, extractor: Extractor | None = None) -> None:
        self._extractor = extractor

    def resolve_query(self, query: str, context_events: Sequence[Event | str]) -> str:
        """Return a query with its pronouns replaced by rules, or unchanged in doubt.

        Args:
            context_events: the turns before it, oldest first.
        """
        if not isinstance(query, str):
            raise InvalidInput(f"query must be a text, got {type(query).__name__}")
        return resolve_query(query, _as_events(context_events))

    async def resolve_events(self, events: Sequence[Event | str]) -> list[str]:
        """Return the statements in events, each about one matter.

        Questions and unresolved mentions are dropped.
        """
        turns = _as_events(events)
        if not turns:
            return []
        if self._extractor is not None:
            return [one.text for one in (await self._extractor.extract(turns, [])).statements]
        return [one.text for one in await asyncio.to_thread(session_statements, turns)]


def _as_events(given: Sequence[Event | str]) -> list[Event]:
    """Return events; a text becomes a turn of the user with the current time."""
    now = datetime.now(UTC)
    return [
        one
        if isinstance(one, Event)
        else Event(event_id=f"text {place}", author="user", role="user", text=one, occurred_at=now)
        for place, one in enumerate(given)
    ]
