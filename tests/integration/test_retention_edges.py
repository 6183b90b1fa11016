"""The odd ends of forgetting and of budgets: the engine, SQL and the commands answer alike."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from every_case import every_case
from turns import Clock, said
from typer.testing import CliRunner

from shared_core import InvalidInput, MemoryEngine, NewMemory, RetentionPolicy, Scope, open_memory
from shared_core.cli.main import app
from shared_core.context.assembler import ContextAssembler
from shared_core.ports.retention import Accesses, NewAccesses

ANN = Scope("app", "ann")
NOW = datetime.now(UTC)
AGE = timedelta(days=3650)


@pytest.fixture
async def memory(dsn):
    """Ann's summary of ten years ago, never read, and one of today."""
    clock = Clock(NOW - AGE)
    async with open_memory(dsn, clock=clock, worker=False, track_access=False) as engine:
        for key in ("old", "new"):
            await engine.remember(ANN, NewMemory(text=f"An {key} one.", key=key, kind="summary"))
            clock.now = NOW
        yield engine


def asked(dsn: str, expression: str, **values: object) -> Any:
    with psycopg.connect(dsn) as connection:
        connection.execute("SET search_path TO hippocampus, public")
        row = connection.execute(f"SELECT {expression}".encode(), values).fetchone()
    assert row is not None
    return row[0]


def run(dsn: str, *arguments: str) -> Any:
    done = CliRunner().invoke(app, [*arguments, "--json", "--uri", dsn])
    assert 0 == done.exit_code, done.output
    return json.loads(done.stdout)


def error_of(dsn: str, *arguments: str) -> str:
    done = CliRunner().invoke(app, [*arguments, "--uri", dsn])
    assert 1 == done.exit_code and done.stderr.startswith("Error: "), done.output
    assert 1 == done.stderr.count("\n")
    return done.stderr


async def keys(memory: MemoryEngine) -> set[str]:
    return {one.key for one in await memory.list_memories(ANN)}


async def score(memory: MemoryEngine, key: str = "old") -> float:
    return (await memory.retention.curve(ANN, key)).score


async def test_without_decay_nothing_fades_and_with_a_huge_one_what_is_past_its_age(memory, dsn):
    await memory.retention.set_policy(RetentionPolicy(decay_rate=0, threshold=0.69))
    assert pytest.approx(0.7) == await score(memory)
    assert 0 == (await memory.retention.forget_faded()).total
    await memory.cleanup(ANN, RetentionPolicy(decay_rate=0, threshold=0.69))
    assert 0.2 == asked(dsn, "calculate_retention_score(0, now() - interval '10 years', 0)")
    assert 0 == asked(dsn, "cleanup_low_value_memories()")
    assert 0 == (await asyncio.to_thread(run, dsn, "cleanup"))["total"]
    assert {"old", "new"} == await keys(memory)
    await memory.retention.set_policy(RetentionPolicy(decay_rate=1e308))
    assert 1e-200 > await score(memory)
    assert 1e-200 > asked(dsn, "calculate_retention_score(0, now() - interval '10 years', 1e308)")
    assert 1 == asked(dsn, "cleanup_low_value_memories()")
    assert {"new"} == await keys(memory)


@every_case(-0.1, -1e308)
def test_a_negative_decay_is_refused(negative, shared_dsn):
    with pytest.raises(InvalidInput, match="decay_rate must be a finite number from 0"):
        RetentionPolicy(decay_rate=negative)
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="no retention can be told"):
        asked(shared_dsn, "calculate_retention_score(0, now(), %(rate)s)", rate=negative)


async def test_a_threshold_of_zero_forgets_nothing_and_of_one_all_that_is_old_enough(memory, dsn):
    await memory.retention.set_policy(RetentionPolicy(threshold=0))
    assert 0 == (await memory.retention.forget_faded()).total
    for given in ("", "0, 0"):
        assert 0 == asked(dsn, f"cleanup_low_value_memories({given})")
    await memory.cleanup(ANN, RetentionPolicy(threshold=0, min_age_days=0))
    assert {"old", "new"} == await keys(memory)
    await memory.retention.set_policy(RetentionPolicy(threshold=1))
    told = await memory.retention.forget_faded(dry_run=True)
    assert ["old"] == [one.kept.key for one in told.listed]
    assert 1 == asked(dsn, "cleanup_low_value_memories(1)")
    assert {"new"} == await keys(memory)
    for wrong in (1.5, -0.5):
        with pytest.raises(InvalidInput, match="threshold must be between 0 and 1"):
            RetentionPolicy(threshold=wrong)
        with pytest.raises(psycopg.errors.InvalidParameterValue):
            asked(dsn, f"cleanup_low_value_memories({wrong})")


async def read(memory: MemoryEngine, times: int, at: datetime) -> None:
    """Count reads of the old summary."""
    [kept] = [one for one in await memory.list_memories(ANN) if one.key == "old"]
    accesses = NewAccesses(ANN, kept.memory_id, Accesses(times, at))
    await memory._storage.accesses.add_accesses([accesses])


@pytest.mark.parametrize("reads", [1, 10**9])
async def test_a_read_in_the_future_counts_as_one_just_now(memory, dsn, reads):
    await read(memory, reads, NOW + AGE)
    assert 1 == await score(memory)
    assert [0] * 7 + [1, 0, 1] == [*(await memory.retention.stats(ANN)).total.buckets]
    told = "calculate_retention_score(%(n)s, now() + interval '10 years', 0.1, now(), 0.9)"
    assert 1 == asked(dsn, told, n=reads)
    assert 0 == (await memory.retention.forget_faded()).total
    await memory.cleanup(ANN)
    assert {"old", "new"} == await keys(memory)


async def test_a_billion_reads_ten_years_ago_do_not_overflow(memory, dsn):
    await read(memory, 10**9, NOW - AGE)
    curve = await memory.retention.curve(ANN, "old")
    assert 10**9 == curve.kept.access_count and 0 < curve.score < 1e-100
    told = "calculate_retention_score(1000000000, %(at)s, 0.1, %(now)s, 0.7)"
    assert abs(curve.score - asked(dsn, told, at=NOW - AGE, now=NOW)) <= 1e-9
    assert 1 == (await memory.retention.forget_faded()).total


@every_case(0, -1, 63)
async def test_a_budget_that_holds_nothing_is_refused(budget, shared_memory, shared_dsn):
    with pytest.raises(InvalidInput, match=f"max_tokens must be at least 64, got {budget}"):
        await shared_memory.context_window(ANN, "t", "?", max_tokens=budget)
    call = "count(*) FROM get_context_window('ann', 'app', '?', p_max_tokens => %(n)s)"
    if budget < 1:
        with pytest.raises(psycopg.errors.InvalidParameterValue, match="p_max_tokens must be"):
            asked(shared_dsn, call, n=budget)
    command = ("context", "app", "ann", "t", "?", "--max-tokens", str(budget))
    refused = await asyncio.to_thread(error_of, shared_dsn, *command)
    assert "max_tokens must be at least 64" in refused


async def test_what_leaves_no_room_is_named(shared_memory, shared_dsn, scope, tmp_path):
    huge = "A tale of bees without an end. " * 400
    texts = ["I like bees.", huge, "I like tea."]
    turns = [said(f"e{n}", text, NOW - timedelta(minutes=9 - n)) for n, text in enumerate(texts)]
    await shared_memory.append_events(scope, "t", turns)
    window = await shared_memory.context_window(scope, "t", "What of bees?", max_tokens=400)
    assert window.total_tokens <= 400
    shown = {item.text for item in window.items}
    assert {"I like bees.", "I like tea."} <= shown and huge.strip() not in shown
    reasons = {one.reason for one in window.dropped if one.item.text[:6] == "A tale"}
    assert {"over budget"} == reasons
    call = "get_context_window(%(user)s, %(app)s, 'bees', p_max_tokens => 400)"
    found = asked(shared_dsn, f"array_agg(content) FROM {call}", user=scope.user, app=scope.app)
    assert {"I like bees.", "I like tea."} <= {*found} and huge not in found
    command = ("context", scope.app, scope.user, "t", "What of bees?", "--max-tokens", "400")
    told = await asyncio.to_thread(run, shared_dsn, *command)
    assert told["total_tokens"] == told["tokens"] <= 400
    assert "over budget" in {one["reason"] for one in told["dropped"]}
    prompt = "word " * 100
    with pytest.raises(InvalidInput, match=r"system prompt \(101 tokens\)"):
        await shared_memory.context_window(ANN, "t", "", system_prompt=prompt, max_tokens=64)
    written = tmp_path / "system.txt"
    written.write_text(prompt)
    command = ("context", "app", "ann", "t", "--system", str(written), "--max-tokens", "64")
    assert "system prompt (101 tokens)" in await asyncio.to_thread(error_of, shared_dsn, *command)

    def my_tokenizer(text: str) -> int:
        raise LookupError("no such model")

    assembler = ContextAssembler(400, count=my_tokenizer)
    with pytest.raises(LookupError, match="no such model") as raised:
        await shared_memory.context_window(ANN, "t", "?", assembler=assembler)
    assert any("my_tokenizer" in note for note in raised.value.__notes__)
