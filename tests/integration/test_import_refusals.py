"""`hippocampus import` with options, addresses and roles that will not do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from langgraph.store.postgres import PostgresStore
from psycopg.conninfo import make_conninfo
from typer.testing import CliRunner, Result

from shared_core import InvalidInput
from shared_core.cli import StoreImport, import_store
from shared_core.cli.main import app
from shared_core.models.embedders import CallableEmbedder

SECRET = "hunter2-secret"
ALICE = ("support%2Ebot", "alice@example%2Ecom")


def ones(texts: list[str]) -> list[list[float]]:
    return [[1.0] * 64 for _ in texts]


@pytest.fixture
def source(empty_dsn: str) -> Iterator[tuple[str, PostgresStore]]:
    """A PostgresStore with vectors, in a database of its own."""
    index: Any = {"dims": 64, "embed": ones, "fields": ["text"]}
    with PostgresStore.from_conn_string(empty_dsn, index=index) as store:
        store.setup()
        yield empty_dsn, store


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["import", *arguments])


def execute(dsn: str, statement: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(statement.encode())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"vectors_from": "words-63"}, "'words-64' cannot use vectors of 'words-63'"),
        ({"vectors_from": "words-64", "reembed": True}, "give either --vectors-from"),
        ({"batch": 0}, "batch must be"),
    ],
)
async def test_options_that_make_no_sense_are_refused(
    source: tuple[str, PostgresStore], dsn: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        await import_store(
            StoreImport(
                dsn=source[0], uri=dsn, embedder=CallableEmbedder(ones, model="words-64"), **options
            )
        )


async def test_vectors_of_other_dimensions_are_refused(
    source: tuple[str, PostgresStore], dsn: str
) -> None:
    origin, theirs = source
    theirs.put(ALICE, "city", {"text": "Lisbon"})
    short = CallableEmbedder(lambda texts: [[1.0, 2.0] for _ in texts], model="short")
    with pytest.raises(InvalidInput, match="64 dimensions, those of 'short' have 2"):
        await import_store(StoreImport(dsn=origin, uri=dsn, embedder=short, vectors_from="short"))


def test_wrong_addresses_are_told_without_the_password(dsn: str, server: str) -> None:
    user = f"postgresql://alice:{SECRET}@"
    for address, message in (
        (f"{user}127.0.0.1:1/memory?connect_timeout=2", "cannot be read"),
        (f"{user}127.0.0.1:1/memory?nonsense=1", "check it"),
        (f"{SECRET}", "has an unknown form"),
        (f"password={SECRET} {SECRET}", "check it"),
        (dsn, "there is no PostgresStore"),
        (make_conninfo(dsn, dbname="not_there"), "does not exist"),
    ):
        ran = run("--from", "postgres-store", address, "--uri", dsn)
        assert 1 == ran.exit_code, address
        assert message in ran.stderr
        assert SECRET not in ran.output
        assert 1 == len(ran.stderr.splitlines())


def test_a_role_without_rights_is_told(source: tuple[str, PostgresStore], dsn: str) -> None:
    origin, theirs = source
    theirs.put(ALICE, "city", {"text": "Lisbon"})
    execute(origin, "DO $$ BEGIN CREATE ROLE import_nobody LOGIN; EXCEPTION WHEN"
                    " duplicate_object THEN NULL; END $$")  # fmt: skip
    poor = make_conninfo(origin, user="import_nobody")
    ran = run("--from", "postgres-store", poor, "--uri", dsn)
    assert 1 == ran.exit_code
    assert "may not read the PostgresStore" in ran.stderr
    execute(origin, "GRANT SELECT ON store, store_vectors TO import_nobody")
    assert 0 == run("--from", "postgres-store", poor, "--uri", dsn).exit_code
    execute(origin, "DROP OWNED BY import_nobody")
