"""What Citus asks of tables and statements, read from the real catalog and by PostgreSQL's parser.

No Citus runs here (docs/explanation/scaling.md); tests/live/test_citus.py runs on one that is
named. The last tests are about what a real cluster refused.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import psycopg
import pytest
from pglast import ast, parse_sql
from pglast.stream import RawStream
from pglast.visitors import Visitor

from shared_core import CapabilityMissing, Scope, open_memory
from shared_core.jobs.scheduled_task import ScheduledTask
from shared_core.ports import operations as ops
from shared_core.storage.postgres.connection import citus
from shared_core.storage.postgres.connection.migrations import migrations
from shared_core.storage.postgres.connection.operations import compiled
from shared_core.storage.postgres.connection.statements import named_pieces, statement

ACROSS_TENANTS = {
    "applications": "which there are: for a copy of all of them",
    "conversations_over": "whose sessions are over, of all users: a read of every shard",
    "next_end": "when the next session is over",
}
"""Statements that read what is spread without naming a tenant, and why they may."""
LITERALS = (
    ("of_slot", "true"), ("direction", "ASC"), ("tenant_literal", "'/a/b/'"),
    ("model_literal", "'use'"), ("cutoff_literal", "'2026-01-01'"), ("dimensions", "512"),
    ("table", "memories"), ("key", "m.tenant_id"), ("vector", ", 'embedding', m.embedding"),
    ("marks", "writes"), ("distance", "m.embedding <=> %(embedding)s::halfvec"),
    ("similarity", "1 - (%(embedding)s::halfvec <=> %(embedding)s::halfvec)"),
)  # fmt: skip
"""What fills the slots that code fills."""
OF_BOTH_PLACES = {
    "applications": "of all tenants, for a copy of everything",
    "enqueue_job": "when a job is due hangs on what its thread has unread",
}
"""Statements that name a table of the coordinator and one that is spread: Citus plans these piece
by piece, and they are the first that a real cluster has to be asked about."""
TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = 'hippocampus'"
SPREAD_LATE = ()
"""They set what only the statements after them on the coordinator read."""


@pytest.fixture
def catalog(dsn):
    with psycopg.connect(dsn) as connection:
        yield connection


@pytest.fixture
def spread_ones(catalog):
    """The names of the tables that lie on the nodes."""
    return {name for (name,) in catalog.execute(TABLES) if citus.place_of(name) == "distributed"}


def test_every_table_of_tenants_is_spread_and_holds_the_tenant_in_its_keys(catalog, spread_ones):
    found = catalog.execute(
        "SELECT table_name FROM information_schema.columns WHERE table_schema = 'hippocampus'"
        " AND column_name = 'tenant_id' AND is_nullable = 'NO' AND data_type = 'text'"
        " AND is_generated = 'NEVER'"
    )
    whole = {*citus.ON_COORDINATOR, *citus.REFERENCES}
    assert {name for (name,) in found} - whole == spread_ones
    assert whole <= {name for (name,) in catalog.execute(TABLES)}
    keys = catalog.execute(
        "SELECT c.relname, i.indexrelid::regclass::text,"
        " (SELECT attname FROM pg_attribute WHERE attrelid = c.oid AND attnum = i.indkey[0])"
        " FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid"
        " WHERE (i.indisunique OR i.indisexclusion)"
        " AND c.relnamespace = 'hippocampus'::regnamespace"
    ).fetchall()
    of_these = [row for row in keys if row[0] in spread_ones]
    assert {row[0] for row in of_these} == spread_ones  # each has a primary key
    assert [row for row in of_these if row[2] != "tenant_id"] == []
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
        if row[0].removeprefix("hippocampus.") not in citus.ON_COORDINATOR
        and row[1].removeprefix("hippocampus.") not in citus.REFERENCES
        and row[2:] != ("tenant_id", "tenant_id")
    ]
    assert outside == []
    assert catalog.execute("SELECT tgname FROM pg_trigger WHERE NOT tgisinternal").fetchall() == []
    counters = "SELECT sequencename FROM pg_sequences WHERE schemaname = 'hippocampus'"
    assert catalog.execute(counters).fetchall() == []


class Levels(Visitor):  # type: ignore[misc] # pglast ships no types
    """Collects the tables that a level of a statement reads without a condition on their tenant."""

    def __init__(self, tables: set[str]) -> None:
        super().__init__()
        self.tables = tables
        self.bare: list[str] = []

    def visit_SelectStmt(self, _: object, node: ast.SelectStmt) -> None:
        self._level(node.fromClause or (), node.whereClause)

    def visit_UpdateStmt(self, _: object, node: ast.UpdateStmt) -> None:
        self._level([node.relation, *(node.fromClause or ())], node.whereClause)

    def visit_DeleteStmt(self, _: object, node: ast.DeleteStmt) -> None:
        self._level([node.relation, *(node.usingClause or ())], node.whereClause)

    def visit_InsertStmt(self, _: object, node: ast.InsertStmt) -> None:
        columns = [column.name for column in node.cols or ()]
        if node.relation.relname in self.tables and "tenant_id" not in columns:
            self.bare.append(f"INSERT {node.relation.relname}")

    def _level(self, sources: Iterable[ast.Node], where: ast.Node | None) -> None:
        tables, joins = _tables_and_joins(sources)
        used = [ast.ColumnRef(fields=(name,)) for one in joins for name in one.usingClause or ()]
        quals = [where, *(one.quals for one in joins), *used]
        said = " ".join(RawStream()(qual) for qual in quals if qual is not None)
        for alias, name in tables:
            held = re.search(rf"\b{alias}\.tenant_id\b|(?<![.\w])tenant_id\b", said)
            if name in self.tables and not held:
                self.bare.append(name)


def _tables_and_joins(
    sources: Iterable[ast.Node],
) -> tuple[list[tuple[str, str]], list[ast.JoinExpr]]:
    """Return the aliases and names of the tables of a level, and its joins."""
    tables, joins, todo = [], [], [*sources]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.RangeVar):
            tables.append((node.alias.aliasname if node.alias else node.relname, node.relname))
        elif isinstance(node, ast.JoinExpr):
            todo += [node.larg, node.rarg]
            joins.append(node)
    return tables, joins


def readable(text: bytes) -> str:
    """Return the text of a statement with its placeholders numbered, so that it can be parsed."""
    places: dict[str, int] = {}

    def numbered(found: re.Match[str]) -> str:
        return f"${places.setdefault(found[1], len(places) + 1)}"

    return re.sub(r"%\((\w+)\)[sb]", numbered, text.decode()).replace("%%", "%")


def bare_tables(sql: str, tables: set[str]) -> list[str]:
    levels = Levels(tables)
    levels(parse_sql(sql))
    return levels.bare


def test_every_statement_names_its_tenant_and_one_without_would_be_noticed(spread_ones):
    texts = {name: readable(statement(name, literals=LITERALS)) for name in named_pieces()[0]}
    assert {*ACROSS_TENANTS} == {n for n, sql in texts.items() if bare_tables(sql, spread_ones)}
    for sql in (
        "SELECT 1 FROM memories m WHERE m.key = 'a'",
        "WITH x AS (DELETE FROM memories WHERE key = 'a') SELECT 1",
        "SELECT 1 FROM facts f JOIN memories m USING (memory_id) WHERE f.tenant_id = 'a'",
        "INSERT INTO memories (key) VALUES ('a')",
    ):
        assert bare_tables(sql, {"memories"}), sql


def test_upserts_take_no_time_of_the_server_and_identities_are_literals():
    for name in named_pieces()[0]:
        sql = readable(statement(name, literals=LITERALS))
        for _, after in re.findall(r"(ON CONFLICT)(.*?)(?=RETURNING|\Z)", sql, re.DOTALL):
            assert not re.search(r"\b(now|random|clock_timestamp)\(\)", after), name
        assert not re.search(r"\bctid\b", sql), name
    bound = {"search_path": '"a"', "statement_timeout": "60000", "scope": "/it's 100%/(x)s/"}
    steps = citus.bound_everywhere(bound)
    assert [text for text, values in steps if values] == []
    assert steps[-1][0] == b"SET LOCAL hippocampus.scope TO '/it''s 100%%/(x)s/'"
    assert "SELECT" not in " ".join((citus.WITHIN_SCOPE, *citus.ABOVE_SCOPE.values()))


class Names:
    """What a statement reads, calls, changes and locks."""

    def __init__(self, sql: str) -> None:
        nodes = [*_below([one.stmt for one in parse_sql(sql)])]
        self.tables = {one.relname for one in nodes if isinstance(one, ast.RangeVar)}
        self.functions = {one.funcname[-1].sval for one in nodes if isinstance(one, ast.FuncCall)}
        changes = [one for one in nodes if isinstance(one, ast.UpdateStmt | ast.OnConflictClause)]
        self.updated = {target.name for one in changes for target in one.targetList or ()}
        self.locks = any(isinstance(one, ast.LockingClause) for one in nodes)
        self.merges = any(isinstance(one, ast.MergeStmt) for one in nodes)


@pytest.fixture(scope="module")
def named():
    return {name: Names(readable(statement(name, literals=LITERALS))) for name in named_pieces()[0]}


def test_the_key_of_distribution_is_alike_everywhere_and_never_changes(catalog, named):
    kinds = catalog.execute(
        "SELECT DISTINCT format_type(a.atttypid, a.atttypmod), l.collname FROM pg_attribute a"
        " JOIN pg_class c ON c.oid = a.attrelid JOIN pg_collation l ON l.oid = a.attcollation"
        " WHERE a.attname = 'tenant_id' AND c.relkind = 'r'"
        " AND c.relnamespace = 'hippocampus'::regnamespace"
    ).fetchall()
    assert kinds == [("text", "C")]
    assert [name for name, found in named.items() if "tenant_id" in found.updated] == []
    changed = r"ALTER COLUMN tenant_id|RENAME COLUMN tenant_id|DROP COLUMN tenant_id"
    assert [step.name for step in migrations() if re.search(changed, step.sql)] == []


def test_statements_lock_within_a_tenant_reach_the_workers_and_make_nothing_up(spread_ones, named):
    assert [name for name, found in named.items() if found.merges] == []
    volatile = {"random", "gen_random_uuid", "uuidv7", "clock_timestamp", "statement_timestamp"}
    makes_up = {name: one for name, one in named.items() if one.functions & volatile}
    assert [name for name, one in makes_up.items() if one.tables & spread_ones] == []
    assert [name for name, found in named.items() if found.locks and name in ACROSS_TENANTS] == []
    """All that is known beforehand is sent on; "bind" has a form of its own."""
    kept = []
    for name, found in named.items():
        text = statement(name, literals=LITERALS)
        values = dict.fromkeys(re.findall(r"%\((\w+)\)", text.decode()), "x")
        if "set_config" in found.functions and citus.propagated((text, values)) == [(text, values)]:
            kept.append(name)
    assert sorted(kept) == sorted(SPREAD_LATE)
    tuning = (statement("tune_index_search"), {"ef_search": 40, "max_scan": 100})
    [first, second, *_, last] = citus.propagated(tuning)
    assert first == (b"SET LOCAL hnsw.iterative_scan TO 'relaxed_order'", {})
    assert second == (b"SET LOCAL hnsw.ef_search TO '40'", {})
    assert last == (b"SET LOCAL jit TO 'off'", {})
    [(text, _), *_] = citus.propagated((b"SELECT set_config('a.b', f(x), true) FROM t", {}))
    assert text.startswith(b"SELECT")
    of_a_node = re.compile(r"pg_(try_)?advisory_|pg_notify|nextval")
    on_nodes = {name: one for name, one in named.items() if one.tables & spread_ones}
    asked = {name for name, one in on_nodes.items() if any(map(of_a_node.match, one.functions))}
    hints = {name for name in asked if named[name].tables & {"consolidation_jobs"}}
    assert asked == hints  # NOTIFY beside the queue: workers poll where it is lost
    both = {name for name, one in on_nodes.items() if one.tables & set(citus.ON_COORDINATOR)}
    assert both == set(OF_BOTH_PLACES)


async def test_what_is_bound_in_literals_is_bound_as_well(dsn, monkeypatch):
    """The same service on one node, bound in the form that Citus sends on."""
    async with open_memory(dsn) as memory:
        database = memory._storage._database  # type: ignore[attr-defined]
        prepared = database.prepared
        assert not prepared.is_spread
        monkeypatch.setattr(database, "prepared", replace(prepared, is_spread=True))
        mine, other = Scope("app", "it's 100% %(x)s"), Scope("app", "b")
        await memory.remember(mine, "I live in Oslo.")
        assert [hit.memory.text for hit in await memory.recall(mine, "Oslo")]
        assert await memory.list_memories(other) == []


async def test_binding_in_literals_fills_no_log(dsn, monkeypatch):
    said: list[str | None] = []
    async with open_memory(dsn, worker=False) as memory:
        await memory.report()
        database = memory._storage._database  # type: ignore[attr-defined]
        monkeypatch.setattr(database, "prepared", replace(database.prepared, is_spread=True))
        async with await database.connect() as connection:
            connection.add_notice_handler(lambda notice: said.append(notice.message_primary))
            await connection.exchange([*database.bind("/app/ana/"), (b"SELECT 1", {})])
    assert said == []


async def test_a_transaction_of_the_coordinator_alone_has_its_mark_there(dsn, monkeypatch):
    """With its mark on the node of a user, the jobs of that user would stop every worker while the
    node is down."""

    def marks() -> list[int]:
        with psycopg.connect(dsn) as superuser:
            tables = ("coordinator_writes", "writes")
            counted = [f"SELECT count(*) FROM hippocampus.{table}" for table in tables]
            return [superuser.execute(one.encode()).fetchall()[0][0] for one in counted]

    async with open_memory(dsn, worker=False) as memory:
        storage = memory._storage
        database = storage._database  # type: ignore[attr-defined]
        monkeypatch.setattr(database, "prepared", replace(database.prepared, is_spread=True))
        assert await ScheduledTask(storage, "sweep").take("worker", datetime.now(UTC), 60)
        assert marks() == [1, 0]
        await memory.state_fact(Scope("app", "ana"), "residence", "Oslo")
        assert marks() == [1, 1]


def test_without_citus_it_is_said_how_to_get_it(dsn):
    with pytest.raises(CapabilityMissing, match="no extension citus"):
        citus.spread(dsn, "hippocampus")


# What a real cluster refused

ONE_TENANT = r"(?:'[^']*'|\$\d+|CAST\(\$\d+ AS text\))"
"""A parameter as readable() leaves it, or a literal."""


@dataclass
class Catalog:
    """What the rules need to know of the schema.

    spread: the tables that lie on the nodes. reading: the functions that read a table. unsteady:
    names of functions that have a form that is not IMMUTABLE.
    """

    spread: set[str]
    reading: set[str]
    unsteady: set[str]


@dataclass
class Refusals(Visitor):  # type: ignore[misc] # pglast ships no types
    """Collects the reasons for which Citus refuses a statement or sends it to several nodes."""

    catalog: Catalog
    found: set[str] = field(default_factory=set)
    whole: list[ast.Node] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def of(self, text: bytes) -> set[str]:
        """Return the reasons of one statement."""
        tree = parse_sql(readable(text))
        self.whole = [one.stmt for one in tree]
        self(tree)
        tables = {one.relname for one in _below(self.whole) if isinstance(one, ast.RangeVar)}
        if b"tenants)" in text and tables & self.catalog.spread:
            self.found.add("an array of tenants")
        return self.found

    def visit_FuncCall(self, _: object, node: ast.FuncCall) -> None:
        if node.funcname[-1].sval in self.catalog.reading:
            self.found.add("a function that reads a table")

    def visit_InsertStmt(self, _: object, node: ast.InsertStmt) -> None:
        if node.relation.relname not in self.catalog.spread:
            return
        rows = node.selectStmt
        if node not in self.whole:
            self.found.add("an INSERT within a statement")
        elif node.withClause:
            self.found.add("WITH before INSERT")
        if rows is not None and rows.valuesLists:
            if any(isinstance(one, ast.SubLink) for one in _below(rows.valuesLists)):
                self.found.add("a sub-select in VALUES")
        elif not node.onConflictClause and not node.returningClause:
            self.found.add("INSERT ... SELECT without RETURNING")
        if node.onConflictClause:
            self._changes(node.onConflictClause.targetList or ())

    def visit_UpdateStmt(self, _: object, node: ast.UpdateStmt) -> None:
        if node.relation.relname in self.catalog.spread:
            self._changes(node.targetList)
        self._pairs(node.whereClause)
        self._level([node.relation, *(node.fromClause or ())], node.whereClause)

    def visit_DeleteStmt(self, _: object, node: ast.DeleteStmt) -> None:
        self._pairs(node.whereClause)
        self._level([node.relation, *(node.usingClause or ())], node.whereClause)

    def visit_SelectStmt(self, _: object, node: ast.SelectStmt) -> None:
        self._level(node.fromClause or (), node.whereClause)

    def _pairs(self, where: ast.Node | None) -> None:
        for one in _below(where):
            if isinstance(one, ast.SubLink) and isinstance(one.testexpr, ast.RowExpr):
                self.found.add("a row compared with a sub-select in a change")

    def _changes(self, targets: Iterable[ast.ResTarget]) -> None:
        for target in targets:
            said = RawStream()(target.val)
            if "interval" in said and "AT TIME ZONE" not in said and "timezone(" not in said:
                self.found.add("a moment moved outside of UTC in a change")
            for one in _below(target.val):
                if not isinstance(one, ast.FuncCall) or isinstance(target.val, ast.SubLink):
                    continue
                of_columns = any(isinstance(arg, ast.ColumnRef) for arg in _below(one.args or ()))
                if one.funcname[-1].sval in self.catalog.unsteady and of_columns:
                    self.found.add("a function of columns that is not IMMUTABLE in a change")

    def _level(self, sources: Iterable[ast.Node], where: ast.Node | None) -> None:
        tables, joins = _tables_and_joins(sources)
        used = [
            (_aliases(one.larg), tuple(_aliases(one.rarg)))
            for one in joins
            if any(column.sval == "tenant_id" for column in one.usingClause or ())
        ]
        quals = [where, *(one.quals for one in joins)]
        said = " AND ".join(RawStream()(one) for one in quals if one is not None)
        named = _named(said, [alias for alias, _ in tables], used)
        if any(name in self.catalog.spread and alias not in named for alias, name in tables):
            self.found.add("a level that does not name its one tenant by the parameter")


def _named(said: str, aliases: list[str], used: list[tuple[set[str], tuple[str, ...]]]) -> set[str]:
    """Return the aliases of a level whose tenant is the parameter, or equal to such a one."""
    named = set(re.findall(rf"\b(\w+)\.tenant_id = {ONE_TENANT}", said))
    if len(aliases) == 1 and re.search(rf"(?<![.\w])tenant_id = {ONE_TENANT}", said):
        named |= set(aliases)
    pairs = [{a, b} for a, b in re.findall(r"\b(\w+)\.tenant_id = (\w+)\.tenant_id", said)]
    pairs += [{a, b} for left, right in used for a in left for b in right]
    for _ in aliases:
        for pair in pairs:
            if pair & named:
                named |= pair
    return named


def _aliases(node: ast.Node) -> set[str]:
    if isinstance(node, ast.JoinExpr):
        return _aliases(node.larg) | _aliases(node.rarg)
    alias = getattr(node, "alias", None)
    return {alias.aliasname if alias else getattr(node, "relname", "")}


def _below(node: object) -> Iterator[ast.Node]:
    """Yield a node and all that it holds."""
    if isinstance(node, list | tuple):
        for one in node:
            yield from _below(one)
    elif isinstance(node, ast.Node):
        yield node
        for name in node:
            yield from _below(getattr(node, name))


def broken(catalog: Catalog, texts: Mapping[str, bytes]) -> dict[str, set[str]]:
    """Return the reasons of every statement that Citus refuses, by name."""
    return {name: why for name, text in texts.items() if (why := Refusals(catalog).of(text))}


OVER_SEVERAL_NODES = {
    "drop_old_vectors": "vectors of a model that nobody reads any more",
    "embedded_otherwise": "texts that a new model has to embed",
    "erasures": "receipts of an application, or of all",
    "expired_tenants": "whose memories are expired", "tenants_of_cluster": "who has memories",
}  # fmt: skip
"""Statements that read rows of several users, and of which. tests/live/test_citus.py runs each."""
ON_ONE_NODE = {
    "large_tenants": "a cluster has no approximate indexes",
    "tenants": "a cluster gets tenants_of_cluster",
}
"""Statements that a cluster never gets, and why."""

FACT = (ops.equal("memory_id", "00000000-0000-0000-0000-000000000001"),)
PAIRS = (ops.one_of_rows(("thread_id", "event_id"), []),)
OPERATIONS = {
    "select": ops.Select("facts", ("memory_id", "slot"), FACT, order=("memory_id",), limit=3),
    "select in": ops.Select("facts", ("slot",), (ops.one_of("key", ["a"]),), is_distinct=True),
    "select pairs": ops.Select("events", ("seq",), PAIRS, lock="update"),
    "count": ops.Select("facts", ("slot", ops.Aggregate("count")), FACT),
    "join": ops.Select(
        "facts", ("memory_id", "m.text"), FACT,
        (ops.Join("memories", "m", (("memory_id", "memory_id"),)),
         ops.Join("memory_access", "a", (("memory_id", "memory_id"),), is_left=True)),
    ),
    "lock": ops.Select("threads", ("last_seq",), (ops.one_of("thread_id", ["t"]),), lock="update"),
    "skip": ops.Select("threads", ("last_seq",), (ops.one_of("thread_id", ["t"]),), lock="skip"),
    "above": ops.Select("retention_policies", ("kind",), above=True),
    "insert": ops.Insert("tombstones", ("thread_id", "event_id", "deleted_at"), []),
    "keep": ops.Insert("tombstones", ("thread_id", "event_id", "deleted_at"), [], "keep"),
    "put": ops.Insert("runs", ("number", "run_id"), [], "update", ("number",)),
    "update": ops.Update("facts", {"confidence": 1.0}, FACT, ("slot",)),
    "update each": ops.UpdateEach("facts", ("memory_id",), ("confidence",), []),
    "delete": ops.Delete("facts", FACT, ("slot",)),
    "update pairs": ops.Update("events", {"importance": 1.0}, PAIRS),
    "delete pairs": ops.Delete("memory_sources", PAIRS, ("memory_id",)),
}  # fmt: skip
"""Shapes of operations."""


@pytest.fixture
def refusing(dsn):
    with psycopg.connect(dsn) as connection:
        tables = connection.execute(TABLES).fetchall()
        ours = "SELECT proname, prosrc FROM pg_proc WHERE pronamespace = %s::regnamespace"
        functions = connection.execute(ours, ["hippocampus"]).fetchall()
        unsteady = connection.execute("SELECT proname FROM pg_proc WHERE provolatile <> 'i'")
        names = {name for (name,) in tables}
        found = re.compile(rf"(?:FROM|JOIN|INTO|UPDATE)\s+(?:{'|'.join(names)})\b", re.IGNORECASE)
        return Catalog(
            spread={name for name in names if citus.place_of(name) == "distributed"},
            reading={name for name, body in functions if found.search(body)},
            unsteady={name for (name,) in unsteady} - {"timezone"},
        )


def test_statements_and_operations_keep_the_rules_that_broke_on_a_cluster(refusing):
    names = set(named_pieces()[0]) - set(ACROSS_TENANTS)
    refused = broken(refusing, {name: statement(name, literals=LITERALS) for name in names})
    known = {*OVER_SEVERAL_NODES, *ON_ONE_NODE}
    assert {} == {name: sorted(why) for name, why in refused.items() if name not in known}
    assert sorted(known - set(refused)) == [], "no longer refused, or gone: take them off the lists"
    texts = {name: compiled(one, "/app/ana/")[0] for name, one in OPERATIONS.items()}
    assert broken(refusing, texts) == {}


BREAKING = {
    "an array of tenants": b"SELECT 1 FROM facts WHERE tenant_id = ANY(%(tenants)b::text[])",
    "a function that reads a table": b"SELECT retention_rule(%(tenant)s, 'item')",
    "a moment moved outside of UTC in a change": b"INSERT INTO facts AS f (tenant_id)"
    b" VALUES (%(tenant)s) ON CONFLICT (tenant_id)"
    b" DO UPDATE SET valid_until = f.valid_until + interval '1 second'",
    "a function of columns that is not IMMUTABLE in a change": b"UPDATE facts"
    b" SET value = jsonb_build_object('k', slot) WHERE tenant_id = %(tenant)s",
    "a row compared with a sub-select in a change": b"DELETE FROM facts"
    b" WHERE tenant_id = %(tenant)s AND (slot, key) IN"
    b" (SELECT a, b FROM unnest(%(slots)b::text[], %(keys)b::text[]) AS g(a, b))",
    "INSERT ... SELECT without RETURNING": b"INSERT INTO facts (tenant_id)"
    b" SELECT %(tenant)s FROM unnest(%(keys)b::text[])",
    "an INSERT within a statement": b"WITH a AS (INSERT INTO facts (tenant_id)"
    b" VALUES (%(tenant)s) RETURNING 1) SELECT 1",
    "WITH before INSERT": b"WITH a AS (SELECT slot FROM facts WHERE tenant_id = %(tenant)s)"
    b" INSERT INTO facts (tenant_id, slot) SELECT %(tenant)s, slot FROM a RETURNING 1",
    "a sub-select in VALUES": b"INSERT INTO runs (tenant_id, number)"
    b" VALUES (%(tenant)s, (SELECT 1))",
    "a level that does not name its one tenant by the parameter": b"SELECT 1 FROM facts f"
    b" WHERE f.tenant_id = %(tenant)s"
    b" AND EXISTS (SELECT FROM memories m WHERE m.tenant_id = f.tenant_id)",
}
"""A statement for each reason."""


@pytest.mark.parametrize(("why", "sql"), BREAKING.items(), ids=BREAKING)
def test_each_rule_is_noticed(refusing, why, sql):
    assert why in broken(refusing, {"it": sql})["it"]
