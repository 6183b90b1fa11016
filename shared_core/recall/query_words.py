"""Which words of a query a text holds, as they were asked and not as they are stored. Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from shared_core.nlp.text import TERM, search_terms


@dataclass(frozen=True, slots=True)
class QueryWord:
    """A word as it was asked, and the terms that stand for it; or a run without spaces."""

    word: str
    terms: tuple[str, ...]
    is_run: bool


def query_words(query: str, terms: Collection[str]) -> list[QueryWord]:
    """Return the words of a query that are among the terms searched for, each once, in order."""
    wanted = frozenset(terms)
    found: dict[str, QueryWord] = {}
    for run, word, _ in TERM.findall(unicodedata.normalize("NFKC", query)):
        one = QueryWord(run or word, tuple(search_terms(run or word)), bool(run))
        if not wanted.isdisjoint(one.terms):
            found.setdefault(one.word.casefold(), one)
    return list(found.values())


def words_held(words: Sequence[QueryWord], held: Collection[str]) -> tuple[str, ...]:
    """Return the words of which a text holds the terms, and the parts it holds of runs."""
    shown: list[str] = []
    for one in words:
        if one.is_run:
            shown += parts_held(one.word, held)
        elif all(term in held for term in one.terms):
            shown.append(one.word)
    return tuple(dict.fromkeys(shown))


def parts_held(run: str, held: Collection[str]) -> list[str]:
    """Return the longest parts of a run of which every two neighbours are held, or one alone."""
    parts: list[str] = []
    start = at = 0
    while at < len(run):
        start = at
        while run[at : at + 2] in held and at + 1 < len(run):
            at += 1
        if at > start or run[start] in held:
            parts.append(run[start : at + 1])
        at += 1
    return parts
