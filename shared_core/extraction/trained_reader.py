"""Propose facts for clauses that the rules could not read, with the trained tagger. Pure.

The tagger proposes spans; what the text says around them and what they look like decides. A fact
is proposed only for a clause that passed the guards of the rules. Where in doubt there is none.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from shared_core.core.domain import FactDraft
from shared_core.extraction.pattern_facts import TRAILING, voiced
from shared_core.nlp.affect import fact_importance
from shared_core.nlp.rules import RuleSet, load_rules, read_rule_file
from shared_core.nlp.text import HAN_CHARACTER, Language

if TYPE_CHECKING:
    from shared_core.extraction.span_tagger import TaggedSpan

LANGUAGES: Final[tuple[Language, ...]] = ("en", "zh")
KIN: Final = "kin"
"""Tag of the word for a relative."""
TRUST: Final = 0.8
"""Factor on the tagger's probability: a rule is believed before the reader."""
MAX_CLAUSE_CHARACTERS: Final[dict[Language, int]] = {"en": 140, "zh": 48}
MAX_BARE: Final[dict[Language, int]] = {"en": 9, "zh": 16}
"""Most words, or Chinese characters, of a clause that need not name the user."""
LEFT: Final = frozenset(["residence", "origin", "employer"])
"""Slots whose value may be named as the one that was left: "from Austin to Denver"."""
MIN_RULE_CHARACTERS: Final = 3
SINGLE_CHARACTER: Final = frozenset(["dislike", "like", "zodiac", "surname", "age"])
"""Slots whose values may be one Chinese character."""
MAX_VALUE_CHARACTERS: Final = 80
MAX_NAME_WORDS: Final = 3
AGES: Final = range(1, 111)
DENIALS: Final = frozenset(["dislike", "rule", "trait", "schedule", "plan"])
"""Slots whose values may stand after a "not": "I don't eat pork"."""
NAMING: Final = re.compile(
    r"\b(?:names?|name's|called|named|calls? me|known as|go(?:es)? by|surname|sign(?: it)?)\b"
    r"|叫|姓|名",
    re.IGNORECASE,
)
COUNT: Final = re.compile(
    r"\d{1,3}|one|two|three|four|five|six|seven|eight|nine|ten|once|twice|[一二两三四五六七八九十]",
    re.IGNORECASE,
)
CORRECTED: Final = re.compile(r"\bit'?s\s*$", re.IGNORECASE)
"""What comes before a name, and before the right word of a correction: "It's Apex, not Acme"."""
NUMBER: Final = re.compile(
    r"\d|[零〇一二两三四五六七八九十百千万半]|\b(?:\w+teen|\w+ty)\b", re.IGNORECASE
)
DATE: Final = re.compile(
    r"\d|[一二三四五六七八九十正腊]月|初[一二三四五六七八九十]"
    r"|\b(?:jan|feb|mar|apr|may|june?|july?|aug|sep|oct|nov|dec|christmas|halloween|new year)",
    re.IGNORECASE,
)
TIME: Final = re.compile(
    r"\d|\b(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?s?\b"
    r"|\b(?:tomorrow|next|weekend|evenings?|mornings?|afternoons?|nights?|every|daily|weekly|noon"
    r"|spring|summer|autumn|fall|winter|christmas|easter)\b"
    r"|[周年月日号點点]|星期|礼拜|每天|明天|后天|早上|晚上|中午|下午|暑假|寒假|国庆|五一|春节|夜班|单休|双休"
    rf"|{DATE.pattern}",
    re.IGNORECASE,
)
"""A time, without which there is no plan and no schedule."""
NO_VALUE: Final = re.compile(
    r"(?:it|that|this|them|these|those|here|there|now|today|tonight|tomorrow|yesterday"
    r"|home|work|school|bed|trouble|love|me|you|him|her|us|one|some|any|something"
    r"|nothing|everything|stuff|things?|lol|haha|btw|ok|okay|yes|no|not|so|too|and|the"
    r"|an?|my|your|just|really|good|fine|in|on|at|of|to|for|with|from|by|else|an eye"
    r"|a look|time|fun|local|a local|experience|curve|customer|member|fan|guest|user"
    r"|person|guy|girl|man|woman|mess|regular|process|course|project|projects|meds"
    r"|learning|毕业|管理员|admin|administrator|root|owner|moderator|especially|excuses"
    r"|shape|a while|bad|great|sure|sorry|ready|done|late|tired|back|out|这|那|这个"
    r"|那个|这里|那里|它|他|她|你|我|[一两三]?[个件些点次种本条杯份]|一|什么|今天|明天"
    r"|昨天|现在|这样|那样|家|公司|的|了|吗|呢)",
    re.IGNORECASE,
)
MARITAL: Final = re.compile(
    r"single|married|engaged|divorced|separated|widow|split up|broke up|relationship"
    r"|婚|单身|離|离|领证|分手|丧偶|恋爱|脱单|对象",
    re.IGNORECASE,
)
NO_PLACE: Final = re.compile(
    r"\b(?:my|your|this|that|car|bed|sweatpants|fear|meeting|hurry|kitchen|hospital|office|world"
    r"|future|past|internet|book|game|movie|song|dream)\b|[的里上下]$",
    re.IGNORECASE,
)
STATE: Final = re.compile(
    r"(?:ic|ant|blind|sighted|hearing|tolerant|intollerant|ed|bound)$", re.IGNORECASE
)
"""An adjective for somebody's health: "I'm diabetic"."""
BEING: Final = re.compile(
    r"\b(?:i'm|im|i am|as an?|being)(?: an?)?(?: type \d)?\s*$", re.IGNORECASE
)
SUBJECT: Final = re.compile(
    r"^(?:(?:i'm|im|i am|i|we're|we are|we|my|our)\b|我们|我)\s*", re.IGNORECASE
)
OTHER_UNIT: Final = re.compile(
    r"\s*(?:kg|cm|km|%|\.\d|lbs?|pounds?|kilos?|minutes?|hours?|days?|weeks?|months?|bucks"
    r"|公斤|斤|厘米|米|块|元|号|月|点|分)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag:
    """What becomes of the spans of a tag; see reader.toml."""

    slot: str
    shape: str = "words"
    whole: bool = False
    of_kin: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderRules:
    """The reader's data in one language; see reader.toml."""

    sure_floor: float
    kin: Mapping[str, str]
    sentences: Mapping[str, str]
    vetoes: Mapping[str, re.Pattern[str]]
    needs: Mapping[str, re.Pattern[str]]
    standing: re.Pattern[str]
    lasting: re.Pattern[str]


@lru_cache
def load_tags() -> Mapping[str, Tag]:
    """Return the tags of the reader by name."""
    return {name: Tag(**found) for name, found in _source()["tags"].items()}


@lru_cache
def load_reader_rules(lang: Language) -> ReaderRules:
    """Return the reader's floors, words and vetoes in a language."""
    source = _source()
    vetoes = source["vetoes"][lang]
    return ReaderRules(
        sure_floor=source["floors"][lang]["sure"],
        kin={**load_rules(lang).kin, **source["kin"][lang]},
        sentences={**load_rules(lang).sentences, **source["sentences"][lang]},
        vetoes={name: re.compile(one, re.IGNORECASE) for name, one in vetoes.items()},
        needs={name: re.compile(one, re.IGNORECASE) for name, one in source["needs"][lang].items()},
        standing=re.compile(source["standing"][lang], re.IGNORECASE),
        lasting=re.compile(source["lasting"][lang], re.IGNORECASE),
    )


@lru_cache
def _source() -> dict[str, Any]:
    return read_rule_file("reader.toml")


def reader_patterns() -> frozenset[str]:
    """Return the ids of all patterns of the reader."""
    return frozenset(_pattern(lang, name) for lang in LANGUAGES for name in load_tags())


def _pattern(lang: Language, tag: str) -> str:
    return f"reader.{lang}.{tag}"


def is_proposed(draft: FactDraft) -> bool:
    """Tell whether a draft is a proposal of the reader."""
    return draft.pattern.startswith("reader.")


def proposed_facts(
    clause: str,
    lang: Language,
    event_id: str,
    without: Collection[str] = (),
    *,
    known: Collection[FactDraft] = (),
    text: str = "",
    relations_only: bool = False,
    barred: Collection[str] = (),
) -> Iterator[FactDraft]:
    """Yield the facts that the tagger finds in a clause and the checks let pass.

    known: facts of the clause, whose slots and values are left alone. text: where each value must
    stand, the clause if empty. relations_only: the clause is not about the user. barred: slots to
    leave out.
    """
    if len(clause) > MAX_CLAUSE_CHARACTERS[lang]:
        return
    rules = load_reader_rules(lang)
    if rules.vetoes["clause"].search(clause):
        return
    # Deferred: numpy takes a moment to load.
    from shared_core.extraction.span_tagger import load_tagger

    tagged = load_tagger(lang).tag(clause)
    spans = [replace(one, sure=one.sure * tagged.gate) for one in joined(tagged.spans, clause)]
    kin = kin_of(clause, spans, rules)
    taken = {*barred, *(draft.slot for draft in known)}
    values = [draft.value for draft in known if draft.value]
    for span in spans:
        tag = load_tags().get(span.slot)
        if tag is None or _pattern(lang, span.slot) in without:
            continue
        if (tag.of_kin and not kin) or (relations_only and not tag.of_kin):
            continue
        value = value_of(clause, span, tag)
        slot = slot_for(clause, span, tag, kin, value)
        if slot in taken or any(value in one or one in value for one in values):
            continue
        if value not in (text or clause) or not holds(value, slot, span, tag, clause, lang):
            continue
        if tag.whole:
            taken.add(slot)
        values.append(value)
        yield fact_of(value, slot, span, kin, lang, event_id)


def holds(value: str, slot: str, span: TaggedSpan, tag: Tag, clause: str, lang: Language) -> bool:
    """Tell whether a span is sure, the user's own, not denied, and looks like a value."""
    rules = load_reader_rules(lang)
    if span.sure < rules.sure_floor or denied(clause, span, slot, rules):
        return False
    if not tag.of_kin and about_other(clause, span, rules, lang):
        return False
    if tag.whole and (not TIME.search(value) or rules.vetoes["past"].search(clause)):
        return False
    around = clause if tag.whole else f"{clause[: span.start]} … {clause[span.end :]}"
    if not tag.of_kin and not speaks_of_self(clause, rules, lang):
        return False
    if tag.slot in LEFT and rules.vetoes["left"].search(clause[: span.start]):
        return False
    if tag.slot == "rule":
        if not is_standing(clause, span, rules):
            return False
    elif (needed := rules.needs.get(span.slot)) and not needed.search(around):
        return False
    least = MIN_RULE_CHARACTERS if slot == "rule" else 1
    if len(value) < least or (len(value) == 1 and slot.rsplit(".", 1)[-1] not in SINGLE_CHARACTER):
        return False
    return fits(value, tag.shape, clause, span, lang)


def is_standing(clause: str, span: TaggedSpan, rules: ReaderRules) -> bool:
    """Tell whether an instruction is one for good, or of style; an order of one thing is none."""
    before = re.split("[,，;；]", clause[: span.start])[-1]
    if not rules.standing.search(clause) or rules.vetoes["told"].search(before):
        return False
    return bool(rules.lasting.search(clause)) or not rules.vetoes["task"].search(clause)


def speaks_of_self(clause: str, rules: ReaderRules, lang: Language) -> bool:
    """Tell whether a clause names the user, or leaves a subject out as short ones do."""
    most = MAX_BARE[lang]
    size = len(clause) if lang == "zh" else len(clause.split())
    return size <= most or bool(rules.vetoes["self"].search(clause))


def joined(spans: Collection[TaggedSpan], clause: str) -> list[TaggedSpan]:
    """Return spans with neighbours of one slot joined: "Dr." and "Patel"."""
    found: list[TaggedSpan] = []
    for span in spans:
        last = found[-1] if found else None
        between = clause[last.end : span.start] if last else ""
        if last and last.slot == span.slot and between.strip() in ("", ".") and between:
            found[-1] = replace(last, end=span.end, sure=min(last.sure, span.sure))
        else:
            found.append(span)
    return found


def kin_of(clause: str, spans: Collection[TaggedSpan], rules: ReaderRules) -> str:
    """Return the relation that a clause names, such as "daughter"; "" for none or several."""
    words = [clause[one.start : one.end].lower() for one in spans if one.slot == KIN]
    plain = {re.sub(r"['’]s?$", "", word) for word in words}
    found = {rules.kin.get(word) or rules.kin.get(word.removesuffix("s")) for word in plain}
    return found.pop() or "" if len(found) == 1 else ""


def value_of(clause: str, span: TaggedSpan, tag: Tag) -> str:
    """Return the value of a span; of a plan, the clause from its subject on."""
    if tag.whole:
        return SUBJECT.sub("", clause.strip(TRAILING), count=1)
    return clause[span.start : span.end].strip(TRAILING)


def slot_for(clause: str, span: TaggedSpan, tag: Tag, kin: str, value: str) -> str:
    """Return the slot of a span: an adjective for health is a trait."""
    if tag.of_kin:
        return tag.slot.format(kin=kin)
    if tag.slot == "health" and not HAN_CHARACTER.search(value):
        before = clause[: span.start].rstrip()
        if BEING.search(before) and STATE.search(value.split()[-1] if value.split() else ""):
            return "trait"
    return tag.slot


def about_other(clause: str, span: TaggedSpan, rules: ReaderRules, lang: Language) -> bool:
    """Tell whether the words before a span speak of somebody else than the user."""
    before, beside = clause[: span.start], rules.vetoes["beside"]
    others = [one.end() for one in rules.vetoes["other"].finditer(before)]
    for mention in load_rules(lang).kin_mention.finditer(before):
        beside = rules.vetoes["beside"]
        if not beside.search(before[: mention.start()]) and not beside.match(
            before[mention.end() :]
        ):
            others.append(mention.end())
    if not others:
        return False
    selves = [one.end() for one in rules.vetoes["self"].finditer(before)]
    return not selves or selves[-1] < others[-1]


def denied(clause: str, span: TaggedSpan, slot: str, rules: ReaderRules) -> bool:
    """Tell whether the clause denies a fact before its value."""
    if slot.rsplit(".", 1)[-1] in DENIALS or slot.endswith("allergy"):
        return False
    return bool(rules.vetoes["denied"].search(clause[: span.start]))


def fits(value: str, shape: str, clause: str, span: TaggedSpan, lang: Language) -> bool:
    """Tell whether a value looks like one of its kind."""
    if not value or len(value) > MAX_VALUE_CHARACTERS or NO_VALUE.fullmatch(value):
        return False
    if not re.search(r"\w", value):
        return False
    if shape == "name":
        return is_name(value, clause[: span.start], load_rules(lang))
    if shape == "state":
        return bool(MARITAL.search(value))
    if shape == "count":
        return bool(HAN_CHARACTER.search(value)) or " " in value
    if shape == "age":
        return is_age(value, clause[span.end :])
    if shape == "date":
        return bool(DATE.search(value))
    if shape == "quantity":
        return bool(NUMBER.search(value))
    if COUNT.fullmatch(value):
        return False
    if shape == "place":
        return not NO_PLACE.search(value)
    if shape == "taste":
        return not any(
            one.reject and one.reject.search(value)
            for one in load_rules(lang).patterns
            if one.id in ("en.like.love", "zh.like.like")
        )
    return True


def is_name(value: str, before: str, rules: RuleSet) -> bool:
    """Tell whether a value may be a name: capitals, Chinese characters, or "my name is" before."""
    if CORRECTED.search(before) and not NAMING.search(before):
        return False
    if rules.no_person.fullmatch(value) or len(value.split()) > MAX_NAME_WORDS:
        return False
    if re.search(r"\d", value):
        return False
    if HAN_CHARACTER.search(value):
        return len(value) <= MAX_NAME_WORDS + 2
    return value[:1].isupper() or bool(NAMING.search(before))


def is_age(value: str, after: str) -> bool:
    """Tell whether a value is an age: a number of years, without another unit after it."""
    digits = re.search(r"\d+", value)
    if digits and int(digits[0]) not in AGES:
        return False
    if OTHER_UNIT.match(after):
        return False
    return bool(NUMBER.search(value) or re.search(r"[a-z]", value))


def fact_of(
    value: str, slot: str, span: TaggedSpan, kin: str, lang: Language, event_id: str
) -> FactDraft:
    """Return the draft of a proposed fact."""
    rules = load_rules(lang)
    parts = slot.split(".")
    inner = ".".join(parts[2:])
    shape = f"relation.{{kin}}{'.' + inner if inner else ''}" if parts[0] == "relation" else slot
    fact_type, functional = rules.slots.get(shape, rules.slots.get(inner, ("profile", False)))
    return FactDraft(
        fact_type=fact_type if parts[0] != "relation" else "profile",
        slot=slot,
        value=value,
        statement=sentence_of(value, shape, inner, kin, lang),
        event_id=event_id,
        functional=functional,
        confidence=round(TRUST * span.sure, 2),
        pattern=_pattern(lang, span.slot),
        language=lang,
        importance=fact_importance(slot),
    )


def sentence_of(value: str, shape: str, inner: str, kin: str, lang: Language) -> str:
    """Return the sentence that states a value."""
    sentences = load_reader_rules(lang).sentences
    word = kin if lang == "en" else _kin_word(kin)
    names = {
        "value": voiced(value, load_rules(lang)),
        "a": "an" if value[:1].lower() in {*"aeiou"} else "a",
        "kin": word,
        "canonical_kin": word,
    }
    template = sentences.get(shape)
    if template is None:
        whose = f"User's {word}" if lang == "en" else f"用户的{word}"
        template = sentences[inner].replace("User" if lang == "en" else "用户", whose, 1)
    return template.format_map(names)


def _kin_word(kin: str) -> str:
    words = [word for word, one in load_rules("zh").kin.items() if one == kin]
    return min(words, key=len, default=kin)
