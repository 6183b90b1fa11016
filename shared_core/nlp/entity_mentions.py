"""Which entities a question may name. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from shared_core.core.domain import USER
from shared_core.nlp.text import UNSPACED, normalised, search_terms
from shared_core.ports.graph import Edge

MOST_NAMES = 200
"""So many possible names of a question are looked up."""
LONGEST_NAME = 4
"""In words; in characters for a script without spaces, half as much again."""
WORD: Final = re.compile(rf"[{UNSPACED}]+|[^\W{UNSPACED}]+(?:['’.-][^\W{UNSPACED}]+)*")
POSSESSIVE: Final = re.compile(r"['’]s$", re.IGNORECASE)
FIRST_PERSON: Final = re.compile(r"\b(?:i|me|my|mine|myself)\b|[我咱俺]", re.IGNORECASE)


def mentioned(query: str) -> list[str]:
    """Return keys of entities that a query may name: "user" for "I", then runs of words.

    Runs that are longer than most names are left out first, then what was said first.
    """
    words = WORD.findall(query)[-MOST_NAMES:]
    runs = [*_of_words(words), *_of_characters(words)]
    found: dict[str, int] = {}
    for oddity, name in runs:
        found[name] = min(oddity, found.get(name, oddity))
    first = [USER] if FIRST_PERSON.search(query) else []
    names = [name for name in found if name and name not in first]
    likely = sorted(reversed(names), key=found.__getitem__)[: MOST_NAMES - len(first)]
    kept = frozenset(likely)
    return first + [name for name in names if name in kept]


def _of_words(words: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield runs of words, longest first, each with how rarely a name is as long: least is best."""
    for length in range(LONGEST_NAME, 0, -1):
        for start in range(len(words) - length + 1):
            run = " ".join(words[start : start + length])
            yield length, normalised(run)
            if (owner := POSSESSIVE.sub("", run)) != run:
                yield length, normalised(owner)


def _of_characters(words: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield runs of characters likewise; most names have two or three, few have one."""
    for run in (word[-MOST_NAMES:] for word in words):
        if re.match(f"[{UNSPACED}]", run):
            for length in range(LONGEST_NAME * 3 // 2, 0, -1):
                for start in range(len(run) - length + 1):
                    yield (length - 1 or LONGEST_NAME), normalised(run[start : start + length])


def best_edges(edges: Sequence[Edge], terms: Sequence[str], limit: int) -> list[Edge]:
    """Return the edges that share most words with a query, the newest of those that share alike."""
    asked = set(terms)

    def shared(edge: Edge) -> int:
        said = " ".join((edge.subject, edge.relation.replace("_", " "), edge.object))
        return len(asked.intersection(search_terms(said)))

    by_age = sorted(edges, key=lambda edge: (edge.valid_from, edge.edge_id.int), reverse=True)
    return sorted(by_age, key=shared, reverse=True)[:limit]
