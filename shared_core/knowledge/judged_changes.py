"""Which of the facts that hold a turn ends or puts in doubt, as the trained judge reads both. Pure.

The expressions of revision know words of an end. The judge knows what a turn means for a fact:
"one month in calgary and my skin is crying" for a home in Lagos. It is asked where the reader takes
words of a turn for what may be over.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal

from shared_core.core.domain import USER, HeldFact
from shared_core.extraction.change_judge import Judgement, load_change_judge
from shared_core.extraction.rule_reader import guarded
from shared_core.extraction.span_tagger import load_tagger
from shared_core.knowledge.clause_changes import Change, vetoed_verdict
from shared_core.knowledge.held_index import HeldIndex, key_of, kinds_of
from shared_core.nlp.clauses import own_sentences
from shared_core.nlp.rules import load_rules
from shared_core.nlp.rules.revision import load_revision_rules
from shared_core.nlp.text import Language, is_question

ENDS: Final = 0.96
"""Least probability of an end at which a fact ends."""
DOUBTS: Final = 0.9
"""Least probability of an end or a doubt at which a fact is doubted."""
MAY_BE_OVER: Final = 0.3
"""Least probability of being over, of any words of a turn, at which the turn is compared."""
MOST_FACTS: Final = 8
"""Maximum number of facts that a turn is compared with: those it mentions, then the newest."""
MOST_CHARACTERS: Final = 400
"""Of a longer turn only the beginning is compared."""
NEVER: Final = frozenset({"name", "surname", "birthday", "origin", "zodiac", "note", "email"})
"""Last parts of slots whose facts no turn ends."""


def judged_changes(
    text: str, held: HeldIndex, *, most_read: int
) -> Iterator[tuple[Change, Language]]:
    """Yield the ends and doubts of held facts, each fact once.

    most_read: maximum characters of a turn that are read at all.
    """
    said = own_sentences(text, most_read)
    if any(guarded(one, load_rules(lang), "turn") for one, lang in said):
        return
    told = [(one, lang) for one, lang in said if _tells(one, lang)]
    read = " ".join(one for one, _ in told)[:MOST_CHARACTERS]
    if not told or _over(read) < MAY_BE_OVER:
        return
    facts, lang = _candidates(told, held), told[0][1]
    for fact, judgement in _judged(read, facts):
        verdict = _verdict(judgement)
        limit = vetoed_verdict(read, read, load_revision_rules(lang), kinds_of(fact.slot))
        if verdict and limit != "none":
            verdict = "end" if verdict == limit == "end" else "doubt"
            yield Change(verdict=verdict, rule=f"reader.{lang}.change", fact=fact), lang


def _judged(text: str, facts: list[HeldFact]) -> Iterator[tuple[HeldFact, Judgement]]:
    judge = load_change_judge() if facts else None
    if judge is not None:
        found = judge.judge([one.statement for one in facts], text)
        yield from zip(facts, found, strict=True)


def _tells(sentence: str, lang: Language) -> bool:
    """Tell whether a sentence is said as true: no question, order, wish or hearsay."""
    guard = guarded(sentence, load_rules(lang), "sentence")
    return not is_question(sentence) and (guard is None or guard.tells)


def _over(text: str) -> float:
    """Return the highest probability of being over that the reader gives words of a text."""
    tagger = load_tagger()
    spans = tagger.tag(text).spans if tagger else ()
    return max((one.over for one in spans), default=0.0)


def _candidates(told: list[tuple[str, Language]], held: HeldIndex) -> list[HeldFact]:
    """Return the facts that may end: those that the sentences mention, then the newest."""
    words = " ".join(text for text, _ in told).casefold()
    touched = {key_of(one) for text, lang in told for one in held.touched(text, lang)}
    facts = [
        one for one in held
        if one.slot.rpartition(".")[2] not in NEVER and not one.is_doubted
        and (one.subject == USER or one.subject in words)
    ]  # fmt: skip
    facts.sort(key=lambda one: (key_of(one) in touched, one.stated_at), reverse=True)
    return facts[:MOST_FACTS]


def _verdict(judgement: Judgement) -> Literal["end", "doubt"] | None:
    over = judgement.ends + judgement.replaces
    if over >= ENDS:
        return "end"
    return "doubt" if over + judgement.doubts >= DOUBTS else None
