"""Rules that let a turn end, doubt or replace held facts, compiled on first use."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, Final, Literal, TypeAlias, TypeVar

from shared_core.nlp.rules import PLACEHOLDER, bounded, load_fragment, longest_first, read_rule_file
from shared_core.nlp.text import Language

Verdict = Literal["none", "doubt", "end"]
Whom = Literal["subject", "user", "thing", "object", "partner"]
"""Who a rule is about: the subject before it, the user whom its words name, the thing or object
whose owner must be the user, or a partner of the user as its subject."""

MENTION: Final = "ꓦ"
"""A letter that no text has: it stands for the mention of a value, in clauses and expressions."""
NEVER: Final = re.compile(r"(?!)")
ANYTHING: Final = re.compile("")
Rule = TypeVar("Rule")
Compiler: TypeAlias = Callable[[str], re.Pattern[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Veto:
    """A pattern that keeps a clause from ending anything, or makes an end a doubt.

    about: the kinds of facts it protects; empty for all.
    """

    id: str
    verdict: Verdict
    about: frozenset[str]
    regex: re.Pattern[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class EndRule:
    """A pattern that ends, or doubts, a fact of these kinds whose value is its MENTION."""

    id: str
    about: frozenset[str]
    verdict: Verdict
    whom: Whom
    regex: re.Pattern[str]
    unless: re.Pattern[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRule:
    """A pattern that tells of an event in somebody's life; the event says what it ends.

    only, unless: searched in the clause; the first must be found, the second must not.
    """

    id: str
    event: str
    verdict: Verdict
    whom: Whom
    regex: re.Pattern[str]
    only: re.Pattern[str]
    unless: re.Pattern[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Successor:
    """A pattern that names the new value of a slot; `needs` is explained in the rule files.

    hedged: it counts in a sentence that a guard of the extraction rules calls uncertain.
    """

    id: str
    slot: str
    needs: str
    hedged: bool
    regex: re.Pattern[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """A pattern that gives a held fact another value; the rule files explain `of`."""

    id: str
    of: str
    regex: re.Pattern[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """A reply that only names the right value, in the group `value` or `value_2`.

    strong: searched in the reply; it tells that a name may be meant. refuse: searched in the value.
    number, word: the shapes a value may have.
    """

    strong: re.Pattern[str]
    mark: re.Pattern[str]
    refuse: re.Pattern[str]
    number: re.Pattern[str]
    word: re.Pattern[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SuccessorRejects:
    """Patterns that qualify events and successors.

    value: no new value. second: another value beside the first. to_come: not yet true.
    adopted: a new animal, in the group `pet`. old_job: another job than the held one. other_firm:
    names an employer. with_whom: names a partner, in the group `name` or `joined`.
    """

    value: re.Pattern[str]
    second: re.Pattern[str]
    to_come: re.Pattern[str]
    adopted: re.Pattern[str]
    old_job: re.Pattern[str]
    other_firm: re.Pattern[str]
    with_whom: re.Pattern[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionRules:
    """The revision rules of one language.

    particles: words between a subject and its predicate; trailing: they end a text (Chinese).
    user, pronouns, owners, strangers: words for the user, for a person by gender, "my", and for
    people who are not the user. weak: words that alone mention no value. new_one: a word for a
    person, in the group `kin`, who takes the place of another one. place: a town or country. date:
    a date in the value of a plan.
    """

    particles: frozenset[str]
    trailing: re.Pattern[str]
    user: Sequence[str]
    pronouns: Mapping[str, str]
    owners: Sequence[str]
    strangers: frozenset[str]
    weak: frozenset[str]
    new_one: re.Pattern[str]
    place: re.Pattern[str]
    vetoes: Sequence[Veto]
    ends: Sequence[EndRule]
    events: Sequence[EventRule]
    successors: Sequence[Successor]
    replacements: Sequence[Replacement]
    date: re.Pattern[str]
    rejects: SuccessorRejects
    correction: Correction


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionTables:
    """What the rules of both languages share; revision.toml explains it."""

    kinds: Mapping[str, frozenset[str]]
    people: Mapping[str, frozenset[str]]
    pets: Mapping[str, str]
    engaged: Mapping[str, str]
    married: Mapping[str, str]
    diets: Mapping[str, frozenset[str]]
    pregnant: frozenset[str]
    falls: Mapping[str, frozenset[str]]
    wider: Mapping[str, frozenset[str]]
    amounts: Mapping[str, frozenset[str]]


@lru_cache
def load_revision_tables() -> RevisionTables:
    """Return the tables that both languages share."""
    table = read_rule_file("revision.toml")
    return RevisionTables(
        kinds=_sets(table["kinds"]),
        people=_sets(table["people"]),
        pets=table["pets"],
        engaged=table["engaged"],
        married=table["married"],
        diets=_sets(table["diets"]),
        pregnant=frozenset(table["pregnant"]["words"]),
        falls=_sets(table["falls"]),
        wider=_sets(table["wider"]),
        amounts=_sets(table["amounts"]),
    )


@lru_cache
def load_revision_rules(language: Language) -> RevisionRules:
    """Return the compiled revision rules of a language."""
    source = read_rule_file(f"revision_{language}.toml")
    animals = "|".join(longest_first(frozenset(load_revision_tables().pets)))
    person = load_fragment("name", language).pattern
    parts = {"v": MENTION, "pet": f"(?:{animals})", "person": person, **source["fragments"]} | {
        name: f"(?:{'|'.join(words)})" for name, words in source["words"].items()
    }

    def compiled(expression: str) -> re.Pattern[str]:
        while PLACEHOLDER.search(expression):
            expression = PLACEHOLDER.sub(lambda match: parts[match[1]], expression)
        return re.compile(bounded(expression), re.IGNORECASE)

    particles = "|".join(map(re.escape, longest_first(frozenset(source["particles"]))))
    return RevisionRules(
        particles=frozenset(source["particles"]),
        trailing=re.compile(f"(?:{particles}){{1,12}}$"),
        user=longest_first(frozenset(source["user"])),
        pronouns=source["pronouns"],
        owners=longest_first(frozenset(source["owners"])),
        strangers=frozenset(source["strangers"]),
        weak=frozenset(source["weak"]),
        new_one=compiled(source.get("new_one", NEVER.pattern)),
        place=_places(language),
        vetoes=_built(Veto, source["vetoes"], compiled),
        ends=_built(EndRule, source["ends"], compiled),
        events=_built(EventRule, source["events"], compiled),
        successors=_built(Successor, source["successors"], compiled),
        replacements=_built(Replacement, source["replacements"], compiled),
        date=compiled(source["fragments"]["date"]),
        rejects=SuccessorRejects(**_compiled(source["successor_rejects"], compiled)),
        correction=Correction(**_compiled(source["correction"], compiled)),
    )


DEFAULTS: Final[Mapping[str, Any]] = {
    "about": (), "verdict": "end", "whom": "subject", "unless": NEVER, "only": ANYTHING,
    "hedged": False,
}  # fmt: skip


def _built(
    rule: Callable[..., Rule], tables: Sequence[Mapping[str, Any]], compiled: Compiler
) -> list[Rule]:
    """Return a rule for each table, completed from DEFAULTS."""
    names = [one.name for one in fields(rule)]  # type: ignore[arg-type]
    found: list[Rule] = []
    for table in tables:
        given = {name: DEFAULTS[name] for name in names if name in DEFAULTS} | dict(table)
        for name in ("regex", "unless", "only"):
            if isinstance(given.get(name), str):
                given[name] = compiled(given[name])
        if "about" in given:
            given["about"] = frozenset(given["about"])
        found.append(rule(**given))
    return found


def _places(language: Language) -> re.Pattern[str]:
    words = read_rule_file(f"{language}.toml")["words"]
    listed = words["city_or_country"] if language == "en" else words["place"]
    return re.compile(f"(?:{'|'.join(listed)})市?", re.IGNORECASE)


def value_in(match: re.Match[str]) -> str:
    """Return the value of a match, which is in the group `value` or `value_2`."""
    groups = match.groupdict()
    return str(groups["value"] or groups.get("value_2") or "").strip()


def _compiled(table: Mapping[str, str], compiled: Compiler) -> dict[str, re.Pattern[str]]:
    return {name: compiled(expression) for name, expression in table.items()}


def _sets(table: Mapping[str, Sequence[str]]) -> dict[str, frozenset[str]]:
    return {name: frozenset(words) for name, words in table.items()}
