"""Phrases for edges of the knowledge graph: which ones a question asks for, and how they read."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from shared_core.core.domain import USER
from shared_core.nlp.clauses import clauses
from shared_core.nlp.coreference import SPEAKER
from shared_core.nlp.relation_schema import slot_relations
from shared_core.nlp.rules import kin_word, load_kin_words, load_relation_words, load_rules
from shared_core.nlp.text import Language, language, normalised
from shared_core.nlp.typed_text import as_meant
from shared_core.ports.graph import Edge

NAME: Final = "is_called"
"""The relation between a user and their name, under which the user's other relations are shown."""
LIKES: Final = ("likes", "dislikes")
OF_ONESELF: Final = frozenset(["works_at", "works_as", "works_in_city", "lives_in"])
"""Relations of the user that a question may ask for in different words."""

ASKING: Final = re.compile(
    r"\b(?:my|our|your|do|does|did|is|are|was|have|has|name|called|know|tell|me|i)\b"
    r"|什么|哪里?|怎么|多少|名字|[我你您他她们在的了吗呢是有叫谁几个今]",
    re.IGNORECASE,
)
"""Words of a question besides its topic."""
LEAD_IN: Final = re.compile(r"^(?:[a-z]{1,5}|[\u4e00-\u9fff]{1,2})[,，] ?", re.IGNORECASE)
MAYBE_NAME: Final = re.compile(
    r"(?<!\ba )(?<!\ban )(?<!\bthe )(?<!\bmy )(?<!\bour )\b(?!(?:an?|the|my|our|bed)\b)[a-z]+"
)
"""A word in lower case that may be a name, as no article stands before it."""
MAX_QUESTION_CHARACTERS: Final = 1_000
"""A longer text is no single question."""
CLAUSE_BREAK: Final = re.compile(r"[,.!?;:，。！？；：]\s*\w|\n")
"""Stands between two clauses."""


@dataclass(frozen=True, slots=True)
class RelationWords:
    """The label of a relation in each language, and the pattern of a question that asks for it."""

    zh: str
    en: str
    question: re.Pattern[str]


def asked_kin(question: str) -> list[str]:
    """Return the kinship and pet relations a question names: "daughter" for 女儿.

    The longest word wins: 表妹 is a cousin, not a sister; 岳母 is no mother.
    """
    named = {match.group().casefold() for match in _any_kin().finditer(as_meant(question))}
    return [name for name, words in _kin_words().items() if not named.isdisjoint(words)]


def own_kin(text: str) -> frozenset[str]:
    """Return the kinship and pet relations of the user that a text names.

    "Her brother", "my ex-wife", "a manager" and "Tom's dog" are nobody around the user.
    """
    return frozenset(asked_kin(_of_others().sub(lambda match: match["owner"] or " ", text)))


def kin_of_word(word: str) -> frozenset[str]:
    """Return the kinship relations that a word names: "mother" for "mum"."""
    folded = word.casefold()
    return frozenset(relation for relation, words in _kin_words().items() if folded in words)


@lru_cache(maxsize=64)
def words_of_kin(kin: frozenset[str]) -> list[str]:
    """Return the lower-case words for kinship relations."""
    return sorted({word for one in kin for word in _kin_words().get(one, ())})


def is_kin(relation: str) -> bool:
    """Tell whether a relation is one to a relative or a pet."""
    return relation in _kin()


def is_question(text: str) -> bool:
    """Tell whether a text asks something."""
    guards = load_rules(language(text)).guards
    text = as_meant(text)
    return any(one.id.endswith(".question") and one.regex.search(text) for one in guards)


def only_asks(text: str) -> bool:
    """Tell whether a text is a single question, and tells nothing besides.

    "hey, where do I live?" is, "I moved to York, where is the gym?" is not.
    """
    if len(text) > MAX_QUESTION_CHARACTERS:
        return False
    rest = LEAD_IN.sub("", text.strip())
    return is_question(rest) and not CLAUSE_BREAK.search(rest)


def asks_about_user(text: str) -> bool:
    """Tell whether a text is about the user, not only about a relative of theirs.

    "Where does my mother live?" and 我有狗吗 are not, "Does my mother like my job?" is.
    """
    return bool(SPEAKER.search(_of_theirs().sub(" ", as_meant(text))))


def work_and_home_slots(question: str) -> frozenset[str]:
    """Return the slots of the user's work and home that a question asks for: "employer" for "my
    job?".

    Empty for a statement, or a question about somebody around the user.
    """
    question = as_meant(question)
    if not is_question(question) or not SPEAKER.search(question) or asked_kin(question):
        return frozenset()
    return frozenset(
        slot
        for slot, relation in slot_relations().items()
        if relation in OF_ONESELF and _asks_for(relation, question)
    )


def names_slots(text: str, slots: Iterable[str]) -> bool:
    """Tell whether a text names one of these slots: "job" for employer."""
    return any(_asks_for(slot_relations()[slot], text) for slot in slots)


def slots_of_word(word: str) -> frozenset[str]:
    """Return the slots of work and home that a word asks for: "job" and "employer" for "work"."""
    return frozenset(
        slot
        for slot, relation in slot_relations().items()
        if relation in OF_ONESELF and (known := _words(relation)) and known.question.fullmatch(word)
    )


def states_slots(text: str, slots: Collection[str]) -> bool:
    """Tell whether the rules read a value of one of these slots in a text: "I moved to Rome".

    A text without a subject is about the user, as 上周搬到杭州了. In a text without capitals any
    word may be a name.
    """
    meant = as_meant(text)
    rules = load_rules(language(meant))
    cased = MAYBE_NAME.sub(lambda word: word[0].title(), meant) if meant.islower() else meant
    found = [clause for clause, _ in clauses(cased, rules)]
    if found and rules.carried.match(found[0]):
        found[0] = rules.subject + found[0]
    return any(
        pattern.match(clause, rules.undone)
        for pattern in rules.patterns
        if pattern.slot in slots and pattern.operation == "assert"
        for clause in found
    )


def topic_of(question: str) -> str:
    """Return a question without its kinship, relation and question words."""
    rest = _any_kin().sub(" ", as_meant(question))
    for words in _table().values():
        rest = words.question.sub(" ", rest)
    return ASKING.sub(" ", rest)


def relations_for_question(
    edges: Iterable[Edge], question: str, user_name: str, named: Sequence[str], limit: int
) -> list[tuple[str, str, str]]:
    """Return the edges a question asks for as (source, relation, target), newest first.

    Labels are in the question's language. A question that names relations gets only those; any
    other gets the edges of the entities it names besides the user. If it asks about a relative, the
    user's own edges are left out.

    user_name: what the user is called; without it the user's edges are left out. named: keys of the
    entities the question names.
    """
    lang, question = language(question), as_meant(question)
    chosen = [edge for edge in edges if edge.relation != NAME]
    chosen = [edge for edge in chosen if user_name or edge.subject != USER]
    names = {*named, *({USER} if user_name and normalised(user_name) in named else ())}
    kin = asked_kin(question)
    if kin and USER in named and not asks_about_user(question):
        chosen = [edge for edge in chosen if edge.subject != USER or edge.relation in kin]
    matching = [edge for edge in chosen if _asks_for(edge.relation, question)]
    if matching or _asks_for_any(question):
        chosen = matching
    else:
        names -= {USER, normalised(user_name)}
    chosen = [edge for edge in chosen if names & {*_keys(edge.subject), *_keys(edge.object)}]
    phrased: dict[tuple[str, str, str], tuple[str, str, str]] = {}
    newest_first = sorted(chosen, key=lambda one: (one.valid_from, one.edge_id.int), reverse=True)
    for edge in newest_first:
        one = _phrased(edge, lang, user_name)
        phrased.setdefault((one[0], one[1], normalised(one[2])), one)
    return list(phrased.values())[:limit]


def _phrased(edge: Edge, lang: Language, user_name: str) -> tuple[str, str, str]:
    source = user_name if edge.subject == USER else edge.subject_entity
    target = user_name if edge.object == USER and user_name else edge.object_entity
    if edge.relation in LIKES:
        target = _without_lead(target)
    return source, relation_label(edge.relation, lang), target


def relation_label(relation: str, lang: Language) -> str:
    """Return the label of a relation: 喜欢 for "likes". Unknown relations keep their own words."""
    words = _words(relation)
    own = relation.replace("_", " ")
    if words is None:
        return own
    return (words.zh if lang == "zh" else words.en) or own


def past_label(relation: str, lang: Language) -> str:
    """Return the label of an ended relation: 曾住在 for "lives_in"."""
    words = load_relation_words()["relations"].get(relation, {})
    return str(words.get(f"was_{lang}") or relation_label(relation, lang))


def _asks_for(relation: str, question: str) -> bool:
    words = _words(relation)
    if words is None:
        return relation.replace("_", " ") in question.casefold()
    return bool(words.question.search(question))


def _asks_for_any(question: str) -> bool:
    known = [*_table().values(), *_kin().values()]
    return any(words.question.search(question) for words in known)


def _keys(name: str) -> tuple[str, str]:
    return normalised(name), normalised(_without_lead(name))


def _without_lead(target: str) -> str:
    for lead in _leads():
        if target.startswith(lead) and len(target) > len(lead):
            return target[len(lead) :]
    return target


def _words(relation: str) -> RelationWords | None:
    known = _table()
    families = (name for name in known if name.endswith("*") and relation.startswith(name[:-1]))
    return known.get(relation) or _kin().get(relation) or known.get(next(families, ""))


@lru_cache
def _table() -> Mapping[str, RelationWords]:
    """Return the relations with question words in relation_words.toml."""
    return {
        name: RelationWords(str(words["zh"]), str(words["en"]), _any_of(words["asked"]))
        for name, words in load_relation_words()["relations"].items()
        if "asked" in words
    }


@lru_cache
def _kin() -> Mapping[str, RelationWords]:
    return {
        name: RelationWords(kin_word(name, "zh"), name.replace("_", " "), _any_of(sorted(words)))
        for name, words in _kin_words().items()
    }


@lru_cache
def _kin_words() -> Mapping[str, frozenset[str]]:
    """Return the lower-case words of each kinship and pet relation."""
    found: dict[str, set[str]] = {}
    lang: Language
    for lang in ("zh", "en"):
        for word, relation in load_kin_words(lang).items():
            found.setdefault(kin_relation(relation), set()).add(word.casefold())
    for name, words in load_relation_words()["also_asked"].items():
        found.setdefault(name, set()).update(words)
    return {name: frozenset(words) for name, words in found.items()}


@lru_cache
def _any_kin() -> re.Pattern[str]:
    words = {word for words in _kin_words().values() for word in words}
    return _any_of(sorted(words, key=len, reverse=True))


@lru_cache
def _of_theirs() -> re.Pattern[str]:
    """Return the pattern of phrases with the user only as a relative's owner or a listener."""
    kin = f"(?:{_any_kin().pattern})"
    return re.compile(
        r"\b(?:my|our|(?:do|did) (?:i|we) (?:still |even )?(?:have|own|keep)) "
        rf"(?:[\w-]+ ){{0,2}}?{kin}"
        r"|(?:^|\byou |\bplease )(?:tell|remind|give|show) (?:me|us)\b|\blet me know\b"
        r"|\bI(?:'d| would)? (?:want|like) to know\b|\bI forgot\b"
        r"|告诉我|提醒我|跟我说|我想(?:知道|问)|我忘了"
        rf"|[我咱](?:们)?(?:家)?(?:里)?(?:(?:还)?(?:有没有|有|养)(?:了|过|着)?)?的?[大小老二三亲]?{kin}",
        re.IGNORECASE,
    )


def without_kin(question: str, lang: Language) -> str:
    """Return a lower-case question with the user in the place of each relative of theirs."""
    if lang == "zh":
        return _own_kin(lang).sub("我", question)
    return _own_kin(lang).sub(lambda match: "i" if match["owns"] is None else "my", question)


@lru_cache
def _own_kin(lang: Language) -> re.Pattern[str]:
    kin = f"(?:{_any_kin().pattern})"
    if lang == "zh":
        return re.compile(rf"[我咱](?:们|們|哋)?(?:家)?的?(?:[大小老二三]|两个|兩個)?{kin}(?:的)?")
    which = "(?:little |big |older |younger |eldest |oldest |youngest |two |three |both )?"
    owns = r"(?P<owns>'s?|(?= (?:names?|age|birthday|job|school|address|allerg\w+)$))?"
    return re.compile(rf"\b(?:my|our) {which}{kin}{owns}", re.IGNORECASE)


@lru_cache
def _of_others() -> re.Pattern[str]:
    """Return the pattern of somebody around another; the group "owner" may be one of the user's."""
    kin = f"(?:{_any_kin().pattern})"
    no_owner = "(?:user|it|that|let|he|she|what|who|here|there)"
    has = "".join(rf"(?<!\b{one} )" for one in ("have", "had", "got", "ve", "bought", "adopted"))
    return re.compile(
        rf"(?:(?P<owner>\b(?!{no_owner}\b)\w+)['’]s(?: (?:little|big|older|younger|old|new))?"
        rf"|\b(?:his|her|their|ex|former|hot)|{has}\ban?(?: (?!my\b|our\b)\w+)?)[ -]{kin}"
        rf"|(?:[她他它]们?的?|(?<![我家])的|(?<![以之目])前){kin}",
        re.IGNORECASE,
    )


def kin_relation(name: str) -> str:
    """Return the graph's name of a kinship relation: "mother_in_law" for "mother-in-law"."""
    return re.sub(r"\W+", "_", name)


def _any_of(words: Sequence[str]) -> re.Pattern[str]:
    latin = [re.escape(word) for word in words if word.isascii()]
    other = [re.escape(word) for word in words if not word.isascii()]
    parts = ([rf"\b(?:{'|'.join(latin)})\b"] if latin else []) + other
    return re.compile("|".join(parts) or r"(?!)", re.IGNORECASE)


@lru_cache
def _leads() -> tuple[str, ...]:
    leads = load_relation_words()["leads"]
    return (*leads["zh"], *leads["en"])
