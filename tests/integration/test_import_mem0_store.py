"""`hippocampus import DSN --from mem0`: the table that mem0 itself wrote."""

from __future__ import annotations

import json
from pathlib import Path

import psycopg
import pytest
from typer.testing import CliRunner, Result

from shared_core.cli.main import app

EXPORTS = Path(__file__).parents[1] / "exports"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["import", *map(str, arguments)])


@pytest.fixture
def store(empty_dsn: str) -> str:
    """A database with what mem0 wrote."""
    with psycopg.connect(empty_dsn) as connection:
        connection.execute((EXPORTS / "mem0.sql").read_bytes())
    return empty_dsn


def test_the_memories_of_a_store_go_to_their_users(store: str, dsn: str) -> None:
    at = (store, "--from", "mem0", "--app", "app", "--uri", dsn)
    looked = run(*at, "--dry-run", "--json")
    assert 0 == looked.exit_code, looked.output
    assert {"of no user (give --user)": 1} == json.loads(looked.stdout)["skipped"]
    report = json.loads(run(*at, "--json").stdout)
    assert (5, ["ana", "ben", "小明"]) == (report["statements"]["written"], report["users"])
    again = run(*at)
    assert 0 == again.exit_code
    assert "statements 5 0 5" in " ".join(again.stdout.split())
    found = CliRunner().invoke(app, ["recall", "app", "ana", "Where?", "--uri", dsn, "--json"])
    assert "I live in Porto and work as a vet." in found.stdout


def test_a_store_in_the_same_database_and_of_another_name_is_read(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        dump = (EXPORTS / "mem0.sql").read_text("utf-8")
        connection.execute("CREATE SCHEMA other")
        connection.execute(dump.replace(" mem0 ", ' other."My Notes" ').encode())
    at = (dsn, "--from", "mem0", "--app", "app", "--uri", dsn)
    missing = run(*at)
    assert 1 == missing.exit_code
    assert "Found is other.My Notes: name it with --table" in missing.stderr
    found = run(*at, "--table", "other.My Notes", "--json")
    assert 5 == json.loads(found.stdout)["statements"]["written"], found.output


def test_a_database_without_a_store_is_named_and_no_memory_is_made(
    empty_dsn: str, dsn: str, tmp_path: Path
) -> None:
    ran = run(empty_dsn, "--from", "mem0", "--app", "app", "--uri", dsn)
    assert 1 == ran.exit_code
    assert "there is no store of mem0 in the table 'mem0'" in ran.stderr
    assert "No table there has the columns id, vector and payload" in ran.stderr
    gone = "postgresql://nobody:secret@127.0.0.1:1/none"
    ran = run(gone, "--from", "mem0", "--app", "app", "--uri", dsn)
    assert 1 == ran.exit_code and "cannot be read" in ran.stderr and "secret" not in ran.stderr
    ran = run(empty_dsn, "--from", "mem0", "--app", "app", "--uri", dsn, "--table", "a..b")
    assert 1 == ran.exit_code and "table must be a name" in ran.stderr


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the packages that mem0 imports
def test_what_mem0_writes_today_comes_over(empty_dsn: str, dsn: str, tmp_path: Path) -> None:
    pytest.importorskip("mem0", reason="pip install 'pg-hippocampus[peers]'")
    from tests.exports.make_mem0 import TOLD, tell_mem0

    with psycopg.connect(empty_dsn) as connection:
        connection.execute("CREATE EXTENSION vector")
    answers = tell_mem0(empty_dsn, str(tmp_path))
    results = [one for answer in answers for one in answer["results"]]
    file = tmp_path / "mem0.json"
    file.write_text(json.dumps({"results": results}), "utf-8")
    at = ("--from", "mem0", "--app", "app", "--uri", dsn, "--json")
    assert len(TOLD) == json.loads(run(file, *at).stdout)["statements"]["written"]
    assert len(TOLD) == json.loads(run(empty_dsn, *at).stdout)["statements"]["here"]
