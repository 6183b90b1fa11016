"""Relations of the knowledge graph: their declared cardinality, and edges from facts. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, Literal

from shared_core.core.domain import USER, FactDraft, TripleDraft
from shared_core.core.namespaces import clean_text
from shared_core.errors import InvalidInput
from shared_core.nlp.rules import load_relation_words, read_rule_file
from shared_core.nlp.slots import ABOUT, Slot, slot_for_alias, slot_of

Objects = Literal["one", "many"]
MAX_RELATION_BYTES = 400
WAS = ("was_", "used_to_", "formerly_", "previously_")
"""Words at the beginning of a relation that has ended."""


class Relations:
    """Which relations are functional, by relations.toml and a caller's declarations, which win.

    declared: relation name to "one" or "many". Raises InvalidInput for any other value.
    """

    def __init__(self, declared: Mapping[str, Objects] | None = None) -> None:
        known = {name: table["objects"] for name, table in _table().items()}
        for given, objects in (declared or {}).items():
            if objects not in ("one", "many"):
                raise InvalidInput(
                    f"relation {given!r} must be declared 'one' (object at a time) or 'many', got"
                    f" {objects!r}"
                )
            known[_pattern(given)] = objects
        self._exact: dict[str, bool] = {name: objects == "one" for name, objects in known.items()}
        self._prefixes = sorted(
            (name[:-1] for name in known if name.endswith("*")), key=len, reverse=True
        )

    def name(self, given: str) -> str:
        """Return the canonical snake_case name of a relation: "lives_in" for "resides in".

        Raises InvalidInput for a name without letters.
        """
        return self._one_name(relation_name(given))

    def functional(self, name: str) -> bool | None:
        """Tell whether a subject has one object at a time; None if undeclared."""
        if name in self._exact:
            return self._exact[name]
        prefix = next((start for start in self._prefixes if name.startswith(start)), None)
        return None if prefix is None else self._exact[f"{prefix}*"]

    def declared(self, triples: Iterable[TripleDraft]) -> list[TripleDraft]:
        """Return triples with canonical relation names and their declared cardinality."""
        found = []
        for triple in triples:
            name = self._one_name(snake_case(clean_text(triple.relation)) or triple.relation)
            functional = self.functional(name)
            if functional is None:
                functional = triple.functional
            found.append(replace(triple, relation=name, functional=functional))
        return found

    def _one_name(self, name: str) -> str:
        return name if name in self._exact else slot_relations().get(slot_for_alias(name), name)


def relation_name(given: str) -> str:
    """Return a relation in snake_case. Raises InvalidInput if it has no letter or is too long."""
    name = snake_case(clean_text(str(given)))
    if not name or len(name.encode()) > MAX_RELATION_BYTES:
        raise InvalidInput(
            f"relation must have a letter and at most {MAX_RELATION_BYTES} bytes, e.g. 'works_at',"
            f" got {given!r}"
        )
    return name


@lru_cache
def slot_relations() -> Mapping[str, str]:
    """Return the relation name for each fact slot: {"employer": "works_at", ...}."""
    return {slot: name for name, table in _table().items() for slot in table.get("slots", ())}


def _pattern(given: str) -> str:
    begins = given.endswith("*")
    return relation_name(given.removesuffix("*")) + ("_*" if begins else "")


@lru_cache
def _table() -> Mapping[str, Mapping[str, Any]]:
    relations: Mapping[str, Mapping[str, Any]] = read_rule_file("relations.toml")["relations"]
    return relations


DECLARED = Relations()
"""The relations of relations.toml."""


def triples_of(facts: Iterable[FactDraft]) -> list[TripleDraft]:
    """Return the distinct edges that facts state. Only assertions about named people give any."""
    edges: dict[tuple[str, str, str], TripleDraft] = {}
    for fact in facts:
        relation, subject = slot_relation(fact.slot), fact.subject
        unnamed = (about_person(fact.slot) and subject == USER) or subject.startswith(f"{USER}'s ")
        if fact.operation != "assert" or fact.confirms or not relation or unnamed:
            continue
        edge = TripleDraft(
            subject=subject,
            relation=relation,
            object=fact.value,
            event_id=fact.event_id,
            functional=fact.functional,
            confidence=fact.confidence,
            valid_from=fact.valid_from,
            other_event_ids=fact.other_event_ids,
            people=fact.people,
        )
        edges.setdefault((subject, relation, fact.value.casefold()), edge)
    return list(edges.values())


def slot_of_relation(relation: str) -> Slot | None:
    """Return the known slot with facts about the user that are edges of this relation, or None."""
    named = next((one for one, name in slot_relations().items() if name == relation), relation)
    slot = slot_of(named)
    return slot if slot and slot.known and slot_relation(slot.name) == relation else None


def present_relation(relation: str) -> str | None:
    """Return the relation that a past form says has ended, "lives_in" for "lived_in", or None.

    Only a relation that relation_words.toml gives a label for its end has a past form: "liked" may
    be a single evening.
    """
    if DECLARED.name(relation) in slot_relations().values():
        return None
    bare = next((relation.removeprefix(one) for one in WAS if relation.startswith(one)), relation)
    verb, _, rest = bare.partition("_")
    forms = [bare] if bare != relation else []
    if verb.endswith("ed") and rest:
        forms += [f"{verb[:-end]}{ending}_{rest}" for end in (1, 2) for ending in ("s", "")]
    words = load_relation_words()["relations"]
    names = map(DECLARED.name, forms)
    return next((name for name in names if "was_en" in words.get(name, {})), None)


def about_person(slot: str) -> bool:
    """Tell whether a slot describes a relative of the user, beyond who it is."""
    return slot.startswith("relation.") and slot.count(".") > 1


def slot_relation(slot: str) -> str:
    """Return the snake_case relation of a slot, or "" if the slot is no edge.

    Rules, e-mail addresses, traits and activities are no edges.
    """
    first, _, rest = slot.partition(".")
    if first == "relation":
        kin, _, attribute = rest.partition(".")
        return slot_relation(attribute) if attribute else snake_case(kin)
    if first == ABOUT:
        return slot_relation(rest.partition(".")[2])
    if first == "favourite":
        return f"favourite_{snake_case(rest)}"
    return slot_relations().get(first, "")


def snake_case(words: str) -> str:
    """Return words in lower case, joined by underscores."""
    return re.sub(r"\W+", "_", words.lower()).strip("_")
