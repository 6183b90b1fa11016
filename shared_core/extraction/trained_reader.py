"""Proposes facts of a turn beside those of the rules, with the trained tagger. Pure.

The tagger marks the words of values, with slots; proposals.py decides which are worth a fact.
Passages are the sentences of a user that no guard took for a quotation, a role play or a pasted
text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from shared_core.core.domain import FactDraft
from shared_core.extraction.pattern_facts import TRAILING, voiced
from shared_core.extraction.proposals import RULE, Proposal, ends, is_telling, may_be_cut, states
from shared_core.extraction.reader_rules import (
    LANGUAGES,
    ReaderRules,
    Tag,
    load_reader_rules,
    load_tags,
)
from shared_core.nlp.affect import fact_importance
from shared_core.nlp.rules import RuleSet, kin_word, load_rules
from shared_core.nlp.rules.revision import load_revision_tables
from shared_core.nlp.slots import takes_the_place
from shared_core.nlp.text import Language
from shared_core.nlp.typed_text import load_chinese_typing
from shared_core.nlp.vouching import Bar, is_vouched, of_health
from shared_core.nlp.whole_values import is_whole, whole_span

if TYPE_CHECKING:
    from shared_core.extraction.span_tagger import TaggedSpan

KIN: Final = "kin"
"""Tag of the word for a relative."""
CHILDREN: Final = "children_count"
NAMES_KIN: Final = frozenset([KIN, CHILDREN, "pet_kind"])
"""Tags whose words tell whose a value is: "our two boys, Max (7) and Ben"."""
JOINT: Final = re.compile(r"\s*(?:\s|\.)\s*")
CHILD: Final = re.compile(
    r"(?:sons|daughters|kids|children|boys|girls)|[儿女]子|女儿|孩子", re.IGNORECASE
)
COUNTED: Final = re.compile(
    r"(?:\b(?:two|three|four|five|six|[2-9])\s|[两三四五俩2-9]个?)\Z", re.IGNORECASE
)
"""A count that stands before the word for children."""
EX: Final = "ex"
"""Relation of a partner who is none any more."""
ANIMAL: Final = "pet"
"""Relation of an animal whose kind is in no list."""
TRUST: Final = 0.8
"""Factor on the tagger's probability: a rule is believed before the reader."""
NOTE: Final = "note"
NAMES: Final = frozenset(["kin_name", "pet_name"])
"""Tags of names of others than the user."""
SURE_OR_SILENT: Final = frozenset(["health", "allergy", "medication", "kin_health", "kin_allergy"])
"""Tags whose values are not noted where the slot is not sure: a false one does harm."""
SURE_HEALTH: Final = 0.9
"""Least probability of the slot of these."""
UNCUT_SURE: Final = 0.9
"""Least probability at which a Chinese value that may be cut short is noted."""
SAID_OVER: Final = 0.5
"""Certainty that something is over which the words before it say: "stopped taking lexapro"."""
SOMEBODY: Final = "person"
"""Relation of those whose end is told without one: "said goodbye to Mog"."""
PASSAGE_CHARACTERS: Final[dict[Language, int]] = {"en": 280, "zh": 78}
"""Maximum length of sentences that are read together."""
INSIDE: Final = re.compile(
    r".?[A-Za-z0-9'’\u00c0-\u024f][A-Za-z0-9'’\u00c0-\u024f]\Z|\d[.,]\d\Z|.\d[.,]\Z", re.DOTALL
)
"""Characters before a place and the one after it, if the place is inside of a word or number."""
SHORTEST_NAME: Final = 2
"""Minimum characters of a name before a time."""
WHOLES: Final = {"name": "whole_name", "age": "whole_age"}
"""What the words of a shape must not be a part of; those of any other, a number."""
LONGEST_TIME: Final = 4
"""Maximum characters of a time that are read after the words."""
PARTICLE: Final = re.compile("^[了的着過过]+")
BEFORE_PLACE: Final = re.compile(r"^[在到于從从](?=..)")
POSSESSOR: Final = re.compile(r"['’]s |.的.")
POSSESSED: Final = re.compile(r"['’]s\s+$|(?<![我们們家])的$|[他她它你您](?:们|們)?家?$")
"""What stands before the relative of somebody else: "my sister's husband", 她老公."""
OF_OTHER: Final = re.compile(r"(?:['’]?s)?\s*|\s*的\s*")
SHE: Final = re.compile(r"[.!。！]\s*(?:(?:he|she|his|her)\b|[他她])", re.IGNORECASE)
"""Begins a sentence about somebody who was named before."""
CLAUSE_END: Final = re.compile(r"[,，;；。！？\n]|(?<![.!?])[.!?]{1,8}(?=\s)|(?<=\s)[-–—](?=\s)")


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


def is_proposed_end(draft: FactDraft) -> bool:
    """Tell whether a draft is what the reader takes for over; it ends nothing before revision."""
    return is_proposed(draft) and draft.operation == "retract"


def is_note(draft: FactDraft) -> bool:
    """Tell whether a draft is a note of the reader: words as they were said."""
    return is_proposed(draft) and draft.slot.rpartition(".")[2] == NOTE


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

    tagger = load_tagger()
    if tagger is None:
        return ReaderSpans()
    tagged = tagger.tag(text)
    rules = load_reader_rules(lang)
    silent = SURE_OR_SILENT
    if not any(one.slot == KIN for one in tagged.spans):
        silent |= NAMES  # somebody whom no word relates to the user
    found = []
    for one in joined(tagged.spans, text):
        if not is_own_word(text, one, lang):
            continue
        tag = load_tags().get(one.slot)
        floor = SURE_HEALTH if one.slot in SURE_OR_SILENT else rules.slot_floor
        if tag is None or one.sure >= floor:
            found.append(one)
        elif one.slot not in silent and one.value * tagged.gate >= rules.value_floor:
            found.append(replace(one, slot="kin_note" if tag.of_kin else NOTE, sure=one.value))
    ended = tuple(one for one in tagged.ended if is_own_word(text, one, lang, is_over=True))
    return ReaderSpans(spans=tuple(found), ended=ended)


def is_own_word(text: str, span: TaggedSpan, lang: Language, *, is_over: bool = False) -> bool:
    """Tell whether the user vouches for a span: what others say, and what is feared, is nobody's.

    A word for a relative says nothing yet, and an instruction is the user's, however it is put.
    """
    tag = load_tags().get(span.slot)
    if tag is None or span.slot == KIN:
        return True
    bar: Bar = "strict" if of_health(tag.slot) else "usual"
    if is_over or tag.slot == RULE or quits_before(text, span, tag, lang):
        bar = "low"
    return is_vouched(text, span.start, span.end, lang, bar, of_other=tag.of_kin)


def proposed_facts(
    passage: ReaderText,
    event_id: str,
    without: Collection[str] = (),
    *,
    known: Collection[FactDraft] = (),
) -> Iterator[tuple[FactDraft, Proposal]]:
    """Yield the facts that the tagger finds in a passage, each with what stands around its words.

    What is over is a retraction. known: facts of its turn, whose values are left alone.
    """
    lang = passage.language
    read = read_passage(passage.text, lang)
    values = [draft.value for draft in known if draft.value]
    kept: set[str] = set()
    for span in (*read.ended, *read.spans):
        tag = load_tags().get(span.slot)
        if tag is None or _pattern(lang, span.slot) in without:
            continue
        proposal = proposal_of(passage, read, span, tag)
        words = proposal.words
        if any(holds(one, words) or holds(words, one) for one in values):
            continue
        worth = ends(proposal, lang) if proposal.is_over else states(proposal, read.ended, lang)
        if not worth or (tag.whole and proposal.clause in kept):
            continue
        values.append(words)
        kept.add(proposal.clause)
        for draft in drafts_of(proposal, lang, event_id):
            yield draft, proposal


def holds(text: str, words: str) -> bool:
    """Tell whether a text has these words, none of them cut: "Max Lee" has "Max", no "Ma"."""
    text, words = text.casefold(), words.casefold()
    at = text.find(words)
    while at >= 0:
        end = at + len(words)
        cuts = [place for place in (at, end) if 0 < place < len(text)]
        if not any(INSIDE.match(text[max(one - 2, 0) : one + 1]) for one in cuts):
            return True
        at = text.find(words, at + 1)
    return False


def proposal_of(passage: ReaderText, read: ReaderSpans, span: TaggedSpan, tag: Tag) -> Proposal:
    """Return the words of a span with what stands around them."""
    text, lang = passage.text, passage.language
    if tag.slot == "dislike" and load_reader_rules(lang).words["quits"].search(text[: span.start]):
        span, tag = replace(span, slot="like"), load_tags()["like"]  # "I quit coffee"
    kin, begin = kin_of(text, span, read.spans, load_reader_rules(lang)) if tag.of_kin else ("", 0)
    others = [one for one in read.spans if one is not span and one.slot not in NAMES_KIN]
    clause = clause_around(text, span)
    is_over = span in read.ended or quits_before(text, span, tag, lang)
    is_cut = span.sure >= UNCUT_SURE and may_be_cut(tag, text[span.end :], lang)
    of_nobody = tag.of_kin and not (kin or is_over or span.slot in SURE_OR_SILENT)
    if is_cut or (of_nobody and tag.shape != "name"):
        tag = load_tags()[NOTE]
    return Proposal(
        words=whole_words(text, span, lang),
        clause=clause,
        sentence=passage.sentence(span.start),
        before=text[: span.start],
        after=text[span.end :],
        span=span,
        tag=tag,
        kin=kin,
        of_kin=text[begin:],
        between=masked(text, begin, span, others) if kin else "",
        is_of_several=bool(kin) and names_of(text, begin, read, lang) > 1,
        is_over=is_over,
    )


def names_of(text: str, kin_at: int, read: ReaderSpans, lang: Language) -> int:
    """Return how many names belong to the word for relatives at a place."""
    rules = load_reader_rules(lang)
    return sum(
        kin_of(text, one, read.spans, rules)[1] == kin_at for one in read.spans if one.slot in NAMES
    )


def quits_before(text: str, span: TaggedSpan, tag: Tag, lang: Language) -> bool:
    """Tell whether the words before a span say that it is over: "stopped taking lexapro"."""
    may_quit = tag.slot.rpartition(".")[2] not in (RULE, "dislike")
    return may_quit and bool(load_reader_rules(lang).words["quits"].search(text[: span.start]))


def masked(text: str, kin_at: int, span: TaggedSpan, others: Collection[TaggedSpan]) -> str:
    """Return what stands between the word for a relative and a value, without other values.

    Of "boys, Max (7) and Ben" it is "boys, … (…) and ".
    """
    start, end = min(kin_at, span.end), max(kin_at, span.start)
    for one in sorted(others, key=lambda one: -one.start):
        if start <= one.start and one.end <= end:
            text, end = f"{text[: one.start]}…{text[one.end :]}", end - (one.end - one.start) + 1
    return text[start:end]


def drafts_of(proposal: Proposal, lang: Language, event_id: str) -> Iterator[FactDraft]:
    """Yield the drafts of a proposal; the statement of a retraction is the sentence that says so.

    "Stop using emojis" ends an instruction, and is one. Who "can't do gluten anymore" avoids it.
    """
    tag, span = proposal.tag, proposal.span
    avoids = load_reader_rules(lang).words["avoids"]
    given_up = tag.slot == "like" or span.slot == "diet"
    if proposal.is_over and given_up and avoids.search(proposal.before):
        tag = load_tags()["dislike"]
        proposal = replace(proposal, tag=tag, is_over=False, span=replace(span, slot="dislike"))
    is_rule = tag.slot == RULE and is_telling(proposal, lang)
    if not proposal.is_over or is_rule:
        value = proposal.clause if tag.whole else proposal.words
        yield fact_of(value, proposal, lang, event_id)
    if proposal.is_over:
        draft = fact_of(proposal.words, proposal, lang, event_id)
        sure = round(TRUST * max(min(span.over, span.sure), SAID_OVER), 2)
        yield replace(draft, operation="retract", confidence=sure, statement=proposal.sentence)


def whole_words(text: str, span: TaggedSpan, lang: Language) -> str:
    """Return the words of a span, with no word, name or number cut; "" if it cannot be bounded."""
    start, end = word_start(text, span.start), span.end
    while end < len(text) and INSIDE.match(text[max(end - 2, 0) : end + 1]):
        end += 1
    tag = load_tags()[span.slot]
    if tag.shape == "name":
        end = name_end(text, start, end, load_rules(lang))
    start, end = whole_span(WHOLES.get(tag.shape, "number"), text, start, end, lang)
    if not is_whole(tag.slot, text, start, end, lang):
        return ""
    words = PARTICLE.sub("", text[start:end].strip(TRAILING).strip("()（）"))
    return BEFORE_PLACE.sub("", words) if tag.shape == "place" else words


def word_start(text: str, at: int) -> int:
    """Return where the word or number around a place begins."""
    while at and INSIDE.match(text[max(at - 2, 0) : at + 1]):
        at -= 1
    return at


def name_end(text: str, start: int, end: int, rules: RuleSet) -> int:
    """Return where a name ends: before the time after it, as 小乔 in 小乔周五.

    A surname before the time makes it a name: 李国庆.
    """
    time = rules.time_word.search(text, start + SHORTEST_NAME, end + LONGEST_TIME)
    if time is None or time.start() >= end or rules.surname.fullmatch(text, start, time.start()):
        return end
    return time.start()


def clause_around(text: str, span: TaggedSpan) -> str:
    """Return the clause that holds a span."""
    start = max((one.end() for one in CLAUSE_END.finditer(text, 0, span.start)), default=0)
    stop = CLAUSE_END.search(text, span.end)
    return text[start : stop.start() if stop else len(text)].strip(TRAILING)


def joined(
    spans: Collection[TaggedSpan], text: str, joint: re.Pattern[str] = JOINT
) -> list[TaggedSpan]:
    """Return spans with neighbours of one slot joined: "Dr." and "Patel". joint: stands between.

    A count goes up to the end of the word that it counts: "two" of "two boys".
    """
    found: list[TaggedSpan] = []
    for span in spans:
        count = COUNTED.search(text, 0, span.start)
        if span.slot == KIN and count and CHILD.fullmatch(text, span.start, span.end):
            found = [one for one in found if one.end <= count.start()]
            found.append(replace(span, slot=CHILDREN, start=count.start()))
            continue
        last = found[-1] if found else None
        between = text[last.end : span.start] if last else ""
        if last and last.slot == span.slot and joint.fullmatch(between):
            found[-1] = replace(last, end=span.end, sure=min(last.sure, span.sure))
            continue
        if last and last.slot == CHILDREN and span.slot == KIN and not between.strip():
            found[-1] = replace(last, end=span.end, sure=max(last.sure, span.sure))
        else:
            found.append(span)
    return found


def kin_of(
    text: str, span: TaggedSpan, spans: Sequence[TaggedSpan], rules: ReaderRules
) -> tuple[str, int]:
    """Return the relation that a value belongs to, such as "daughter", and where it is named.

    "" and 0 if none is named. It is that of the last word for a relative before the value, or of
    the first one after it. "My sister's husband" is none of them, nor is "my late wife", and no
    sentence after two relatives says which of them "she" is.
    """
    words = [one for one in spans if one.slot in NAMES_KIN and one is not span]
    before = [one for one in words if one.end <= span.start]
    if len(before) > 1:
        between = text[before[-1].end : span.start]
        if OF_OTHER.fullmatch(text[before[-2].end : before[-1].start]) or SHE.search(between):
            return "", 0
    near = before[-1:] or [one for one in words if one.start >= span.end][:1]
    if near and POSSESSED.search(text[: near[0].start]):
        return "", 0
    for one in near:
        former = rules.words["former"].search(text[: one.end])
        word = former["kin"] if former else text[word_start(text, one.start) : one.end]
        word = re.sub(r"['’]s?$", "", word.lower())
        if POSSESSOR.search(word):
            return "", 0
        last = word.rsplit(" ", 1)[-1]
        plain = word.translate(load_chinese_typing().simplified)
        forms = [word, word.removesuffix("s"), last, last.removesuffix("s"), plain]
        forms += () if plain.isascii() else (plain[at:] for at in range(1, len(plain) - 1))
        relation = next((rules.kin[form] for form in forms if form in rules.kin), "")
        if former:
            is_ex = former["ex"] and relation in load_revision_tables().people["partners"]
            return (EX, one.start) if is_ex else ("", 0)
        if relation or one.slot == "pet_kind":
            return relation or ANIMAL, one.start
    return "", 0


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
        functional=takes_the_place(slot, value, functional=functional),
        confidence=round(TRUST * span.sure, 2),
        pattern=_pattern(lang, span.slot),
        language=lang,
        importance=fact_importance(slot),
    )


def sentence_of(value: str, shape: str, inner: str, kin: str, lang: Language, sentence: str) -> str:
    """Return the sentence that states a value."""
    sentences = load_reader_rules(lang).sentences
    word = kin_word(kin, lang) or kin
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
