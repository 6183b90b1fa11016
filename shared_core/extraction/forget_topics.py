"""Decide what a request to forget is about: a person, facts of the user, or words. Pure.

A topic is looked up among the facts, held or just told. "Marek" is the brother whom the user named,
so "my brother lives in Gdansk" goes with him. "My address" is a slot, so "I live in Leeds" goes.
Any other topic is a word of texts. A name that is a word too counts where it is used as a name.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import takewhile
from typing import Final, TypeAlias

from shared_core.core.domain import USER, Event, FactDraft, HeldFact
from shared_core.extraction.forget_reading import (
    GOES,
    MOST_HELD,
    asked_to_forget,
    asks_to_forget_everything,
)
from shared_core.extraction.forget_requests import (
    HOLLOW,
    MAX_READ_CHARACTERS,
    ForgetRequest,
    first_names,
    forget_requests,
    slots_of_topic,
)
from shared_core.extraction.rule_based import RuleExtractor
from shared_core.extraction.trained_reader import EX
from shared_core.nlp.nicknames import is_word
from shared_core.nlp.question_subject import is_about_another
from shared_core.nlp.relation_phrases import kin_of_word, kin_relation, own_kin, words_of_kin
from shared_core.nlp.rules import load_kin_words, read_language
from shared_core.nlp.rules.revision import load_revision_tables
from shared_core.nlp.slots import is_name_slot, umbrellas
from shared_core.nlp.text import HAN_CHARACTER, normalised, search_terms, sentences, stem
from shared_core.nlp.typed_text import as_meant, load_english_typing

AnyFact: TypeAlias = HeldFact | FactDraft
"""A fact that is held, or one that a turn tells."""
ALL_FROM: Final = 5
"""Number of statements and turns from which a request about all of them is about everything."""
MOST_BESIDE: Final = 3
"""Maximum number of words beside a name in a request that is about the person, not a matter."""
NAME: Final = "name"
"""The slot of the user's name, which resembles much. A request to forget it names the slot."""
_RELATION: Final = "relation."
_PART: Final = re.compile(r"[A-Za-z0-9\u00c0-\u024f]+|[\u4e00-\u9fff]+")
_LATIN_WORD: Final = re.compile(r"[a-z]{3,40}")
_INFLECTIONS: Final = (
    frozenset({"", "s", "es", "d", "ed", "ing"}),
    frozenset({"e", "es", "ed", "ing"}),
    frozenset({"y", "ies", "ied", "ying"}),
)
"""Endings that forms of one English word have after what they share; equal stems share more."""
_HABITS: Final = frozenset(map(stem, (
    "bake", "climb", "crochet", "dance", "drink", "flirt", "gamble", "hike", "jog", "kayak",
    "knit", "meditate", "run", "sew", "shoplift", "sing", "skate", "ski", "smoke", "snore",
    "snowboard", "stutter", "surf", "swim", "vape",
)))  # fmt: skip
"""Verbs whose form in -ing means the same as the others; "training" is not about a train."""
_DOES_EN: Final = (
    r"(?:(?:is|was|has|does|did|ca|wo)n't|is|was|has|had|does|did|says?|said|told|works?|lives?"
    r"|came|comes|went|goes|got|likes?|loves?|hates?|wants?|broke|rang|sold|bought|left|met|made"
    r"|took|gave|sent|wrote|lost|won|ran|knows?|knew|thinks?|thought"
    r"|\w{2,20}(?:ed|s)|and i|and my)\b"
)
"""What a person does at the beginning of a clause: "Will rang", not "will it rain"."""
_MONTHS: Final = frozenset({"april", "may", "june", "august", "summer", "autumn"})
_AROUND_MONTH: Final = r"(?<!\bin )(?<!\blast )(?<!\bnext )(?<!\bthis )(?<!\bof )(?<!\bsince )"
_BEFORE_NAME_ZH: Final = "和跟与对给把被找叫是让约见请问陪帮像、，。！？；,.!?; \n"
_AFTER_NAME_ZH: Final = "的说是她他也来去在住养和跟"
_NO_NAME_BEFORE_ZH: Final = "很真太不挺更着下了场"
"""What stands before a quality or the weather: 很文静, 下小雨."""
_NO_NAME_AFTER_ZH: Final = "下转停那节过"

_BARE: Final = re.compile(r"forget (?:the )?[\w'-]+(?: [\w'-]+)?[.!?]*", re.IGNORECASE)
_EX: Final = re.compile(r"ex(?:[- ]\w{2,12})?|前[\u4e00-\u9fff]{1,3}", re.IGNORECASE)
_AS_USER: Final = re.compile(
    r"\b(?P<my>user['’]s|your)\b|\b(?:the )?(?:user|you)\b|用户|[你您]", re.I
)
"""How an agent or a fact names the user."""
_OF_USER: Final = re.compile(r"\b(?:i|i['’]\w+|me|my|we|our)\b|[我咱]", re.I)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetTopic:
    """What a request is about.

    slots: of the user, as "residence" for "my address". names: of people. kin: their relations to
    the user, where they are the only ones: then "my brother" without a name is one of them.
    is_of_kin: the request names a relation, as "my brother". values: of the facts that go; who
    repeats one to the user repeats the topic.
    judged: the statements and turns that the judge takes the request to be about. likely: these,
    and those from MAY_GO on. is_all: it is about everything, so nothing goes by a message.
    """

    request: ForgetRequest
    slots: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    kin: frozenset[str] = frozenset()
    is_of_kin: bool = False
    values: frozenset[str] = frozenset()
    judged: frozenset[str] = frozenset()
    likely: frozenset[str] = frozenset()
    is_all: bool = False

    def has_fact(self, fact: AnyFact) -> bool:
        """Tell whether a fact is about the topic, whatever its words."""
        if fact.statement in self.judged:
            return True
        if self.slots:
            return _is_of_slots(fact, self.slots)
        named = {normalised(one) for one in self.names}
        if normalised(fact.subject) in named:
            return True
        if is_name_slot(fact.slot):
            return normalised(fact.value) in named
        return fact.subject == USER and _kin_of(fact.slot) in self.kin

    def has_text(self, text: str, role: str | None = "user") -> bool:
        """Tell whether a text is about the topic. role: who says it; None for no turn."""
        if text in self.judged:
            return True
        if self.judged and role not in ("user", None):
            held = normalised(text)
            if any(_spelled(one, held) for one in self.values):
                return True
        if self.request.is_of_last or self.request.is_read:
            return False
        if self.slots:
            is_own = bool(_own_words(self.request.bare_topic).search(text))
            return is_own or (role != "user" and self._repeats(text))
        if self.kin:
            meant = as_meant(text)
            folded = meant.casefold()
            # Most texts name none of them, and own_kin() takes longer to say so.
            if any(one in folded for one in words_of_kin(self.kin)) and self.kin & own_kin(meant):
                return True
        if self.is_of_kin:
            own = self.request.bare_topic
            if own.casefold() in umbrellas() and _own_words(own).search(text):
                return True
            return any(_is_used(one, text) for one in self.names)
        return is_about(self.request, text, self.names)

    def _repeats(self, text: str) -> bool:
        """Tell whether a sentence tells a value of the slots of the one whom the topic is about.

        "You live in Leeds" repeats where the user lives; "Leeds is nice" and "your mum lives in
        Leeds" do not.
        """
        held, kin = normalised(text), {_kin_of(one) for one in self.slots} - {""}
        if not any(_spelled(one, held) for one in self.values):
            return False
        for said in (_AS_USER.sub(_by_user, one) for one in sentences(text)):
            is_meant = (
                kin & own_kin(said) or any(_is_used(one, said) for one in self.names)
                if kin
                else _OF_USER.search(said) and not is_about_another(said, slot="")
            )
            if is_meant and any(_spelled(one, normalised(said)) for one in self.values):
                return True
        return False


def topic_among(
    request: ForgetRequest, facts: Iterable[AnyFact], texts: Iterable[str] = ()
) -> ForgetTopic:
    """Return what the topic of a request is among facts, and among texts that may be about it.

    texts: the likeliest first, because the judge compares a request with MOST_HELD at most.
    """
    every = list(facts)
    if request.is_read and asks_to_forget_everything(request.topic):
        return ForgetTopic(request=request, is_all=True)
    if request.is_read and (plain := _plain_topic(request, every)):
        return plain
    if request.is_read and _BARE.fullmatch(request.topic):
        return ForgetTopic(request=request)
    if request.is_read:
        of_name = {one.statement for one in every if one.slot == NAME}
        told = dict.fromkeys((*texts, *(one.statement for one in every)))
        held = [one for one in told if one not in of_name][:MOST_HELD]
        sure = asked_to_forget(request.topic, (*held,))
        judged = frozenset(text for text, chance in sure.items() if chance >= GOES)
        if len(judged) >= ALL_FROM and judged.issuperset(held):
            return ForgetTopic(request=request, is_all=True)
        return ForgetTopic(request=request, judged=judged, likely=frozenset(sure))
    if slots := slots_of_topic(request.topic):
        own = [one for one in every if _is_of_slots(one, slots)]
        return ForgetTopic(
            request=request,
            slots=slots,
            names=frozenset(one.subject for one in own) - {USER},
            values=frozenset(one.value for one in own),
        )
    people = [one for one in every if is_name_slot(one.slot) and one.value]
    bare = request.bare_topic
    kin = kin_of_word(as_meant(bare)) | kin_of_word(request.topic.removeprefix("我"))
    if request.topic.casefold().startswith(("my ", "our ", "我")):
        kin |= umbrellas().get(bare.casefold(), (None, frozenset()))[1]
    is_of_kin = bool(kin)
    kin |= {EX} if _EX.fullmatch(bare) else set()
    own = [one for one in people if _kin_of(one.slot) in kin or _is_called(one.value, bare)]
    names = {one.value for one in own}
    others = {_kin_of(one.slot) for one in people if one.value not in names}
    others |= {*load_revision_tables().people["acquaintances"]} - kin  # one has many friends
    return ForgetTopic(
        request=request,
        names=frozenset(names | {one.split(" ")[0] for one in names}),
        kin=frozenset(kin | {_kin_of(one.slot) for one in own}) - others,
        is_of_kin=is_of_kin,
    )


def _plain_topic(request: ForgetRequest, facts: Sequence[AnyFact]) -> ForgetTopic | None:
    """Return the slot or the person that a request names in its own words, if one is held.

    "Where i live is none of your business, drop it" names a slot, "forget greg" a person.
    """
    words = request.topic
    for part in _parts_of_user(words):
        slots = slots_of_topic(part)
        if slots and any(_is_of_slots(one, slots) for one in facts):
            return topic_among(replace(request, topic=part, is_read=False), facts)
    people = {one.value: one for one in facts if is_name_slot(one.slot) and one.value}
    kin = own_kin(as_meant(words))
    named = [
        value for value, one in people.items()
        if _is_used(value.split(" ")[0], words) or _kin_of(one.slot) in kin
    ]  # fmt: skip
    if len(named) != 1:
        return None
    beside = frozenset(search_terms(words)) - frozenset(search_terms(named[0]))
    if len(beside) > MOST_BESIDE:
        return None
    return topic_among(replace(request, topic=named[0], is_read=False), facts)


def _parts_of_user(text: str) -> Iterator[str]:
    """Yield the runs of a few words that may name a slot of the user: "where i live", 我住哪."""
    if HAN_CHARACTER.search(text):
        starts = [at for at, one in enumerate(text) if one == "我"]
        yield from (text[at : at + size] for at in starts for size in (5, 4, 3))
        return
    said = text.split()
    yield from (" ".join(said[at : at + size]) for at in range(len(said)) for size in (4, 3, 2))


def topic_told(
    request: ForgetRequest, facts: Sequence[AnyFact], texts: Sequence[str], said: str
) -> ForgetTopic:
    """Return the topic of a request. Where its words find nothing, the judge reads the whole turn.

    facts, texts: what it may be about. said: the turn that asks, "" for no judge. Texts that are
    not among these still go by the words.
    """
    topic = topic_among(request, facts, texts)
    is_found = any(map(topic.has_fact, facts)) or any(map(topic.has_text, texts))
    is_known = is_found or request.is_of_last or request.is_read
    if is_known or not said or len(said) > MAX_READ_CHARACTERS:
        return topic
    read = topic_among(replace(request, topic=said, is_read=True), facts, texts)
    return replace(topic, judged=read.judged, likely=read.likely, is_all=read.is_all)


def without_turns_of_others(
    topic: ForgetTopic, drawn: Mapping[str, Collection[str]]
) -> ForgetTopic:
    """Return a topic without the turns of whose facts none is likely.

    "I'm Dan, I live in York with my wife Meg" is no turn about "my parents", though it resembles
    one. drawn: by the text of a turn, the statements of the facts that rest on it.
    """
    kept = (
        text for text in topic.judged
        if not drawn.get(text) or not topic.likely.isdisjoint(drawn[text])
    )  # fmt: skip
    return replace(topic, judged=frozenset(kept))


def facts_told(turns: Sequence[Event]) -> Sequence[FactDraft]:
    """Return the facts that the rules read in turns of one thread."""
    return RuleExtractor().read(turns).facts


def turns_to_forget(
    turns: Sequence[Event], held: Sequence[HeldFact], *, reads: bool = True
) -> frozenset[str]:
    """Return the ids of turns that a later turn of the user asks to forget, and of those askings.

    turns: oldest first. held: the facts that hold. reads: whether the judge reads requests, too.
    """
    gone: set[str] = set()
    for place, turn in enumerate(turns):
        requests = forget_requests(turn.text, reads=reads) if turn.role == "user" else ()
        before = turns[:place]
        told = facts_told(before) if requests else ()
        for request in requests:
            texts = [one.text for one in reversed(before)]
            topic = topic_told(request, [*held, *told], texts, turn.text if reads else "")
            topic = without_turns_of_others(topic, _drawn(before, held, told))
            of_topic = {one.event_id for one in told if topic.has_fact(one)}
            of_topic |= {key for one in held if topic.has_fact(one) for _, key in one.turns}
            gone |= {
                one.event_id
                for one in before
                if one.event_id in of_topic or topic.has_text(one.text, one.role)
            }
            own = [one.event_id for one in before if one.role == "user"]
            gone |= {*own[-1:]} if request.is_of_last else set()
            gone |= {turn.event_id} if request.is_whole else set()
    return frozenset(gone)


def _drawn(
    turns: Sequence[Event], held: Iterable[HeldFact], told: Iterable[FactDraft]
) -> Mapping[str, set[str]]:
    """Return, by the text of a turn, the statements of the facts that rest on it."""
    texts = {one.event_id: one.text for one in turns}
    drawn: defaultdict[str, set[str]] = defaultdict(set)
    for one in told:
        drawn[texts.get(one.event_id, "")].add(one.statement)
    for fact in held:
        for _, event_id in fact.turns:
            drawn[texts.get(event_id, "")].add(fact.statement)
    return drawn


def is_about(request: ForgetRequest, text: str, names: Collection[str] = ()) -> bool:
    """Tell whether a text holds the words of a topic, or one of its names as a name."""
    if any(_is_used(one, text) for one in names):
        return True
    bare, held = request.bare_topic, normalised(text)
    if any(one[0].isupper() and not _is_used(one, text) for one in _PART.findall(bare)):
        return False
    is_name = normalised(bare) in map(normalised, names)
    return not is_name and _spelled(bare, held, frozenset(_LATIN_WORD.findall(held)))


def _kin_of(slot: str) -> str:
    """Return "brother" of relation.brother.place, "" of any other slot."""
    return kin_relation(slot.split(".")[1]) if slot.startswith(_RELATION) else ""


def _is_called(value: str, topic: str) -> bool:
    """Tell whether a name is that of a topic, or begins with it: "Theo Smith"."""
    name, asked = normalised(value), normalised(topic)
    return name == asked or name.startswith(f"{asked} ")


def _is_of_slots(fact: AnyFact, slots: Collection[str]) -> bool:
    """Tell whether a fact is of one of these slots; rules read an illness as a trait."""
    if not (fact.subject == USER or fact.slot.startswith(_RELATION)):
        return False
    is_illness = fact.slot == "trait" and _illness().fullmatch(fact.value) is not None
    return fact.slot in slots or ("health" in slots and is_illness)


def _by_user(match: re.Match[str]) -> str:
    """Return a word for the user as the user says it."""
    if match["my"]:
        return "my"
    return "I" if match[0].isascii() else "我"


@lru_cache
def _illness() -> re.Pattern[str]:
    words = (*read_language("en")["words"]["illness"], *read_language("zh")["words"]["illness"])
    return re.compile("|".join(words), re.IGNORECASE)


@lru_cache(maxsize=64)
def _own_words(topic: str) -> re.Pattern[str]:
    """Return the pattern of what the user calls their own: "my home address", 我的地址."""
    words = re.escape(topic)
    return re.compile(rf"\b(?:my|our) (?:\w{{1,20}} )?{words}\b|我(?:们)?(?:家)?的?{words}", re.I)


def _is_word(name: str) -> bool:
    """Tell whether a name is an ordinary word as well: Rose, 小雨."""
    return is_word(name) or not load_english_typing().words_too.isdisjoint(
        name.casefold().split(" ")
    )


def _is_used(name: str, text: str) -> bool:
    """Tell whether a text uses a name as a name, not as the word that it may be too."""
    if not _spelled(name, normalised(text)):
        return False
    if HAN_CHARACTER.match(name):
        starts = (start for start in range(len(text)) if text.startswith(name, start))
        return any(_is_used_here(name, text, start) for start in starts)
    return bool(_as_name(name, is_word=_is_word(name)).search(text))


def _is_used_here(name: str, text: str, start: int) -> bool:
    """Tell whether what stands beside a Chinese name lets it be one."""
    before, after = text[max(0, start - 1) : start], text[start + len(name) :][:1]
    if not is_word(name):
        return before not in tuple(_NO_NAME_BEFORE_ZH)
    if after and after in _NO_NAME_AFTER_ZH:
        return False
    return not before or before in _BEFORE_NAME_ZH or bool(after and after in _AFTER_NAME_ZH)


@lru_cache(maxsize=64)
def _as_name(name: str, *, is_word: bool) -> re.Pattern[str]:
    """Return the pattern of an English name where it is one; after "a" or "the" it is a word."""
    word, no_article = re.escape(name), r"(?<!\ba )(?<!\ban )(?<!\bthe )"
    found = rf"(?i:(?<![a-z0-9]){no_article}{word})"
    if is_word:
        capital = re.escape(name[:1].upper() + name[1:])
        month = _AROUND_MONTH if name.casefold() in _MONTHS else ""
        kin = "|".join(map(re.escape, sorted(load_kin_words("en"), key=len, reverse=True)))
        begins = r"(?:^|[.!?,;:] ?|\b(?:and|but|that|because|when|if) )"
        found = (
            rf"(?i:\b(?:{kin}|told|met|saw|asked|called|named|dear) {word}\b"
            rf"|{begins}{word}(?:'s\b| {_DOES_EN})|\b{word}'s (?=[a-z]))"
            rf"|(?<=[a-z,;] ){no_article}{month}{capital}\b"
        )
    return re.compile(found)


def _spelled(topic: str, held: str, words: Collection[str] = ()) -> bool:
    """Tell whether a text holds each Latin word of a topic as a word, and its Chinese as it is.

    held: the text, normalised. words: those of it that may be another form of a word of the topic.
    """
    for part in _PART.findall(unicodedata.normalize("NFKC", topic)):
        folded = part.casefold()
        is_han = bool(HAN_CHARACTER.match(part))
        if not is_han and frozenset(search_terms(part)) <= HOLLOW:
            continue
        whole = re.escape(folded)
        whole = whole if is_han else rf"(?<![a-z0-9]){whole}(?:'?s|es)?(?![a-z0-9])"
        if re.search(whole, held):
            continue
        may_inflect = not is_han and part == folded and folded not in first_names()
        if not (may_inflect and any(_is_form(folded, one) for one in words)):
            return False
    return True


def _is_form(word: str, other: str) -> bool:
    """Tell whether two words are forms of one: "cats" and "cat", not "police" and "policy".

    Of a habit also "smoking" and "smoke".
    """
    if stem(word) != stem(other):
        return False
    shared = sum(
        1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(word, other, strict=False))
    )
    rests = {word[shared:], other[shared:]}
    # "stopped" doubles the last letter of "stop".
    single = {rest.removeprefix(word[shared - 1]) for rest in rests} if shared else rests
    if any(rest.endswith("ing") for rest in rests) and stem(word) not in _HABITS:
        return False
    return any(rests <= endings or single <= endings for endings in _INFLECTIONS)
