"""What a question asks about: the user, somebody around them, the world, and which entities. Pure.

"Where does my mother live?" is not answered by the user's own home, nor by the brother's. "What is
the capital of France?" and 中国的首都是哪里 ask about neither.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from shared_core.core.domain import USER
from shared_core.nlp.coreference import SPEAKER
from shared_core.nlp.noun_phrases_zh import FOREIGN
from shared_core.nlp.relation_phrases import (
    asked_kin,
    asks_about_user,
    is_kin,
    is_question,
    kin_relation,
)
from shared_core.nlp.rules import load_kinship, load_rules
from shared_core.nlp.text import UNSPACED, Language, language, normalised, search_terms
from shared_core.ports.graph import Edge

YOU: Final = re.compile(r"\b(?:you|your|yours|(?<![.-])(?:u|ur)(?![.-]))\b|[你您妳]", re.IGNORECASE)
# A named subject of a question that is not the user.
NAMED: Final[dict[Language, re.Pattern[str]]] = {
    "en": re.compile(
        r"\bof (?!(?:all|us|them|the|this|that|these|those|it|each|any|an?)\b)[\w-]{3}"
        r"|(?<=[a-z] )(?!I\b|I')[A-Z][\w-]"
    ),
    "zh": re.compile(r"[\u4e00-\u9fff]的(?=[\u4e00-\u9fff])|《"),
}
OWN_NAME: Final = re.compile(
    r"(?:my|user's) (?:full |first |last )?name\b|(?:i am|i'm) called\b"
    r"|(?:我|用户)(?:的名字)?(?:就|是)?叫",
    re.IGNORECASE,
)


def asks_about_world(question: str) -> bool:
    """Tell whether a question names its subject, and that is nobody around the user."""
    lang = language(question)
    if SPEAKER.search(question) or YOU.search(question) or asked_kin(question):
        return False
    named = NAMED[lang].search(question) or load_rules(lang).no_person.search(question)
    return is_question(question) and bool(named or (lang == "zh" and FOREIGN.search(question)))


def shares_words(text: str, question: str) -> bool:
    """Tell whether a text and a question share a term of at least two characters."""
    terms = {term for term in search_terms(question) if len(term) > 1}
    return not terms.isdisjoint(search_terms(text))


def states_user_name(text: str) -> bool:
    """Tell whether a text states the user's own name."""
    return bool(OWN_NAME.match(text))


OF_KIN: Final = "relation."
"""Prefix of the slots of people around the user: "relation.daughter.age"."""
OF_THE_USER_ALONE: Final = re.compile(r"(?:I\b|My\b|User\b|我(?!们)|本人|用户)", re.IGNORECASE)
THE_USER_BESIDES: Final = re.compile(r"\b(?:I|we)\b|我们|咱|[和跟与]我")


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedPeople:
    """The people around the user that a question asks about, instead of the user.

    relations: kinship relations as in the graph. names: those people in lower case; others: all
    other known relatives.
    """

    relations: frozenset[str]
    names: frozenset[str] = frozenset()
    others: frozenset[str] = frozenset()

    def is_about(self, text: str, slot: str) -> bool | None:
        """Tell whether a memory is about them (True), about other relatives (False), or neither
        (None)."""
        relations = {*asked_kin(text), *_relation_of(slot)}
        named = any(holds_name(text, name) for name in self.names)
        if named or any(_is_one(one, other) for one in relations for other in self.relations):
            return True
        return False if relations or any(holds_name(text, one) for one in self.others) else None


def asked_people(question: str, edges: Iterable[Edge]) -> AskedPeople | None:
    """Return the relatives a question asks about, by relation or by a name known from an edge.

    None for a text that is no question, is about the user as well, or names nobody.
    """
    if not is_question(question) or asks_about_user(question):
        return None
    kin = frozenset(asked_kin(question))
    relations = _names_of_kin(edges)
    called = {name for name in relations if holds_name(question, name)}
    if not kin and not called:
        return None
    if called:
        single = {kin_relation(one) for one in load_kinship().single}
        kin = frozenset(single.intersection(*(relations[name] for name in called)))
    else:
        called = {
            name for name, of_name in relations.items()
            if any(_is_one(one, other) for one in of_name for other in kin)
        }  # fmt: skip
    return AskedPeople(
        relations=kin, names=frozenset(called), others=frozenset({*relations} - called)
    )


def begins_with_user(text: str) -> bool:
    """Tell whether a memory begins with the user: "I live in York.", not "We moved"."""
    return OF_THE_USER_ALONE.match(text) is not None


def is_about_another(text: str, slot: str) -> bool:
    """Tell whether a memory is about somebody around the user, and not about the user too."""
    if slot:
        return slot.startswith(OF_KIN)
    if THE_USER_BESIDES.search(text):
        return False
    return begins_with_kin(text) or bool(asked_kin(text) and not begins_with_user(text))


def begins_with_kin(text: str) -> bool:
    """Tell whether a memory begins with somebody around the user: "My mum lives in York."."""
    return load_rules(language(text)).kin_mention.match(text) is not None


def holds_name(text: str, name: str) -> bool:
    """Tell whether a text contains a lower-case name; Latin names must match whole words."""
    if name.isascii():
        word = rf"(?<![a-z0-9]){re.escape(name)}(?![a-z0-9])"
        return re.search(word, text, re.IGNORECASE) is not None
    return name in text.casefold()


def _names_of_kin(edges: Iterable[Edge]) -> Mapping[str, set[str]]:
    """Return the lower-case names of people around the user, each with their relations."""
    found: dict[str, set[str]] = {}
    for edge in edges:
        if edge.subject == USER and is_kin(edge.relation):
            for name in (edge.object, edge.object_entity):
                found.setdefault(name.casefold(), set()).add(edge.relation)
    return found


def _relation_of(slot: str) -> Collection[str]:
    return [kin_relation(slot.split(".")[1])] if slot.startswith(OF_KIN) else ()


def _is_one(relation: str, other: str) -> bool:
    """Tell whether one relation may include the other: a son is a child."""
    general = load_kinship().general
    return (
        relation == other
        or relation.replace("_", " ") in general.get(other, ())
        or other.replace("_", " ") in general.get(relation, ())
    )


MOST_NAMES = 200
"""Maximum number of possible names of a question that are looked up."""
LONGEST_NAME = 4
"""Maximum words in a name; scripts without spaces take half as many characters more."""
WORD: Final = re.compile(rf"[{UNSPACED}]+|[^\W{UNSPACED}]+(?:['’.-][^\W{UNSPACED}]+)*")
POSSESSIVE: Final = re.compile(r"['’]s$", re.IGNORECASE)
FIRST_PERSON: Final = re.compile(r"\b(?:i|me|my|mine|myself)\b|[我咱俺]", re.IGNORECASE)


def mentioned(query: str) -> list[str]:
    """Return keys of entities a query may name: "user" for "I", then runs of words.

    Beyond MOST_NAMES, unusually long runs are dropped first, then the earliest ones.
    """
    words = WORD.findall(query)[-MOST_NAMES:]
    runs = [*_of_words(words), *_of_characters(words)]
    found: dict[str, int] = {}
    for oddity, run in dict.fromkeys(runs):
        name = normalised(run)
        found[name] = min(oddity, found.get(name, oddity))
    first = [USER] if FIRST_PERSON.search(query) else []
    names = [name for name in found if name and name not in first]
    likely = sorted(reversed(names), key=found.__getitem__)[: MOST_NAMES - len(first)]
    kept = frozenset(likely)
    return first + [name for name in names if name in kept]


def _of_words(words: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield runs of words, longest first, each with its length as a measure of oddity."""
    for length in range(LONGEST_NAME, 0, -1):
        for start in range(len(words) - length + 1):
            run = " ".join(words[start : start + length])
            yield length, run
            if (owner := POSSESSIVE.sub("", run)) != run:
                yield length, owner


def _of_characters(words: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield runs of characters with their oddity; most names have two or three, few have one."""
    for run in (word[-MOST_NAMES:] for word in words):
        if re.match(f"[{UNSPACED}]", run):
            for length in range(LONGEST_NAME * 3 // 2, 0, -1):
                for start in range(len(run) - length + 1):
                    yield (length - 1 or LONGEST_NAME), run[start : start + length]


def best_edges(edges: Sequence[Edge], terms: Sequence[str], limit: int) -> list[Edge]:
    """Return the edges that share the most words with a query; on a tie the newest first."""
    query_terms = set(terms)

    def shared(edge: Edge) -> int:
        text = " ".join((edge.subject, edge.relation.replace("_", " "), edge.object))
        return len(query_terms.intersection(search_terms(text)))

    by_age = sorted(edges, key=lambda edge: (edge.valid_from, edge.edge_id.int), reverse=True)
    return sorted(by_age, key=shared, reverse=True)[:limit]
