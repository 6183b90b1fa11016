"""People by name and by kinship, without a guess between two people. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

from shared_core.core.domain import KnownPerson, MemoryId
from shared_core.nlp.rules import kin_word, load_kinship
from shared_core.nlp.text import HAN_CHARACTER, Language

Gender = Literal["female", "male", "animal", "unknown"]

TITLE: Final = re.compile(r"用户的(.{1,40}?)叫|User's (.{1,40}?) is called")

SAME: Final = (
    frozenset({"wife", "girlfriend", "fiancee"}),
    frozenset({"husband", "boyfriend", "fiance"}),
)
"""Relations that the same person may have one after the other. "pet" fits any animal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Referent:
    """A person or animal that a conversation mentions.

    name: as said; for an unnamed one "my mom" or "我妈". relation: to the user, such as "daughter",
    or "". title: the words of the relation, "older brother". known_as: the name its facts use, if
    different. source_fact: the earlier fact that introduced the name.
    """

    name: str
    gender: Gender
    relation: str = ""
    title: str = ""
    named: bool = True
    known_as: str = ""
    source_fact: MemoryId | None = None

    @property
    def subject(self) -> str:
        """The name under which its facts are stored."""
        return self.known_as or self.name


def entities_of(people: Sequence[KnownPerson]) -> Mapping[str, Referent]:
    """Return the person for each unambiguous name. A name outranks the same word as an alias."""
    found = _unambiguous([(one.name, one) for one in people])
    names = {one.name.casefold() for one in people}
    aliases = [
        (name, one) for one in people for name in one.aliases if name.casefold() not in names
    ]
    return {name: _entity(name, one) for name, one in (_unambiguous(aliases) | found).items()}


def title_in(statement: str) -> str:
    """Return the relation's words in a statement such as "User's sister is called Runa."."""
    match = TITLE.search(statement)
    return (match[1] or match[2]) if match else ""


def title_for(entity: Referent, language: Language) -> str:
    """Return the words for a relation in a language: 女儿 for a "daughter"."""
    in_han = HAN_CHARACTER.search(entity.title) is not None
    if not entity.title or in_han is (language == "zh"):
        return entity.title
    return kin_word(entity.relation, language) or entity.title


def gender_of(relation: str) -> Gender:
    """Return the gender that a relation implies."""
    kinship = load_kinship()
    if relation in kinship.female:
        return "female"
    if relation in kinship.male:
        return "male"
    return "animal" if relation in kinship.animal else "unknown"


def may_refer_to(entity: Referent, relation: str, title: str) -> bool:
    """Tell whether a mention by relation may mean the entity: "my brother" an older brother."""
    if entity.relation != relation:
        return False
    if relation in load_kinship().single and not title.startswith("new "):
        return True
    return plain_title(title) in plain_title(entity.title)


@lru_cache(maxsize=1024)
def plain_title(words: str) -> str:
    """Return a relation's words in lower case, with 姐 for 姐姐."""
    return re.sub(r"([\u4e00-\u9fff])\1", r"\1", words.lower())


def is_plural(word: str, relation: str) -> bool:
    """Tell whether a kinship word names several people."""
    return word.lower() in ("kids", "children") or (word.endswith("s") and word[:-1] == relation)


def are_distinct(relation: str, other: str) -> bool:
    """Tell whether no one person has both relations: a son and a nephew, but not girlfriend and
    wife."""
    if relation == other or not {relation, other} <= family():
        return False
    if "pet" in (relation, other) and gender_of(relation) == gender_of(other):
        return False
    return not any({relation, other} <= one for one in SAME)


def family() -> frozenset[str]:
    """Return all relations to relatives and pets."""
    kinship = load_kinship()
    return kinship.female | kinship.male | kinship.animal | {"cousin"}


def _unambiguous(named: Sequence[tuple[str, KnownPerson]]) -> dict[str, KnownPerson]:
    found: dict[str, list[KnownPerson]] = {}
    for name, one in named:
        found.setdefault(name.casefold(), []).append(one)
    return {name: one for name, one in named if len(found[name.casefold()]) == 1}


def _entity(name: str, person: KnownPerson) -> Referent:
    return Referent(
        name=name,
        gender=gender_of(person.relation),
        relation=person.relation,
        title=title_in(person.statement) or person.relation,
        known_as=person.name if name != person.name else "",
        source_fact=person.memory_id,
    )
