"""What the inspector derives from facts and profiles before it draws them."""

from datetime import UTC, datetime

import pytest
from every_case import every_case

from shared_core.errors import InvalidInput


@pytest.fixture(autouse=True)
def inspector():
    """The tests import its modules themselves: that takes seconds."""
    pytest.importorskip("nicegui")


DAY = [datetime(2026, 3, day, tzinfo=UTC) for day in range(1, 10)]


def test_values_that_hold_together_have_a_lane_each_and_words_that_changed_are_marked():
    from shared_core.ui.pages.fact_picture import Belief, State, blocks, lanes

    leeds = Belief("a", "Leeds", DAY[0], None, is_doubtful=False)
    ended = Belief("a", "Leeds", DAY[0], DAY[3], is_doubtful=False)
    lisbon = Belief("b", "Lisbon", DAY[3], None, is_doubtful=False)
    moved = (ended, lisbon)
    found = [State(DAY[0], (leeds,)), State(DAY[4], moved), State(DAY[5], moved)]
    [lane] = lanes(found)
    drawn = {(one.belief.value, one.belief.until, one.top, one.bottom) for one in blocks(lane)}
    assert drawn == {("Leeds", None, 0, 1), ("Leeds", DAY[3], 1, 2), ("Lisbon", None, 1, 2)}
    from shared_core.ui.pages.fact_picture import Belief, State, lanes

    tea, jazz = (Belief(key, key, DAY[0], None, is_doubtful=False) for key in ("tea", "jazz"))
    found = [State(DAY[0], (tea,)), State(DAY[1], (tea, jazz))]
    first, second = lanes(found)
    assert [one.since for one in first] == [DAY[0]]
    assert [one.since for one in second] == [DAY[1]]
    from shared_core.ui.pages.time_ranges import Range

    long = Range(DAY[0].replace(year=1000), DAY[0])
    assert long.moved(-1) is None
    assert long.moved(1) == Range(DAY[0], DAY[0] + long.length)
    last = Range(DAY[0].replace(year=9999), DAY[1].replace(year=9999))
    assert last.around() == Range(DAY[0].replace(year=9999), DAY[7].replace(year=9999))
    with pytest.raises(InvalidInput, match="the year 9999"):
        last.parts("year")
    from shared_core.ui.pages.profile_changes import word_changes

    assert list(word_changes("User lives in Leeds.", "User lives in Lisbon.")) == [
        ("", "User lives in "), ("-", "Leeds"), ("+", "Lisbon"), ("", "."),
    ]  # fmt: skip
    assert list(word_changes("用户住在杭州。", "用户住在成都。")) == [
        ("", "用户住在"), ("-", "杭州"), ("+", "成都"), ("", "。"),
    ]  # fmt: skip


@every_case(
    ("residence", "user", "residence"), ("relation.daughter", "user", "relation.daughter"),
    ("relation.daughter.age", "daughter", "age"), ("about.mia.employer", "mia", "employer"),
)  # fmt: skip
def test_a_slot_says_whom_it_is_about(slot, subject, own):
    from shared_core.ui.pages.slot_words import split_slot

    assert split_slot(slot) == (subject, own)
