"""`hippocampus facts`, `state`, `retract` and `restore` on a real database."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import cast
from uuid import UUID

import pytest
from typer.testing import CliRunner, Result

from shared_core import Edge, Fact
from shared_core.cli.app import date_option
from shared_core.cli.facts import facts_table
from shared_core.cli.graph import edges_table
from shared_core.cli.main import app
from shared_core.core.domain import MemoryId
from shared_core.core.locale import Language, speaking

pytestmark = pytest.mark.both_engines

START = datetime(2026, 3, 1, 9, tzinfo=UTC)
ID = UUID("01a2033d-0b84-7bd9-b9e1-f0eeb10dbe5c")


def run(dsn: str, command: str, *arguments: str) -> Result:
    return CliRunner().invoke(app, [command, "my app", "ann", *arguments, "--uri", dsn])


def test_a_fact_is_stated_shown_and_corrected(dsn: str) -> None:
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
    ):  # fmt: skip
        refused = run(dsn, *arguments)
        assert (1, True) == (refused.exit_code, why in refused.stderr), refused.stderr
    refused = run(dsn, "retract", current["key"], "--at", "soon")
    assert (2, True) == (refused.exit_code, "--at must be a day like" in refused.stderr)


@pytest.mark.parametrize("day", ["2026-03-02", "2026/3/2", "2026年3月2日", "2 March 2026"])
def test_a_date_is_a_day_in_figures_or_in_words(dsn: str, day: str) -> None:
    told = run(dsn, "state", "employer", "Acme", "--since", day).stdout
    assert told.startswith("User works at Acme. (since 2026-03-02 00:00 UTC; key ")


@pytest.fixture
def a_day_ahead(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let this machine's time be nearly a day ahead of UTC."""
    monkeypatch.setenv("TZ", "EAST-23:59")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("a_day_ahead")
@pytest.mark.parametrize("today", ["today", "今天"])
def test_today_does_not_begin_in_the_future(today: str) -> None:
    begin = date_option(today, "--since")
    assert begin is not None and begin <= datetime.now(UTC)


@pytest.mark.parametrize(
    "words",
    [
        "last week",
        "上周",
        "2026",
        "2026年3月",
        "2 hours ago",
        "昨天下午",
        "每周三",
        "2026/13/1",
        "",
    ],
)
def test_a_date_that_is_no_single_day_is_refused_in_both_languages(dsn: str, words: str) -> None:
    for language, why in (("en", "--since must be a day like"), ("zh", "--since 必须是")):
        with speaking(cast("Language", language)):
            refused = run(dsn, "state", "employer", "Acme", "--since", words)
        assert (2, True) == (refused.exit_code, why in refused.stderr), refused.stderr


def test_a_slot_that_does_not_exist_is_named_with_the_nearest(dsn: str) -> None:
    run(dsn, "state", "my.shelf", "left", "--since", "2026-03-01")
    run(dsn, "retract", "my.shelf")
    with speaking("zh"):
        asked = run(dsn, "facts", "住哪").stdout
    assert "没有这个槽位。你要的是不是 '住处' 或 '住址'？" in asked
    for slot in ("employer", "公司", "my.shelf", "relation.sister"):
        assert "There is no such slot" not in run(dsn, "facts", slot).stdout, slot
    asked = run(dsn, "facts", "my.shelv").stdout
    assert "There is no such slot. Did you mean 'my.shelf'? hippocampus facts my app ann" in asked


@pytest.mark.parametrize("width", [80, 100])
def test_no_word_is_broken_in_a_narrow_terminal(width: int) -> None:
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
