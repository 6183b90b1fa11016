"""Propose facts for passages that the rules read nothing in, with the trained tagger. Pure.

The tagger proposes the words of values, with slots; what they look like decides. Passages are the
sentences of a user that no guard took for a quotation, a role play or a pasted text. Where in doubt
there is no fact.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
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
RULE: Final = "rule"
SOMEBODY: Final = "person"
"""Relation of those whose end is told without one: "said goodbye to Mog"."""
PASSAGE_CHARACTERS: Final[dict[Language, int]] = {"en": 280, "zh": 110}
"""Maximum length of sentences that are read together."""
MAX_VALUE_CHARACTERS: Final = 120
MAX_NAME_WORDS: Final = 3
INSIDE: Final = re.compile(
    r".?[A-Za-z0-9'’\u00c0-\u024f][A-Za-z0-9'’\u00c0-\u024f]\Z|\d[.,]\d\Z|.\d[.,]\Z", re.DOTALL
)
"""Characters before a place and the one after it, if the place is inside of a word or number."""
OTHERS: Final = re.compile(
    r"\b(?:he|she|they|he's|she's|they're|hes|shes|theyre|his|her|their|you|you're|youre|your"
    r"|someone|somebody|everyone|people|who)\b|[他她您其佢]|有人|别人|大家|下属|下屬"
    r"|^(?:[王李张陈杨赵黄周吴徐孙胡朱林郭罗梁宋郑韩唐冯董萧程曹袁邓许傅沈彭吕]"
    r"[\u4e00-\u9fff]{1,2})(?=是|在|的|挺|很|特|喜欢|住|今年|做|有|会|开|对|爱)",
    re.IGNORECASE,
)
"""Words for somebody else than the user."""
PAST: Final = re.compile(
    r"\b(?:used to|back then|back when|when i was|as a (?:kid|child|teen(?:ager)?))\b"
    r"|以前|曾经|曾經|小时候|小時候|当年|當年",
    re.IGNORECASE,
)
"""What makes a clause one about the past."""
PAST_TOO: Final = frozenset(["origin", "education"])
"""Slots whose values are told of the past."""
LEFT: Final = frozenset(["residence", "employer"])
"""Slots whose value may be named as the one that was left: "from Austin to Denver"."""
LEAVING: Final = re.compile(
    r"\b(?:mov\w+|relocat\w+|switch\w+)\b[^,]{0,60}\bfrom\s*(?:the\s*)?$|(?:[从從]|离开|離開)$",
    re.IGNORECASE,
)
LEAST_OVER: Final = 2
"""Minimum characters of words that are over."""
SELF: Final = re.compile(
    r"\b(?:i|i'm|im|i've|ive|i'd|i'll|me|my|mine|we|we're|we've|our|us)\b|[我咱俺]|本人",
    re.IGNORECASE,
)
BESIDE: Final = re.compile(r"(?:\b(?:with|and|like|as)\s+|[和跟与同陪给带替])$", re.IGNORECASE)
"""What stands before a relative, so that the user is meant too."""
LEAST_CLAUSE: Final[dict[Language, int]] = {"en": 2, "zh": 4}
MAX_BARE: Final[dict[Language, int]] = {"en": 9, "zh": 16}
"""Words, or Chinese characters, of a clause that is kept as a whole; the most if it does not name
the user."""
MAX_SENTENCE: Final[dict[Language, int]] = {"en": 180, "zh": 70}
OF_OTHER: Final = re.compile(r"(?:['’]?s)?\s*|\s*的\s*")
CLAUSE_END: Final = re.compile(r"[,，;；。！？\n]\s*|[.!?]+\s+|\s+[-–—]\s+")
AGES: Final = range(1, 111)
SINGLE_CHARACTER: Final = frozenset(["dislike", "like", "zodiac", "surname", "age"])
"""Slots whose values may be one Chinese character."""
COUNT: Final = re.compile(
    r"\d{1,3}|one|two|three|four|five|six|seven|eight|nine|ten|once|twice|[一二两三四五六七八九十]",
    re.IGNORECASE,
)
NUMBER: Final = re.compile(
    r"\d|[零〇一二两三四五六七八九十百千万半]|\b(?:\w+teen|\w+ty)\b", re.IGNORECASE
)
DATE: Final = re.compile(
    r"\d|[一二三四五六七八九十正腊]月|初[一二三四五六七八九十]"
    r"|\b(?:jan|feb|mar|apr|may|june?|july?|aug|sep|oct|nov|dec|christmas|halloween|new year)",
    re.IGNORECASE,
)
NO_VALUE: Final = re.compile(
    r"(?:it|that|this|them|these|those|here|there|now|today|tonight|tomorrow|yesterday"
    r"|home|work|school|bed|trouble|love|me|you|him|her|us|one|some|any|something"
    r"|nothing|everything|stuff|things?|lol|haha|btw|ok|okay|yes|no|not|so|too|and|the"
    r"|an?|my|your|just|really|good|fine|in|on|at|of|to|for|with|from|by|else"
    r"|这|那|这个|那个|这里|那里|它|他|她|你|我|[一两三]?[个件些点次种本条杯份]|一|什么|今天|明天"
    r"|昨天|现在|这样|那样|家|公司|的|了|吗|呢|管理员|管理員|admin|administrator|root|owner|moderator|sudo)",
    re.IGNORECASE,
)
NO_PLACE: Final = re.compile(r"\b(?:my|your|this|that)\b", re.IGNORECASE)
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
    """The reader's data in one language; see reader.toml. slot, value: least probabilities."""

    slot: float
    value: float
    kin: Mapping[str, str]
    sentences: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderText:
    """Neighbouring sentences of one language, read together. starts: of each sentence."""

    text: str
    language: Language
    starts: Sequence[int]

    def sentence(self, at: int) -> str:
        """Return the sentence around a place."""
        begin = max(one for one in self.starts if one <= at)
        ends = [one for one in self.starts if one > at]
        return self.text[begin : ends[0] if ends else len(self.text)]


@lru_cache
def load_tags() -> Mapping[str, Tag]:
    """Return the tags of the reader by name."""
    return {name: Tag(**found) for name, found in _source()["tags"].items()}


@lru_cache
def load_reader_rules(lang: Language) -> ReaderRules:
    """Return the reader's floor, words and sentences in a language."""
    source = _source()
    return ReaderRules(
        **source["floors"][lang],
        kin={**load_rules(lang).kin, **source["kin"][lang]},
        sentences={**load_rules(lang).sentences, **source["sentences"][lang]},
    )


@lru_cache
def _source() -> dict[str, Any]:
    return read_rule_file("reader.toml")


def reader_patterns() -> frozenset[str]:
    """Return the ids of all patterns of the reader."""
    return frozenset(_pattern(lang, name) for lang in LANGUAGES for name in load_tags())


def _pattern(lang: Language, tag: str) -> str:
    return f"reader.{lang}.{tag}"


def tag_of(draft: FactDraft) -> Tag:
    """Return the tag of a proposal."""
    return load_tags()[draft.pattern.rpartition(".")[2]]


def is_proposed(draft: FactDraft) -> bool:
    """Tell whether a draft is a proposal of the reader."""
    return draft.pattern.startswith("reader.")


def passages(sentences: Iterable[tuple[str, Language]]) -> Iterator[ReaderText]:
    """Yield sentences in passages that are short enough to be read at once."""
    text, starts, language = "", [0], None
    for sentence, lang in sentences:
        joint = "" if lang == "zh" else " "
        whole = len(text) + len(joint) + len(sentence)
        if language is not None and (lang != language or whole > PASSAGE_CHARACTERS[lang]):
            yield ReaderText(text=text, language=language, starts=starts)
            text, starts = "", []
        else:
            text += joint if text else ""
        if not text:
            starts = [0]
        else:
            starts.append(len(text))
        text, language = text + sentence, lang
    if language is not None:
        yield ReaderText(text=text, language=language, starts=starts)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderSpans:
    """What the tagger finds in a passage, as far as it is sure. ended: what no longer holds."""

    spans: tuple[TaggedSpan, ...] = ()
    ended: tuple[TaggedSpan, ...] = ()


def read_passage(text: str, lang: Language) -> ReaderSpans:
    """Return the spans of a text that the tagger is sure enough of."""
    # Deferred: numpy takes a moment to load.
    from shared_core.extraction.span_tagger import load_tagger

    tagged = load_tagger(lang).tag(text)
    floors = load_reader_rules(lang)
    found = []
    for one in joined(tagged.spans, text):
        if one.slot == KIN or one.sure >= floors.slot:
            found.append(one)
        elif one.value * tagged.gate >= floors.value:
            note = "kin_note" if load_tags()[one.slot].of_kin else "note"
            found.append(replace(one, slot=note, sure=one.value))
    return ReaderSpans(spans=tuple(found), ended=tagged.ended)


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """The words of a span that may be worth a fact, and what stands around them.

    before: the text up to them. after: the text from them on. kin: "" for the user.
    """

    words: str
    clause: str
    sentence: str
    before: str
    after: str
    span: TaggedSpan
    tag: Tag
    kin: str
    is_over: bool


def proposed_facts(
    passage: ReaderText,
    event_id: str,
    without: Collection[str] = (),
    *,
    known: Collection[FactDraft] = (),
) -> Iterator[tuple[FactDraft, str]]:
    """Yield the facts that the tagger finds in a passage, each with its sentence.

    What is over is a retraction. known: facts of its turn, whose values are left alone.
    """
    lang = passage.language
    read = read_passage(passage.text, lang)
    values = [draft.value for draft in known if draft.value]
    for span in (*read.ended, *read.spans):
        tag = load_tags().get(span.slot)
        if tag is None or _pattern(lang, span.slot) in without:
            continue
        proposal = proposal_of(passage, read, span, tag)
        if any(proposal.words in one or one in proposal.words for one in values):
            continue
        if ends(proposal) if proposal.is_over else states(proposal, read, lang):
            values.append(proposal.words)
            for draft in drafts_of(proposal, lang, event_id):
                yield draft, proposal.sentence


def proposal_of(passage: ReaderText, read: ReaderSpans, span: TaggedSpan, tag: Tag) -> Proposal:
    """Return the words of a span with what stands around them."""
    text, lang = passage.text, passage.language
    return Proposal(
        words=whole_words(text, span, lang),
        clause=clause_around(text, span),
        sentence=passage.sentence(span.start),
        before=text[: span.start],
        after=text[span.end :],
        span=span,
        tag=tag,
        kin=kin_of(text, span, read.spans, load_reader_rules(lang)) if tag.of_kin else "",
        is_over=span in read.ended,
    )


def ends(proposal: Proposal) -> bool:
    """Tell whether words that are over may name a value."""
    words, tag = proposal.words, proposal.tag
    if len(words) < LEAST_OVER or NO_VALUE.fullmatch(words):
        return False
    return not tag.of_kin or bool(proposal.kin) or tag.shape == "name"


def states(proposal: Proposal, read: ReaderSpans, lang: Language) -> bool:
    """Tell whether words state a value of the user, or of a relative, that holds."""
    span, tag = proposal.span, proposal.tag
    if any(one.start < span.end and span.start < one.end for one in read.ended):
        return False
    if tag.slot not in PAST_TOO and PAST.search(proposal.clause):
        return False
    if tag.slot in LEFT and LEAVING.search(proposal.before):
        return False
    if tag.of_kin and not proposal.kin:
        return False
    if not tag.of_kin and about_other(proposal, lang):
        return False
    if tag.whole and not is_telling(proposal, lang):
        return False
    return fits(proposal, lang)


def about_other(proposal: Proposal, lang: Language) -> bool:
    """Tell whether the last person that the clause names before the words is not the user."""
    before = proposal.clause[: max(proposal.clause.find(proposal.words), 0)]
    others = [one.end() for one in OTHERS.finditer(before)]
    others += [
        one.end() for one in load_rules(lang).kin_mention.finditer(before)
        if not BESIDE.search(before[: one.start()])
    ]  # fmt: skip
    return bool(others) and not SELF.search(before[max(others) :])


def is_telling(proposal: Proposal, lang: Language) -> bool:
    """Tell whether a clause is worth to be kept as a whole.

    It has more than a word, is no part of a long prompt, asks nothing, and names the user unless it
    is short.
    """
    clause, slot = proposal.clause, proposal.tag.slot
    size = len(clause) if lang == "zh" else len(clause.split())
    if size < LEAST_CLAUSE[lang] or len(proposal.sentence) > MAX_SENTENCE[lang]:
        return False
    if (
        slot != RULE
        and proposal.sentence.rstrip().endswith(("?", "？"))
        and clause in (proposal.sentence.rstrip(" ?？"))
    ):
        return False
    if SELF.search(clause) or slot == RULE:
        return True
    return size <= MAX_BARE[lang] and not OTHERS.match(clause)


def drafts_of(proposal: Proposal, lang: Language, event_id: str) -> Iterator[FactDraft]:
    """Yield the drafts of a proposal; "stop using emojis" ends an instruction, and is one.

    The statement of a retraction is the sentence that says so.
    """
    tag, span = proposal.tag, proposal.span
    is_rule = tag.slot == RULE and span.sure >= load_reader_rules(lang).slot
    if not proposal.is_over or is_rule:
        value = proposal.clause if tag.whole else proposal.words
        yield fact_of(value, proposal, lang, event_id)
    if proposal.is_over:
        draft = fact_of(proposal.words, proposal, lang, event_id)
        sure = round(TRUST * span.over, 2)
        yield replace(draft, operation="retract", confidence=sure, statement=proposal.sentence)


def whole_words(text: str, span: TaggedSpan, lang: Language) -> str:
    """Return the words of a span, with no word cut."""
    start, end = span.start, span.end
    if lang == "zh":
        # Deferred: numpy takes a moment to load.
        from shared_core.extraction.span_tagger import load_tagger

        for begin, stop in load_tagger(lang).words(text):
            if begin < start < stop:
                start = begin
            if begin < end < stop:
                end = stop
    while start and INSIDE.match(text[max(start - 2, 0) : start + 1]):
        start -= 1
    while end < len(text) and INSIDE.match(text[max(end - 2, 0) : end + 1]):
        end += 1
    return text[start:end].strip(TRAILING)


def clause_around(text: str, span: TaggedSpan) -> str:
    """Return the clause that holds a span."""
    start = max((one.end() for one in CLAUSE_END.finditer(text, 0, span.start)), default=0)
    stop = CLAUSE_END.search(text, span.end)
    return text[start : stop.start() if stop else len(text)].strip(TRAILING)


def joined(spans: Collection[TaggedSpan], text: str) -> list[TaggedSpan]:
    """Return spans with neighbours of one slot joined: "Dr." and "Patel"."""
    found: list[TaggedSpan] = []
    for span in spans:
        last = found[-1] if found else None
        between = text[last.end : span.start] if last else ""
        if last and last.slot == span.slot and between.strip() in ("", ".") and between:
            found[-1] = replace(last, end=span.end, sure=min(last.sure, span.sure))
        else:
            found.append(span)
    return found


def kin_of(text: str, span: TaggedSpan, spans: Sequence[TaggedSpan], rules: ReaderRules) -> str:
    """Return the relation that a value belongs to, such as "daughter"; "" if none is named.

    It is that of the last word for a relative before the value, or of the first one after it. "My
    sister's husband" is none of them.
    """
    words = [one for one in spans if one.slot == KIN]
    before = [one for one in words if one.end <= span.start]
    if len(before) > 1 and OF_OTHER.fullmatch(text[before[-2].end : before[-1].start]):
        return ""
    near = before[-1:] or [one for one in words if one.start >= span.end][:1]
    for one in near:
        word = re.sub(r"['’]s?$", "", text[one.start : one.end].lower())
        last = word.rsplit(" ", 1)[-1]
        for form in (word, word.removesuffix("s"), last, last.removesuffix("s")):
            if form in rules.kin:
                return rules.kin[form]
    return ""


def fits(proposal: Proposal, lang: Language) -> bool:
    """Tell whether words look like a value of their kind."""
    words, shape = proposal.words, proposal.tag.shape
    single = proposal.span.slot.removeprefix("kin_") in SINGLE_CHARACTER
    if not re.search(r"\w", words) or NO_VALUE.fullmatch(words):
        return False
    if len(words) > MAX_VALUE_CHARACTERS or (len(words) == 1 and not single):
        return False
    looks = {
        "name": lambda: is_name(words, load_rules(lang)),
        "age": lambda: is_age(words, proposal.after),
        "date": lambda: bool(DATE.search(words)),
        "quantity": lambda: bool(NUMBER.search(words)),
        "count": lambda: bool(HAN_CHARACTER.search(words)) or " " in words,
        "place": lambda: not COUNT.fullmatch(words) and not NO_PLACE.search(words),
        "words": lambda: not COUNT.fullmatch(words),
    }
    return looks[shape]()


def is_name(value: str, rules: RuleSet) -> bool:
    """Tell whether a value may be a name."""
    if rules.no_person.fullmatch(value) or len(value.split()) > MAX_NAME_WORDS:
        return False
    if re.search(r"\d", value):
        return False
    return not HAN_CHARACTER.search(value) or len(value) <= MAX_NAME_WORDS + 2


def is_age(value: str, after: str) -> bool:
    """Tell whether a value is an age: a number of years, without another unit after it."""
    digits = re.search(r"\d+", value)
    if digits and int(digits[0]) not in AGES:
        return False
    if OTHER_UNIT.match(after):
        return False
    return bool(NUMBER.search(value) or re.search(r"[a-z]", value))


def fact_of(value: str, proposal: Proposal, lang: Language, event_id: str) -> FactDraft:
    """Return the draft of a proposed fact."""
    rules, kin, span = load_rules(lang), proposal.kin or SOMEBODY, proposal.span
    slot = proposal.tag.slot.format(kin=kin)
    parts = slot.split(".")
    inner = ".".join(parts[2:])
    shape = f"relation.{{kin}}{'.' + inner if inner else ''}" if parts[0] == "relation" else slot
    fact_type, functional = rules.slots.get(shape, rules.slots.get(inner, ("profile", False)))
    return FactDraft(
        fact_type=fact_type if parts[0] != "relation" else "profile",
        slot=slot,
        value=value,
        statement=sentence_of(value, shape, inner, kin, lang, proposal.sentence),
        event_id=event_id,
        functional=functional,
        confidence=round(TRUST * span.sure, 2),
        pattern=_pattern(lang, span.slot),
        language=lang,
        importance=fact_importance(slot),
    )


def sentence_of(value: str, shape: str, inner: str, kin: str, lang: Language, sentence: str) -> str:
    """Return the sentence that states a value."""
    sentences = load_reader_rules(lang).sentences
    word = kin if lang == "en" else _kin_word(kin)
    names = {
        "value": voiced(value, load_rules(lang)),
        "said": sentence.strip(),
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
