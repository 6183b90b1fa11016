"""Choose the memories that a model is shown: each matter once, and nothing that ended. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final, NamedTuple

from shared_core.context.worth import worths
from shared_core.core.domain import Hit, MemoryKind
from shared_core.core.shown import shown
from shared_core.errors import InvalidInput
from shared_core.nlp.dates_en import MONTHS
from shared_core.nlp.text import HAN, HAN_CHARACTER, has_words, language, search_terms, sentences
from shared_core.nlp.uncertainty import shown_text, uncertain
from shared_core.privacy.sanitizing import is_small_talk

TELLS_MORE: Final = 4
"""Number of words beyond its facts with which a turn is shown beside them."""
SAME_WORDS: Final = 0.7
"""Share of the words of a text that another holds if it says the same."""
LEAST_ANSWER: Final = 6
"""Least number of words of an agent's turn that may answer a question."""
ON_TOPIC: Final = 2
"""Number of the question's words that such a turn must hold."""
LEAST_CHANCE: Final = 0.03
"""Least chance to answer of a line beyond the first ones."""
ALWAYS: Final = 3
"""Number of lines shown whatever their chance."""
OUTDATED: Final = 0.5
"""Chance that a turn tells what held before, from which on it is marked."""
THIS_YEAR: Final = timedelta(days=300)
"""Age up to which a date without its year is clear."""
_SAYS_NOTHING: Final = frozenset(
    (*search_terms("the user's said about"), *"的了是我你他她在有和也就都说吧啊呢用户")
)
"""Words with which statements of facts begin, and Chinese function words."""
_CHINESE_NUMBERS: Final = frozenset("二两三四五六七八九十百千万")
"""Without 一, which is an article as well."""
_DENIAL: Final = re.compile(
    r"\b(?:not|no|never|none|without|cannot)\b|n['’]t\b|[不没别未无]", re.IGNORECASE
)
_BETWEEN_PARTS: Final = re.compile(
    r"[,.;:!?，。；：！？、\n]+|\b(?:and|or|but|so|also)\b|还有|以及|但是|[和跟也]", re.IGNORECASE
)
"""Between the parts of a sentence or a list."""
_JOINT: Final = re.compile(r"\b(?:and|or)\b|以及|还有|[和跟、]", re.IGNORECASE)
"""Between the members of a list."""
_WORD_OR_PAIR: Final = re.compile(f"[{HAN}]{{2}}|\\w+")


class ShownMemory(NamedTuple):
    """A memory to show.

    Attributes:
        about: Its label, as memory_label() returns it.
        source_event_ids: The turns that it is, or was drawn from.
        said_at: When; of a fact, since when.
        parts: Hit.parts; empty if recall did not find it.
    """

    about: str
    text: str
    kind: MemoryKind | None = None
    source_event_ids: tuple[str, ...] = ()
    said_at: datetime | None = None
    parts: Mapping[str, float] = MappingProxyType({})

    @property
    def is_fact(self) -> bool:
        return self.kind == "semantic"

    @property
    def ended(self) -> float:
        """Share (0 to 1) of what it tells that no longer holds."""
        return self.parts.get("ended", 0.0)

    @property
    def by_agent(self) -> bool:
        """Whether an agent said it."""
        return self.parts.get("agent", 0.0) > 0


def asks_nothing(message: str) -> bool:
    """Return whether no memory could help to answer a message: it has no words, or only thanks,
    greetings and nods."""
    return not has_words(message) or is_small_talk(message)


def check_place(place: object) -> None:
    """Raise InvalidInput unless place names where a block of memories may stand in a request."""
    if place not in ("message", "system"):
        raise InvalidInput(f"place must be 'message' or 'system', got {shown(place)}")


def memory_label(
    text: str,
    when: datetime | None,
    author: str | None,
    *,
    is_fact: bool = False,
    now: datetime | None = None,
) -> str:
    """Return the label of a memory in a block, in the language of its text.

    "27 Nov 2026" for what the user said, "27 Nov 2026, bot" for what somebody else did, and
    "since Nov 2026" for a fact; 2026年11月27日 and 2026年11月起 in Chinese. now: leaves the year
    out of dates less than THIS_YEAR before it.
    """
    day, speaker = "", "" if author in (None, "user") else author
    has_year = when is None or now is None or not timedelta(0) <= now - when < THIS_YEAR
    if when is not None and language(text) == "zh":
        day = (
            f"{when.year}年" * has_year + f"{when.month}月" + ("起" if is_fact else f"{when.day}日")
        )
    elif when is not None:
        month = MONTHS[when.month - 1][:3].title() + f" {when.year}" * has_year
        day = f"since {month}" if is_fact else f"{when.day} {month}"
    return ", ".join(part for part in (day, speaker) if part)


def shown_memory(hit: Hit, now: datetime | None = None) -> ShownMemory:
    """Return a hit as it is shown. now: as for memory_label()."""
    memory, text = hit.memory, shown_text(hit.memory)
    is_fact = memory.kind == "semantic"
    about = memory_label(text, memory.occurred_at, memory.author, is_fact=is_fact, now=now)
    return ShownMemory(
        about, text, memory.kind, memory.source_event_ids, memory.occurred_at, hit.parts
    )


def composed(question: str, found: Sequence[ShownMemory]) -> list[ShownMemory]:
    """Return the memories that are worth their tokens, in their order.

    Of matters() it leaves out those that hardly answer, but for the first ones. It marks turns that
    perhaps no longer hold, beside a later line that speaks of the same or tells of a change; not if
    the question asks about the past. A fact has doubts of its own (Memory.doubted_at).
    """
    from shared_core.recall.supersession import asks_how_it_was  # deferred: it imports numpy

    lines = [found[place] for place in matters(question, found)]
    judged = worths(question, words_of(question), lines, [words_of(one.text) for one in lines])
    may_be_past = asks_how_it_was(question)
    return [
        one._replace(text=uncertain(one.text))
        if one.kind == "episodic" and not may_be_past and worth.outdated > OUTDATED
        else one
        for place, (one, worth) in enumerate(zip(lines, judged, strict=True))
        if place < ALWAYS or not one.parts or worth.answers >= LEAST_CHANCE
    ]


def matters(question: str, found: Sequence[ShownMemory]) -> list[int]:
    """Return the places of the memories that tell each matter once, in their order.

    It leaves out what has ended, unless the question asks about the past; what the user only asked;
    what an agent said without answering the question; a turn that tells no more than the facts
    drawn from it; a fact or a turn in the words of a better one; and a summary of a session of
    which another line tells.
    """
    from shared_core.recall.features import asks_when, tells_when  # deferred: they import numpy
    from shared_core.recall.supersession import asks_how_it_was

    is_past, is_when = asks_how_it_was(question), asks_when(question)
    asked = words_of(question)
    kept = [
        (place, one)
        for place, one in enumerate(found)
        if (is_past or one.ended < 1)
        and (one.kind != "episodic" or _tells(one, asked, _drawn_from(one, found)))
    ]
    told = {event for _, one in kept if one.kind != "summary" for event in one.source_event_ids}
    places: list[int] = []
    for place, one in kept:
        if one.kind == "summary" and (one.ended > 0 or not told.isdisjoint(one.source_event_ids)):
            continue
        if one.kind == "episodic" and (facts := _drawn_from(one, [other for _, other in kept])):
            answers_when = is_when and tells_when(one.text)
            if not answers_when and not _tells_more(one.text, facts):
                continue
        # A turn does not say that it still holds, so it stands for no fact but its own.
        rivals = (
            line
            for line in map(found.__getitem__, places)
            if line.is_fact or not one.is_fact or _share_a_turn(line, one)
        )
        if not any(_says_same(one.text, rival.text) for rival in rivals):
            places.append(place)
    return places


def _tells(turn: ShownMemory, asked: set[str], facts: Sequence[ShownMemory]) -> bool:
    """Return whether a turn tells something, given the facts drawn from it."""
    if facts:
        return True
    if is_small_talk(turn.text):
        return False
    if all(one.endswith(("?", "？")) for one in sentences(turn.text)):
        return False
    words = words_of(turn.text)
    return not turn.by_agent or (len(words) >= LEAST_ANSWER and len(words & asked) >= ON_TOPIC)


def _tells_more(turn: str, facts: Sequence[ShownMemory]) -> bool:
    """Return whether a turn tells what the facts drawn from it do not.

    That is several words, a number, a whole part of the sentence, or what is joined to a part: soy
    in "peanuts and soy" and 芒果 in 对花生和芒果过敏, beside a fact about peanuts.
    """
    known = set().union(*(words_of(fact.text) for fact in facts))
    more = words_of(turn) - known
    if len(more) >= TELLS_MORE or _numbers(more):
        return True
    parts = [(part, words_of(part)) for part in _BETWEEN_PARTS.split(turn)]
    if any(words and words <= more and not is_small_talk(part) for part, words in parts):
        return True
    return any(_opening(part) & more for part in _JOINT.split(turn)[1:])


def _opening(part: str) -> set[str]:
    """Return the first word that speaks of something; in Chinese the first two characters."""
    found = map(words_of, _WORD_OR_PAIR.findall(part))
    return next(filter(None, found), set())


def _says_same(text: str, other: str) -> bool:
    """Return whether another text holds most words of a text, all its numbers, and its denial."""
    words, known = words_of(text), words_of(other)
    shared = words & known
    return (
        bool(words)
        and len(shared) >= SAME_WORDS * len(words)
        and _numbers(words) <= known
        and _denies(text) == _denies(other)
    )


def _denies(text: str) -> bool:
    return _DENIAL.search(text) is not None


def _numbers(words: set[str]) -> set[str]:
    return {one for one in words if one in _CHINESE_NUMBERS or any(map(str.isdigit, one))}


def _drawn_from(turn: ShownMemory, found: Iterable[ShownMemory]) -> list[ShownMemory]:
    """Return the facts that rest on a turn."""
    return [one for one in found if one.is_fact and _share_a_turn(turn, one)]


def _share_a_turn(one: ShownMemory, other: ShownMemory) -> bool:
    return not {*one.source_event_ids}.isdisjoint(other.source_event_ids)


def words_of(text: str) -> set[str]:
    """Return what a text speaks of: words, and single characters of Chinese."""
    plain = HAN_CHARACTER.sub(" ", text)
    return {*search_terms(plain), *HAN_CHARACTER.findall(text)} - _SAYS_NOTHING
