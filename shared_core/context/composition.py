"""Choose the memories that a model is shown: each matter once, and nothing that ended. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from shared_core.core.domain import Hit, MemoryKind
from shared_core.core.shown import shown
from shared_core.errors import InvalidInput
from shared_core.nlp.dates_en import MONTHS
from shared_core.nlp.text import HAN, HAN_CHARACTER, has_words, language, search_terms, sentences
from shared_core.nlp.uncertainty import shown_text
from shared_core.privacy.sanitizing import is_small_talk

TELLS_MORE: Final = 4
"""Number of words beyond its facts with which a turn is shown beside them."""
SAME_WORDS: Final = 0.7
"""Share of the words of a text that another holds if it says the same."""
LEAST_ANSWER: Final = 6
"""Least number of words of an agent's turn that may answer a question."""
ON_TOPIC: Final = 2
"""Number of the question's words that such a turn must hold."""
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
        ended: Share (0 to 1) of what it tells that no longer holds; Hit.parts["ended"].
        by_agent: Whether an agent said it.
    """

    about: str
    text: str
    kind: MemoryKind | None = None
    source_event_ids: tuple[str, ...] = ()
    ended: float = 0.0
    by_agent: bool = False

    @classmethod
    def of(
        cls,
        about: str,
        text: str,
        kind: MemoryKind | None,
        source_event_ids: tuple[str, ...],
        parts: Mapping[str, float],
    ) -> ShownMemory:
        """Return a memory that recall found. parts: Hit.parts."""
        ended, by_agent = parts.get("ended", 0.0), parts.get("agent", 0.0) > 0
        return cls(about, text, kind, source_event_ids, ended, by_agent)

    @property
    def is_fact(self) -> bool:
        return self.kind == "semantic"


def asks_nothing(message: str) -> bool:
    """Return whether no memory could help to answer a message: it has no words, or only thanks,
    greetings and nods."""
    return not has_words(message) or is_small_talk(message)


def check_place(place: object) -> None:
    """Raise InvalidInput unless place names where a block of memories may stand in a request."""
    if place not in ("message", "system"):
        raise InvalidInput(f"place must be 'message' or 'system', got {shown(place)}")


def memory_label(
    text: str, when: datetime | None, author: str | None, *, is_fact: bool = False
) -> str:
    """Return the label of a memory in a block, in the language of its text.

    "27 Nov 2026" for what the user said, "27 Nov 2026, bot" for what somebody else did, and
    "since Nov 2026" for a fact; 2026年11月27日 and 2026年11月起 in Chinese.
    """
    day, speaker = "", "" if author in (None, "user") else author
    if when is not None and language(text) == "zh":
        day = f"{when.year}年{when.month}月" + ("起" if is_fact else f"{when.day}日")
    elif when is not None:
        month = f"{MONTHS[when.month - 1][:3].title()} {when.year}"
        day = f"since {month}" if is_fact else f"{when.day} {month}"
    return ", ".join(part for part in (day, speaker) if part)


def shown_memory(hit: Hit) -> ShownMemory:
    """Return a hit as it is shown."""
    memory, text = hit.memory, shown_text(hit.memory)
    is_fact = memory.kind == "semantic"
    about = memory_label(text, memory.occurred_at, memory.author, is_fact=is_fact)
    return ShownMemory.of(about, text, memory.kind, memory.source_event_ids, hit.parts)


def composed(question: str, found: Sequence[ShownMemory]) -> list[ShownMemory]:
    """Return the memories that are worth their tokens, in their order.

    It leaves out what has ended, unless the question asks about the past; what the user only asked;
    what an agent said without answering the question; a turn that tells no more than the facts
    drawn from it; a fact or a turn in the words of a better one; and a summary of a session of
    which another line tells.
    """
    from shared_core.recall.features import asks_when, tells_when  # deferred: they import numpy
    from shared_core.recall.supersession import asks_how_it_was

    is_past, is_when = asks_how_it_was(question), asks_when(question)
    asked = _words(question)
    kept = [
        one
        for one in found
        if (is_past or one.ended < 1)
        and (one.kind != "episodic" or _tells(one, asked, _drawn_from(one, found)))
    ]
    told = {event for one in kept if one.kind != "summary" for event in one.source_event_ids}
    lines: list[ShownMemory] = []
    for one in kept:
        if one.kind == "summary" and (one.ended > 0 or not told.isdisjoint(one.source_event_ids)):
            continue
        if one.kind == "episodic" and (facts := _drawn_from(one, kept)):
            answers_when = is_when and tells_when(one.text)
            if not answers_when and not _tells_more(one.text, facts):
                continue
        # A turn does not say that it still holds, so it stands for no fact.
        rivals = (line for line in lines if line.is_fact or not one.is_fact)
        if not any(_says_same(one.text, rival.text) for rival in rivals):
            lines.append(one)
    return lines


def _tells(turn: ShownMemory, asked: set[str], facts: Sequence[ShownMemory]) -> bool:
    """Return whether a turn tells something, given the facts drawn from it."""
    if facts:
        return True
    if is_small_talk(turn.text):
        return False
    if all(one.endswith(("?", "？")) for one in sentences(turn.text)):
        return False
    words = _words(turn.text)
    return not turn.by_agent or (len(words) >= LEAST_ANSWER and len(words & asked) >= ON_TOPIC)


def _tells_more(turn: str, facts: Sequence[ShownMemory]) -> bool:
    """Return whether a turn tells what the facts drawn from it do not.

    That is several words, a number, a whole part of the sentence, or what is joined to a part: soy
    in "peanuts and soy" and 芒果 in 对花生和芒果过敏, beside a fact about peanuts.
    """
    known = set().union(*(_words(fact.text) for fact in facts))
    more = _words(turn) - known
    if len(more) >= TELLS_MORE or _numbers(more):
        return True
    parts = [(part, _words(part)) for part in _BETWEEN_PARTS.split(turn)]
    if any(words and words <= more and not is_small_talk(part) for part, words in parts):
        return True
    return any(_opening(part) & more for part in _JOINT.split(turn)[1:])


def _opening(part: str) -> set[str]:
    """Return the first word that speaks of something; in Chinese the first two characters."""
    found = map(_words, _WORD_OR_PAIR.findall(part))
    return next(filter(None, found), set())


def _says_same(text: str, other: str) -> bool:
    """Return whether another text holds most words of a text, all its numbers, and its denial."""
    words, known = _words(text), _words(other)
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
    events = turn.source_event_ids
    return [one for one in found if one.is_fact and not {*events}.isdisjoint(one.source_event_ids)]


def _words(text: str) -> set[str]:
    """Return what a text speaks of: words, and single characters of Chinese."""
    plain = HAN_CHARACTER.sub(" ", text)
    return {*search_terms(plain), *HAN_CHARACTER.findall(text)} - _SAYS_NOTHING
