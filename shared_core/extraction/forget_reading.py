"""Read requests to forget with the trained networks: whether a turn asks, and what it asks for.

Rules read the plainest requests, and know their topic. Other requests have none that could be cut
out of them ("the peanut thing, please lose it"), so the judge compares them with what is held.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from shared_core.core.digest_cache import DigestCache
from shared_core.core.domain import UNKNOWN_START, Event
from shared_core.extraction.forget_requests import MAX_READ_CHARACTERS
from shared_core.extraction.rule_based import RuleExtractor
from shared_core.nlp.dialogue_acts import dialogue_act
from shared_core.nlp.text import Language, language

MAY_ASK: Final = 0.5
"""Least probability of asking, as the reader gives it, at which the judge is asked."""
ASKS: Final = 0.9
"""Least probability of asking to forget anything, as the judge gives it, of a request."""
GOES: Final = 0.7
"""Least probability that a request is about what is held."""
MAY_GO: Final = 0.4
"""Least probability that a request is about a fact, for the turn that tells it to go as well."""
ABOUT_ALL: Final = 0.3
"""Least mean probability that a request is about OF_NOBODY, of one that is about everything."""
MOST_HELD: Final = 256
"""Maximum number of texts that a request is compared with."""
MOST_REQUESTS: Final = 4
"""Number of requests whose comparisons are kept."""
MOST_KEPT: Final = 256
"""Number of turns whose reading is kept."""
OF_NOBODY: Final[Mapping[Language, Sequence[str]]] = {
    "en": (
        "User plays the violin.", "User drives a Volvo.", "User's aunt lives in Oslo.",
        "User is a beekeeper.", "User has a parrot called Kiwi.", "User is allergic to sesame.",
        "User speaks Finnish.", "User's rent is 700.",
    ),
    "zh": (
        "用户拉小提琴。", "用户开沃尔沃。", "用户的姨妈住在奥斯陆。", "用户是养蜂人。",
        "用户养了一只鹦鹉叫奇奇。", "用户对芝麻过敏。", "用户会说芬兰语。", "用户的房租是七百。",
    ),
}  # fmt: skip
"""Statements of many kinds that nobody made: a request that is about them is about everything."""


def _asks_to_forget(text: str) -> bool:
    # Deferred: numpy takes a moment to load.
    from shared_core.extraction.change_judge import ANYTHING
    from shared_core.extraction.span_tagger import load_tagger

    tagger = load_tagger()
    if tagger is None or tagger.tag(text).asks < MAY_ASK:
        return False
    return _forgets([ANYTHING], text)[0] >= ASKS


asks_to_forget: Final = DigestCache("requests to forget", _asks_to_forget, MOST_KEPT)
"""Tell whether a turn asks the memory to forget something; False where "e5" cannot run."""


@lru_cache(MOST_REQUESTS)
def asks_to_forget_everything(request: str) -> bool:
    """Tell whether a request is about all or most that is held: "lose all you have on me"."""
    sure = _forgets(OF_NOBODY[language(request)], request)
    return sum(sure) >= ABOUT_ALL * len(sure)


@lru_cache(MOST_REQUESTS)  # a request is told to the model first, then carried out
def asked_to_forget(request: str, held: tuple[str, ...]) -> Mapping[str, float]:
    """Return how likely a request is about each of some texts, statements or turns.

    Only those from MAY_GO on, and never "thanks!".
    """
    telling = [one for one in held if dialogue_act(one).name != "social"]
    judged = zip(telling, _forgets(telling, request), strict=True)
    return {text: sure for text, sure in judged if sure >= MAY_GO}


def _forgets(held: Sequence[str], request: str) -> list[float]:
    """Return the probability that a request is about each text; 0 where "e5" cannot run."""
    # Deferred: numpy takes a moment to load.
    from shared_core.extraction.change_judge import load_change_judge

    judge = load_change_judge()
    if judge is None:
        return [0.0 for _ in held]
    judged = judge.judge([one[:MAX_READ_CHARACTERS] for one in held], request)
    return [one.forgets for one in judged]


def says_no_more(request: str) -> bool:
    """Tell whether a request tells no fact beside what it asks to forget."""
    turn = Event(event_id="", author="user", role="user", text=request, occurred_at=UNKNOWN_START)
    told = {one.statement for one in RuleExtractor().read([turn]).facts}
    sure = asked_to_forget(request, (*told,))
    return all(sure.get(one, 0) >= GOES for one in told)
