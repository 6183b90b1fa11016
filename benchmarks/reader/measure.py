"""Measures what the reader adds on turns it was not trained on.

    python -m benchmarks.reader.measure [--misses]

The turns are those of unseen_<lang>.txt, written after the frames and not used to choose anything.
Precision counts a draft as right if its turn asks for its value, so true facts that no label names
count as wrong.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from benchmarks.reader.generate import read
from shared_core.core.domain import Event, FactDraft
from shared_core.extraction.rule_based import RuleExtractor
from shared_core.nlp.text import Language

SAID_AT: Final = datetime(2026, 3, 10, 10, tzinfo=UTC)


def turns(lang: Language) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield each turn with the facts it must give, as (slot, value)."""
    for line in read(f"unseen_{lang}.txt"):
        if line.startswith("#"):
            continue
        text, _, wanted = line.partition(" =>")
        facts = [one.split(" = ", 1) for one in wanted.split(";") if one.strip()]
        yield text, [(slot.strip(), value.strip()) for slot, value in facts]


def drafts(extractor: RuleExtractor, text: str) -> Sequence[FactDraft]:
    """Return what an extractor draws from one turn."""
    turn = Event(event_id="1", author="user", role="user", text=text, occurred_at=SAID_AT)
    return extractor.read([turn]).facts


def matches(draft: FactDraft, wanted: tuple[str, str]) -> bool:
    """Tell whether a draft states a wanted fact."""
    slot, value = wanted
    said = f"{draft.value} {draft.statement}".casefold()
    return bool(re.fullmatch(slot, draft.slot)) and value.casefold() in said


def main() -> None:
    parser = argparse.ArgumentParser(description="Recall and precision on unseen turns.")
    parser.add_argument("--misses", action="store_true", help="list what is missed and wrong")
    given = parser.parse_args()
    languages: tuple[Language, ...] = ("en", "zh")
    for lang in languages:
        for reader in (False, True):
            extractor = RuleExtractor(reader=reader)
            found = asked = right = drawn = loud = silent = 0
            for text, wanted in turns(lang):
                got = drafts(extractor, text)
                hits = [one for one in wanted if any(matches(draft, one) for draft in got)]
                good = [draft for draft in got if any(matches(draft, one) for one in wanted)]
                found, asked = found + len(hits), asked + len(wanted)
                right, drawn = right + len(good), drawn + len(got)
                silent, loud = silent + (not wanted), loud + bool(got and not wanted)
                if given.misses and reader and (len(hits) < len(wanted) or len(good) < len(got)):
                    print("  ", text, wanted, [(one.slot, one.value, one.pattern) for one in got])
            print(
                f"{lang} {'rules and reader' if reader else 'rules alone'}: found {found} of"
                f" {asked}, right {right} of {drawn} drafts, loud {loud} of {silent} without a fact"
            )


if __name__ == "__main__":
    main()
