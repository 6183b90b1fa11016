"""Relations of the knowledge graph, as declared: one object at a time, or many. Pure."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from importlib.resources import files
from typing import Literal, NotRequired, TypedDict, cast

from shared_core.core.domain import TripleDraft
from shared_core.core.namespaces import clean_text
from shared_core.errors import InvalidInput
from shared_core.nlp.slots import slot_named

Objects = Literal["one", "many"]
MAX_RELATION_BYTES = 400


class RelationTable(TypedDict):
    """An entry of relations.toml."""

    objects: Objects
    slots: NotRequired[list[str]]


class Relations:
    """Which relations are functional: those of relations.toml, and a caller's, which win.

    declared: name to "one" or "many". Raises InvalidInput for any other word.
    """

    def __init__(self, declared: Mapping[str, Objects] | None = None) -> None:
        known = {name: table["objects"] for name, table in _table().items()}
        for given, objects in (declared or {}).items():
            if objects not in ("one", "many"):
                raise InvalidInput(
                    f"relation {given!r} must be declared 'one' (object at a time) or 'many', not"
                    f" {objects!r}"
                )
            known[_pattern(given)] = objects
        self._exact = {name: objects == "one" for name, objects in known.items()}
        self._begun = sorted(
            (name[:-1] for name in known if name.endswith("*")), key=len, reverse=True
        )

    def name(self, given: str) -> str:
        """Return the one name of a relation: snake_case, "lives_in" for "resides in".

        Raises InvalidInput for what holds no letter.
        """
        return self._one_name(relation_name(given))

    def functional(self, name: str) -> bool | None:
        """Tell whether a subject has one object at a time; None if that is not declared."""
        if name in self._exact:
            return self._exact[name]
        begun = next((start for start in self._begun if name.startswith(start)), None)
        return None if begun is None else self._exact[f"{begun}*"]

    def declared(self, triples: Iterable[TripleDraft]) -> list[TripleDraft]:
        """Return triples under the names of their relations, functional as declared."""
        found = []
        for triple in triples:
            name = self._one_name(_snake_case(triple.relation) or triple.relation)
            functional = self.functional(name)
            if functional is None:
                functional = triple.functional
            found.append(replace(triple, relation=name, functional=functional))
        return found

    def _one_name(self, name: str) -> str:
        return name if name in self._exact else slot_relations().get(slot_named(name), name)


def relation_name(given: str) -> str:
    """Return a relation in snake_case; InvalidInput for one without a letter, or too long."""
    name = _snake_case(given)
    if not name or len(name.encode()) > MAX_RELATION_BYTES:
        raise InvalidInput(
            f"a relation needs a name of letters and at most {MAX_RELATION_BYTES} bytes, e.g."
            f" 'works_at', not {given!r}"
        )
    return name


@lru_cache
def slot_relations() -> Mapping[str, str]:
    """Return what the slots of facts are called as relations: {"employer": "works_at", ...}."""
    return {slot: name for name, table in _table().items() for slot in table.get("slots", ())}


def _snake_case(given: str) -> str:
    return re.sub(r"\W+", "_", clean_text(str(given)).lower()).strip("_")


def _pattern(given: str) -> str:
    begins = given.endswith("*")
    return relation_name(given.removesuffix("*")) + ("_*" if begins else "")


@lru_cache
def _table() -> Mapping[str, RelationTable]:
    text = (files("shared_core.nlp.rules") / "relations.toml").read_text(encoding="utf-8")
    return cast("Mapping[str, RelationTable]", tomllib.loads(text)["relations"])


DECLARED = Relations()
"""The relations of relations.toml."""
