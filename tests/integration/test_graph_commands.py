"""`hippocampus graph` on a real database."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from typer.testing import CliRunner, Result

from shared_core import Event, Scope, open_memory, run_sync
from shared_core.cli.main import app

pytestmark = pytest.mark.both_engines

ANN = Scope("my app", "ann")
START = datetime(2026, 3, 1, 9, tzinfo=UTC)


def run(dsn: str, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["graph", "my app", "ann", "--uri", dsn, *arguments])


async def learn(dsn: str) -> None:
    async with open_memory(dsn) as memory:
        for day, text in enumerate(("I live in Leeds.", "我住在上海。")):
            said = Event(event_id=f"e{day}", author="ann", role="user", text=text,
                         occurred_at=START + timedelta(days=day))  # fmt: skip
            await memory.append_events(ANN, "t", [said])
            await memory.consolidate(ANN, "t")
        await memory.graph.add(ANN, "上海", "lies_in", "China", valid_from=START)


def test_the_graph_around_an_entity_is_shown(dsn: str) -> None:
    assert "Nothing is known of 'user'.\n" == run(dsn, "user").stdout
    run_sync(learn(dsn))
    near, far = json.loads(run(dsn, "USER", "--json").stdout)
    assert ("user", "lives_in", "上海", 1, ["e1"], None) == (
        near["subject"], near["relation"], near["object"], near["hops"],
        near["source_event_ids"], near["valid_until"])  # fmt: skip
    assert ("China", 2) == (far["object"], far["hops"])
    assert 1 == len(json.loads(run(dsn, "user", "--depth", "1", "--json").stdout))
    table = run(dsn, "user").stdout
    assert all(word in table for word in ("lives_in", "上海", "2026-03-02"))
    assert "There are more edges" in run(dsn, "user", "--limit", "1").stdout
    then = json.loads(run(dsn, "user", "--valid", "2026-03-01T12:00", "--json").stdout)
    assert ["Leeds"] == [one["object"] for one in then]


def test_its_history_is_shown_with_what_ended(dsn: str) -> None:
    run_sync(learn(dsn))
    old, new = json.loads(run(dsn, "user", "--history", "--json").stdout)
    assert [("Leeds", False), ("上海", True)] == [
        (one["object"], one["current"]) for one in (old, new)
    ]
    assert old["edge_id"][-8:] in run(dsn, "user", "--history").stdout


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [(["--depth", "9"], 1, "depth must be"), (["--valid", "soon"], 2, "--valid must be a day")],
)
def test_what_cannot_be_is_one_line(dsn: str, arguments: list[str], code: int, told: str) -> None:
    refused = run(dsn, "user", *arguments)
    assert code == refused.exit_code
    assert told in " ".join(refused.stderr.split())
