"""The benchmark of growth, small: it measures what it says, of users like any others."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path

import pytest
from warm_python import warm_python

from benchmarks import growth
from shared_core import Scope, open_memory

ROOT = Path(__file__).parents[2]
SMALL = ("--per-user", "20", "--users", "3", "--calls", "4", "--dimensions", "8")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [*warm_python(), "-m", "benchmarks.growth", *SMALL, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)


def test_one_database_is_measured_at_each_size() -> None:
    done = run("--sizes", "100", "300", "--large", "100", "--json")
    assert 0 == done.returncode, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert {"100", "300"} == report["sizes"].keys()
    for figures in (*report["sizes"].values(), report["large"]):
        assert all(0 < figures[one]["p50_ms"] <= figures[one]["p99_ms"] for one in growth.CLOCKS)
        assert 3 == len(figures["rss_mb"]) and figures["index_mb"] > 0
    assert {"postgres", "load_average"} <= report["environment"].keys()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--sizes", "100", "110"], "multiples of --per-user 20, got [100, 110]"),
        (["--sizes", "100", "200", "--large", "100"], "the last rise of --sizes, 100, got 100"),
        (["--sizes", "100", "--calls", "0"], "must be at least 1"),
    ],
)
def test_bad_arguments_are_refused_in_one_line(arguments: list[str], complaint: str) -> None:
    done = run(*arguments)
    assert 2 == done.returncode
    assert complaint in done.stderr.splitlines()[-1]


def test_the_turns_of_users_are_written_in_turn() -> None:
    slots = growth.slots_of(40, 6, 2)
    large = [slot for slot in slots if slot[1] == growth.LARGE]
    assert ["u40-0", "u40-1", "u40-3", "u40-4"] == [one[1] for one in slots if one not in large]
    assert [(2, 0, 2), (5, 1, 2)] == [(place, part, parts) for place, _, part, parts, _ in large]


def test_what_it_loads_is_a_memory_like_any_other(tmp_path: Path) -> None:
    chosen = growth.Choice(tmp_path, per_user=150, users=1, calls=1, dimensions=8)
    asyncio.run(growth._declare(chosen))
    growth._load(chosen, growth.slots_of(0, 5, 2))
    asyncio.run(turns_are_remembered(tmp_path))


async def turns_are_remembered(home: Path) -> None:
    """A user has as many memories as turns, in conversations, and recall finds them."""
    embedder = growth.HalfRandomVectors(8)
    async with open_memory(home, embedder=embedder, worker=False) as memory:
        for user, count in (("u0-0", 150), (growth.LARGE, 300)):
            scope = Scope(growth.APP, user)
            kept = await memory.list_memories(scope, limit=1_000)
            assert count == len(kept) == len({one.text for one in kept})
            assert 5 == len(await memory.recall(scope, kept[0].text, limit=5))
            window = await memory.context_window(scope, "c1", "w1", max_tokens=8_000)
            assert 40 < len(window.section("history"))
