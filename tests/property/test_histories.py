"""What is known of a history that comes again: never a new turn, and of old ones all but a few."""

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


def test_a_history_that_grew():
    assert "" == known("", "aNbN")
    assert "aN" == known("aN", "aNbN")
    assert "a" == known("a", "ab")
    assert "yNyN" == known("yNyN", "yNyNyN")


def test_a_history_that_was_trimmed():
    assert "bNcN" == known("aNbNcN", "bNcNaN")
    assert "NcN" == known("aNbNcN", "NcNaN")
    assert "N" == known("aNbNyN", "Nbb")
    assert "yN" == known("yNyNyN", "yNyN")  # a window that moved on over the same words


def test_what_comes_alone_is_new_however_often_it_was_said():
    assert "" == known("aNyN", "yN")
    assert "" == known("aNNyNN", "yNN")
    assert "" == known("aNbN", "yzN")
    assert "" == known("aNNN", "yzNNN")


def test_turns_that_were_forgotten_or_never_came_stay_out():
    assert "aNbNcN" == known("aNNcN", "aNbNcNdN")
    assert "aNbNcN" == known("aNcN", "aNbNcNdN")
    assert "aN" == known("aN", "aNbNcN")  # the hand-over of b failed


def test_a_history_that_goes_on_in_another_way():
    assert "aNb" == known("aNbN", "aNbM")
    assert "aN" == known("aNbN", "aNcN")
    assert "aNbN" == known("aNbN", "aNbN")


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
