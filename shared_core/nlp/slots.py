"""Slots of facts, known by any of their names. Pure.

Only the rules' ontology declares which slots are functional. A model that invents a slot name
therefore cannot end a fact.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, cast

from shared_core.core.domain import FactType
from shared_core.nlp.rules import load_rules, read_rule_file
from shared_core.nlp.text import place_of

MAX_SLOT_CHARACTERS: Final = 48
FAVOURITE: Final = "favourite"
RELATION: Final = "relation"
ABOUT: Final = "about"
DENIED: Final = "not_"
"""Begins the name of a slot whose values the user denied."""
FAVOURITES: Final = ("favourite", "favorite", "fav", "最喜欢的", "最爱的")
INNER: Final = {"name": "", "age": ".age", "residence": ".place"}
"""Suffix of a relative's slot in "relation.daughter"; other slots add their own name."""
RELATIONS: Final = ("relation", "relations", "relationship", "family", "pet", "家人")
SECRET: Final = re.compile(
    r"(?:^|[._])(?:password|passcode|passphrase|pin|secret|token|credentials?|api_?key|private_?key"
    r"|cvv|card_?number|account_?number|iban|ssn)(?:$|[._])|密码|口令|密钥|验证码|卡号|账号"
)

SONS_OR_DAUGHTERS: Final = re.compile(
    r"\b(?:sons?|daughters?|boys?|girls?|lads?|twins)\b|[儿女男][子儿孩]|闺女|双胞胎", re.IGNORECASE
)
"""Some of the user's children."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A slot of the ontology, or a custom one, which is never functional.

    known: whether the ontology has it.
    """

    name: str
    fact_type: FactType
    functional: bool
    known: bool


def slot_of(given: str) -> Slot | None:
    """Return the slot a name stands for, or None for a secret or an empty name."""
    name = _slug(given)
    if not name or SECRET.search(name):
        return None
    known = _names_in("aliases").get(name.replace(".", "_"))
    name = known or _favourite(name) or _relation(name) or name
    found = _ontology().get(_shape(name))
    if found is None:
        name = name[:MAX_SLOT_CHARACTERS].strip("._")
        return Slot(name=name, fact_type="custom", functional=False, known=False)
    return Slot(name=name, fact_type=found[0], functional=found[1], known=True)


def takes_the_place(slot: str, value: str, *, functional: bool) -> bool:
    """Tell whether a value of a slot takes the place of another one.

    functional: of the slot. "Two sons" leave room for "two daughters", "three children" do not.
    """
    return functional and not (slot == "parent_of" and SONS_OR_DAUGHTERS.search(value))


def slot_about(subject: str, slot: Slot) -> Slot:
    """Return the slot of somebody the user speaks about. Relatives by kinship use the rules' slots.

    A slot that already belongs to a relative stays: "relation.daughter.age" of "Mia".
    """
    if slot.known and slot.name.startswith(f"{RELATION}.") and slot.name.count(".") > 1:
        return slot
    named = _slug(subject)
    kin = _kinship().get(named.replace("_", " "))
    inner = INNER.get(slot.name)
    if kin is not None and inner is not None:
        return cast(Slot, slot_of(f"{RELATION}.{kin}{inner}"))
    name = f"{ABOUT}.{named[:MAX_SLOT_CHARACTERS]}.{slot.name}"
    return Slot(name=name, fact_type=slot.fact_type, functional=slot.functional, known=slot.known)


def is_kin(subject: str) -> bool:
    """Tell whether a subject is a word for a relative or pet, not a name."""
    return _slug(subject).replace("_", " ") in _kinship()


def denial_slot(slot: str) -> str:
    """Return the slot that holds what is denied of a slot: "not_allergy" for "allergy"."""
    person, dot, name = slot.rpartition(".")
    return f"{person}{dot}{DENIED}{name}"


def about_slot(subject: str, relation_slot: str) -> str:
    """Return the slot by name that matches a relative's slot, or "".

    "about.mia.age" for subject Mia and "relation.daughter.age".
    """
    parts = relation_slot.split(".", 2)
    if parts[0] != RELATION or len(parts) < 3 or not _slug(subject):
        return ""
    own = {inner[1:]: name for name, inner in INNER.items() if inner}
    return f"{ABOUT}.{_slug(subject)[:MAX_SLOT_CHARACTERS]}.{own.get(parts[2], parts[2])}"


def relation_slots(subject: str, slot: str) -> dict[str, str]:
    """Return the relative's slot for each relation, given a slot by name; {} for any other slot.

    {"relation.daughter": "relation.daughter.age", ...} for Mia and "about.mia.age".
    """
    attribute = slot.removeprefix(f"{ABOUT}.{_slug(subject)[:MAX_SLOT_CHARACTERS]}.")
    if attribute == slot or attribute == "name" or attribute.startswith(f"{RELATION}."):
        return {}
    inner = INNER.get(attribute, f".{attribute}")
    kins = sorted(set(_kinship().values()))
    return {f"{RELATION}.{kin}": f"{RELATION}.{kin}{inner}" for kin in kins}


def is_name_slot(slot: str) -> bool:
    """Tell whether a slot says who a relative is."""
    return slot.startswith(f"{RELATION}.") and slot.count(".") == 1


def name_slots() -> list[str]:
    """Return the slots that say who a relative is: "relation.daughter", ..."""
    return sorted({f"{RELATION}.{kin}" for kin in _kinship().values()})


def slot_name(given: str) -> str | None:
    """Return the slot name to look up; None for "", which means all slots."""
    if not given:
        return None
    found = slot_of(given)
    return found.name if found else given


@lru_cache
def known_slot_names() -> frozenset[str]:
    """Return all names and aliases in the ontology that need no part filled in."""
    return frozenset({*(name for name in _ontology() if "{" not in name), *_names_in("aliases")})


def slots_named(text: str) -> frozenset[str]:
    """Return the slots and relations that a text mentions: {"employer", "relation.boss"}."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    names = {name.replace("_", " "): slot for name, slot in _names_in("aliases").items()}
    names |= {slot: slot for slot in names.values()}
    names |= {word.casefold(): f"{RELATION}.{kin}" for word, kin in _kinship().items()}
    return frozenset(slot for name, slot in names.items() if place_of(name, folded) >= 0)


def slot_for_alias(name: str) -> str:
    """Return the slot that a snake_case name is an alias of, else the name."""
    return _names_in("aliases").get(name, name)


@lru_cache
def umbrellas() -> Mapping[str, tuple[frozenset[str], frozenset[str]]]:
    """Return, for each word such as "health", the slots and the relations it stands for."""
    return {
        word: (frozenset(one.get("slots", ())), frozenset(one.get("kin", ())))
        for one in read_rule_file("slots.toml")["umbrellas"]
        for word in one["words"]
    }


def _favourite(name: str) -> str | None:
    for word in FAVOURITES:
        rest = name.removeprefix(word)
        parted = rest != name and (not word.isascii() or rest[:1] in ("_", "."))
        thing = re.sub(r"[._]+", " ", rest).strip()
        if parted and thing:
            return f"{FAVOURITE}.{_canonical().get(thing, thing)}"
    return None


def _relation(name: str) -> str | None:
    parts = re.split(r"[._]", name)
    if parts[0] in RELATIONS and len(parts) > 1:
        parts = parts[1:]
    for length in range(len(parts), 0, -1):
        kin = _kinship().get(" ".join(parts[:length]))
        if kin is not None:
            rest = "_".join(parts[length:])
            suffix = _names_in("suffixes").get(rest, rest)
            return f"{RELATION}.{kin}.{suffix}" if suffix else f"{RELATION}.{kin}"
    return None


def _shape(name: str) -> str:
    """Return the ontology entry that a full slot name is an instance of."""
    parts = name.split(".")
    if parts[0] == FAVOURITE and len(parts) == 2:
        return "favourite.{thing}"
    if parts[0] == RELATION and len(parts) > 1:
        return ".".join(["relation.{kin}", *parts[2:]])
    return name


def _slug(given: str) -> str:
    folded = unicodedata.normalize("NFKC", given).casefold()
    words = re.sub(r"[^\w.]+", "_", folded)
    return re.sub(r"(?<!_)_*+\.[._]*+", ".", re.sub(r"__+", "_", words)).strip("._")


@lru_cache
def _ontology() -> Mapping[str, tuple[FactType, bool]]:
    return {**load_rules("en").slots, **load_rules("zh").slots}


@lru_cache
def _canonical() -> Mapping[str, str]:
    return {**load_rules("zh").canonical, **load_rules("en").canonical}


@lru_cache
def _kinship() -> Mapping[str, str]:
    """Return the words for relatives and pets, without those that are favourite things as well."""
    things = {"colour", "film", "song", "city", "food", "fruit", "sport", "season", "animal"}
    things |= {"book", "band", "author", "dish", "singer"}
    words = {word: name for word, name in _canonical().items() if name not in things}
    return {name: name for name in words.values()} | words


@lru_cache
def _names_in(table: str) -> Mapping[str, str]:
    """Return the slot for each name in a table of slots.toml."""
    slots = read_rule_file("slots.toml")[table]
    return {name: slot for slot, names in slots.items() for name in names}


LEAST_CHARACTERS: Final = 6
"""Shortest name checked for typos: "game" is one letter from "name" and means something else."""


@lru_cache(maxsize=1024)
def near_slot(given: str) -> str | None:
    """Return the known slot name one edit away from an unknown name, or None.

    An edit inserts, deletes or replaces a letter, or swaps two neighbours.
    """
    known = known_slot_names()
    if len(given) < LEAST_CHARACTERS or "." in given or given in known:
        return None
    near = [one for one in known if len(one) >= LEAST_CHARACTERS and _one_edit(given, one)]
    return min(near, key=lambda one: (_known_name(one) != one, one), default=None)


def near_slot_message(given: str, name: str) -> str:
    """Return the error text for a name that near_slot() corrects."""
    near = near_slot(name) or ""
    slot = _known_name(near)
    meant = repr(near) if slot == near else f"{near!r} ({slot})"
    return (
        f"slot {given!r} is unknown: did you mean {meant}? A custom slot so similar to it"
        f" needs a name with a dot, e.g. {'my.' + name!r}"
    )


def _known_name(name: str) -> str:
    found = slot_of(name)
    return found.name if found else name


def _one_edit(one: str, other: str) -> bool:
    if abs(len(one) - len(other)) > 1:
        return False
    start = next((at for at, pair in enumerate(zip(one, other, strict=False))
                  if pair[0] != pair[1]), min(len(one), len(other)))  # fmt: skip
    a, b = one[start:], other[start:]
    swapped = a[1:2] + a[:1] == b[:2] and len(a) > 1 and a[2:] == b[2:]
    return a != b and (swapped or a[1:] == b[1:] or a[1:] == b or a == b[1:])
