"""Read the facts in one clause with the patterns of the rule files. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Final

from shared_core.core.domain import FactDraft
from shared_core.nlp.affect import fact_importance
from shared_core.nlp.rules import Pattern, RuleSet, load_rules
from shared_core.nlp.slots import takes_the_place
from shared_core.nlp.text import Language
from shared_core.nlp.whole_values import is_whole

MAX_VALUE_CHARACTERS: Final = 160
TRAILING: Final = " \t.,;:!。，；：！～~\"'”’」"


def clause_facts(
    clause: str,
    lang: Language,
    event_id: str,
    without: Collection[str] = (),
    *,
    relations_only: bool = False,
    only: Collection[str] = (),
) -> Iterator[FactDraft]:
    """Yield the facts of a clause; the first matching pattern of a slot wins.

    without: ids of disabled patterns. relations_only: the clause is not about the user. only: ids
    of the patterns to use; () for all.
    """
    rules = load_rules(lang)
    read: set[str] = set()
    for pattern in rules.relations if relations_only else rules.patterns:
        if (
            pattern.slot in read
            or pattern.id in without
            or (only and pattern.id not in only)
            or not (match := pattern.match(clause, rules.undone))
        ):
            continue
        told_now = "value" in match.groupdict() and not pattern.foretells
        if told_now and not is_whole(pattern.slot, clause, *match.span("value"), lang):
            continue
        for value in pattern.implies or values(match["value"], pattern, rules):
            read.add(pattern.slot)
            yield fact_from_match(value, match, pattern, lang, event_id)


def values(raw: str, pattern: Pattern, rules: RuleSet) -> Iterator[str]:
    """Yield the tidied values of a match, except those the pattern rejects."""
    if not raw:
        yield raw  # a retraction without a value
        return
    if pattern.free:
        raw = rules.cut.sub("", raw)
    enumeration = rules.list.fullmatch(raw.strip(TRAILING))
    parts = [raw]
    if pattern.split == "any" or (pattern.split == "list" and enumeration):
        parts = rules.separator.split(raw)
    elif pattern.free and not enumeration:
        parts = [rules.aside.sub("", raw)]
    for part in parts:
        value = part.strip(TRAILING)
        if pattern.free:
            value = rules.filler.sub("", value).strip(TRAILING)
        if pattern.strip:
            value = pattern.strip.sub("", value)
        if not value or len(value) > MAX_VALUE_CHARACTERS:
            continue
        if rules.unspeakable.search(value) and pattern.fact_type != "rule":
            continue
        if pattern.reject and pattern.reject.search(value):
            return  # later values depend on the refused one
        yield value


def fact_from_match(
    value: str, match: re.Match[str], pattern: Pattern, lang: Language, event_id: str
) -> FactDraft:
    """Return the fact for one value of a pattern match."""
    rules = load_rules(lang)
    groups = {name: found or "" for name, found in match.groupdict().items()}
    names = {
        name: rules.canonical.get(found.lower(), found.lower()) for name, found in groups.items()
    }
    words = groups | {f"canonical_{name}": found for name, found in names.items()}
    article = "an" if value[:1].lower() in set("aeiou") else "a"
    words |= {"value": voiced(value, rules), "a": article}
    return FactDraft(
        fact_type=pattern.fact_type,
        slot=pattern.slot.format_map(names),
        value=value,
        statement=pattern.statement.format_map(words),
        event_id=event_id,
        functional=takes_the_place(pattern.slot, value, functional=pattern.functional),
        confidence=pattern.confidence,
        pattern=pattern.id,
        language=lang,
        operation=pattern.operation,
        denies=pattern.denies,
        change=pattern.change,
        importance=fact_importance(pattern.slot),
    )


def voiced(value: str, rules: RuleSet) -> str:
    """Return a value in the third person: "my job" becomes "their job"."""
    if rules.unspeakable.search(value):
        return f'"{value}"'
    return rules.speaker.sub(lambda match: rules.speakers[match[0].lower()], value)
