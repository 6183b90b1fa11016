"""Is the fact that a turn ends among those that a model is shown, of 500 that are held?

    python -m benchmarks.held_listing

benchmarks/data/held_changes.tsv has 40 facts and turns that end them in other words, written before
the first run and not changed after it. The other facts are those of benchmarks/data/typed and
unseen. They come from many users; a second value of a slot that has one value at a time becomes a
fact about somebody else, because a user has only one.
"""

from __future__ import annotations

import asyncio
import csv
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np

from shared_core.core.domain import USER, HeldFact, MemoryId
from shared_core.extraction.held_listing import listing_of
from shared_core.models.embedders import resolve_embedder
from shared_core.nlp.slots import slot_of
from shared_core.nlp.text import sentences

DATA = Path(__file__).parent / "data"
HELD = 500
FRIENDS = ("ada", "ben", "cleo", "dov", "edda", "finn")
BY_PATTERN = re.compile(r"\\.|[?.*^$()\[\]]")
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Change(NamedTuple):
    """A held fact, and a turn that ends it in other words."""

    lang: str
    slot: str
    value: str
    statement: str
    turn: str


def changes() -> list[Change]:
    """Return the changes of the data set."""
    with (DATA / "held_changes.tsv").open(encoding="utf-8") as file:
        return [Change(*row) for row in csv.reader(file, delimiter="\t")]


def others() -> Iterator[tuple[str, str, str, str]]:
    """Yield language, words of the slot, value and subject of facts of other data sets."""
    for folder in ("typed", "unseen"):
        found: list[tuple[str, dict[str, Any]]] = []
        for name, keys in (
            ("traps", ("held",)), ("conversations", ("hold", "ended")), ("utterances", ("facts",)),
        ):  # fmt: skip
            for row in json.loads((DATA / folder / f"{name}.json").read_text(encoding="utf-8")):
                found += [(row["lang"], fact) for key in keys for fact in row.get(key, ())]
        for lang, fact in found:
            words = fact.get("slot words") or fact.get("predicate") or "fact"
            value = fact["value"]
            value = " ".join(value) if isinstance(value, list) else str(value)
            value = BY_PATTERN.sub("", value.partition("|")[0])  # some are patterns
            yield lang, words, value, fact["subject"]


def held(lang: str) -> list[HeldFact]:
    """Return HELD facts, those that the changes of a language end among them, newest first."""
    own = [(USER, one.slot, one.value, one.statement) for one in changes() if one.lang == lang]
    every = sorted(set(others()), key=lambda one: (one[0] != lang, one))
    taken = {slot for _, slot, _, _ in own}
    rest: list[tuple[str, str, str, str]] = []
    for _, words, value, subject in every[: HELD - len(own)]:
        slot = slot_of(words)
        name = slot.name if slot else words
        if subject == USER and slot and slot.functional:
            if name in taken:
                subject = f"{FRIENDS[len(rest) % len(FRIENDS)]}{len(rest)}"
            taken.add(name)
        rest.append((subject, name, value, f"{subject} {words} {value}"))
    # Spread over the list: neither the newest nor the oldest.
    gap = len(rest) // len(own)
    for place, fact in enumerate(own):
        rest.insert(place * (gap + 1), fact)
    return [
        HeldFact(
            memory_id=MemoryId(UUID(int=number)), fact_type="custom", slot=name, subject=subject,
            value=value, statement=statement, stated_at=NOON - timedelta(hours=number),
            functional=bool((slot := slot_of(name)) and slot.functional),
        )
        for number, (subject, name, value, statement) in enumerate(rest)
    ]  # fmt: skip


async def main() -> None:
    embedder = resolve_embedder("e5")
    for lang in ("en", "zh"):
        facts = held(lang)
        vectors = await embedder.embed_passages([one.statement for one in facts])
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        for how in ("words", "meaning"):
            missed, sizes, shown = [], [], []
            for change in (one for one in changes() if one.lang == lang):
                near = facts
                if how == "meaning":
                    texts = [change.turn, *sentences(change.turn)]
                    asked = await embedder.embed_passages(texts)
                    asked /= np.linalg.norm(asked, axis=1, keepdims=True)
                    best = (vectors @ asked.T).max(axis=1)
                    near = [
                        replace(fact, nearness=float(one))
                        for fact, one in zip(facts, best, strict=True)
                    ]
                listing = listing_of(near, change.turn)
                sizes.append(len(listing.text))
                shown.append(len(listing.facts))
                if change.statement not in {one.statement for one in listing.facts.values()}:
                    missed.append(change.turn)
            print(
                f"{lang}, by {how}: {len(sizes) - len(missed)} of {len(sizes)} shown, among"
                f" {np.mean(shown):.0f} facts in {np.mean(sizes):,.0f} characters"
            )
            for turn in missed:
                print(f"  missed: {turn}")


if __name__ == "__main__":
    asyncio.run(main())
