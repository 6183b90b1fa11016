"""Check what a language model says is out of date among the facts that are held. Pure.

A model is not trusted with the ends of facts:
- It may only name a fact that was shown, holds, and was told in a turn. Allergies and denials end
  by the user's word alone.
- Another fact must show it, held or ended. That fact has begun, and it began or was told later than
  the fact that ends. Or the fact names a day or a term, and that has passed.
- Two facts cannot show each other's end.
- What still holds of a fact has its value and most of its words from that fact and from those that
  show the change.
- A review that ends more than a quarter of the facts, and more than three, ends none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from shared_core.core.domain import UNKNOWN_START, FactDraft, HeldFact, MemoryId, OutdatedFact
from shared_core.extraction.evidence import SECRET, date_of, end_of, numbers_in
from shared_core.extraction.fact_operations import by_word_only
from shared_core.extraction.held_listing import fact_line, written_subject
from shared_core.extraction.llm_schema import CONFIDENCE, ReviewItem
from shared_core.nlp.affect import fact_importance
from shared_core.nlp.text import language, normalised, search_terms
from shared_core.nlp.tokenizer import count_tokens

TODAY: Final = "today"
MOST_ENDED: Final = 3
"""Number of facts that a review may end if a quarter of those shown is fewer."""
SHARE: Final = 4
PASSES: Final = 2
LEAST_FOUNDED: Final = 0.6
"""Minimum share of the words of a new statement that the facts behind it have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewListing:
    """Facts as text, by id: "f1" holds, "e1" has ended."""

    text: str
    facts: Mapping[str, HeldFact]


def review_listing(held: Sequence[HeldFact], max_tokens: int) -> ReviewListing:
    """Return the facts as text, the oldest first; of too many, the newest that fit.

    held: facts that hold, and facts that ended.
    """
    facts: dict[str, HeldFact] = {}
    lines: list[str] = []
    for one in sorted(held, key=lambda one: one.stated_at, reverse=True):
        name = f"{'f' if one.ended_at is None else 'e'}{len(facts) + 1}"
        line = f"[{name}] {_when(one)}; {fact_line(one)}"
        max_tokens -= count_tokens(line) + 1
        if max_tokens < 0:
            break
        facts[name] = one
        lines.append(line)
    return ReviewListing(text="\n".join(reversed(lines)), facts=facts)


def _when(one: HeldFact) -> str:
    if one.ended_at is not None:
        return f"ended {one.ended_at.date().isoformat()}"
    if one.valid_from == UNKNOWN_START or one.begins_at is not None:
        return f"told {one.stated_at.date().isoformat()}"
    return f"since {one.valid_from.date().isoformat()}"


class _Refused(Exception):
    """An element is not believed; the message says why, without a word of it."""


def outdated_facts(
    items: Iterable[ReviewItem], listing: ReviewListing, now: datetime, pattern: str
) -> tuple[list[OutdatedFact], Counter[str]]:
    """Return the facts that a review ends, and how many of its elements were refused and why.

    pattern: name of the origin of what is drawn.
    """
    found: dict[MemoryId, OutdatedFact] = {}
    left, refused = list(items), Counter[str]()
    for _ in range(PASSES):  # an end may be shown by one that stands behind it in the answer
        waiting, left = left, []
        refused.clear()
        for item in waiting:
            try:
                one = _outdated(item, _evidence(item, listing.facts, found), now, pattern)
            except _Refused as error:
                refused[str(error)] += 1
                left.append(item)
            else:
                found.setdefault(one.fact.memory_id, one)
    shown = sum(one.ended_at is None for one in listing.facts.values())
    if len(found) > max(MOST_ENDED, shown // SHARE):
        refused["review that ends too much"] += len(found)
        found = {}
    return list(found.values()), refused


def _evidence(
    item: ReviewItem, facts: Mapping[str, HeldFact], found: Mapping[MemoryId, OutdatedFact]
) -> dict[str, HeldFact]:
    """Return the facts, without those whose end rests on that of the item; others as they end."""
    ends = {memory_id: one.until for memory_id, one in found.items() if one.still is None}
    resting = {facts[item.id].memory_id} if item.id in facts else set()
    while more := {
        memory_id
        for memory_id, one in found.items()
        if memory_id not in resting and not resting.isdisjoint(o.memory_id for o in one.because)
    }:
        resting |= more
    return {
        name: replace(one, ended_at=ends.get(one.memory_id, one.ended_at))
        for name, one in facts.items()
        if name == item.id or one.memory_id not in resting
    }


def _outdated(
    item: ReviewItem, facts: Mapping[str, HeldFact], now: datetime, pattern: str
) -> OutdatedFact:
    fact = facts.get(item.id)
    if fact is None:
        raise _Refused("review of a fact that was not shown")
    if fact.ended_at is not None:
        raise _Refused("review of a fact that has ended")
    if by_word_only(fact.slot):
        raise _Refused("review of an allergy or a denial")
    if not fact.turns:
        raise _Refused("review of a fact that no turn tells")
    if not _has_begun(fact, now):
        raise _Refused("review of what has not begun")
    start = date_of(item.until, now)
    if start is not None and start > now:
        raise _Refused("review that ends a fact later")
    shown = tuple(facts[one] for one in item.because if one in facts and facts[one] is not fact)
    shown = tuple(one for one in shown if _has_begun(one, now))
    over = end_of(item.until, now)
    has_term = TODAY in item.because and numbers_in(f"{fact.value} {fact.statement}")
    has_passed = has_term and over is not None and fact.valid_from < over <= now
    if not (has_passed or any(_is_newer(one, fact) for one in shown)):
        raise _Refused("review that no newer fact shows")
    moments = (start, over, max((_moment(one) for one in shown), default=None))
    until = next((one for one in moments if one and fact.valid_from < one <= now), now)
    still = _still(item, fact, shown, pattern) if item.op == "update" else None
    return OutdatedFact(fact=fact, because=shown, until=until, still=still)


def _has_begun(one: HeldFact, now: datetime) -> bool:
    return one.begins_at is None or one.begins_at <= now


def _is_newer(one: HeldFact, fact: HeldFact) -> bool:
    """Tell whether a fact began, ended or was told later than another began or was told."""
    if one.ended_at is not None:
        return one.ended_at > fact.valid_from
    return one.valid_from > fact.valid_from or one.stated_at > fact.stated_at


def _moment(one: HeldFact) -> datetime:
    if one.ended_at is not None:
        return one.ended_at
    return one.stated_at if one.valid_from == UNKNOWN_START else one.valid_from


def _still(
    item: ReviewItem, fact: HeldFact, shown: tuple[HeldFact, ...], pattern: str
) -> FactDraft:
    """Return the draft of what still holds of a fact."""
    said = " ".join(f"{one.value} {one.statement}" for one in (fact, *shown))
    known, words = set(search_terms(said)), search_terms(item.statement)
    value = item.value if set(search_terms(item.value)) <= known else ""
    founded = sum(word in known for word in words)
    if not (value and words) or SECRET.search(item.statement):
        raise _Refused("update by a review without a value that the facts say")
    if founded < LEAST_FOUNDED * len(words) or normalised(item.statement) == normalised(
        fact.statement
    ):
        raise _Refused("update by a review that the facts do not say")
    return FactDraft(
        fact_type=fact.fact_type,
        slot=fact.slot,
        value=value,
        statement=item.statement,
        event_id="",
        functional=fact.functional,
        confidence=CONFIDENCE,
        pattern=pattern,
        language=language(item.statement),
        subject=written_subject(fact),
        importance=fact_importance(fact.slot),
        people=tuple(one.memory_id for one in (fact, *shown)),
    )
