"""Edges of the knowledge graph in words: which of them a question asks for, and how they read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from shared_core.coreference import SPEAKER
from shared_core.domain import USER
from shared_core.facts import normalised
from shared_core.graph_ports import Edge
from shared_core.relations import slot_relations
from shared_core.rules import kin_word, load_relation_words, load_rules
from shared_core.text import Language, language

NAME: Final = "is_called"
"""The relation of a user and their name: every relation of the user is told under it."""
LIKES: Final = ("likes", "dislikes")
OF_ONESELF: Final = frozenset(["works_at", "works_as", "works_in_city", "lives_in"])
"""What a user asks of themselves in other words than it was told."""


@dataclass(frozen=True, slots=True)
class RelationWords:
    """How a relation reads in each language, and what asks for it."""

    zh: str
    en: str
    asked: re.Pattern[str]


def asked_kin(question: str) -> list[str]:
    """Return the relations of kin and pets that a question names: "daughter" for 女儿."""
    return [name for name, words in _kin().items() if words.asked.search(question)]


def asked_slots(question: str) -> frozenset[str]:
    """Return the slots of a user's work and home that they ask for: "employer" for "my job?".

    None where the words state something, or speak of somebody around the user.
    """
    guards = load_rules(language(question)).guards
    asks = any(one.id.endswith(".question") and one.regex.search(question) for one in guards)
    if not asks or not SPEAKER.search(question) or asked_kin(question):
        return frozenset()
    return frozenset(
        slot
        for slot, relation in slot_relations().items()
        if relation in OF_ONESELF and _asks_for(relation, question)
    )


def relations_told(
    edges: Iterable[Edge], question: str, user_name: str, named: Sequence[str], limit: int
) -> list[tuple[str, str, str]]:
    """Return (source, relation, target) of the edges that a question asks for, newest first.

    In the question's language.

    user_name: as the user is called; "" if that is not known: then there is no name to tell a
    relation of theirs under, and none is told. named: keys of the entities that the question
    names. A question that names relations asks for these only, another one for those of whom or
    what it names besides the user.
    """
    spoken = language(question)
    wanted = [edge for edge in edges if edge.relation != NAME]
    wanted = [edge for edge in wanted if user_name or edge.subject != USER]
    names = {*named, *({USER} if user_name and normalised(user_name) in named else ())}
    asking = [edge for edge in wanted if _asks_for(edge.relation, question)]
    if asking or _asks_for_any(question):
        wanted = asking
    else:
        names -= {USER, normalised(user_name)}
    wanted = [edge for edge in wanted if names & {*_keys(edge.subject), *_keys(edge.object)}]
    told: dict[tuple[str, str, str], tuple[str, str, str]] = {}
    newest_first = sorted(wanted, key=lambda one: (one.valid_from, one.edge_id.int), reverse=True)
    for edge in newest_first:
        one = _told(edge, spoken, user_name)
        told.setdefault((one[0], one[1], normalised(one[2])), one)
    return list(told.values())[:limit]


def _told(edge: Edge, spoken: Language, user_name: str) -> tuple[str, str, str]:
    source = user_name if edge.subject == USER else edge.subject_entity
    target = user_name if edge.object == USER and user_name else edge.object_entity
    if edge.relation in LIKES:
        target = _without_lead(target)
    return source, relation_label(edge.relation, spoken), target


def relation_label(relation: str, spoken: Language) -> str:
    """Return how a relation reads: 喜欢 for "likes"; its own words where none are known."""
    words = _words(relation)
    own = relation.replace("_", " ")
    if words is None:
        return own
    return (words.zh if spoken == "zh" else words.en) or own


def _asks_for(relation: str, question: str) -> bool:
    words = _words(relation)
    if words is None:
        return relation.replace("_", " ") in question.casefold()
    return bool(words.asked.search(question))


def _asks_for_any(question: str) -> bool:
    known = [*_table().values(), *_kin().values()]
    return any(words.asked.search(question) for words in known)


def _keys(name: str) -> tuple[str, str]:
    return normalised(name), normalised(_without_lead(name))


def _without_lead(target: str) -> str:
    for lead in _leads():
        if target.startswith(lead) and len(target) > len(lead):
            return target[len(lead) :]
    return target


def _words(relation: str) -> RelationWords | None:
    table = _table()
    if relation in table:
        return table[relation]
    if relation in _kin():
        return _kin()[relation]
    return next(
        (
            one
            for name, one in table.items()
            if name.endswith("*") and relation.startswith(name[:-1])
        ),
        None,
    )


@lru_cache
def _table() -> Mapping[str, RelationWords]:
    """Return the relations that the file gives words to ask for."""
    return {
        name: RelationWords(str(words["zh"]), str(words["en"]), _any_of(words["asked"]))
        for name, words in load_relation_words()["relations"].items()
        if "asked" in words
    }


@lru_cache
def _kin() -> Mapping[str, RelationWords]:
    found: dict[str, dict[Language, list[str]]] = {}
    spoken: Language
    for spoken in ("zh", "en"):
        for word, relation in load_rules(spoken).kin.items():
            name = re.sub(r"\W+", "_", relation)
            found.setdefault(name, {"zh": [], "en": []})[spoken].append(word)
    return {
        name: RelationWords(
            zh=kin_word(name, "zh"),
            en=name.replace("_", " "),
            asked=_any_of([*words["zh"], *words["en"]]),
        )
        for name, words in found.items()
    }


def _any_of(words: Sequence[str]) -> re.Pattern[str]:
    latin = [re.escape(word) for word in words if word.isascii()]
    other = [re.escape(word) for word in words if not word.isascii()]
    parts = ([rf"\b(?:{'|'.join(latin)})\b"] if latin else []) + other
    return re.compile("|".join(parts) or r"(?!)", re.IGNORECASE)


@lru_cache
def _leads() -> tuple[str, ...]:
    leads = load_relation_words()["leads"]
    return (*leads["zh"], *leads["en"])
