"""Replace pronouns by their antecedents: "How old is she?" after "My daughter is called Mia". Pure.

Rules only. A pronoun with two possible antecedents stays as it is. See nlp.discourse.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from shared_core.core.domain import Event
from shared_core.nlp.clauses import MAX_FOLLOWED_CHARACTERS, clauses, own_sentences
from shared_core.nlp.discourse import DiscourseState
from shared_core.nlp.kinship import Gender, Referent
from shared_core.nlp.rules import load_rules
from shared_core.nlp.text import Language, language, place_of
from shared_core.nlp.typed_text import as_read, typed_names

MAX_CONTEXT: Final = 20
"""Maximum number of turns read before a query."""
MAX_QUERY_CHARACTERS: Final = 2_000
MAX_PRONOUNS: Final = 40
"""Maximum number of pronouns in a resolved text; for each, all of the text before it is read."""
QUOTES: Final = '"“”「『《'

ENGLISH_GENDERS: Final[dict[str, Gender]] = {
    "she": "female", "her": "female", "hers": "female", "herself": "female",
    "he": "male", "him": "male", "his": "male", "himself": "male",
}  # fmt: skip
CHINESE_GENDERS: Final[dict[str, Gender]] = {"她": "female", "他": "male", "它": "animal"}
ENGLISH_PRONOUN: Final = re.compile(r"\b(she|hers|her|he|him|his)\b", re.IGNORECASE)
# Not within a word: 维他命, 利他, 排他, 马耳他, 吉他, 其他, 他人, 他乡, 他国.
CHINESE_PRONOUN: Final = re.compile(
    r"(?<![其吉利排维耳无])([她他它])(?![们人乡杀律]|国(?!庆)|妈的)"
)
CHINESE_TITLE: Final = re.compile(
    r"[\u4e00-\u9fff](?:老师|医生|先生|女士|小姐|太太|经理|老板|教授|护士|律师|师傅|阿姨|叔叔)"
)
_OPENERS: Final = """
    a about all also am an and any are as ask at because before but buy call can check could day
    describe did do does email explain find for from get give guess had has have hello help her
    here hers hey hi his how i if in is it its just last let list look make may maybe me might my
    next no not now of oh ok okay on once or order our please recommend remember remind send shall
    she he should show since so sorry still suggest suppose tell thank thanks that the then there
    these they this those to today tomorrow tonight until was we well were what whats when where
    which while who whom whose why will with would write yes yesterday you your"""
OPENERS: Final = frozenset(_OPENERS.split())
"""Words that may begin a question and are no names."""
# "her" before one of these is no possessive.
AFTER_OBJECT: Final = re.compile(
    r"\s*(?:$|[^\w\s]|(?:for|to|with|and|or|but|in|on|at|a|an|the|about|yesterday|today|tonight"
    r"|tomorrow|so|because|if|when|very|much|again|now|too|from|by|before|after|that|this|is|was"
    r"|what|how|why|where|last|next)\b)",
    re.IGNORECASE,
)
OBJECT_VERB: Final = re.compile(
    r"[很也都不最]*(?:喜欢|爱|讨厌|恨|认识|想念|佩服|羡慕|崇拜|怕|支持|同意|相信|帮助|照顾|欣赏)(?:过|了|着)?"
)
ENGLISH_THING: Final = re.compile(
    r"\b(?P<verb>love|like|enjoy|hate|eat|drink|play|watch|read|use|need|want|buy|bought|got|cook"
    r"|visit|recommend)(?P<form>s|ing|ed)? (?P<it>it|this|that|them|these|those)\b"
    r"(?=\s*(?:$|[?.!,]))",
    re.IGNORECASE,
)
CHINESE_THING: Final = re.compile(
    r"(?P<verb>吃|喝|看|玩|听|读|学|做|买|用|养|喜欢|爱|讨厌)(?P<form>过|了|着)?"
    r"(?P<it>这个|那个|它|这|那)(?=[吗吧呢啊么]?(?:[？?，,。.！!]|$))"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """A text with its pronouns replaced, except those with an antecedent in the text.

    unresolved: genders of pronouns without an antecedent. antecedents: the people inserted.
    """

    text: str
    unresolved: frozenset[Gender]
    antecedents: tuple[Referent, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether every pronoun has an antecedent."""
        return not self.unresolved


def resolve_query(text: str, context: Sequence[Event]) -> str:
    """Return a query with each pronoun of certain antecedent replaced.

    "她今年几岁了？" becomes "灿灿今年几岁了？", "Do you like them?" becomes "Do you like mangoes?".
    Any other text is returned unchanged. context: earlier turns, oldest first; the last MAX_CONTEXT
    are read.
    """
    if len(text) > MAX_QUERY_CHARACTERS:
        return text
    if not has_pronoun(text):
        return text
    lang = language(text)
    discourse = DiscourseState()
    observe_turns(discourse, context[-MAX_CONTEXT:])
    discourse.begin_sentence()
    resolved = text if _names_somebody(text, lang) else resolve_persons(text, lang, discourse).text
    return resolve_things(resolved, lang, discourse)


def _names_somebody(text: str, lang: Language) -> bool:
    """Tell whether a possible antecedent or a speaker precedes the first pronoun.

    "Does Anna love her job?" asks about Anna, not about Mia from an earlier turn.
    """
    pronoun = (CHINESE_PRONOUN if lang == "zh" else ENGLISH_PRONOUN).search(text)
    if pronoun is None:
        return False
    before = text[: pronoun.start()]
    rules = load_rules(lang)
    if any(mark in before for mark in QUOTES) or rules.kin_mention.search(before):
        return True
    if rules.stranger.search(before):
        return True
    if lang == "zh":
        return CHINESE_TITLE.search(before) is not None
    first, *rest = re.findall(r"[^\W\d_]+(?:['’][a-z]+)?", before) or [""]
    is_name = first[:1].isupper() and re.split("['’]", first)[0].lower() not in OPENERS
    return is_name or any(one[0].isupper() and one[:2] not in ("I", "I'", "I’") for one in rest)


def has_pronoun(text: str) -> bool:
    """Tell whether a text holds a pronoun that earlier turns may resolve."""
    chinese = language(text) == "zh"
    pronoun = CHINESE_PRONOUN if chinese else ENGLISH_PRONOUN
    thing = CHINESE_THING if chinese else ENGLISH_THING
    return bool(pronoun.search(text) or thing.search(text))


def observe_turns(discourse: DiscourseState, events: Sequence[Event]) -> None:
    """Record the people and things that turns of the user and the agent mention."""
    for event in events:
        if event.role not in ("user", "agent"):
            continue
        discourse.begin_turn(event.event_id, event.occurred_at)
        by_user = event.role == "user"
        for sentence, lang in own_sentences(event.text, MAX_FOLLOWED_CHARACTERS):
            discourse.begin_sentence()
            if by_user:
                names = typed_names(discourse.names)
                sentence = as_read(sentence, lang, names, alone=not discourse.speaks_of_others).text
            for read, _ in clauses(sentence, load_rules(lang)):
                clause = discourse.counted_kin.rewrite(read, lang, sentence)
                resolved = resolve_persons(clause, lang, discourse)
                from_before = not resolved.complete and discourse.has_no_names
                discourse.observe(
                    resolved.text, lang, original=clause, user=by_user,
                    antecedents=resolved.antecedents, unresolved=resolved.unresolved,
                )  # fmt: skip
                if from_before and discourse.has_no_names:
                    for gender in pronoun_genders(resolved.text, lang):
                        discourse.note_unnamed(gender)


def pronoun_genders(text: str, lang: Language) -> set[Gender]:
    """Return the genders of the pronouns for people and animals in a text."""
    if lang == "zh":
        return {CHINESE_GENDERS[match[1]] for match in CHINESE_PRONOUN.finditer(text)}
    return {ENGLISH_GENDERS[match[0].lower()] for match in ENGLISH_PRONOUN.finditer(text)}


def resolve_persons(text: str, lang: Language, discourse: DiscourseState) -> Resolution:
    """Return the text with pronouns for people and animals replaced by names.

    A pronoun stays if its only possible antecedent precedes it in the text: "My wife loves her
    job". A text with more than MAX_PRONOUNS is returned unchanged.
    """
    pronouns = CHINESE_PRONOUN if lang == "zh" else ENGLISH_PRONOUN
    if len(pronouns.findall(text)) > MAX_PRONOUNS:
        return Resolution(text=text, unresolved=frozenset(pronoun_genders(text, lang)))
    unresolved: set[Gender] = set()
    antecedents: list[Referent] = []

    def replaced(match: re.Match[str], gender: Gender, shown: Callable[[Referent], str]) -> str:
        before = discourse.mentioned_before(text[: match.start()], lang, gender)
        others = {*discourse.candidates(gender)} - {one.name for one in before if one.name}
        if len(before) == 1 and before[0].name and not others:
            if is_object_pronoun(match, lang):
                unresolved.add(gender)
            return match[0]
        entity = None if before else discourse.antecedent(gender)
        if entity is None:
            unresolved.add(gender)
            return match[0]
        antecedents.append(entity)
        return shown(entity)

    if lang == "zh":
        resolved = pronouns.sub(
            lambda match: replaced(match, CHINESE_GENDERS[match[1]], lambda one: one.name), text
        )
    else:
        resolved = pronouns.sub(
            lambda match: replaced(
                match, ENGLISH_GENDERS[match[0].lower()], lambda one: _english(match, one)
            ),
            text,
        )
    return Resolution(
        text=resolved, unresolved=frozenset(unresolved), antecedents=tuple(antecedents)
    )


def is_object_pronoun(pronoun: re.Match[str], lang: Language) -> bool:
    """Tell whether a pronoun is the object of a clause about a relative: "My wife likes her"."""
    before, after = pronoun.string[: pronoun.start()], pronoun.string[pronoun.end() :]
    mention = load_rules(lang).kin_mention.match(before)
    if mention is None:
        return False
    between = before[mention.end() :]
    if lang == "zh":
        return bool(OBJECT_VERB.fullmatch(between)) and not after.startswith(("的", "自己"))
    word = pronoun[0].lower()
    is_object = word == "him" or (word == "her" and AFTER_OBJECT.match(after))
    return bool(is_object) and bool(
        re.fullmatch(r"(?: (?!with\b|it\b|that\b)[a-z]+){1,3} ", between)
    )


def _english(match: re.Match[str], entity: Referent) -> str:
    word, after = match[0].lower(), match.string[match.end() :]
    owns = word in ("his", "hers") or (word == "her" and not AFTER_OBJECT.match(after))
    name = f"{entity.name}'s" if owns else entity.name
    return name[:1].upper() + name[1:] if match[0][0].isupper() else name


def resolve_things(text: str, lang: Language, discourse: DiscourseState) -> str:
    """Return the text with pronouns for things replaced where they are the object of a verb."""

    def replaced(match: re.Match[str]) -> str:
        thing = discourse.last_object(match["verb"].lower())
        if not thing:
            return match[0]
        if lang == "zh":
            return f"{match['verb']}{match['form'] or ''}{thing}"
        thing = re.sub(r"^an? ", "the ", thing)
        return f"{match['verb']}{match['form'] or ''} {thing}"

    return (CHINESE_THING if lang == "zh" else ENGLISH_THING).sub(replaced, text)


def subject_of(
    clause: str, lang: Language, discourse: DiscourseState
) -> tuple[Referent, str] | None:
    """Return the person or animal a clause begins with, and the rest of the clause.

    clause: with its pronouns replaced, after the discourse state has observed it. None for an
    unknown subject, or one of several.
    """
    mention = load_rules(lang).kin_mention.match(clause)
    rest = clause[mention.end() :].lstrip(" ,，") if mention else clause
    named = [one for one in discourse.entities_in(rest) if begins_with(one.name, rest)]
    entity = max(named, key=lambda one: len(one.name), default=None)
    if entity is not None:
        rest = re.sub("^, ?", " ", rest[len(entity.name) :])
    elif mention is not None:
        entity, rest = discourse.kin_entity(mention, lang), clause[mention.end() :]
    if entity is None or not goes_on(rest, lang):
        return None
    return entity, rest


def begins_with(name: str, text: str) -> bool:
    """Tell whether a text begins with a name; Latin names must match whole words."""
    return text.startswith(name) and place_of(name, text) == 0


def begins_with_person(clause: str, lang: Language, discourse: DiscourseState) -> bool:
    """Tell whether a clause is about somebody other than the user, known or not."""
    mention = load_rules(lang).kin_mention.match(clause)
    if mention:
        return goes_on(clause[mention.end() :], lang)
    if (CHINESE_PRONOUN if lang == "zh" else ENGLISH_PRONOUN).match(clause):
        return True
    return any(begins_with(one.name, clause) for one in discourse.entities_in(clause))


NUMBER: Final = (
    r"(?:\d{1,3}|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\w+teen|twenty)"
)
CONTRACTED: Final = re.compile(
    rf"\b(s?he|(?-i:[A-Z])[\w-]{{1,40}}(?='s (?:(?:now|already|just) )?(?:{NUMBER}(?: years? old)?"
    r"(?= *(?:$|[.,;!]|now\b|today\b|already\b))|turned\b)))'s\b"
    r"(?= (?:just )?(been|got|turned)\b)?",
    re.IGNORECASE,
)


def expand_contractions(clause: str) -> str:
    """Return an English clause with "she's" spelled out as "she is" or "she has"."""
    return CONTRACTED.sub(lambda match: f"{match[1]} {'has' if match[2] else 'is'}", clause)


CHINESE_OTHER_SUBJECT: Final = re.compile(r"[的们和跟与、]|也?和我|[家里](?!住)|的?[爸妈哥姐弟妹]")
ENGLISH_OTHER_SUBJECT: Final = re.compile(
    r"'s\b|[\w-]|(?<!\s)\s*+(?:(?:,\s*+)?(?:and|or)\b|&|is my\b|is our\b|-)"
)


def goes_on(rest: str, lang: Language) -> bool:
    """Tell whether the text after a name is about that person, not about something of theirs."""
    other = CHINESE_OTHER_SUBJECT if lang == "zh" else ENGLISH_OTHER_SUBJECT
    return bool(rest.strip(" ,，.。")) and not other.match(rest)


ADVERBS: Final = (
    r"(?:(?:really|also|just|still|always|usually|mostly|now|only|truly|so|currently|recently|never"
    r"|often|sometimes|finally|then|no longer|absolutely|actually|simply|definitely|mainly"
    r"|particularly) )*"
)
VERB: Final = re.compile(rf"^\s*({ADVERBS})([a-z]+?)(n't)?\b", re.IGNORECASE)
IRREGULAR: Final = {"is": "am", "has": "have", "does": "do", "was": "was", "goes": "go"}
SPEAKER: Final = re.compile(r"\b(?:i|i'm|me|my|mine|we|us|our)\b|[我咱]", re.IGNORECASE)


def in_first_person(rest: str, lang: Language) -> str:
    """Return a predicate in the first person: "loves art" becomes "I love art".

    Returns "" if it speaks of the user too.
    """
    if SPEAKER.search(rest):
        return ""
    if lang == "zh":
        return "我" + rest.lstrip("，, ")

    def first_person(match: re.Match[str]) -> str:
        return f"I {match[1]}{_first_person(match[2].lower())}{match[3] or ''}"

    return VERB.sub(first_person, rest.lstrip(" ,"), count=1)


def _first_person(verb: str) -> str:
    if verb in IRREGULAR:
        return IRREGULAR[verb]
    if verb.endswith("ies") and len(verb) > 4:
        return verb[:-3] + "y"
    if re.search(r"(?:s|sh|ch|x|z|o)es$", verb):
        return verb[:-2]
    return verb[:-1] if verb.endswith("s") and not verb.endswith("ss") else verb
