"""Decides which words of the tagger are worth a fact: whose they are, how they look. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from shared_core.extraction.reader_rules import Tag, load_reader_rules
from shared_core.nlp.nicknames import is_word
from shared_core.nlp.rules import RuleSet, load_fragment, load_rules
from shared_core.nlp.text import HAN_CHARACTER, Language, is_question

if TYPE_CHECKING:
    from shared_core.extraction.span_tagger import TaggedSpan

RULE: Final = "rule"
MAX_VALUE_CHARACTERS: Final = 120
MAX_NAME_WORDS: Final = 3
LEAST_OVER: Final = 2
"""Minimum characters of words that are over."""
SINGLE_CHARACTER: Final = frozenset(
    ["dislike", "like", "zodiac", "last_name", "age", "allergy", "size", "trait"]
)
"""Tags whose values may be one character."""
COUNTED: Final = frozenset(["size", "grade"])
"""Slots whose values may be a bare number."""
PAST_TOO: Final = frozenset(["origin", "education"])
"""Slots whose values are told of the past."""
DENIED_TOO: Final = frozenset(["dislike", "rule", "plan", "schedule", "note"])
"""Slots whose values may stand after a "not": "I don't eat pork"."""
LEFT: Final = frozenset(["residence", "employer"])
"""Slots whose value may be named as the one that was left: "from Austin to Denver"."""
UNCUT: Final = frozenset(["residence", "employer", "origin", "name"])
"""Slots with one value. A Chinese word cut short must not take the place of that value."""
TOLD_ALONE: Final = frozenset(
    ["trait", "job", "marital_status", "health", "schedule", "plan", "rule", "note"]
)
"""Slots whose values say alone what they are: "vegetarian", but not "black tea"."""
TASTES: Final = frozenset(["like", "dislike"])
CALLED: Final = re.compile("叫(?:上|了)?$")
"""What stands before a name, or before somebody who is called over."""
PLANS: Final = frozenset(["plan", "note", "schedule"])
"""Slots of what may be called off."""
SURE_BARE: Final = 0.8
"""Least probability of a value in a clause that does not name the user."""
SURE_RULE: Final = 0.85
"""Least probability of an instruction that no word of style marks."""
OWNED: Final = re.compile(
    r"(?:\b(?:my|our)(?: (?:\d|two|three|four|five))?|我|我家|^)\s*$", re.IGNORECASE
)
KIN_WORD: Final = re.compile(r"^[^\W_]+(?: [^\W_]+)?", re.IGNORECASE)
COUNTED_KIN: Final = re.compile(r"\d|(?:two|three|four|five|both|twins)\b|[两俩二三四五双龙]", re.I)
IN_A_ROW: Final = re.compile(r"[\s…,，、:：()（）&]{1,12}(?:(?:and|和|跟)[\s…,，、()（）]{0,8})?")
"""What stands between a relative and a name beside it, or the last of several."""
COUNT: Final = re.compile(
    r"\d{1,3}|one|two|three|four|five|six|seven|eight|nine|ten|once|twice|[一二两三四五六七八九十]",
    re.IGNORECASE,
)
NUMBER: Final = re.compile(
    r"\d|[零〇一二两三四五六七八九十百千万半]"
    r"|\b(?:\w+teen|\w+ty|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)\b",
    re.IGNORECASE,
)
NO_QUANTITY: Final = re.compile(r"(?:19|20)\d\d年|[岁歲]|\d ?(?:yo|y/o|years?)\b", re.IGNORECASE)
OTHER_UNIT: Final = re.compile(
    r"\s*(?:kg|cm|km|%|\.\d|lbs?|pounds?|kilos?|minutes?|hours?|days?|weeks?|months?|bucks"
    r"|公斤|斤|厘米|米|块|元|号|月|点|分)"
)
KIN_APART: Final = re.compile(r"[.!?。！？；;,，]|\S.{24}", re.DOTALL)
"""What stands between a relative and the name of somebody else: "back from mums, Rosie is here"."""
NAME_APART: Final = re.compile(
    r"[.!?。！？；;].|[,，] ?(?!(?:my|our|the)\b|我)\S|\S.{24}", re.DOTALL | re.IGNORECASE
)
"""The same between a name and a relative after it: "Ravi, my supervisor" is one."""
LABEL: Final = re.compile(r"\s{0,2}\d{0,6}\s{0,2}[:：](?!\d)")
"""What follows a label: "Note 12: I was here"."""
PRIVILEGE: Final = re.compile(
    r"\b(?:admin|administrator|root|sudo|superuser|moderator)\b|管理员|管理員", re.IGNORECASE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """The words of a span that may be worth a fact, and what stands around them.

    before: the text up to them. after: the text from them on. kin: "" for the user. of_kin: the
    text from the word for the relative on. between: what stands between both, other values masked.
    is_of_several: that word has several names, so that a value may be of any of them.
    """

    words: str
    clause: str
    sentence: str
    before: str
    after: str
    span: TaggedSpan
    tag: Tag
    kin: str
    of_kin: str
    between: str
    is_of_several: bool
    is_over: bool


def ends(proposal: Proposal, lang: Language) -> bool:
    """Tell whether words that are over may name a value of the user, or of a relative."""
    words, tag = proposal.words, proposal.tag
    rules = load_reader_rules(lang)
    if rules.words["no_value"].fullmatch(words):
        return False
    if len(words) < LEAST_OVER and words not in rules.things.get(tag.slot, ()):
        return False
    if about_stranger(proposal, lang) or is_companion(proposal, lang):
        return False
    if tag.of_kin:
        return bool(proposal.kin) or tag.shape == "name"
    return not about_other(proposal, lang)


def states(proposal: Proposal, ended: Sequence[TaggedSpan], lang: Language) -> bool:
    """Tell whether words state a value of the user, or of a relative, that holds.

    ended: spans of what no longer holds.
    """
    span, tag = proposal.span, proposal.tag
    if LABEL.match(proposal.after):
        return False
    if any(one.start < span.end and span.start < one.end for one in ended):
        return False
    if not is_said_as_true(proposal, lang) or about_stranger(proposal, lang):
        return False
    if is_companion(proposal, lang):
        return False
    if not (is_of_kin(proposal, lang) if tag.of_kin else not about_other(proposal, lang)):
        return False
    if may_be_cut(tag, proposal.after, lang) or (tag.whole and not is_telling(proposal, lang)):
        return False
    return fits(proposal, lang)


def is_said_as_true(proposal: Proposal, lang: Language) -> bool:
    """Tell whether a clause says its value as true now: not asked, denied, past or called off."""
    tag, found, clause = proposal.tag, load_reader_rules(lang).words, proposal.clause
    slot = tag.slot.rsplit(".", 1)[-1]
    vetoes = [
        found["contrasts"].search(proposal.sentence),
        found["asked"].match(proposal.after),
        slot not in PAST_TOO and found["past"].search(clause),
        slot not in DENIED_TOO and found["denied"].search(before_in_clause(proposal)),
        slot not in DENIED_TOO and found["wishes"].search(before_in_clause(proposal)),
        tag.slot in LEFT and found["left"].search(proposal.before),
        slot == "allergy" and found["unlike"].search(proposal.after),
        tag.slot == "residence" and found["working"].search(proposal.after),
        tag.shape == "name" and is_called_over(proposal, lang),
        tag.slot not in TOLD_ALONE and not tag.of_kin and is_bare(proposal),
        tag.of_kin and proposal.is_of_several and tag.shape != "name",
        slot in PLANS and found["over"].search(clause),
        slot == "note" and found["soon"].search(clause),
    ]
    return not any(vetoes)


def is_to_come(proposal: Proposal, lang: Language) -> bool:
    """Tell whether a home or a place of work is one to come: "I'll move to Porto"."""
    if proposal.tag.slot not in LEFT or proposal.is_over:
        return False
    to_come = load_reader_rules(lang).words["to_come"]
    return bool(to_come.search(before_in_clause(proposal)))


def is_bare(proposal: Proposal) -> bool:
    """Tell whether a sentence is nothing but the words."""
    return re.sub(r"\W+", "", proposal.sentence) == re.sub(r"\W+", "", proposal.words)


def is_companion(proposal: Proposal, lang: Language) -> bool:
    """Tell whether words that look like a place name somebody beside: "in Hull w Tom"."""
    companion = load_reader_rules(lang).words["companion"]
    return proposal.tag.shape == "place" and bool(companion.search(proposal.before))


def is_called_over(proposal: Proposal, lang: Language) -> bool:
    """Tell whether somebody is called to do something: 我叫老王和老李一起去."""
    called = load_reader_rules(lang).words["called"]
    return bool(CALLED.search(proposal.before) and called.match(proposal.after))


def is_of_kin(proposal: Proposal, lang: Language) -> bool:
    """Tell whether a value is that of a relative who is named, and alone.

    "My wife hates my snoring" tells of the user, and 我女儿她妈是医生 of somebody else.
    """
    found = load_reader_rules(lang).words
    if not proposal.kin or found["together"].search(proposal.of_kin):
        return False
    if load_rules(lang).stranger.search(proposal.between):
        return False
    is_taste = proposal.tag.slot.rpartition(".")[2] in TASTES
    if is_taste and any(one.end() == len(proposal.before.rstrip())
                        for one in found["self"].finditer(proposal.before.rstrip())):  # fmt: skip
        return False
    return proposal.tag.shape != "name" or is_named_there(proposal)


def is_named_there(proposal: Proposal) -> bool:
    """Tell whether a name stands beside the word for a relative: 儿子叫豆豆."""
    begin = len(proposal.before) + len(proposal.words) + len(proposal.after) - len(proposal.of_kin)
    if begin > proposal.span.start:
        return not NAME_APART.search(proposal.between)
    between = KIN_WORD.sub("", proposal.between, count=1)
    whole = proposal.before + proposal.words
    if OWNED.search(whole[:begin]) or COUNTED_KIN.match(proposal.of_kin):
        return bool(IN_A_ROW.fullmatch(between)) or not KIN_APART.search(between)
    return not KIN_APART.search(between)


def before_in_clause(proposal: Proposal) -> str:
    """Return the part of the clause before the words."""
    return proposal.clause[: max(proposal.clause.find(proposal.words), 0)]


def about_stranger(proposal: Proposal, lang: Language) -> bool:
    """Tell whether a stranger, such as a patient, is the last person named before the words."""
    found = load_reader_rules(lang).words
    strangers = [one.end() for one in found["strangers"].finditer(proposal.before)]
    return bool(strangers) and not found["self"].search(proposal.before[strangers[-1] :])


def about_other(proposal: Proposal, lang: Language) -> bool:
    """Tell whether somebody else than the user is the last person in the clause before them.

    A note is a clause; it may tell of somebody whom its sentence names before it.
    """
    found, before = load_reader_rules(lang).words, before_in_clause(proposal)
    if proposal.tag.whole and not found["self"].search(proposal.clause):
        before = proposal.sentence[: max(proposal.sentence.find(proposal.clause), 0)] + before
    others = [one.end() for one in found["others"].finditer(before)]
    others += [
        one.end() for one in load_rules(lang).kin_mention.finditer(before)
        if not found["beside"].search(before[: one.start()])
    ]  # fmt: skip
    return bool(others) and not found["self"].search(before[max(others) :])


def may_be_cut(tag: Tag, after: str, lang: Language) -> bool:
    """Tell whether a Chinese value may go on: the next character is none that follows one."""
    if lang != "zh" or tag.slot not in UNCUT:
        return False
    follows = load_reader_rules(lang).words["follows"]
    return bool(HAN_CHARACTER.match(after)) and not follows.match(after)


def is_telling(proposal: Proposal, lang: Language) -> bool:
    """Tell whether a clause is worth to be kept as a whole.

    It asks nothing, and is surely a value if it does not name the user. An instruction must be one
    of style or for good.
    """
    clause, slot, found = proposal.clause, proposal.tag.slot, load_reader_rules(lang).words
    if slot == RULE:
        is_sure = proposal.span.sure >= SURE_RULE or bool(found["standing"].search(clause))
        return is_sure and not found["harmful"].search(clause)
    if found["asks"].search(clause):
        return False
    if is_question(proposal.sentence) and proposal.sentence.rstrip(" ?？").endswith(clause):
        return False
    is_sure = proposal.span.value >= SURE_BARE and not found["others"].match(clause)
    return is_sure or bool(found["self"].search(clause))


def fits(proposal: Proposal, lang: Language) -> bool:
    """Tell whether words look like a value of their kind."""
    words, shape = proposal.words, proposal.tag.shape
    single = proposal.span.slot.removeprefix("kin_") in SINGLE_CHARACTER
    found = load_reader_rules(lang).words
    if not re.search(r"\w", words) or found["no_value"].fullmatch(words):
        return False
    if PRIVILEGE.search(proposal.clause if proposal.tag.whole else words):
        return False
    if proposal.tag.slot == "tool" and found["harmful"].search(proposal.clause):
        return False
    if len(words) > MAX_VALUE_CHARACTERS or (len(words) == 1 and not single):
        return False
    looks = {
        "name": lambda: is_name(words, load_rules(lang)),
        "age": lambda: is_age(words, proposal.after),
        "quantity": lambda: is_quantity(words, proposal.after),
        "place": lambda: not COUNT.fullmatch(words) and not found["no_place"].search(words),
        "words": lambda: proposal.tag.slot in COUNTED or not COUNT.fullmatch(words),
    }
    return looks[shape]()


def is_quantity(value: str, after: str) -> bool:
    """Tell whether a value is a number, and none of a year or an age."""
    return bool(NUMBER.search(value)) and not NO_QUANTITY.search(value + after[:4])


def is_name(value: str, rules: RuleSet) -> bool:
    """Tell whether a value may be a name."""
    if rules.no_person.fullmatch(value) or is_word(value) or re.search(r"\d", value):
        return False
    if load_fragment("whole_name", "zh" if HAN_CHARACTER.search(value) else "en").fullmatch(value):
        return True
    is_short = len(value.split()) <= MAX_NAME_WORDS
    return is_short and (not HAN_CHARACTER.search(value) or len(value) <= MAX_NAME_WORDS + 2)


def is_age(value: str, after: str) -> bool:
    """Tell whether a value is an age: a number of years, without another unit after it."""
    if OTHER_UNIT.match(after):
        return False
    return bool(NUMBER.search(value) or re.search(r"[a-z]", value))
