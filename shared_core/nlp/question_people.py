"""Whom a question asks about, and which memories tell of somebody else. Pure.

"Where does my mother live?" is not answered by the user's own home, nor by the brother's.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from shared_core.core.domain import USER
from shared_core.nlp.relation_phrases import (
    asked_kin,
    asks_of_the_user,
    is_kin,
    is_question,
    kin_relation,
)
from shared_core.nlp.rules import load_kinship, load_rules
from shared_core.nlp.text import language
from shared_core.ports.graph import Edge

OF_KIN: Final = "relation."
"""How the slots of those around the user begin: "relation.daughter.age"."""
OF_THE_USER_ALONE: Final = re.compile(r"(?:I\b|My\b|User\b|我(?!们)|本人|用户)", re.IGNORECASE)
THE_USER_BESIDES: Final = re.compile(r"\b(?:I|we)\b|我们|咱|[和跟与]我")


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedPeople:
    """Somebody around the user of whom a question asks, and not of the user.

    relations: of kin, as the graph calls them. names: of those; others: of all other kin that is
    known; both in lower case.
    """

    relations: frozenset[str]
    names: frozenset[str] = frozenset()
    others: frozenset[str] = frozenset()

    def are_in(self, text: str, slot: str) -> bool | None:
        """Tell whether a memory is about them, or other kin; None if about the user or anybody."""
        relations = {*asked_kin(text), *_relation_of(slot)}
        named = any(holds_name(text, name) for name in self.names)
        if named or any(_is_one(one, asked) for one in relations for asked in self.relations):
            return True
        return False if relations or any(holds_name(text, one) for one in self.others) else None


def asked_people(question: str, edges: Iterable[Edge]) -> AskedPeople | None:
    """Return the kin of whom a question asks, by their relation or a name that an edge knows.

    None for what is no question, asks of the user as well, or names nobody.
    """
    if not is_question(question) or asks_of_the_user(question):
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
            name for name, theirs in relations.items()
            if any(_is_one(one, asked) for one in theirs for asked in kin)
        }  # fmt: skip
    return AskedPeople(
        relations=kin, names=frozenset(called), others=frozenset({*relations} - called)
    )


def is_of_the_user_alone(text: str) -> bool:
    """Tell whether a memory begins with the user: "I live in York.", not "We moved"."""
    return OF_THE_USER_ALONE.match(text) is not None


def tells_of_another(text: str, slot: str) -> bool:
    """Tell whether a memory is about somebody around the user, and not about the user too."""
    if slot:
        return slot.startswith(OF_KIN)
    if THE_USER_BESIDES.search(text):
        return False
    begins_so = load_rules(language(text)).kin_mention.match(text)
    return bool(begins_so or (asked_kin(text) and not is_of_the_user_alone(text)))


def holds_name(text: str, name: str) -> bool:
    """Tell whether a text holds a name, given in lower case; a Latin one as whole words."""
    if name.isascii():
        word = rf"(?<![a-z0-9]){re.escape(name)}(?![a-z0-9])"
        return re.search(word, text, re.IGNORECASE) is not None
    return name in text.casefold()


def _names_of_kin(edges: Iterable[Edge]) -> Mapping[str, set[str]]:
    """Return the names of those around the user, in lower case, with their relations."""
    found: dict[str, set[str]] = {}
    for edge in edges:
        if edge.subject == USER and is_kin(edge.relation):
            for name in (edge.object, edge.object_entity):
                found.setdefault(name.casefold(), set()).add(edge.relation)
    return found


def _relation_of(slot: str) -> Collection[str]:
    return [kin_relation(slot.split(".")[1])] if slot.startswith(OF_KIN) else ()


def _is_one(relation: str, asked: str) -> bool:
    """Tell whether who stands in one relation may stand in the other: a son is a child."""
    general = load_kinship().general
    return (
        relation == asked
        or relation.replace("_", " ") in general.get(asked, ())
        or asked.replace("_", " ") in general.get(relation, ())
    )
