"""What is known of a history that comes again: never a new turn, and of old ones all but a few."""

import pytest
from hypothesis import given, strategies as st
from turns import said

from shared_core import Event
from shared_core.ingest.events import known_beginning


def turns(letters: str) -> list[Event]:
    """Each letter a turn: capitals are the agent's."""
    return [
        said(place, letter.lower(), role="agent" if letter.isupper() else "user")
        for place, letter in enumerate(letters)
    ]


def known(remembered: str, handed: str) -> str:
    """Return what of a history is taken for known."""
    return handed[: known_beginning(turns(remembered), turns(handed))]


# What is remembered, what is handed over, and what of it is known.
HISTORIES = {
    "one that grew": [
        ("", "aNbN", ""), ("aN", "aNbN", "aN"), ("a", "ab", "a"), ("yNyN", "yNyNyN", "yNyN")],
    "one that was trimmed": [
        ("aNbNcN", "bNcNaN", "bNcN"), ("aNbNcN", "NcNaN", "NcN"), ("aNbNyN", "Nbb", "N"),
        ("yNyNyN", "yNyN", "yN")],  # a window that moved on over the same words
    "what comes alone is new however often it was said": [
        ("aNyN", "yN", ""), ("aNNyNN", "yNN", ""), ("aNbN", "yzN", ""), ("aNNN", "yzNNN", "")],
    "turns that were forgotten or never came stay out": [
        ("aNNcN", "aNbNcNdN", "aNbNcN"), ("aNcN", "aNbNcNdN", "aNbNcN"),
        ("aN", "aNbNcN", "aN")],  # the hand-over of b failed
    "one that goes on in another way": [
        ("aNbN", "aNbM", "aNb"), ("aNbN", "aNcN", "aN"), ("aNbN", "aNbN", "aNbN")],
}  # fmt: skip


@pytest.mark.parametrize("case", HISTORIES)
def test_what_of_a_history_is_known(case):
    for remembered, handed, found in HISTORIES[case]:
        assert found == known(remembered, handed)


CONVERSATION = st.lists(st.sampled_from(["aN", "bN", "yN", "yM", "aNN", "c"]), max_size=12)


@given(talk=CONVERSATION, then=st.sampled_from(["aN", "yN", "zN", "bb"]), window=st.integers(2, 40))
def test_no_turn_that_is_new_is_taken_for_known(talk, then, window):
    before = "".join(talk)
    handed = (before + then)[-window:]
    new = then[-window:]
    found = known(before, handed)
    assert len(handed) - len(found) >= len(new)


@given(talk=CONVERSATION.filter(bool), then=st.sampled_from(["zN", "zZN"]))
def test_a_whole_history_brings_only_what_is_new(talk, then):
    before = "".join(talk)
    assert before == known(before, before + then)
