"""Tells whether a session may hold something durable, before a language model is asked. Pure.

Rules, the trained reader and the judge of dialogue acts must agree that no turn of the user tells
anything. Each alone is wrong too often: of 259 labelled messages with a fact (benchmarks/data/typed
and unseen, ../shared/data/chats) the judge of acts at the same threshold would leave out 34 and
the reader 7, all three together 1; of 173 without a fact they leave out 49.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from shared_core.core.domain import Event
from shared_core.extraction.rule_reader import read_turn
from shared_core.extraction.trained_reader import passages
from shared_core.nlp.clauses import MAX_READ_CHARACTERS, own_sentences
from shared_core.nlp.dialogue_acts import dialogue_act, dialogue_acts
from shared_core.nlp.discourse import DiscourseState
from shared_core.nlp.forget_requests import may_ask_to_forget
from shared_core.nlp.text import sentences

LEAST_STATEMENT: Final = 0.3
"""Least probability at which a sentence may tell something."""
LEAST_FACT: Final = 0.1
"""Least probability of a fact in a passage, by the trained reader."""
ASKS: Final = 0.5
"""Least probability at which a turn of the assistant ends in a question."""


def may_tell(turns: Sequence[Event], before: Sequence[Event] = ()) -> bool:
    """Tell whether a turn of the user may state, change or end a fact, or ask to forget one.

    Questions, requests and small talk do not; an answer to a question of the assistant may.
    before: the turns before, in order.
    """
    asked = bool(before) and _asks(before[-1])
    for turn in turns:
        if turn.role == "user" and _tells(turn, answers=asked):
            return True
        asked = _asks(turn)
    return False


def _tells(turn: Event, *, answers: bool) -> bool:
    acts = dialogue_acts(turn.text)
    if len(turn.text) > MAX_READ_CHARACTERS or may_ask_to_forget(turn.text):
        return True
    if answers and any(one.name in ("statement", "social") for one in acts):
        return True
    if any(one.statement >= LEAST_STATEMENT for one in acts):
        return True
    reading = read_turn(turn, DiscourseState(), reader=True)
    return bool(reading.facts) or reading.unread or _may_hold_a_fact(turn.text)


def _may_hold_a_fact(text: str) -> bool:
    # Deferred: numpy takes a moment to load.
    from shared_core.extraction.span_tagger import load_tagger

    return any(
        load_tagger(one.language).tag(one.text).gate >= LEAST_FACT
        for one in passages(own_sentences(text))
    )


def _asks(turn: Event) -> bool:
    """Tell whether a turn of the assistant ends in a question."""
    found = sentences(turn.text) if turn.role == "agent" else []
    return bool(found) and dialogue_act(found[-1]).asks >= ASKS
