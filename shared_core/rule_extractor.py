"""Durable facts about the user, read out of a turn by rules; no model, no network.

The rules are data in `shared_core/rules`. They take explicit first-person statements only and
prefer silence to a guess: questions, conditions, wishes, hearsay, jokes, tasks and quoted text
yield nothing. Every fact names the rule that found it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from shared_core.domain import Event, FactDraft
from shared_core.rules import GuardScope, Pattern, RuleSet, load_rules
from shared_core.text import Language, language, sentences

RULES_VERSION: Final = "rules-v1"

# What lies beyond is a pasted document, and its "I" is seldom the user.
MAX_READ_CHARACTERS: Final = 20_000
MAX_SENTENCE_CHARACTERS: Final = 400
MAX_VALUE_CHARACTERS: Final = 160
MAX_QUOTED_WORDS: Final = 5

CODE_BLOCK: Final = re.compile(
    r"```.*?(?:```|\Z)|^[ \t]*>[^\n]*|`[^`\n]{1,400}`", re.DOTALL | re.MULTILINE
)
QUOTATION: Final = re.compile(
    r"\"([^\"\n]{1,400})\"|“([^”\n]{1,400})”|「([^」\n]{1,400})」|『([^』\n]{1,400})』"
)
SPEAKER_OR_STOP: Final = re.compile(r"\b(?:i|my|me|we)\b|[我咱]|[.!?。！？]", re.IGNORECASE)
TRAILING: Final = " \t.,;:!。，；：！~～\"'”’」"


def extract_facts(event: Event) -> list[FactDraft]:
    """Return what the user states about themselves in this turn, in order, each fact once.

    Only turns with the role "user" are read, and of those the first MAX_READ_CHARACTERS.
    """
    if event.role != "user":
        return []
    drafts: dict[tuple[str, str, str], FactDraft] = {}
    for clause, spoken in stated_clauses(event.text):
        for draft in clause_facts(clause, spoken, event.event_id):
            key = (draft.slot, draft.value.casefold(), draft.operation)
            if not any(shortens(draft, earlier) for earlier in drafts.values()):
                drafts.setdefault(key, draft)
    return list(drafts.values())


def shortens(draft: FactDraft, earlier: FactDraft) -> bool:
    """Tell whether a value is a shorter form of one just given: "Ann Lee", then "call me Ann"."""
    same = (draft.slot, draft.operation) == (earlier.slot, earlier.operation)
    return draft.functional and same and draft.value in earlier.value


def stated_clauses(text: str) -> Iterator[tuple[str, Language]]:
    """Yield the clauses in which the user may be stating something, and their language."""
    found = [
        (sentence, language(sentence))
        for sentence in sentences(own_words(text))
        if len(sentence) <= MAX_SENTENCE_CHARACTERS
    ]
    for sentence, spoken in found:
        if guarded(sentence, load_rules(spoken), "turn"):
            return
    for sentence, spoken in found:
        rules = load_rules(spoken)
        if guarded(rules.lead.sub("", sentence, count=1), rules, "rest"):
            return
        if guarded(sentence, rules, "sentence"):
            continue
        for clause in clauses(sentence, rules):
            if guarded(clause, rules, "rest"):
                return
            if guarded(clause, rules, "onward"):
                break
            yield clause, spoken


def own_words(text: str) -> str:
    """Return the text without code, quoted lines and quotations; a quoted word or title stays."""
    text = CODE_BLOCK.sub(" … ", text[:MAX_READ_CHARACTERS]).replace("’", "'")
    return QUOTATION.sub(unquoted, text)


def unquoted(quotation: re.Match[str]) -> str:
    """Return the inside of a quotation that names something, and "…" for one that speaks."""
    inside = quotation[quotation.lastindex or 0]
    speaks = SPEAKER_OR_STOP.search(inside) or len(inside.split()) > MAX_QUOTED_WORDS
    return " … " if speaks else inside


def guarded(text: str, rules: RuleSet, scope: GuardScope) -> bool:
    """Tell whether a guard of this scope forbids to take the text at its word."""
    return any(guard.scope == scope and guard.regex.search(text) for guard in rules.guards)


def clauses(sentence: str, rules: RuleSet) -> Iterator[str]:
    """Yield the clauses of a sentence without lead-ins, each with a subject if it shares one."""
    subject = ""
    for part in rules.clause_break.split(" ".join(sentence.split())):
        clause = rules.lead.sub("", part, count=1).strip()
        if subject and rules.carried.match(clause):
            clause = subject + clause
        carrier = rules.carrier.match(clause)
        subject = carrier["subject"] or rules.subject if carrier else ""
        if clause:
            yield clause


def clause_facts(clause: str, spoken: Language, event_id: str) -> Iterator[FactDraft]:
    """Yield the facts of one clause; the first pattern that reads a slot speaks for it."""
    rules = load_rules(spoken)
    read: set[str] = set()
    for pattern in rules.patterns:
        if pattern.slot in read or not (match := pattern.regex.match(clause)):
            continue
        if (pattern.needs and not pattern.needs.search(clause)) or (
            pattern.unless and pattern.unless.search(clause)
        ):
            continue
        for value in values(match["value"], pattern, rules):
            read.add(pattern.slot)
            yield drafted(value, match, pattern, spoken, event_id)


def values(raw: str, pattern: Pattern, rules: RuleSet) -> Iterator[str]:
    """Yield the values a pattern found, tidied; none that the pattern rejects."""
    if not raw:
        yield raw  # a retraction that names no value
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
            return  # what follows a refused part hangs on it
        yield value


def drafted(
    value: str, match: re.Match[str], pattern: Pattern, spoken: Language, event_id: str
) -> FactDraft:
    """Return the fact that a pattern read as value."""
    rules = load_rules(spoken)
    groups = {name: found or "" for name, found in match.groupdict().items()}
    names = {
        name: rules.canonical.get(found.lower(), found.lower()) for name, found in groups.items()
    }
    said = groups | {f"canonical_{name}": found for name, found in names.items()}
    said |= {"value": voiced(value, rules), "a": "an" if value[:1].lower() in set("aeiou") else "a"}
    return FactDraft(
        fact_type=pattern.fact_type,
        slot=pattern.slot.format_map(names),
        value=value,
        statement=pattern.statement.format_map(said),
        event_id=event_id,
        functional=pattern.functional,
        confidence=pattern.confidence,
        pattern=pattern.id,
        language=spoken,
        operation=pattern.operation,
    )


def voiced(value: str, rules: RuleSet) -> str:
    """Return the value as a statement about the user says it: "my job" becomes "their job"."""
    if rules.unspeakable.search(value):
        return f'"{value}"'
    return rules.speaker.sub(lambda match: rules.speakers[match[0].lower()], value)
