"""`check.py` of the lesson "From PostgresStore" tells whether a moved store is complete."""

import asyncio
import os
import subprocess

import pytest
from langgraph.store.base import PutOp
from langgraph.store.postgres import PostgresStore
from pages import PAGES, blocks_of
from postgres_admin import execute
from warm_python import run_warm

from langgraph_store import PgHippocampusStore
from shared_core.cli import StoreImport, import_store

CHECKS = {
    block.text
    for page in PAGES
    if page.name.startswith("from-postgres-store")
    for block in blocks_of(page)
    if block.value == "check.py"
}
"""The program as the pages print it, once if they agree."""


@pytest.fixture(params=sorted(CHECKS), ids=[f"check{n}" for n in range(len(CHECKS))])
def program(request, dsn, tmp_path):
    """The printed program, beside a database.py that names the database of the test."""
    (tmp_path / "database.py").write_text(f"DSN = {dsn!r}\n", "utf-8")
    (file := tmp_path / "check.py").write_text(request.param, "utf-8")
    return file


def test_the_check_counts_every_item_and_names_each_that_is_lost(program, dsn):
    def check() -> subprocess.CompletedProcess[str]:
        return run_warm([str(program)], cwd=program.parent, env=dict(os.environ), timeout=100)

    # More namespaces than a listing gives, and more items than a search gives, by default.
    puts = [PutOp(("app", f"user{one:03}"), "note", {"n": one}) for one in range(110)]
    puts += [PutOp(("app", "user007", "more"), f"{one}", {"n": one}) for one in range(1010)]
    puts += [PutOp(("app", "user007"), "0", {"n": "above"}), PutOp(("a%2Eb",), "名前", {"n": None})]
    count = len(puts)
    with PostgresStore.from_conn_string(dsn) as old:
        old.setup()
        old.batch(puts)
        old.put(("app", "user007"), "gone", {"n": 1}, ttl=60)  # it is not counted
    execute(dsn, "UPDATE store SET expires_at = now() - interval '1 day' WHERE key = 'gone'")
    asyncio.run(import_store(StoreImport(dsn=dsn, uri=dsn)))
    complete = check()
    assert (0, f"112 namespaces, {count} items: all equal\n", "") == (
        complete.returncode, complete.stdout, complete.stderr,
    )  # fmt: skip
    with PgHippocampusStore(dsn) as new:
        new.put(("app", "user109"), "note", {"n": "another"})
        new.put(("app", "later"), "note", {"n": "of the new store"})
        new.delete(("app", "user007", "more"), "1009")
    incomplete = check()
    assert 1 == incomplete.returncode
    assert f"2 of {count} items differ\n" == incomplete.stderr
    assert [
        "missing or different: ('app', 'user007', 'more') 1009",
        "missing or different: ('app', 'user109') note",
    ] == incomplete.stdout.splitlines()
