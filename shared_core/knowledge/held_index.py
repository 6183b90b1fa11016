"""The facts that hold, found by what a clause mentions. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import ceil
from typing import Final

from shared_core.core.domain import USER, FactDraft, HeldFact
from shared_core.extraction.reader_rules import load_reader_rules
from shared_core.nlp.kinship import Gender, gender_of
from shared_core.nlp.rules.revision import MENTION, load_revision_rules, load_revision_tables
from shared_core.nlp.slots import ABOUT, FAVOURITE, RELATION, is_name_slot
from shared_core.nlp.text import (
    ENGLISH_STOP_WORDS,
    HAN_CHARACTER,
    Language,
    normalised,
    place_of,
    search_terms,
    stem,
)

Key = tuple[str, str, str]
"""Slot, subject and normalised value of a fact."""

LATIN_TOKEN: Final = re.compile(r"[A-Za-z0-9\u00c0-\u024f][\w'-]*")
HABIT: Final = re.compile(
    r"^(?:每天|一天|经常|平时|总|喜欢|爱)?(?:在)?(?:喝|吃|打|练|玩|学|看|听|养|去|做|跑|用)?"
    r"(?:[一两二三四五\d]{1,2}[杯个只次本台辆份])?"
)
TRAIT_END: Final = re.compile(r"(?:过敏|主义者|者|的人|患者)$")
DATED: Final = re.compile(
    r"\d{1,2}月(?:\d{1,2}[号日]?)?|[每下]?(?:周|星期|礼拜)[一二三四五六日天末]"
)
MENTIONED: Final = 0.6
"""Least share of a Chinese value that mentions it."""
SHORTEST: Final = 2
"""Minimum characters of a form that mentions a longer Chinese value."""


def key_of(fact: HeldFact | FactDraft) -> Key:
    """Return the key of a fact or of the fact that a draft is about."""
    subject = fact.subject if fact.subject == USER else normalised(fact.subject)
    return fact.slot, subject, normalised(fact.value)


@lru_cache(maxsize=1024)
def kinds_of(slot: str) -> frozenset[str]:
    """Return the kinds of a fact by its slot, as the revision rules name them."""
    kinds = load_revision_tables().kinds
    if is_name_slot(slot):
        return frozenset()
    first, _, _ = slot.partition(".")
    last = slot.rpartition(".")[2]
    return kinds.get(first if first == FAVOURITE else last, kinds["custom"])


def relation_of(fact: HeldFact) -> str:
    """Return "cat" for the fact that names a cat of the user, "" for any other fact."""
    return fact.slot.removeprefix(f"{RELATION}.") if is_name_slot(fact.slot) else ""


@lru_cache(maxsize=4096)
def mention_stems(value: str) -> frozenset[str]:
    """Return the meaningful stems of a value; an English text that has them mentions it."""
    stems = {one for one in search_terms(value) if not HAN_CHARACTER.search(one)}
    weak = load_revision_rules("en").weak
    strong = {one for one in stems if one not in weak and not one.isdigit()}
    return frozenset(strong or stems)


@lru_cache(maxsize=4096)
def wider_words(value: str) -> tuple[str, ...]:
    """Return the words that mention a value because they are wider: "coffee" for a latte."""
    plain = normalised(value)
    return tuple(
        word for word, narrow in load_revision_tables().wider.items()
        if any(place_of(one, plain) >= 0 for one in narrow)
    )  # fmt: skip


@lru_cache(maxsize=4096)
def mention_forms(value: str) -> tuple[str, ...]:
    """Return the forms of a value, longest first; a Chinese text that has one mentions it."""
    plain = normalised(value)
    core = TRAIT_END.sub("", HABIT.sub("", plain, count=1))
    forms = {plain, core, TRAIT_END.sub("", plain), DATED.sub("", plain)}
    forms = {one for one in forms if len(one) >= SHORTEST}
    weak = load_revision_rules("zh").weak
    found = sorted(forms - weak or ({plain} if len(plain) == 1 else ()), key=len)[::-1]
    return (*found, *(one for one in wider_words(value) if HAN_CHARACTER.search(one)))


@dataclass(slots=True)
class HeldIndex:
    """The facts that hold before a clause, by key, by word and by slot."""

    _facts: dict[Key, HeldFact]
    _by_stem: defaultdict[str, dict[Key, HeldFact]]
    _han: dict[Key, HeldFact]
    _by_slot: defaultdict[str, dict[Key, HeldFact]]

    def __init__(self, facts: Iterable[HeldFact] = ()) -> None:
        self._facts, self._han = {}, {}
        self._by_stem, self._by_slot = defaultdict(dict), defaultdict(dict)
        for fact in facts:
            self.add(fact)

    def add(self, fact: HeldFact) -> None:
        """Hold a fact; one with the same key is replaced."""
        key = key_of(fact)
        self._facts[key] = fact
        self._by_slot[fact.slot][key] = fact
        if HAN_CHARACTER.search(fact.value):
            self._han[key] = fact
        for one in (*mention_stems(fact.value), *map(stem, wider_words(fact.value))):
            self._by_stem[one][key] = fact

    def drop(self, key: Key) -> None:
        """Stop holding the fact with this key, if it is held."""
        fact = self._facts.pop(key, None)
        if fact is None:
            return
        self._han.pop(key, None)
        self._by_slot[fact.slot].pop(key, None)
        for one in (*mention_stems(fact.value), *map(stem, wider_words(fact.value))):
            self._by_stem[one].pop(key, None)

    def get(self, key: Key) -> HeldFact | None:
        return self._facts.get(key)

    def __iter__(self) -> Iterator[HeldFact]:
        return iter(list(self._facts.values()))

    def of_slot(self, slot: str, subject: str = USER) -> list[HeldFact]:
        """Return the facts of a slot about a subject."""
        return [one for one in self._by_slot[slot].values() if one.subject == subject]

    def slots(self) -> list[str]:
        """Return the slots that have facts."""
        return [slot for slot, facts in self._by_slot.items() if facts]

    def named(self) -> list[HeldFact]:
        """Return the facts that name a person or animal of the user."""
        return [
            fact
            for slot in self.slots()
            if is_name_slot(slot)
            for fact in self._by_slot[slot].values()
        ]

    def people(self, relations: Iterable[str]) -> list[HeldFact]:
        """Return the facts that name somebody with one of these relations."""
        return [fact for one in relations for fact in self.of_slot(f"{RELATION}.{one}")]

    def genders(self, name: str) -> set[Gender]:
        """Return the genders that somebody with this normalised name may have."""
        return {
            gender_of(relation_of(fact)) for fact in self.named() if normalised(fact.value) == name
        }

    def attributes(self, fact: HeldFact) -> list[HeldFact]:
        """Return what is held about the person that a fact names, as any relation or by name.

        Only as that relation if another fact names somebody so.
        """
        name = normalised(fact.value)
        is_shared = any(normalised(one.value) == name and one.slot != fact.slot
                        for one in self.named())  # fmt: skip
        about = (f"{fact.slot}.",) if is_shared else (f"{RELATION}.", f"{ABOUT}.")
        return [
            one
            for slot in self.slots()
            if slot.startswith(about)
            for one in self.of_slot(slot, name)
        ]

    def touched(self, words: str, language: Language) -> list[HeldFact]:
        """Return the facts that a few words mention, also by the greater part of a Chinese value.

        The part must begin the value, because what ends it may be common: 招商银行, 工商银行.
        """
        found = {key_of(fact): fact for fact, _ in self.mentioned(words, language)}
        low = normalised(words)
        for key, fact in self._han.items() if HAN_CHARACTER.search(low) else ():
            if _begins(mention_forms(fact.value), low):
                found[key] = fact
        return list(found.values())

    def mentioned(self, clause: str, language: Language) -> list[tuple[HeldFact, str]]:
        """Return the facts whose value a clause mentions, with the clause around MENTION."""
        found: dict[Key, tuple[HeldFact, str]] = {}
        if HAN_CHARACTER.search(clause):
            low = clause.lower()
            for key, fact in self._han.items():
                form = next((one for one in mention_forms(fact.value) if one in low), "")
                if form:
                    found[key] = (fact, low.replace(form, MENTION, 1))
        tokens = [(match, stem(match[0].lower())) for match in LATIN_TOKEN.finditer(clause)]
        tokens += [(match, stem(match[0].lower()[:-2])) for match, _ in tokens
                   if match[0].lower().endswith("'s")]  # fmt: skip
        hits: defaultdict[Key, list[re.Match[str]]] = defaultdict(list)
        for match, one in tokens:
            for key in self._by_stem.get(one, ()):
                hits[key].append(match)
        for key, matches in hits.items():
            fact = self._facts[key]
            if key not in found and _is_mention(fact, matches, language):
                found[key] = (fact, _masked(clause, matches))
        return list(found.values())

    def mentioned_things(self, clause: str, language: Language) -> Iterator[tuple[HeldFact, str]]:
        """Yield what the user owns as the only one of a slot, where its word stands for it.

        Each comes with the clause around MENTION: "sold the car", 车卖了.
        """
        for slot, named in load_reader_rules(language).named.items():
            held = self.of_slot(slot)
            match = named.search(clause) if len(held) == 1 and "own" in kinds_of(slot) else None
            if match:
                start, end = match.span("thing")
                yield held[0], clause[:start] + MENTION + clause[end:]


def _begins(forms: Iterable[str], words: str) -> bool:
    """Tell whether words hold the beginning of a form, at least MENTIONED of it."""
    for form in forms:
        size = max(SHORTEST, ceil(len(form) * MENTIONED))
        if form[:size] in words:
            return True
    return False


def _is_mention(fact: HeldFact, matches: list[re.Match[str]], language: Language) -> bool:
    wanted = mention_stems(fact.value)
    words = {stem(match[0].lower().removesuffix("'s")) for match in matches}
    if words & {stem(one) for one in wider_words(fact.value)}:
        return True
    have = words & wanted
    if len(have) * 2 < len(wanted):
        return False
    if language == "zh" and HAN_CHARACTER.search(fact.value):
        return False
    weak = load_revision_rules("en").weak
    return have == wanted or not have <= weak


def _masked(clause: str, matches: list[re.Match[str]]) -> str:
    """Return a clause with MENTION for the first run of words that mention the value."""
    spans = sorted({match.span() for match in matches})
    start, end = spans[0]
    for begin, stop in spans[1:]:
        between = clause[end:begin].split()
        if any(word.lower() not in ENGLISH_STOP_WORDS for word in between) or "," in between:
            break
        end = stop
    tail = "'s" if clause[start:end].lower().endswith("'s") else ""
    return clause[:start] + MENTION + tail + clause[end:]


def holds_name(name: str, text: str) -> bool:
    """Tell whether a text has a name as a whole word; both in lower case."""
    return place_of(name, text) >= 0
