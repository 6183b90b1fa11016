"""Choose the memories that a model is shown: each matter once, and nothing that ended. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, TypeAlias

from shared_core.context.worth import hardly_answer, outdated_lines, worths
from shared_core.core.digest_cache import DigestCache
from shared_core.core.domain import Hit, Memory, MemoryKind
from shared_core.nlp.changes import asks_how_it_was, tells_change
from shared_core.nlp.dates_en import MONTHS
from shared_core.nlp.dialogue_acts import dialogue_act, dialogue_acts, knows_words
from shared_core.nlp.question_subject import YOU
from shared_core.nlp.relation_phrases import is_question
from shared_core.nlp.text import HAN, HAN_CHARACTER, has_words, language, search_terms, sentences
from shared_core.nlp.uncertainty import shown_text, uncertain
from shared_core.ports.runs import Fact
from shared_core.privacy.sanitizing import is_small_talk, without_nods

TELLS_MORE: Final = 4
"""Least number of words that a turn has and its facts lack, for the turn to be shown."""
SAME_WORDS: Final = 0.7
"""Share of the words of a text that another holds if it says the same."""
LEAST_ANSWER: Final = 6
"""Least number of words of an agent's turn that may answer a question."""
ON_TOPIC: Final = 2
"""Number of the question's words that such a turn must hold."""
SOCIAL: Final = 0.9
"""A clause that begins with a nod is small talk if its chance is higher."""
LIKELY_SOCIAL: Final = 0.7
"""The rest behind the nod must have a higher chance as well."""
SURELY_SOCIAL: Final = 0.97
"""A clause without a nod is small talk if its chance is higher."""
ASKING_PARTICLES: Final = ("吗", "嗎", "呢", "么", "咩")
"""Particles that end a Chinese question without a mark."""
LONGEST_SOCIAL: Final = 200
"""Maximum characters of a message of small talk."""
LONGEST_ASIDE: Final = 300
"""Maximum characters of a turn that may tell nothing, and of a message that are judged."""
SURE: Final = 0.9
"""A clause with a question mark is a statement if its chance without the mark is higher."""
ASKS: Final = 0.95
"""A clause without a question mark is a question if its chance is higher."""
AGREED: Final = 0.6
"""A clause that the rules take for a question is one if its chance is higher."""
ORDERS: Final = 0.8
"""A clause is an order if its chance is higher."""
QUESTION_MARKS: Final = ("?", "？")
CACHED_TEXTS: Final = 16_384
NEVER_MARKED: Final = frozenset({"allergy", "health", "medication"})
"""Slots of facts about a body: to doubt one by a guess may hurt somebody."""
THIS_YEAR: Final = timedelta(days=300)
"""Age up to which a date without its year is clear."""
ENDED: Final = "has ended"
"""This and the next three are the reasons of left_out()."""
TELLS_NOTHING: Final = "only asks, agrees or repeats"
TOLD: Final = "told by other items"
SAID_AGAIN: Final = "said again"
WEAK: Final = "hardly answers"
"""Why composed() leaves out what left_out() does not."""
_SAYS_NOTHING: Final = frozenset(
    (*search_terms("the user's said about"), *"的了是我你他她在有和也就都说吧啊呢用户")
)
"""Words with which statements of facts begin, and Chinese function words."""
_CHINESE_NUMBERS: Final = frozenset("二两三四五六七八九十百千万")
"""Without 一, which is an article as well."""
_TOLD_YOU: Final = re.compile(
    r"\b(?:tell|told|ask(?:ed)?|g[ai]ve|show(?:ed)?|sen[dt]"
    r"|(?:said|say|mention(?:ed)?|wrote|talk(?:ed)?) (?:it )?(?:to|with)) (?:you|u)\b"
    r"|(?:[跟和对對给給向]|告[诉訴]过?)[你您妳]",
    re.IGNORECASE,
)
"""What the user told the agent: such a question asks for the user's own words."""
_DENIAL: Final = re.compile(
    r"\b(?:not|no|never|none|without|cannot)\b|n['’]t\b|[不没别未无]", re.IGNORECASE
)
_BETWEEN_PARTS: Final = re.compile(
    r"[,.;:!?，。；：！？、\n]+|\b(?:and|or|but|so|also)\b|还有|以及|但是|[和跟也]", re.IGNORECASE
)
"""Between the parts of a sentence or a list."""
_JOINT: Final = re.compile(r"\b(?:and|or)\b|以及|还有|[和跟、]", re.IGNORECASE)
"""Between the members of a list."""
_CLAUSE_END: Final = re.compile(r"[,;，；、]\s*")
_WORD_OR_PAIR: Final = re.compile(f"[{HAN}]{{2}}|\\w+")


ShownKind: TypeAlias = MemoryKind | Literal["statement"]
"""A statement is free text that no later value ends: what a model read out of several turns, or a
note that quotes a turn."""


class ShownMemory(NamedTuple):
    """A memory to show.

    Attributes:
        about: Its label, as memory_label() returns it.
        source_event_ids: The turns that it is, or was drawn from.
        said_at: When; of a fact, since when.
        parts: Hit.parts; empty if recall did not find it.
        slot: Of a fact.
    """

    about: str
    text: str
    kind: ShownKind | None = None
    source_event_ids: tuple[str, ...] = ()
    said_at: datetime | None = None
    parts: Mapping[str, float] = MappingProxyType({})
    slot: str = ""

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
    if not has_words(message) or is_small_talk(message):
        return True
    if len(message) > LONGEST_SOCIAL or any(mark in message for mark in QUESTION_MARKS):
        return False
    return all(map(_is_social, _spoken_parts(message)))


def _is_social(part: str) -> bool:
    """Return whether a clause only greets, thanks or agrees.

    What follows "ok" or 好 must do so as well: "ok book it" does not.
    """
    rest = without_nods(part)
    if not has_words(rest):
        return True
    if rest.endswith(ASKING_PARTICLES) or any(map(str.isdigit, rest)) or not knows_words(rest):
        return False
    social = dialogue_act(part).social
    if rest == part:
        return social > SURELY_SOCIAL
    return social > SOCIAL and dialogue_act(rest).social > LIKELY_SOCIAL


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


def past_memory(fact: Fact, now: datetime | None = None) -> ShownMemory:
    """Return a fact that ended as it is shown, labelled "until Nov 2026" or 2026年11月止.

    now: as for memory_label().
    """
    text, end = fact.statement, fact.valid_until
    about = memory_label(text, end, None, is_fact=True, now=now)
    about = (
        about.removesuffix("起") + "止"
        if language(text) == "zh"
        else about.replace("since", "until")
    )
    return ShownMemory(about, text, "semantic", fact.source_event_ids, fact.valid_from)


def order_label(order: ShownMemory) -> str:
    """Return the label of what a user ordered: "asked on 27 Nov", 11月27日的请求."""
    is_chinese = language(order.text) == "zh"
    if order.said_at is None:
        return ", ".join(
            filter(None, ("以前的请求" if is_chinese else "asked before", order.about))
        )
    return f"{order.about}的请求" if is_chinese else f"asked on {order.about}"


def _told(one: ShownMemory) -> ShownMemory:
    """Return a memory, with the label of an order if a user gave one."""
    is_users = one.kind == "episodic" and not one.by_agent
    return one._replace(about=order_label(one)) if is_users and is_order(one.text) else one


def shown_kind(memory: Memory) -> ShownKind:
    """Return the kind of a memory, with statements apart from facts."""
    metadata = memory.value.get("metadata")
    is_derived = memory.kind == "semantic" and memory.thread_id is not None
    if not is_derived or not isinstance(metadata, Mapping):
        return memory.kind
    is_note = str(metadata.get("pattern")).endswith("note")
    return "statement" if is_note or metadata.get("statement") is True else memory.kind


def shown_memory(hit: Hit, now: datetime | None = None) -> ShownMemory:
    """Return a hit as it is shown. now: as for memory_label()."""
    memory, text = hit.memory, shown_text(hit.memory)
    kind = shown_kind(memory)
    is_fact = kind == "semantic"
    about = memory_label(text, memory.occurred_at, memory.author, is_fact=is_fact, now=now)
    metadata = memory.value.get("metadata")
    slot = str(metadata.get("slot", "")) if is_fact and isinstance(metadata, Mapping) else ""
    return ShownMemory(
        about, text, kind, memory.source_event_ids, memory.occurred_at, hit.parts, slot
    )


class Composition(NamedTuple):
    """The memories to show, best first, and those left out, each with the reason."""

    shown: Sequence[ShownMemory]
    left_out: Sequence[tuple[ShownMemory, str]] = ()


def composed(question: str, found: Sequence[ShownMemory]) -> Composition:
    """Return the memories that are worth their tokens, in their order, and last those marked.

    Each matter is told once (left_out()), and an order as one (order_label()). For a question about
    the present, it drops lines that hardly answer, but not the first one. It also marks turns and
    statements that perhaps no longer hold, because a later line speaks of the same or tells of a
    change, and statements drawn from such turns alone. It never marks facts, which have
    Memory.doubted_at, nor the turns that a fact of NEVER_MARKED was drawn from.
    """
    read = _FoundLine.all_of(found)
    reasons = _reasons(question, read)
    dropped = [(found[place], reason) for place, reason in reasons.items()]
    rest = [one for one in read if one.place not in reasons]
    lines = [_told(one.memory) for one in rest]
    if not _asks(question) or asks_how_it_was(question):
        return Composition(lines, dropped)
    judged = worths(question, words_of(question), lines, [one.words for one in rest])
    bodily = {
        turn
        for one in found
        if one.slot.rpartition(".")[2] in NEVER_MARKED
        for turn in one.source_event_ids
    }
    outdated = {
        place
        for place in outdated_lines(lines, judged)
        if lines[place].kind in ("episodic", "statement")
        and bodily.isdisjoint(lines[place].source_event_ids)
    }
    ended = {turn for place in outdated for turn in lines[place].source_event_ids}
    kept: list[ShownMemory] = []
    marked: list[ShownMemory] = []
    weak = hardly_answer([worth.answers for worth in judged]) - outdated
    for place, one in enumerate(lines):
        if place in weak and "similarity" in one.parts:
            dropped.append((one, WEAK))
            continue
        turns = one.source_event_ids if one.kind == "statement" else ()
        if place in outdated or (turns and ended.issuperset(turns)):
            marked.append(one._replace(text=uncertain(one.text)))
        else:
            kept.append(one)
    return Composition(kept + marked, dropped)


def left_out(question: str, found: Sequence[ShownMemory]) -> dict[int, str]:
    """Return the places of memories that are not worth showing, each with the reason.

    That is what has ended, unless the question asks about the past; what the user only asked; what
    an agent said, unless it answers the question or the question is about what the agent said; a
    turn that tells no more than the facts drawn from it; a fact or a turn in the words of a better
    one; a statement beside its turns; and a summary beside a line from its session.
    """
    return _reasons(question, _FoundLine.all_of(found))


def _reasons(question: str, read: Sequence[_FoundLine]) -> dict[int, str]:
    from shared_core.recall.features import asks_when, tells_when  # deferred: they import numpy

    is_past, is_when = asks_how_it_was(question), asks_when(question)
    asked = words_of(question)
    of_agent = is_past and YOU.search(_TOLD_YOU.sub(" ", question)) is not None
    reasons: dict[int, str] = {}
    for one in read:
        if not is_past and one.memory.ended >= 1:
            reasons[one.place] = ENDED
        elif one.memory.kind == "episodic" and not _tells(one, asked, of_agent=of_agent):
            reasons[one.place] = TELLS_NOTHING
    kept = [one for one in read if one.place not in reasons]
    told: frozenset[str] = frozenset().union(
        *(one.turns for one in kept if one.memory.kind != "summary")
    )
    said = [one for one in kept if one.memory.kind == "episodic"]
    shown: list[_FoundLine] = []
    for one in kept:
        if one.memory.kind == "summary":
            is_told = one.memory.ended > 0 or not told.isdisjoint(one.turns)
        elif one.memory.kind == "statement":
            is_told = _is_beside(one, said, asked) or _gives_way(one, kept, asked)
        else:
            answers_when = is_when and tells_when(one.memory.text)
            may_be_told = one.memory.kind == "episodic" and not answers_when
            is_told = may_be_told and _gives_way(one, kept, asked)
        if is_told:
            reasons[one.place] = TOLD
        elif any(_says_same(one, rival) and _may_replace(rival, one) for rival in shown):
            reasons[one.place] = SAID_AGAIN
        else:
            shown.append(one)
    return reasons


class _FoundLine(NamedTuple):
    """A memory found, with its words and the turns that it is or was drawn from."""

    place: int
    memory: ShownMemory
    words: frozenset[str]
    turns: frozenset[str]

    @classmethod
    def all_of(cls, found: Sequence[ShownMemory]) -> list[_FoundLine]:
        return [
            cls(place, one, words_of(one.text), frozenset(one.source_event_ids))
            for place, one in enumerate(found)
        ]


def _gives_way(turn: _FoundLine, found: Sequence[_FoundLine], asked: frozenset[str]) -> bool:
    """Return whether the facts drawn from a turn tell all of it, and all that it has of what is
    asked."""
    facts = _drawn_from(turn, found)
    known: frozenset[str] = frozenset().union(*(fact.words for fact in facts))
    return bool(facts) and asked & turn.words <= known and not _tells_more(turn, known)


def _is_beside(one: _FoundLine, others: Sequence[_FoundLine], asked: frozenset[str]) -> bool:
    """Return whether others tell of a turn of a memory, and of all that it has of what is asked."""
    near = [other.words for other in others if not other.turns.isdisjoint(one.turns)]
    return bool(near) and asked & one.words <= frozenset().union(*near)


def _may_replace(rival: _FoundLine, one: _FoundLine) -> bool:
    """Return whether a memory may be left out for another in the same words.

    A turn does not say that it still holds, so it replaces no fact but its own.
    """
    is_own = not rival.turns.isdisjoint(one.turns)
    return rival.memory.is_fact or not one.memory.is_fact or is_own


def _tells(turn: _FoundLine, asked: frozenset[str], *, of_agent: bool) -> bool:
    """Return whether a turn tells something. An order may: "book a table for my daughter".

    of_agent: whether the question is about what an agent said; its answer then may lack the words
    of the question, because they stand in the turn before.
    """
    words = turn.words
    if is_aside(turn.memory.text):
        return False
    answers = len(words) >= LEAST_ANSWER and (of_agent or len(words & asked) >= ON_TOPIC)
    return answers or not turn.memory.by_agent


def _only_asks(text: str) -> bool:
    if is_small_talk(text):
        return True
    return len(text) <= LONGEST_ASIDE and not any(map(_says, _spoken_parts(text)))


is_aside: Final = DigestCache("asides", _only_asks, CACHED_TEXTS)
"""Return whether a text only asks, greets or agrees."""


def _only_orders(text: str) -> bool:
    if len(text) > LONGEST_ASIDE:
        return False
    is_one = False
    for part in filter(_says, _spoken_parts(text)):
        is_one = dialogue_act(part).request > ORDERS
        if not is_one:  # the other clauses need not be judged
            break
    return is_one


is_order: Final = DigestCache("orders", _only_orders, CACHED_TEXTS)
"""Return whether a text only asks for something to be done or made."""


def _says(part: str) -> bool:
    """Return whether a clause does more than to ask, greet or agree."""
    bare = part.rstrip("".join(QUESTION_MARKS) + " ")
    act = dialogue_act(bare)
    if bare != part.rstrip():
        return act.statement > SURE
    if act.asks > ASKS or (act.asks > AGREED and is_question(part)):
        return False
    return not _is_social(part)


def _spoken_parts(text: str) -> list[str]:
    """Return the clauses of a text; Chinese ones may be typed with blanks between them."""
    return [
        part
        for sentence in sentences(text)
        for clause in _CLAUSE_END.split(sentence)
        for part in (clause.split() if HAN_CHARACTER.search(clause) else [clause])
        if has_words(part)
    ]


def _asks(message: str) -> bool:
    """Return whether a message asks how something is or was."""
    message = message[:LONGEST_ASIDE]
    acts = dialogue_acts(message)
    if any(act.name in ("question", "history") for act in acts):
        return True
    return is_question(message) and not any(act.request > ORDERS for act in acts)


def _tells_more(turn: _FoundLine, known: frozenset[str]) -> bool:
    """Return whether a turn tells what the words of the facts drawn from it do not.

    That is several words, a number, a whole part of the sentence, or what is joined to a part: soy
    in "peanuts and soy" and 芒果 in 对花生和芒果过敏, beside a fact about peanuts.
    """
    more = turn.words - known
    if len(more) >= TELLS_MORE or _numbers(more):
        return True
    text = turn.memory.text
    parts = [(part, words_of(part)) for part in _BETWEEN_PARTS.split(text)]
    if any(words and words <= more and not is_small_talk(part) for part, words in parts):
        return True
    return any(_opening(part) & more for part in _JOINT.split(text)[1:])


def _opening(part: str) -> frozenset[str]:
    """Return the first word that speaks of something; in Chinese the first two characters."""
    found = map(words_of, _WORD_OR_PAIR.findall(part))
    return next(filter(None, found), frozenset())


def _says_same(one: _FoundLine, other: _FoundLine) -> bool:
    """Return whether another holds most words of a memory, all its numbers, and its denial.

    It must hold all words of a fact beside a fact, and of a later memory, where the one word that
    differs is the news; and no later memory that tells of a change is the same.
    """
    least = SAME_WORDS * len(one.words)
    if not one.words or len(other.words) < least or len(one.words & other.words) < least:
        return False
    mine, others = one.memory, other.memory
    is_later = mine.said_at and others.said_at and mine.said_at > others.said_at
    if is_later and tells_change(mine.text):
        return False
    if (is_later or (mine.is_fact and others.is_fact)) and not one.words <= other.words:
        return False
    return _numbers(one.words) <= other.words and _denies(mine.text) == _denies(others.text)


def _denies(text: str) -> bool:
    return _DENIAL.search(text) is not None


def _numbers(words: frozenset[str]) -> frozenset[str]:
    return frozenset(one for one in words if one in _CHINESE_NUMBERS or any(map(str.isdigit, one)))


def _drawn_from(turn: _FoundLine, found: Iterable[_FoundLine]) -> list[_FoundLine]:
    """Return the facts that rest on a turn."""
    return [one for one in found if one.memory.is_fact and not one.turns.isdisjoint(turn.turns)]


def words_of(text: str) -> frozenset[str]:
    """Return what a text speaks of: words, and single characters of Chinese."""
    plain = HAN_CHARACTER.sub(" ", text)
    return frozenset((*search_terms(plain), *HAN_CHARACTER.findall(text))) - _SAYS_NOTHING
