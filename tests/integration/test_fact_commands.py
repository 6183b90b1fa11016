"""`hippocampus facts`, `state`, `retract`, `restore`, `graph` and `runs` on a real database."""

import json
import time
from datetime import UTC, datetime, timedelta
from typing import cast
from uuid import UUID

import commands
import pytest
from every_case import every_case
from turns import said
from typer.testing import Result

from shared_core import Edge, Fact, Scope, open_memory, run_sync
from shared_core.cli.app import date_option
from shared_core.cli.facts import facts_table
from shared_core.cli.graph import edges_table
from shared_core.core.domain import MemoryId
from shared_core.core.locale import Language, speaking

pytestmark = pytest.mark.both_engines

ANN = Scope("my app", "ann")
START = datetime(2026, 3, 1, 9, tzinfo=UTC)
ID = UUID("01a2033d-0b84-7bd9-b9e1-f0eeb10dbe5c")


def run(dsn: str, command: str, *arguments: str, user: str = "ann") -> Result:
    return commands.run(command, "my app", user, *arguments, "--uri", dsn)


async def learn(dsn: str) -> None:
    """Consolidate a home in Leeds, and a day later one in Shanghai."""
    async with open_memory(dsn) as memory:
        for day, text in enumerate(("I live in Leeds.", "我住在上海。")):
            turn = said(f"e{day}", text, START + timedelta(days=day))
            await memory.append_events(ANN, "t", [turn])
            await memory.consolidate(ANN, "t")


def test_a_fact_is_stated_shown_and_corrected(dsn):
    assert run(dsn, "facts").stdout.startswith("No facts are stored for ann in my app.")
    assert "in the slot 'employer'" in run(dsn, "facts", "employer").stdout
    told = run(dsn, "state", "company", "Acme", "--since", "2024-05-01").stdout
    assert told.startswith("User works at Acme. (since 2024-05-01 00:00 UTC; key ")
    assert run(dsn, "state", "雇主", "华为").stdout.startswith("用户在华为工作。")
    assert 0 == run(dsn, "state", "age", "5", "--subject", "Mia").exit_code
    [current] = json.loads(run(dsn, "facts", "employer", "--json").stdout)
    assert ("华为", None, "caller") == (
        current["value"], current["valid_until"], current["extractor"])  # fmt: skip
    [then] = json.loads(run(dsn, "facts", "employer", "--as-of", "2025-01-01", "--json").stdout)
    assert ("Acme", "2024-05-01T00:00:00+00:00") == (then["value"], then["valid_from"])
    table = run(dsn, "facts", "--history").stdout
    assert all(word in table for word in ("华为", "Acme", "about.mia.age", "2024-05-01",
                                          current["key"][-8:]))  # fmt: skip
    assert ", until " in run(dsn, "retract", current["key"][-8:]).stdout
    assert "[]\n" == run(dsn, "facts", "employer", "--json").stdout
    refused = run(dsn, "retract", current["key"])
    assert (1, True) == (refused.exit_code, "has ended already" in refused.stderr)
    assert "用户在华为工作。" in run(dsn, "restore", current["key"]).stdout
    for arguments, why in (
        (("restore", "ffff0000ffff"), "matches no fact"),
        (("restore", "hum"), "there is no memory"),
        (("state", "employr", "x"), "did you mean 'employer'"),
        (("facts", "employr"), "did you mean 'employer'"),
        (("facts", "--refused", "--why"), "goes with no slot and no option"),
    ):  # fmt: skip
        refused = run(dsn, *arguments)
        assert (1, True) == (refused.exit_code, why in refused.stderr), refused.stderr
    refused = run(dsn, "retract", current["key"], "--at", "soon")
    assert (2, True) == (refused.exit_code, "--at must be a day like" in refused.stderr)


@every_case("2026-03-02", "2026/3/2", "2026年3月2日", "2 March 2026")
def test_a_date_is_a_day_in_figures_or_in_words(day, shared_dsn):
    told = run(shared_dsn, "state", "employer", "Acme", "--since", day, user=f"on {day}").stdout
    assert told.startswith("User works at Acme. (since 2026-03-02 00:00 UTC; key ")


@pytest.fixture
def a_day_ahead(monkeypatch):
    """Let this machine's time be nearly a day ahead of UTC."""
    monkeypatch.setenv("TZ", "EAST-23:59")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("a_day_ahead")
@every_case("today", "今天")
def test_today_does_not_begin_in_the_future(today):
    assert date_option(today, "--since") <= datetime.now(UTC)


@every_case(
    "last week", "上周", "2026", "2026年3月", "2 hours ago", "昨天下午", "每周三", "2026/13/1",
    "",
)  # fmt: skip
def test_a_date_that_is_no_single_day_is_refused_in_both_languages(words, shared_dsn):
    for language, why in (("en", "--since must be a day like"), ("zh", "--since 必须是")):
        with speaking(cast("Language", language)):
            refused = run(shared_dsn, "state", "employer", "Acme", "--since", words)
        assert (2, True) == (refused.exit_code, why in refused.stderr), refused.stderr


def test_a_slot_that_does_not_exist_is_named_with_the_nearest(dsn):
    run(dsn, "state", "my.shelf", "left", "--since", "2026-03-01")
    run(dsn, "retract", "my.shelf")
    with speaking("zh"):
        asked = run(dsn, "facts", "住哪").stderr
    assert "没有这个槽位。你要的是不是 '住处' 或 '住址'？" in asked
    for slot in ("employer", "公司", "my.shelf", "relation.sister"):
        assert 0 == run(dsn, "facts", slot).exit_code, slot
    asked = run(dsn, "facts", "my.shelv", "--json")
    told = "Error: There is no such slot. Did you mean 'my.shelf'? hippocampus facts my app ann"
    assert (1, "") == (asked.exit_code, asked.stdout) and asked.stderr.startswith(told)


@every_case(80, 100)
def test_no_word_is_broken_in_a_narrow_terminal(width):
    words = "wellcome trust sanger institute cambridgeshire hinxton genome campus"
    fact = Fact(
        memory_id=MemoryId(ID), fact_type="profile", slot="relation.grandmother.marital_status",
        value=words, statement="", confidence=1, extractor="", pattern="", valid_from=START,
        valid_until=START, thread_id=None, source_event_ids=(),
    )  # fmt: skip
    edge = Edge(
        edge_id=ID, subject="Margaret Featherstonehaugh", relation="favourite_restaurant",
        object=words, subject_entity="", object_entity="", functional=True, confidence=1,
        valid_from=START, valid_until=START, recorded_at=START, superseded_at=START, current=False,
        source_event_ids=(str(ID), "e1"),
    )  # fmt: skip
    for table in (facts_table([fact]), edges_table([edge], history=True)):
        shown = "\n".join(line.plain for line in table.lines(width))
        assert all(word in shown.split() for word in words.split()), shown
        assert all(word in shown for word in ("2026-03-01", str(ID)[-8:]))
        assert max(map(len, shown.splitlines())) <= width
        assert "favourite_restaurant" in shown or table.names[0] == "key"


async def add_china(dsn: str) -> None:
    async with open_memory(dsn) as memory:
        await memory.graph.add(ANN, "上海", "lies_in", "China", valid_from=START)


def test_the_graph_around_an_entity_is_shown_and_its_history_with_what_ended(dsn):
    assert "Nothing is known of 'user'.\n" == run(dsn, "graph", "user").stdout
    run_sync(learn(dsn))
    old, new = json.loads(run(dsn, "graph", "user", "--history", "--json").stdout)
    assert ("Leeds", False) == (old["object"], old["current"])
    assert ("上海", True) == (new["object"], new["current"])
    assert old["edge_id"][-8:] in run(dsn, "graph", "user", "--history").stdout
    run_sync(add_china(dsn))
    near, far = json.loads(run(dsn, "graph", "USER", "--json").stdout)
    assert ("user", "lives_in", "上海", 1, ["e1"], None) == (
        near["subject"], near["relation"], near["object"], near["hops"],
        near["source_event_ids"], near["valid_until"])  # fmt: skip
    assert ("China", 2) == (far["object"], far["hops"])
    assert 1 == len(json.loads(run(dsn, "graph", "user", "--depth", "1", "--json").stdout))
    table = run(dsn, "graph", "user").stdout
    assert all(word in table for word in ("lives_in", "上海", "2026-03-02"))
    assert "There are more edges" in run(dsn, "graph", "user", "--limit", "1").stdout
    then = json.loads(run(dsn, "graph", "user", "--valid", "2026-03-01T12:00", "--json").stdout)
    assert ["Leeds"] == [one["object"] for one in then]


@every_case(
    (["--depth", "9"], 1, "depth must be"), (["--valid", "soon"], 2, "--valid must be a day")
)
def test_what_cannot_be_is_one_line(arguments, code, told, shared_dsn):
    refused = run(shared_dsn, "graph", "user", *arguments)
    assert code == refused.exit_code
    assert told in " ".join(refused.stderr.split())


async def cities(dsn: str) -> list[object]:
    async with open_memory(dsn) as memory:
        return [fact.value for fact in await memory.facts(ANN)]


def test_runs_are_shown_and_undone_in_order(dsn):
    assert "There are no runs yet.\n" == run(dsn, "runs").stdout
    run_sync(learn(dsn))
    second, first = json.loads(run(dsn, "runs", "--json", "--thread", "t").stdout)
    assert ("full_consolidation", "t", None) == (
        second["kind"], second["thread_id"], second["undone_at"])  # fmt: skip
    assert {"events": 1, "facts": 1, "closed": 1}.items() <= second["counts"].items()
    assert second["run_id"] in run(dsn, "runs").stdout.replace("\n", "")
    refused = run(dsn, "runs", "--undo", first["run_id"])
    assert 1 == refused.exit_code
    assert second["run_id"] in refused.stderr
    undone = run(dsn, "runs", "--undo", second["run_id"]).stdout
    assert f"Run {second['run_id']} is undone.\n" == undone
    assert ["Leeds"] == run_sync(cities(dsn))
    assert "undone" in run(dsn, "runs").stdout


def test_a_run_is_named_by_either_end_of_its_id(dsn):
    run_sync(learn(dsn))
    second, first = (run["run_id"] for run in json.loads(run(dsn, "runs", "--json").stdout))
    both = next(n for n in range(36, 0, -1) if first[:n] == second[:n])
    refused = run(dsn, "runs", "--undo", first[:both])
    assert 1 == refused.exit_code
    assert f"{first[:both]!r} matches 2 runs, {second}, {first}: give more" in refused.stderr
    assert f"Run {second} is undone.\n" == run(dsn, "runs", "--undo", second[-12:].upper()).stdout
    assert f"Run {first} is undone.\n" == run(dsn, "runs", "--undo", first[:both]).stdout
    gone = run(dsn, "runs", "--undo", first[:both])
    assert f"{first[:both]!r} matches no run: 'hippocampus runs" in " ".join(gone.stderr.split())


@every_case(("last", "run_id must be a UUID", 2), ("0" * 32, "there is no run", 1))
def test_an_unknown_run_is_an_error_that_says_so(run_id, told, code, shared_dsn):
    refused = run(shared_dsn, "runs", "--undo", run_id)
    assert code == refused.exit_code
    assert told in " ".join(refused.stderr.split())


def test_no_other_thread_is_shown(shared_dsn):
    assert "[]\n" == run(shared_dsn, "runs", "--thread", "elsewhere", "--json").stdout
