"""`hippocampus runs` on a real database: shows what was done, and takes it back."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from typer.testing import CliRunner, Result

from shared_core import Event, Scope, open_memory, run_sync
from shared_core.cli.main import app

pytestmark = pytest.mark.both_engines

ANN = Scope("my app", "ann")


def run(dsn: str, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["runs", "my app", "ann", "--uri", dsn, *arguments])


def said(event_id: str, text: str) -> Event:
    moment = datetime(2026, 3, 1, 9, tzinfo=UTC)
    return Event(event_id=event_id, author="ann", role="user", text=text, occurred_at=moment)


async def learn(dsn: str) -> None:
    async with open_memory(dsn) as memory:
        for event_id, text in (("a", "I live in Leeds."), ("b", "我住在上海。")):
            await memory.append_events(ANN, "t", [said(event_id, text)])
            await memory.consolidate(ANN, "t")


async def cities(dsn: str) -> list[object]:
    async with open_memory(dsn) as memory:
        return [fact.value for fact in await memory.facts(ANN)]


def test_runs_are_shown_and_undone_in_order(dsn: str) -> None:
    assert "There are no runs yet.\n" == run(dsn).stdout
    run_sync(learn(dsn))
    second, first = json.loads(run(dsn, "--json", "--thread", "t").stdout)
    assert ("full_consolidation", "t", None) == (
        second["kind"], second["thread_id"], second["undone_at"])  # fmt: skip
    assert {"events": 1, "facts": 1, "closed": 1}.items() <= second["counts"].items()
    assert second["run_id"] in run(dsn).stdout.replace("\n", "")
    refused = run(dsn, "--undo", first["run_id"])
    assert 1 == refused.exit_code
    assert second["run_id"] in refused.stderr
    assert f"Run {second['run_id']} is undone.\n" == run(dsn, "--undo", second["run_id"]).stdout
    assert ["Leeds"] == run_sync(cities(dsn))
    assert "undone" in run(dsn).stdout


def test_a_run_is_named_by_either_end_of_its_id(dsn: str) -> None:
    run_sync(learn(dsn))
    second, first = (run["run_id"] for run in json.loads(run(dsn, "--json").stdout))
    both = next(n for n in range(36, 0, -1) if first[:n] == second[:n])
    refused = run(dsn, "--undo", first[:both])
    assert 1 == refused.exit_code
    assert f"{first[:both]!r} matches 2 runs, {second}, {first}: give more" in refused.stderr
    assert f"Run {second} is undone.\n" == run(dsn, "--undo", second[-12:].upper()).stdout
    assert f"Run {first} is undone.\n" == run(dsn, "--undo", first[:both]).stdout
    gone = run(dsn, "--undo", first[:both])
    assert f"{first[:both]!r} matches no run: 'hippocampus runs" in " ".join(gone.stderr.split())


@pytest.mark.parametrize(
    ("run_id", "told", "code"),
    [("last", "run_id must be a UUID", 2), ("0" * 32, "there is no run", 1)],
)
def test_an_unknown_run_is_an_error_that_says_so(
    dsn: str, run_id: str, told: str, code: int
) -> None:
    refused = run(dsn, "--undo", run_id)
    assert code == refused.exit_code
    assert told in " ".join(refused.stderr.split())


def test_no_other_thread_is_shown(dsn: str) -> None:
    assert "[]\n" == run(dsn, "--thread", "elsewhere", "--json").stdout
