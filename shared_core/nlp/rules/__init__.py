"""Extraction rules as data: one TOML file per language, compiled on first use."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from importlib.resources import files
from typing import Any, Final, Literal, get_args

from shared_core.core.domain import FactType
from shared_core.nlp.text import Language

GuardScope = Literal["clause", "onward", "sentence", "rest", "turn"]
Operation = Literal["assert", "retract"]
Split = Literal["any", "list", "never"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """A pattern that keeps a statement from being taken literally; the rule files define the
    scopes.

    tells: the guarded text may hold facts for a model. unsafe: it is a secret or an order that no
    model may see as a memory. allows: ids of the patterns that read a guarded clause all the same:
    "Does my wife Anna need a visa?" names a wife.
    """

    id: str
    scope: GuardScope
    tells: bool
    unsafe: bool
    regex: re.Pattern[str]
    allows: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """A way to state a fact, matched at the start of a clause.

    regex: has a group `value`; slot and statement may refer to its other groups. reject: searched
    in the value; needs and unless: searched in the clause. split: "any" splits the value at every
    separator, "list" only in an enumeration. free: the value is free text, so asides and fillers
    are cut off. change: the clause reports a change. done: no words before the value may be
    `undone`; so for every change. denies: it denies that the fact ever held. foretells: the value
    begins on a day to come, which the clause names. implies: values used
    instead of the group: "I eat meat again" is about "vegan". functional: as the slot, unless the
    pattern says otherwise: "my second job" stands beside the first.
    """

    id: str
    slot: str
    fact_type: FactType
    functional: bool
    confidence: float
    operation: Operation
    statement: str
    regex: re.Pattern[str]
    reject: re.Pattern[str] | None
    needs: re.Pattern[str] | None
    unless: re.Pattern[str] | None
    strip: re.Pattern[str] | None
    split: Split
    free: bool
    change: bool
    done: bool
    denies: bool
    foretells: bool
    implies: Sequence[str]

    def match(self, clause: str, undone: re.Pattern[str]) -> re.Match[str] | None:
        """Return the match in a clause, without a look at the value itself.

        undone: words of RuleSet that deny what follows, or put it into the future.
        """
        found = self.regex.match(clause)
        if (
            not found
            or (self.needs and not self.needs.search(clause))
            or (self.unless and self.unless.search(clause))
            or (self.done and undone.search(clause[: found.start("value")]))
        ):
            return None
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSet:
    """All rules of one language.

    lead: what may precede a statement. clause_break: separates clauses. carried: a clause that
    takes the subject of a clause matching carrier: its group `subject`, else `subject`, the
    speaker. speakers: how words for the speaker read in a statement about "User". canonical: words
    that name a slot, such as "mom" for relation.mother; kin: those of relations. kin_mention: a
    relation of the speaker, with its word in the group `kin`. stranger: a person known only through
    another, such as "her friend". someone: a named person, in the group `name`. thing: an object,
    in the groups `verb` and `thing`, or `topic`. relations: the patterns about a relation of the
    user, and those with `any_subject`, such as "My doctor put me on statins". further: another
    person or animal named after the values of a relation clause. sentences: the statement of each
    slot, with placeholders. slots: the type of each slot, and whether it holds one value at a time.
    telling: a clause about the speaker or a person. idle: a clause with nothing to keep.
    self_correction: a sentence that corrects a word, in the groups `right` and `wrong`, or
    `wrong_first` and `right_last`. no_person: names of places, days, languages and the like.
    surname: how a full name may begin. time_word: a word for a time, where a name before it ends.
    undone: words that deny what follows them, or put it into the future. person_noun: a noun for a
    person. several: a clause that counts relatives, `kin`. one_of: a clause about one of them, told
    apart by `which`, with its predicate in `rest`. other_subject: where a clause about somebody
    else may begin after a verb.
    """

    lead: re.Pattern[str]
    clause_break: re.Pattern[str]
    carrier: re.Pattern[str]
    carried: re.Pattern[str]
    subject: str
    cut: re.Pattern[str]
    aside: re.Pattern[str]
    filler: re.Pattern[str]
    list: re.Pattern[str]
    separator: re.Pattern[str]
    unspeakable: re.Pattern[str]
    speaker: re.Pattern[str]
    speakers: Mapping[str, str]
    canonical: Mapping[str, str]
    kin: Mapping[str, str]
    kin_mention: re.Pattern[str]
    stranger: re.Pattern[str]
    someone: re.Pattern[str]
    thing: re.Pattern[str]
    time_word: re.Pattern[str]
    undone: re.Pattern[str]
    further: re.Pattern[str]
    telling: re.Pattern[str]
    idle: re.Pattern[str]
    self_correction: re.Pattern[str]
    no_person: re.Pattern[str]
    surname: re.Pattern[str]
    person_noun: re.Pattern[str]
    several: re.Pattern[str]
    one_of: re.Pattern[str]
    other_subject: re.Pattern[str]
    verb: re.Pattern[str]
    sentences: Mapping[str, str]
    slots: Mapping[str, tuple[FactType, bool]]
    guards: Sequence[Guard]
    patterns: Sequence[Pattern]
    relations: Sequence[Pattern]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kinship:
    """What relations imply about a person; each set holds canonical names such as "daughter".

    single: a person has only one. titles: words that tell two with the same relation apart.
    general: the relations that a wider one such as "child" covers.
    """

    female: frozenset[str]
    male: frozenset[str]
    animal: frozenset[str]
    single: frozenset[str]
    titles: frozenset[str]
    general: Mapping[str, frozenset[str]]


EXPRESSIONS: Final = [one.name for one in fields(RuleSet) if one.type == "re.Pattern[str]"]
GRAMMARS: Final = ("names.toml", "numbers.toml")
"""Files whose fragments every rule of a language may name."""
OPTIONAL: Final = ("reject", "needs", "unless", "strip")
PLACEHOLDER: Final = re.compile(r"\{\{(\w+)\}\}")
REPEATED: Final = re.compile(r"((?<!\\)\)|(?<!\\)\\s)([*+])")
MOST_REPEATS: Final = 12
"""Maximum number of repeats of a group in a rule, such as adverbs, and of white space."""


def read_rule_file(name: str) -> dict[str, Any]:
    """Return a parsed TOML file of this folder. Callers cache what they build from it."""
    return tomllib.loads((files(__package__) / name).read_text(encoding="utf-8"))


@lru_cache
def load_rules(language: Language) -> RuleSet:
    """Return the compiled rules of a language, read and compiled on the first call."""
    return build_rules(read_language(language))


def load_all_rules() -> None:
    """Read and compile the rules of both languages, which takes a second of the processor."""
    for language in get_args(Language):
        load_rules(language)


@lru_cache
def read_language(language: Language) -> Mapping[str, Any]:
    """Return the parsed rules of a language with the grammars of names and numbers in them."""
    source = read_rule_file(f"{language}.toml")
    for grammar in GRAMMARS:
        source["fragments"] |= read_rule_file(grammar)[language]
    return source


@lru_cache
def load_fragment(name: str, language: Language) -> re.Pattern[str]:
    """Return a compiled fragment of a language, such as "name"."""
    return compiler(read_language(language))(f"{{{{{name}}}}}")


@lru_cache
def load_kin_words(language: Language) -> Mapping[str, str]:
    """Return the words for relatives and pets with their relations, as load_rules(language).kin.

    The other rules of the language, which take a second to compile, are left alone.
    """
    words: Mapping[str, str] = read_rule_file(f"{language}.toml")["words"]["kin"]
    return words


@lru_cache
def load_kinship() -> Kinship:
    """Return what the relations of both languages imply about a person."""
    table = read_rule_file("kinship.toml")
    general = {name: frozenset(words) for name, words in table.pop("general").items()}
    return Kinship(**{name: frozenset(words) for name, words in table.items()}, general=general)


@lru_cache
def load_relation_words() -> Mapping[str, Mapping[str, dict[str, list[str]]]]:
    """Return the tables of relation_words.toml."""
    return read_rule_file("relation_words.toml")


@lru_cache
def kin_word(relation: str, language: Language) -> str:
    """Return the plainest word for a relation in a language: 女儿 for "daughter"; "" if unknown.

    relation: its canonical name, in words or snake_case.
    """
    name = re.sub(r"\W+", "_", relation)
    if language == "en":
        return name.replace("_", " ")
    if label := load_relation_words()["relations"].get(name, {}).get("zh"):
        return str(label)
    kin = load_rules("zh").kin
    words = [word for word, one in kin.items() if re.sub(r"\W+", "_", one) == name]
    return next((word for word in words if len(word) == 2), words[0] if words else "")


def build_rules(source: Mapping[str, Any]) -> RuleSet:
    """Return the rule set of a parsed file. Raises KeyError for an unknown placeholder."""
    compiled = compiler(source)
    canonical = dict(source["canonical"])
    for words in source["words"].values():
        if isinstance(words, dict):
            canonical |= words
    patterns = [
        build_pattern(table, source["slots"][table["slot"]], compiled)
        for table in source["patterns"]
    ]
    return RuleSet(
        **{name: compiled(source[name]) for name in EXPRESSIONS},
        subject=source["subject"],
        speakers=source["speakers"],
        canonical=canonical,
        kin=source["words"]["kin"],
        sentences={name: slot["assert"] for name, slot in source["slots"].items()},
        slots={
            name: (slot["fact_type"], slot["functional"]) for name, slot in source["slots"].items()
        },
        guards=[
            Guard(
                id=guard["id"],
                scope=guard["scope"],
                tells=guard.get("tells", False),
                unsafe=guard.get("unsafe", False),
                regex=compiled(guard["regex"]),
                allows=frozenset(guard.get("allows", ())),
            )
            for guard in source["guards"]
        ],
        patterns=patterns,
        relations=[
            pattern
            for pattern, table in zip(patterns, source["patterns"], strict=True)
            if pattern.slot.startswith("relation.") or table.get("any_subject")
        ],
    )


def compiler(source: Mapping[str, Any]) -> Callable[[str], re.Pattern[str]]:
    """Return a function that compiles expressions with the fragments and words of a rule file."""
    parts = source["fragments"] | {
        name: f"(?:{'|'.join(longest_first(words))})" for name, words in source["words"].items()
    }

    def compiled(expression: str) -> re.Pattern[str]:
        while PLACEHOLDER.search(expression):
            expression = PLACEHOLDER.sub(lambda match: parts[match[1]], expression)
        return re.compile(bounded(expression), re.IGNORECASE)

    return compiled


def bounded(expression: str) -> str:
    """Return an expression whose groups and white space repeat at most MOST_REPEATS times.

    A search tries every place of a text, so one that repeats without end takes time that grows
    with the square of its length.
    """
    least = {"*": 0, "+": 1}
    return REPEATED.sub(lambda match: f"{match[1]}{{{least[match[2]]},{MOST_REPEATS}}}", expression)


def longest_first(words: Iterable[str]) -> list[str]:
    """Return words longest first ("mother-in-law" before "mother"); lists keep their order."""
    return words if isinstance(words, list) else sorted(words, key=len, reverse=True)


def build_pattern(
    table: Mapping[str, Any], slot: Mapping[str, Any], compiled: Callable[[str], re.Pattern[str]]
) -> Pattern:
    """Return the pattern of a [[patterns]] table, completed from its slot."""
    operation = table.get("operation", "assert")
    return Pattern(
        id=table["id"],
        slot=table["slot"],
        fact_type=slot["fact_type"],
        functional=table.get("functional", slot["functional"]),
        confidence=float(table["confidence"]),
        operation=operation,
        statement=table.get("statement") or slot[operation],
        regex=compiled(table["regex"]),
        split=table.get("split", "never"),
        free=slot.get("free", False),
        change=table.get("change", False),
        done=table.get("done", table.get("change", False)),
        denies=table.get("denies", False),
        foretells=table.get("foretells", False),
        implies=table.get("implies", ()),
        **{name: compiled(table[name]) if name in table else None for name in OPTIONAL},
    )


@dataclass(frozen=True, slots=True)
class Things:
    """Inanimate nouns: English words, their endings, words that end a phrase; Chinese words."""

    en: frozenset[str]
    en_endings: tuple[str, ...]
    en_stops: frozenset[str]
    zh: tuple[str, ...]


@lru_cache
def load_things() -> Things:
    """Return the nouns that no personal pronoun refers to."""
    found = read_rule_file("things.toml")
    return Things(
        en=frozenset(found["en"].split()),
        en_endings=tuple(found["en_endings"]),
        en_stops=frozenset(found["en_stops"].split()),
        zh=tuple(found["zh"]),
    )
