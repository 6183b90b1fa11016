"""The commands about forgetting, as a user types them."""

import asyncio
import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import commands
import pytest

from shared_core import Event, NewMemory, Scope, open_memory

ANN = Scope("app", "ann")
NOW = datetime.now(UTC)


@pytest.fixture
def old(dsn):
    """Ann said something 21 days ago, and a summary was made of it today."""
    asyncio.run(_fill(dsn))
    return dsn


async def _fill(dsn: str) -> None:
    then = NOW - timedelta(days=21)
    async with open_memory(dsn, clock=lambda: then, worker=False) as memory:
        event = Event(event_id="e", author="user", role="user", text="I sail.", occurred_at=then)
        await memory.append_events(ANN, "t", [event])
    async with open_memory(dsn, worker=False) as memory:
        about = NewMemory(text="About Ann.", kind="summary", key="k", importance=8)
        await memory.remember(ANN, about)
        await memory.remember(ANN, NewMemory(text="Ann sails.", key="f", importance=8))


def run(*arguments: str, dsn: str, code: int = 0) -> str:
    return commands.succeed(*arguments, "--uri", dsn, code=code)


def in_json(*arguments: str, dsn: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(run(*arguments, "--json", dsn=dsn))
    return found


def test_cleanup_says_why_and_then_does_it(old):
    told = run("cleanup", "--dry-run", dsn=old)
    assert "Of all applications:" in told and "Would be: 1 demoted (1 episodic)." in told
    assert "1 are not listed" not in told
    assert 0 == in_json("cleanup", "--dry-run", dsn=old)["not_listed"]
    assert 1 == in_json("cleanup", "--dry-run", "--limit", "0", dsn=old)["not_listed"]
    assert "Of app / bob:" in run("cleanup", "--app", "app", "--user", "bob", dsn=old)
    assert "all applications" == in_json("cleanup", "--dry-run", dsn=old)["of"]
    assert "I sail." in told and "score 0.08" in told
    planned = in_json("cleanup", "--dry-run", dsn=old)
    assert (True, 1) == (planned["dry_run"], planned["total"])
    [memory] = planned["memories"]  # type: ignore[misc]
    assert ("I sail.", "demoted") == (memory["text"], memory["fate"])  # type: ignore[index]
    assert 0 == in_json("cleanup", "--app", "other", dsn=old)["total"]
    assert 0 == in_json("cleanup", "--app", "app", "--user", "bob", dsn=old)["total"]
    done = in_json("cleanup", dsn=old)
    assert {"demoted": {"episodic": 1}, "archived": {}, "erased": {}} == done["counts"]
    assert "Nothing has faded. " in run("cleanup", dsn=old)
    refused = commands.run("cleanup", "--user", "ann", "--uri", old)
    assert "Error: --user needs --app" in refused.stderr


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_terminal_sees_how_far_a_cleanup_is_and_a_file_does_not(old, form):
    terminal = {"FORCE_COLOR": "1", "TERM": "xterm", "COLUMNS": "100"}

    def shown(environment: dict[str, str]) -> str:
        done = commands.run("cleanup", "--uri", old, *form, env=environment)
        assert 0 == done.exit_code and "Forgetting" not in done.stdout
        return done.stderr

    drawn = shown(terminal)
    assert bool(form) == ("Forgetting" not in drawn)
    assert form or ("1/1" in drawn and "━" in drawn)
    assert "" == shown({})


def test_what_has_faded_is_listed_restored_and_pinned_and_unknown_keys_are_named(old):
    assert "Nothing has faded." in run("faded", "app", "ann", dsn=old)
    run("cleanup", dsn=old)
    assert "I sail." in run("faded", "app", "ann", dsn=old)
    listed = in_json("faded", "app", "ann", dsn=old)
    assert ("demoted", "I sail.") == (listed["stage"], listed["text"])
    key = str(listed["key"])
    assert "1 memory restored" in run("recover", "app", "ann", key, dsn=old)
    assert "0 memories restored" in run("recover", "app", "ann", key, dsn=old, code=1)
    assert "1 memory pinned" in run("pin", "app", "ann", key, dsn=old)
    assert "never" in run("policy", dsn=old) and 1 == in_json("stats", dsn=old)["pinned"]
    assert "1 memory no longer pinned" in run("unpin", "app", "ann", key, dsn=old)
    assert "0 memories no longer pinned" in run("unpin", "app", "ann", "no", dsn=old, code=1)
    for verb, done in (
        ("pin", "1 memory pinned"), ("unpin", "1 memory no longer pinned"),
        ("recover", "0 memories restored"), ("forget", "1 memory forgotten"),
    ):  # fmt: skip
        told = commands.run(verb, "app", "ann", "k", "no", "--uri", old)
        assert (1, done) == (told.exit_code, told.stdout.strip())
        assert "Error: app / ann has no memory 'no'" in told.stderr and "'k'" not in told.stderr
        assert "`hippocampus timeline app ann --json` shows keys" in told.stderr
    assert "1 memory forgotten" in run("forget", "app", "ann", "f", dsn=old)


def test_stats_count_kinds_scores_and_what_goes_when_and_a_curve_shows_one(old):
    found = in_json("stats", "--days", "0", "--days", "30", dsn=old)
    assert (3, 2, 0, 1) == tuple(found[name] for name in ("count", "high", "medium", "low"))
    assert {"0": {"demoted": 1, "archived": 0, "erased": 0},
            "30": {"demoted": 2, "archived": 0, "erased": 0}} == found["ahead"]  # fmt: skip
    shown = run("stats", "--app", "app", dsn=old)
    assert "3 memories: 2 score 0.7 or more" in shown
    assert "Within 1 days unread: 1 demoted." in shown
    found = in_json("curve", "app", "ann", "k", dsn=old)
    points: Sequence[dict[str, float]] = found["points"]  # type: ignore[assignment]
    scores = [point["score"] for point in points]
    assert scores == sorted(scores, reverse=True)
    shown = run("curve", "app", "ann", "k", dsn=old)
    assert "summary, kept: score 0.880, 0 reads" in shown
    assert "░" in shown and "Unread: demoted " in shown
    assert "It will not be forgotten." in run("curve", "app", "ann", "f", dsn=old)
    told = commands.run("curve", "app", "ann", "nothing", "--uri", old)
    assert 1 == told.exit_code and "there is no memory 'nothing'" in told.stderr


def test_a_policy_is_shown_set_and_inherited(old):
    assert "default" in run("policy", dsn=old)
    run("policy", "sensitive", "--app", "app", "--never", "summary", dsn=old)
    rules = in_json("policy", "--app", "app", "--user", "ann", dsn=old)
    assert (0.3, None) == (rules["episodic"]["decay_rate"], rules["summary"])  # type: ignore[index,call-overload]
    run("policy", "knowledge", "--erase-after", "3", "--app", "app", dsn=old)
    rules = in_json("policy", "--app", "app", dsn=old)
    summary = rules["summary"]
    assert (1.0, 3.0) == (summary["erase_threshold"], summary["erase_after_days"])
    assert "own" in run("policy", "--app", "app", dsn=old)
    run("policy", "inherit", "--app", "app", dsn=old)
    assert in_json("policy", dsn=old) == in_json("policy", "--app", "app", dsn=old)
    told = commands.run("policy", "forgetful", "--uri", old)
    assert 2 == told.exit_code and "'forgetful' is not known" in told.stderr


def test_a_topic_is_set_aside_and_brought_back(shared_dsn, scope):
    dsn, ana = shared_dsn, (scope.app, "ana")
    run("remember", *ana, "Theo plays the oboe.", dsn=dsn)
    gone = in_json("forget", *ana, "--about", "Theo", dsn=dsn)
    assert gone["memories"] == 1
    assert "oboe" not in run("recall", *ana, "Who plays the oboe?", dsn=dsn)
    run("runs", *ana, "--undo", str(gone["run_id"]), dsn=dsn)
    assert "oboe" in run("recall", *ana, "Who plays the oboe?", dsn=dsn)
    assert "Nothing is about Zoe" in run("forget", *ana, "--about", "Zoe", dsn=dsn)
    unknown = commands.run("forget", scope.app, "anna", "--about", "Zoe", "--uri", dsn)
    told = "Error: The user 'anna' has no memories. Did you mean 'ana'?"
    assert (1, True) == (unknown.exit_code, unknown.stderr.startswith(told)), unknown.output
    run("forget", *ana, dsn=dsn, code=2)
