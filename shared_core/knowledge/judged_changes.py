"""Which of the facts that hold a turn ends or puts in doubt, as the trained judge reads both. Pure.

The expressions of revision know words of an end. The judge knows what a turn means for a fact:
"one month in calgary and my skin is crying" for a home in Lagos.
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

ENDS: Final = 0.9
"""Least probability of an end at which a fact ends."""
DOUBTS: Final = 0.7
"""Least probability of an end or a doubt at which a fact is doubted."""
MAY_TELL: Final = 0.1
"""Least probability of telling anything at which a turn is compared."""
MOST_FACTS: Final = 16
"""Maximum number of facts that a turn is compared with: those it mentions, then the newest."""
MOST_CHARACTERS: Final = 400
"""Of a longer turn only the beginning is read."""
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
    facts = _candidates(told, held) if told and _may_tell(read) else []
    judge = load_change_judge() if facts else None
    if judge is None:
        return
    lang = told[0][1]
    for fact, one in zip(facts, judge.judge([one.statement for one in facts], read), strict=True):
        verdict = _verdict(one)
        limit = vetoed_verdict(read, read, load_revision_rules(lang), kinds_of(fact.slot))
        if verdict and limit != "none":
            is_end = verdict == limit == "end"
            yield Change(
                verdict="end" if is_end else "doubt", rule=f"reader.{lang}.change", fact=fact
            ), lang


def _tells(sentence: str, lang: Language) -> bool:
    """Tell whether a sentence is said as true: no question, order, wish or hearsay."""
    guard = guarded(sentence, load_rules(lang), "sentence")
    return not is_question(sentence) and (guard is None or guard.tells)


def _may_tell(text: str) -> bool:
    """Tell whether the reader finds that a turn may hold a fact, or anything that is over."""
    tagger = load_tagger()
    if tagger is None:
        return False
    tagged = tagger.tag(text)
    return bool(tagged.ended)


def _candidates(told: list[tuple[str, Language]], held: HeldIndex) -> list[HeldFact]:
    """Return the facts that may end: those that the sentences mention, then the newest."""
    touched = {key_of(one) for text, lang in told for one in held.touched(text, lang)}
    facts = [
        one for one in held
        if one.slot.rpartition(".")[2] not in NEVER and not one.is_doubted
        and (one.subject == USER or one.subject in " ".join(text.lower() for text, _ in told))
    ]  # fmt: skip
    facts.sort(key=lambda one: (key_of(one) in touched, one.stated_at), reverse=True)
    return facts[:MOST_FACTS]


def _verdict(judgement: Judgement) -> Literal["end", "doubt"] | None:
    over = judgement.ends + judgement.replaces
    if over >= ENDS:
        return "end"
    return "doubt" if over + judgement.doubts >= DOUBTS else None
