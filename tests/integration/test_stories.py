"""The stories that the memory was first described with, told as people type."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from shared_core import Event, MemoryEngine, Scope

START = datetime(2026, 3, 1, 9, tzinfo=UTC)
TOM = Scope("app", "tom")


async def told(memory: MemoryEngine, *texts: str) -> dict[str, list[str]]:
    """Tell one turn a day, each consolidated; return the values held at the end, by slot."""
    for day, text in enumerate(texts):
        turn = Event(
            event_id="1", author="user", role="user", text=text,
            occurred_at=START + timedelta(days=day),
        )  # fmt: skip
        await memory.append_events(TOM, f"day {day}", [turn])
        await memory.consolidate(TOM, f"day {day}")
    held: dict[str, list[str]] = {}
    for fact in await memory.facts(TOM):
        held.setdefault(fact.slot, []).append(fact.value)
    return held


async def test_a_player_moves_and_gives_up_games(memory: MemoryEngine) -> None:
    held = await told(
        memory, "我喜欢玩RPG游戏", "我性格内向，喜欢科技", "我搬到上海实习", "我不再喜欢游戏了"
    )
    assert held == {"trait": ["内向"], "like": ["科技"], "residence": ["上海"]}


async def test_another_employer_is_found_first(memory: MemoryEngine) -> None:
    held = await told(
        memory, "我会Python，在字节跳动上班", "language=zh-CN", "我换工作了，现在在腾讯上班"
    )
    assert (held["skill"], held["employer"]) == (["Python"], ["腾讯"])
    for question in ("workplace", "我在哪上班？"):
        first = (await memory.recall(TOM, question))[0].memory.text
        assert "腾讯" in first
        assert "字节" not in first
    edges = await memory.graph.history(TOM, "user")
    assert ("has_skill", "Python") in [(one.relation, one.object) for one in edges]


@pytest.mark.parametrize(
    "texts",
    [
        ("hi im tom", "my daughter's called Mia, shes 5"),
        ("hello im Tom", "my daughters name is mia. shes 5"),
        ("I'm Tom.", "This is my daughter Mia, she is 5 years old."),
    ],
)
async def test_a_daughter_has_a_name_and_an_age(
    memory: MemoryEngine, texts: tuple[str, ...]
) -> None:
    held = await told(memory, *texts)
    expected = {"name": "tom", "relation.daughter": "mia", "relation.daughter.age": "5"}
    assert {slot: one.lower() for slot, [one] in held.items()} == expected
