"""What Citus asks of tables and statements, read from the real catalog and by PostgreSQL's parser.

No Citus runs here (docs/scaling.md); tests/live/test_citus.py runs on one that is named.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import psycopg
import pytest
from pglast import ast, parse_sql
from pglast.stream import RawStream
from pglast.visitors import Visitor

from shared_core import CapabilityMissing
from shared_core.storage.database import bound_everywhere
from shared_core.storage.distribute import ON_COORDINATOR, REFERENCES, place_of, spread
from shared_core.storage.sql_files import named_pieces, statement

ACROSS_TENANTS = {
    "applications": "which there are: for a copy of all of them",
    "conversations_over": "whose sessions are over, of all users: a read of every shard",
    "next_end": "when the next session is over",
    "drop_unused_model": "whether a model made any vector at all: once per opening",
}
"""Statements that read what is spread without naming a tenant, and why they may."""
LITERALS = (
    ("of_slot", "true"), ("direction", "ASC"), ("tenant_literal", "'/a/b/'"),
    ("model_literal", "'use'"), ("cutoff_literal", "'2026-01-01'"), ("dimensions", "512"),
    ("table", "memories"), ("columns", "tenant_id"), ("key", "m.tenant_id"),
    ("here_key", "t.tenant_id"), ("given_key", "g.tenant_id"),
)  # fmt: skip
"""What fills the slots that code fills."""


@pytest.fixture
def catalog(dsn: str) -> Iterator[psycopg.Connection[tuple[str, ...]]]:
    with psycopg.connect(dsn) as connection:
        yield connection


def spread_tables(catalog: psycopg.Connection[tuple[str, ...]]) -> set[str]:
    rows = catalog.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'hippocampus'")
    return {name for (name,) in rows if place_of(name) == "distributed"}


def test_every_table_of_tenants_is_spread(catalog: psycopg.Connection[tuple[str, ...]]) -> None:
    found = catalog.execute(
        "SELECT table_name FROM information_schema.columns WHERE table_schema = 'hippocampus'"
        " AND column_name = 'tenant_id' AND is_nullable = 'NO' AND data_type = 'text'"
        " AND is_generated = 'NEVER'"
    )
    assert {name for (name,) in found} - set(ON_COORDINATOR) == spread_tables(catalog)
    named = catalog.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'hippocampus'")
    assert {*REFERENCES, *ON_COORDINATOR} <= {name for (name,) in named}


def test_every_key_holds_the_tenant_first(catalog: psycopg.Connection[tuple[str, ...]]) -> None:
    keys = catalog.execute(
        "SELECT c.relname, i.indexrelid::regclass::text,"
        " (SELECT attname FROM pg_attribute WHERE attrelid = c.oid AND attnum = i.indkey[0])"
        " FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid"
        " WHERE (i.indisunique OR i.indisexclusion)"
        " AND c.relnamespace = 'hippocampus'::regnamespace"
    ).fetchall()
    spread_ones = [row for row in keys if row[0] in spread_tables(catalog)]
    assert {row[0] for row in spread_ones} == spread_tables(catalog)  # each has a primary key
    assert [row for row in spread_ones if row[2] != "tenant_id"] == []


def test_what_refers_refers_within_the_tenant(catalog: psycopg.Connection[tuple[str, ...]]) -> None:
    found = catalog.execute(
        "SELECT c.conrelid::regclass::text, c.confrelid::regclass::text,"
        " (SELECT attname FROM pg_attribute WHERE attrelid = c.conrelid AND attnum = c.conkey[1]),"
        " (SELECT attname FROM pg_attribute WHERE attrelid = c.confrelid AND attnum = c.confkey[1])"
        " FROM pg_constraint c WHERE c.contype = 'f'"
        " AND c.connamespace = 'hippocampus'::regnamespace"
    ).fetchall()
    assert found
    outside = [
        row
        for row in found
        if row[0].removeprefix("hippocampus.") not in ON_COORDINATOR
        and row[1].removeprefix("hippocampus.") not in REFERENCES
        and row[2:] != ("tenant_id", "tenant_id")
    ]
    assert outside == []


def test_no_trigger_is_needed(catalog: psycopg.Connection[tuple[str, ...]]) -> None:
    assert catalog.execute("SELECT tgname FROM pg_trigger WHERE NOT tgisinternal").fetchall() == []


class Levels(Visitor):  # type: ignore[misc] # pglast ships no types
    """Collects the tables that a level of a statement reads without a condition on their tenant."""

    def __init__(self, tables: set[str]) -> None:
        super().__init__()
        self.tables = tables
        self.bare: list[str] = []

    def visit_SelectStmt(self, _: object, node: ast.SelectStmt) -> None:
        self._level(node.fromClause or (), [node.whereClause])

    def visit_UpdateStmt(self, _: object, node: ast.UpdateStmt) -> None:
        self._level([node.relation, *(node.fromClause or ())], [node.whereClause])

    def visit_DeleteStmt(self, _: object, node: ast.DeleteStmt) -> None:
        self._level([node.relation, *(node.usingClause or ())], [node.whereClause])

    def visit_InsertStmt(self, _: object, node: ast.InsertStmt) -> None:
        columns = [column.name for column in node.cols or ()]
        if node.relation.relname in self.tables and "tenant_id" not in columns:
            self.bare.append(f"INSERT {node.relation.relname}")

    def _level(self, sources: Iterable[ast.Node], conditions: Sequence[ast.Node | None]) -> None:
        tables, quals = [], [*conditions]
        todo = [*sources]
        while todo:
            node = todo.pop()
            if isinstance(node, ast.RangeVar):
                tables.append(node)
            elif isinstance(node, ast.JoinExpr):
                todo += [node.larg, node.rarg]
                quals += [node.quals, *(ast.ColumnRef(fields=(n,)) for n in node.usingClause or ())]
        said = " ".join(RawStream()(qual) for qual in quals if qual is not None)
        for table in tables:
            name = table.alias.aliasname if table.alias else table.relname
            held = re.search(rf"\b{name}\.tenant_id\b|(?<![.\w])tenant_id\b", said)
            if table.relname in self.tables and not held:
                self.bare.append(table.relname)


def readable(text: bytes) -> str:
    filled = re.sub(r"%\(\w+\)[sb]", "$1", text.decode())
    return filled.replace("%%", "%")


def test_every_statement_names_its_tenant(catalog: psycopg.Connection[tuple[str, ...]]) -> None:
    spread_ones, bare = spread_tables(catalog), {}
    for name in named_pieces()[0]:
        sql = readable(statement(name, literals=LITERALS))
        levels = Levels(spread_ones)
        levels(parse_sql(sql))
        if levels.bare:
            bare[name] = levels.bare
    assert set(bare) == set(ACROSS_TENANTS)


def test_a_statement_without_its_tenant_would_be_noticed() -> None:
    for sql in (
        "SELECT 1 FROM memories m WHERE m.key = 'a'",
        "WITH x AS (DELETE FROM memories WHERE key = 'a') SELECT 1",
        "SELECT 1 FROM facts f JOIN memories m USING (memory_id) WHERE f.tenant_id = 'a'",
        "INSERT INTO memories (key) VALUES ('a')",
    ):
        levels = Levels({"memories"})
        levels(parse_sql(sql))
        assert levels.bare, sql


def test_what_upserts_takes_no_time_of_the_server() -> None:
    for name in named_pieces()[0]:
        sql = readable(statement(name, literals=LITERALS))
        for _, after in re.findall(r"(ON CONFLICT)(.*?)(?=RETURNING|\Z)", sql, re.DOTALL):
            assert not re.search(r"\b(now|random|clock_timestamp)\(\)", after), name
        assert not re.search(r"\bctid\b", sql), name


def test_identities_are_literals_in_the_text_of_set_local() -> None:
    steps = bound_everywhere(
        {"search_path": '"a"', "statement_timeout": "60000", "scope": "/it's 100%/(x)s/"}
    )
    assert [text for text, values in steps if values] == []
    assert steps[-1][0] == b"SET LOCAL hippocampus.scope TO '/it''s 100%%/(x)s/'"


async def test_what_is_bound_in_literals_is_bound_as_well(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same service on one node, bound in the form that Citus sends on."""
    from dataclasses import replace

    from shared_core import Scope, open_memory

    async with open_memory(dsn) as memory:
        database = memory._storage._database  # type: ignore[attr-defined]
        prepared = database.prepared
        assert not prepared.is_spread
        monkeypatch.setattr(database, "prepared", replace(prepared, is_spread=True))
        mine, other = Scope("app", "it's 100% %(x)s"), Scope("app", "b")
        await memory.remember(mine, "I live in Oslo.")
        assert [hit.memory.text for hit in await memory.recall(mine, "Oslo")]
        assert await memory.list_memories(other) == []


def test_without_citus_it_is_said_how_to_get_it(dsn: str) -> None:
    with pytest.raises(CapabilityMissing, match="no extension citus"):
        spread(dsn, "hippocampus")
