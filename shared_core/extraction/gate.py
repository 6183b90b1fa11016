"""Tells whether a session may hold something durable, before a language model is asked. Pure.

Rules, the trained reader and the judge of dialogue acts must agree that no turn of the user tells
anything. On 320 labelled messages (benchmarks/data/typed and unseen) and 340 lines for held facts,
together they leave out 0 of 192 messages with a fact, 0 of 100 lines that end one, and 18 of 128
messages without a fact.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from shared_core.core.domain import Event, HeldFact
from shared_core.extraction.earlier_turns import telling_words
from shared_core.extraction.rule_reader import read_turn
from shared_core.extraction.trained_reader import passages
from shared_core.nlp.clauses import MAX_READ_CHARACTERS, own_sentences
from shared_core.nlp.dialogue_acts import DialogueAct, dialogue_act
from shared_core.nlp.discourse import DiscourseState
from shared_core.nlp.text import HAN, has_words, search_terms, sentences

LEAST_STATEMENT: Final = 0.2
"""Least probability at which a sentence may tell something."""
LEAST_SURE: Final = 0.8
"""Least probability of another act, for a sentence that tells nothing."""
LEAST_FACT: Final = 0.1
"""Least probability of a fact in a passage, by the trained reader."""
PART_END: Final = re.compile(rf"[,，;；]|(?<=[{HAN}])\s|\s(?=[{HAN}])|\s[-–—]\s")
ASKS: Final = 0.5
"""Least probability at which a turn of the assistant ends in a question."""
SURELY_ASKS: Final = 0.9
"""Least probability at which a sentence only asks or requests something."""


def may_tell(
    turns: Sequence[Event], before: Sequence[Event] = (), held: Sequence[HeldFact] = ()
) -> bool:
    """Tell whether a turn of the user may state, change or end a fact, or ask to forget one.

    Questions, requests and small talk do not. What answers a question of the assistant may, and
    what has a word of a held fact, unless it asks or requests something itself.

    Args:
        turns: The turns of the session, in order.
        before: The turns before, in order.
        held: Facts that hold or have ended.
    """
    words = frozenset[str]().union(*(telling_words(f"{one.value} {one.subject}") for one in held))
    asked = bool(before) and _asks(before[-1])
    for turn in turns:
        is_open = asked or not words.isdisjoint(search_terms(turn.text))
        if turn.role == "user" and _tells(turn, is_open=is_open):
            return True
        asked = _asks(turn)
    return False


def _tells(turn: Event, *, is_open: bool) -> bool:
    """Tell whether a turn may tell something. is_open: it may refer to a question or a fact.

    A request that may refer to a fact may ask to forget it: "take Eva off the record".
    """
    acts = [dialogue_act(one) for one in _parts(turn.text)]
    if len(turn.text) > MAX_READ_CHARACTERS:
        return True
    if is_open and any(one.asks < SURELY_ASKS for one in acts):
        return True
    if any(one.statement >= LEAST_STATEMENT or _sureness(one) < LEAST_SURE for one in acts):
        return True
    reading = read_turn(turn, DiscourseState(), reader=True)
    return bool(reading.facts) or reading.unread or _may_hold_a_fact(turn.text)


def _sureness(act: DialogueAct) -> float:
    """Return the probability of the likeliest act but telling."""
    return max(act.asks, act.request, act.social)


def _parts(text: str) -> list[str]:
    """Return the sentences of a text, and the parts between commas and around Chinese blanks.

    A question may tell something beside: "when do schools finish, i work for the council".
    """
    found = sentences(text)
    parts = (part for one in found for part in PART_END.split(one))
    return [*found, *(one for one in parts if has_words(one))]


def _may_hold_a_fact(text: str) -> bool:
    # Deferred: numpy takes a moment to load.
    from shared_core.extraction.span_tagger import load_tagger

    tagger = load_tagger()
    return tagger is None or any(
        tagger.tag(one.text).gate >= LEAST_FACT for one in passages(own_sentences(text))
    )


def _asks(turn: Event) -> bool:
    """Tell whether a turn of the assistant ends in a question."""
    found = sentences(turn.text) if turn.role == "agent" else []
    return bool(found) and (
        found[-1].rstrip().endswith(("?", "？")) or dialogue_act(found[-1]).asks >= ASKS
    )
