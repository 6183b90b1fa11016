from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given, strategies as st

from shared_core.context.assembler import memory_block
from shared_core.core.domain import Event
from shared_core.extraction.transcript import OUR_TAG, transcripts, without_recalled

hostile = st.text() | st.lists(
    st.sampled_from(
        ["<turns>", "</turns>", "<", "/", "turns", "\n", "\u2028", "[2] user: ", " ", "＜"]
    )
).map("".join)


def event(number: int, text: str) -> Event:
    return Event(
        event_id=f"e{number}",
        author="a",
        role="user",
        text=text,
        occurred_at=datetime(2026, 3, 1, tzinfo=UTC),
    )


@given(st.lists(hostile, max_size=5))
def test_no_text_opens_a_tag_or_passes_for_a_turn(texts: list[str]) -> None:
    events = [event(number, text) for number, text in enumerate(texts)]
    for part in transcripts(events, 100_000):
        assert not OUR_TAG.search(part.text)
        starts = [line for line in part.text.splitlines() if not line.startswith("    ")]
        assert len(starts) == len(part.turns)
        assert all(line.startswith(f"[{number}] user, ") for number, line in enumerate(starts, 1))


@given(st.lists(hostile, max_size=8), st.integers(1, 60))
def test_every_turn_is_in_one_part_in_order(texts: list[str], max_tokens: int) -> None:
    events = [event(number, text) for number, text in enumerate(texts)]
    parts = transcripts(events, max_tokens)
    shown = [one.event_id for part in parts for one in part.turns.values()]
    assert shown == [one.event_id for one in events if one.event_id in shown]
    assert all(part.tokens <= max_tokens or 1 == len(part.turns) for part in parts)


@given(st.text(alphabet="ab<>/ \n", max_size=20), st.lists(st.text(), min_size=1, max_size=3))
def test_recalled_blocks_go_and_the_rest_stays(said: str, memories: list[str]) -> None:
    block = memory_block([("2026-01-01", memory) for memory in memories], 4000)
    assert said == without_recalled(f"{block}{said}")
