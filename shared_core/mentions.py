"""Which entities a question may name. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from shared_core.domain import USER
from shared_core.facts import normalised
from shared_core.graph_ports import Edge
from shared_core.text import UNSPACED, search_terms

MOST_NAMES = 200
"""So many possible names of a question are looked up."""
LONGEST_NAME = 4
"""In words; in characters for a script without spaces, half as much again."""
WORD: Final = re.compile(rf"[{UNSPACED}]+|[^\W{UNSPACED}]+(?:['’.-][^\W{UNSPACED}]+)*")
FIRST_PERSON: Final = re.compile(r"\b(?:i|me|my|mine|myself)\b|[我咱俺]", re.IGNORECASE)


def mentioned(query: str) -> list[str]:
    """Return keys of entities that a query may name: "user" for "I", then all runs of words."""
    words = WORD.findall(query)[-MOST_NAMES:]
    found: dict[str, None] = {USER: None} if FIRST_PERSON.search(query) else {}
    for length in range(LONGEST_NAME, 0, -1):
        for start in range(len(words) - length + 1):
            found.setdefault(normalised(" ".join(words[start : start + length])))
    for run in words:
        if re.match(f"[{UNSPACED}]", run):
            for length in range(LONGEST_NAME * 3 // 2, 0, -1):
                for start in range(len(run) - length + 1):
                    found.setdefault(normalised(run[start : start + length]))
    return [name for name in found if name][:MOST_NAMES]


def best_edges(edges: Sequence[Edge], terms: Sequence[str], limit: int) -> list[Edge]:
    """Return the edges that share most words with a query, the newest of those that share alike."""
    asked = set(terms)

    def shared(edge: Edge) -> int:
        said = " ".join((edge.subject, edge.relation.replace("_", " "), edge.object))
        return len(asked.intersection(search_terms(said)))

    by_age = sorted(edges, key=lambda edge: (edge.valid_from, edge.edge_id.int), reverse=True)
    return sorted(by_age, key=shared, reverse=True)[:limit]
