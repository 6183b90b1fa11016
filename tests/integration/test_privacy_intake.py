"""What must not be stored reaches no table, no index and no fact, whichever way it comes."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest

from shared_core import Event, InvalidInput, MemoryEngine, NewMemory, Scope, open_memory
from shared_core.core.domain import JsonValue
from shared_core.ports.jobs import Job
from shared_core.ports.session_logs import Seen
from shared_core.privacy.redaction import PrivacyPolicy, Redaction

ANN = Scope("app", "ann")
CARD = "4111 1111 1111 1111"
KEY = "AKIAIOSFODNN7EXAMPLE"


def said(event_id: str, text: str, role: str = "user") -> Event:
    return Event(
        event_id=event_id,
        author="user",
        role=role,  # type: ignore[arg-type]
        text=text,
        occurred_at=datetime(2026, 3, 1, 9, tzinfo=UTC),
        metadata={"raw": f"key {KEY}"},
    )


def everything(dsn: str) -> str:
    """Return all rows of all tables as one text."""
    with psycopg.connect(dsn) as superuser:
        tables = superuser.execute(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = 'hippocampus'"
        ).fetchall()
        return "\n".join(
            str(row[0])
            for (table,) in tables
            for row in superuser.execute(f"SELECT to_jsonb(t) FROM hippocampus.{table} t")
        )


async def test_masked_before_anything_is_stored(memory: MemoryEngine, dsn: str) -> None:
    await memory.append_events(ANN, "t", [said("a", f"I live in Leeds. My card is {CARD}.")])
    await memory.append_events(
        ANN, "t", [said("b", "我的密码是abc12345。我住在上海。")], later=True
    )
    await memory.remember(ANN, NewMemory(text=f"Her key is {KEY}.", key="k"))
    assert await memory.flush(60)
    await memory.consolidate(ANN, "t")
    stored = everything(dsn)
    for secret in (CARD, KEY, "abc12345"):
        assert secret not in stored
    hits = await memory.recall(ANN, "Leeds card", kinds=["episodic"])
    assert "I live in Leeds. My card is [REDACTED: card]." in [hit.memory.text for hit in hits]
    [fact] = await memory.facts(ANN)
    assert "上海" in fact.value
    await memory.append_events(ANN, "t", [said("a", f"I live in Leeds. My card is {CARD}.")])
    assert 2 == len(await memory.list_memories(ANN, kinds=["episodic"]))  # the same turn, once


async def test_dropped_turns_stay_in_no_table(dsn: str) -> None:
    async with open_memory(dsn, privacy="strict") as memory:
        new = await memory.append_events(ANN, "t", [said("a", f"card {CARD}"), said("b", "I ski.")])
        assert {"a", "b"} == new
        assert ["I ski."] == [one.text for one in await memory.list_memories(ANN)]
        with pytest.raises(InvalidInput, match=r"contains card, which the privacy setting refuses"):
            await memory.remember(ANN, f"card {CARD}")
        assert CARD not in everything(dsn)


async def test_off_leaves_what_was_said(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIPPOCAMPUS_PRIVACY", "off")
    async with open_memory(dsn) as memory:
        await memory.append_events(ANN, "t", [said("a", f"card {CARD}")])
        assert [f"card {CARD}"] == [one.text for one in await memory.list_memories(ANN)]


async def test_small_talk_and_system_text_are_history_and_no_memory(memory: MemoryEngine) -> None:
    turns = [
        said("a", "Hello!"),
        said("b", "You are a helpful assistant. I live in Oslo.", role="system"),
        said("c", "I live in Leeds."),
        said("d", "好的，谢谢"),
    ]
    await memory.append_events(ANN, "t", turns)
    await memory.consolidate(ANN, "t")
    kept = await memory.list_memories(ANN, kinds=["episodic"])
    assert ["I live in Leeds."] == [one.text for one in kept]
    window = await memory.context_window(ANN, "t", "Where?")
    assert "Hello!" in str(window)
    assert ["Leeds"] == [fact.value for fact in await memory.facts(ANN)]


async def test_a_nod_that_answers_a_question_is_kept(memory: MemoryEngine) -> None:
    turns = [
        said("a", "Are you allergic to nuts?", role="agent"),
        said("b", "No"),
        said("c", "你住在上海吗？", role="agent"),
        said("d", "对"),
        said("e", "Noted.", role="agent"),
        said("f", "Nice"),
    ]
    await memory.append_events(ANN, "t", turns)
    kept = await memory.list_memories(ANN, kinds=["episodic"])
    assert {"No", "对"} == {one.text for one in kept if one.source_event_ids[0] in "bdf"}


async def test_authors_callbacks_and_shown_logs_hold_no_secret(
    memory: MemoryEngine, dsn: str
) -> None:
    await memory.append_events(ANN, "t", [replace(said("a", "Ben is here."), author=f"me {KEY}")])
    await memory.remember(ANN, NewMemory(text="Ben likes tea.", author=f"me {KEY}"))
    payload = {"messages": [{"content": f"card {CARD}, {KEY}", "id": CARD}], "other": KEY}
    memory.jobs.learn(nothing)
    await memory.jobs.ask(ANN, "t", payload, delay_s=1000)
    stored = everything(dsn)
    assert KEY not in stored
    assert f"card {CARD}" not in stored
    assert CARD in stored  # an id
    log = await memory.sessions.create(ANN, "s")
    logged = said("b", f"My card is {CARD}.")
    await memory.sessions.append(ANN, "s", logged, "{}", seen=Seen(version=log.version))
    window = await memory.context_window(ANN, "s", "Which card?")
    assert "My card is [REDACTED: card]." in str(window)
    assert CARD not in str(window)


async def nothing(job: Job) -> dict[str, JsonValue]:
    return {}


async def test_long_texts_are_redacted_beside_the_event_loop(
    memory: MemoryEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[bool] = []
    redact = PrivacyPolicy.redact

    def noted(policy: PrivacyPolicy, text: str, *kinds: Any) -> Redaction:
        threads.append(threading.current_thread() is threading.main_thread())
        return redact(policy, text, *kinds)

    monkeypatch.setattr(PrivacyPolicy, "redact", noted)
    await memory.append_events(ANN, "t", [said("short", "My password is hunter2.")])
    await memory.remember(ANN, ["I like tea."])
    assert {True} == set(threads)
    threads.clear()
    blanks = f"My password is {' ' * 100_000}hunter2."
    await memory.append_events(ANN, "t", [said("long", blanks)])
    await memory.remember(ANN, [f"My password is {' ' * 100_000}hunter3."])
    assert {False} == set(threads)
    for hit in await memory.recall(ANN, "password"):
        assert "hunter" not in hit.memory.text
