"""Split a turn into sentences and clauses, without code and quotations. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from typing import Final

from shared_core.nlp.rules import RuleSet
from shared_core.nlp.text import Language, by_language, has_words, sentences

MAX_READ_CHARACTERS: Final = 200_000
# Limit for earlier turns: a query waits while they are read.
MAX_FOLLOWED_CHARACTERS: Final = 20_000
MAX_SENTENCE_CHARACTERS: Final = 400
MAX_QUOTED_WORDS: Final = 5

CODE_BLOCK: Final = re.compile(
    r"```.*?(?:```|\Z)|^[ \t]*>[^\n]*|`[^`\n]{1,400}`", re.DOTALL | re.MULTILINE
)
QUOTATION: Final = re.compile(
    r"\"([^\"\n]{1,400})\"|“([^”\n]{1,400})”|「([^」\n]{1,400})」|『([^』\n]{1,400})』"
)
AROUND_HAN: Final = re.compile(
    r"(?<=[\u4e00-\u9fff]) +(?=[A-Za-z0-9])|(?<=[A-Za-z0-9]) +(?=[\u4e00-\u9fff])"
)
"""Spaces between Chinese and Latin characters, which carry no meaning."""
SPEAKER_OR_STOP: Final = re.compile(r"\b(?:i|my|me|we)\b|[我咱]|[.!?。！？]", re.IGNORECASE)


def own_sentences(text: str, limit: int = MAX_READ_CHARACTERS) -> list[tuple[str, Language]]:
    """Return the author's own sentences with their languages.

    A sentence that switches language counts as two. Reads the first `limit` characters and skips
    sentences longer than MAX_SENTENCE_CHARACTERS.
    """
    return [
        (AROUND_HAN.sub("", sentence) if lang == "zh" else sentence, lang)
        for whole in sentences(own_words(text[:limit]))
        if len(whole) <= MAX_SENTENCE_CHARACTERS and has_words(whole)
        for sentence, lang in by_language(whole)
    ]


def own_words(text: str) -> str:
    """Return the text without code, quoted lines and quotations. Quoted words and titles stay."""
    text = CODE_BLOCK.sub(" … ", text).replace("’", "'")
    return QUOTATION.sub(unquoted, text)


def unquoted(quotation: re.Match[str]) -> str:
    """Return the inside of a quotation that names something, or "…" for quoted speech."""
    inside = quotation[quotation.lastindex or 0]
    speaks = SPEAKER_OR_STOP.search(inside) or len(inside.split()) > MAX_QUOTED_WORDS
    return " … " if speaks else inside


def clauses(sentence: str, rules: RuleSet) -> Iterator[tuple[str, str]]:
    """Yield the clauses of a sentence as (resolved, original) pairs.

    The resolved clause has no lead-in, and repeats the subject it shares with the clause before.
    """
    subject = ""
    broken = rules.clause_break.split(" ".join(sentence.split()))
    for part in chain.from_iterable(by_subject(part, rules) for part in broken):
        clause = rules.lead.sub("", part, count=1).strip()
        if subject and rules.carried.match(clause):
            space = " " if subject.isascii() and not subject.endswith(" ") else ""
            clause = subject + space + clause
        carrier = rules.carrier.match(clause)
        subject = carrier["subject"] or rules.subject if carrier else ""
        if clause:
            yield clause, part


def by_subject(part: str, rules: RuleSet) -> Iterator[str]:
    """Yield one clause for each subject: "Ben is 9 and Max is 6" is two."""
    start = 0
    for match in rules.other_subject.finditer(part):
        if rules.verb.search(part[start : match.start()]):
            yield part[start : match.start()]
            start = match.end()
    yield part[start:]
