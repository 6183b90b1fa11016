"""Which turns of a history that is handed over again were remembered before. Pure.

A history kept by a client comes whole with every run, often with ids that are new each time. What
is known of it is its beginning: histories grow at their end, and lose turns at their beginning.
"""

from __future__ import annotations

from collections.abc import Sequence

from shared_core.core.domain import Event


def known_beginning(remembered: Sequence[Event], handed: Sequence[Event]) -> int:
    """Return how many of the first turns of a history are remembered; both oldest first.

    remembered: the last turns of the thread. Turns are compared by role and text, and by their
    order, so that who says "yes" twice has said it twice, also where the history was trimmed. Turns
    that were forgotten since may stand among those that are remembered. In doubt nothing is known:
    a turn that is remembered twice does less harm than one that is lost; so a history with one
    turn of a user, which may as well be a new message alone, is always new.
    """
    said, now = _words(remembered), _words(handed)
    if not may_be_known(handed):
        return 0
    known = _up_to_the_last(said, now) or _up_to_a_branch(said, now)
    if known == len(now):
        # All of it again: or a window moved on over the same words.
        known = next((n for n in range(known - 1, 0, -1) if now[:n] == said[-n:]), known)
    return known


def may_be_known(handed: Sequence[Event]) -> bool:
    """Tell whether turns are a history at all: more than what follows one message of a user."""
    return sum(turn.role == "user" for turn in handed) > 1


_Turns = list[tuple[str, str]]


def _words(turns: Sequence[Event]) -> _Turns:
    return [(turn.role, turn.text) for turn in turns]


def _up_to_the_last(said: _Turns, now: _Turns) -> int:
    """Return the place in `now` after the last turn said, if most before it were said as well."""
    matched, rest = 0, len(now)
    for turn in reversed(said):
        rest -= 1
        while rest >= 0 and now[rest] != turn:
            rest -= 1
        if rest < 0:
            break
        matched += 1
    tail = said[len(said) - matched :]
    place = 0
    for turn in tail:
        place = now.index(turn, place) + 1
    between = place - matched
    told = any(role == "user" for role, _ in tail)
    return place if between == 0 or (told and between < matched) else 0


def _up_to_a_branch(said: _Turns, now: _Turns) -> int:
    """Return how much of `now` was said in one go, before it went on in another way."""
    longest = 0
    for first in range(len(said)):
        length = 0
        for one, other in zip(said[first:], now, strict=False):
            if one != other:
                break
            length += 1
        longest = max(longest, length)
    return longest if longest > 1 and any(role == "user" for role, _ in now[:longest]) else 0
