"""The chats of benchmarks.assistant: what is true now stands first, in English and Chinese."""

from __future__ import annotations

from benchmarks.assistant import measure
from benchmarks.chats import OWN


async def test_short_chats_are_answered_as_of_now() -> None:
    found = await measure("linear", "use", [OWN], verbose=False)
    assert {"en", "zh"} == found.keys()
    for figures in found.values():
        assert figures["answered_at_1"] >= 0.75
        assert figures["answered_at_3"] >= 0.88
        assert figures["current_first"] >= 0.8
