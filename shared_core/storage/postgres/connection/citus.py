"""Spreads the tables of a schema over the nodes of a Citus cluster, and binds work on all of them.

Citus propagates only SET LOCAL with its value in the text. A set_config() stays on the coordinator:
row security then finds no rows on a worker, and a worker reads indexes with default settings.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import Literal, TypeAlias

import psycopg
from psycopg import sql

from shared_core.core.uri_validation import is_oceanbase
from shared_core.errors import CapabilityMissing, StorageUnavailable
from shared_core.settings import redacted
from shared_core.storage.postgres.connection.pipeline import LITERAL, Rows, Statement

_Connection: TypeAlias = psycopg.Connection[tuple[object, ...]]
Place = Literal["distributed", "reference", "coordinator"]

FIRST = "threads"
"""Rows of every other table lie on the node of this table's rows with the same tenant."""
REFERENCES = ("embedding_models", "retention_policies")
"""Small tables that statements on one tenant read: each node has a copy."""
ON_COORDINATOR = {
    "api_tokens": "a token is looked up before its tenant is known",
    "consolidation_jobs": "a worker claims the most urgent job of all tenants",
    "coordinator_writes": "marks of transactions that write no other table than these",
    "retimings": "belongs to one database",
    "schedules": "belongs to one database",
    "schema_migrations": "belongs to one database",
    "shared_state": "all sessions of an application read its state: no other node may stop them",
}
"""Tables that stay whole on the coordinator, and why."""


_SCOPE = "current_setting('hippocampus.scope', true)"
_APPLICATION = f"tenant_id = substring({_SCOPE} FROM '^/[^/]+/')"
WITHIN_SCOPE = f"tenant_id ^@ {_SCOPE} AND right({_SCOPE}, 1) = '/'"
"""The policy within_scope of every table, without the sub-select that Citus refuses."""
ABOVE_SCOPE = {"retention_policies": f"tenant_id = '/' OR {_APPLICATION}"}
"""The policies above_scope of tables, in the same form."""


@dataclass(frozen=True, slots=True)
class SpreadTable:
    """The place of a table, and whether this call moved it there."""

    table: str
    place: Place
    moved: bool


def spread(dsn: str, schema: str) -> list[SpreadTable]:
    """Distribute the remaining tables of a migrated schema, and return the place of every table.

    One transaction on the coordinator, which then drops its own copies of the rows. A call after
    a failure continues there. The scope reaches the workers by SET LOCAL, which the database is
    set to propagate: reopen connections afterwards.

    Raises:
        CapabilityMissing: the database has no extension citus.
        StorageUnavailable: the user lacks a right.
    """
    if is_oceanbase(dsn):
        raise CapabilityMissing("--distribute is for Citus: OceanBase spreads tables automatically")
    try:
        with psycopg.connect(dsn) as connection:
            if not has_citus(connection):
                raise CapabilityMissing(
                    f"the database at {redacted(dsn)!r} has no extension citus: install it on"
                    " every node (shared_preload_libraries = 'citus'), run CREATE EXTENSION citus,"
                    " and add the workers; one node needs no --distribute"
                )
            tables = _spread_all(connection, schema)
    except psycopg.Error as error:
        raise StorageUnavailable(
            f"the tables of schema {schema!r} were not distributed, nothing was changed:"
            f" {redacted(str(error).strip())}"
        ) from error
    try:
        with psycopg.connect(dsn) as connection:
            _drop_copies(connection, schema, [one for one in tables if one.place != "coordinator"])
    except psycopg.Error as error:
        raise StorageUnavailable(
            f"the tables of schema {schema!r} are distributed, but the coordinator still has its"
            f" old copies of their rows: run this again; {redacted(str(error).strip())}"
        ) from error
    return tables


def has_citus(connection: _Connection) -> bool:
    """Tell whether the extension is there."""
    found = connection.execute("SELECT FROM pg_extension WHERE extname = 'citus'")
    return found.fetchone() is not None


def place_of(table: str) -> Place:
    """Return where a table of the schema belongs."""
    if table in REFERENCES:
        return "reference"
    return "coordinator" if table in ON_COORDINATOR else "distributed"


def _spread_all(connection: _Connection, schema: str) -> list[SpreadTable]:
    tables = [
        str(name)
        for (name,) in connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = %s ORDER BY 1", [schema]
        )
    ]
    if FIRST not in tables:
        raise CapabilityMissing(f"schema {schema!r} has no tables: run 'hippocampus migrate' first")
    there = {
        str(name)
        for (name,) in connection.execute(
            "SELECT c.relname FROM pg_dist_partition p JOIN pg_class c ON c.oid = p.logicalrelid"
            " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s",
            [schema],
        )
    }
    connection.execute(
        sql.SQL("ALTER DATABASE {} SET citus.propagate_set_commands = 'local'").format(
            sql.Identifier(connection.info.dbname)
        )
    )
    # Otherwise tables that refer to a reference table become local tables of Citus with it.
    connection.execute("SET LOCAL citus.enable_local_reference_table_foreign_keys TO 'off'")
    _free_the_queue(connection, schema)
    waiting = [name for name in tables if name != FIRST and place_of(name) == "distributed"]
    order = [*REFERENCES, FIRST, *referred_first(connection, schema, waiting), *ON_COORDINATOR]
    moved = [
        SpreadTable(name, place_of(name), _move(connection, schema, name, there)) for name in order
    ]
    return sorted(moved, key=lambda table: table.table)


def referred_first(connection: _Connection, schema: str, tables: list[str]) -> list[str]:
    """Return the tables in an order in which each follows the tables it refers to."""
    pairs = connection.execute(
        "SELECT a.relname, b.relname FROM pg_constraint c JOIN pg_class a ON a.oid = c.conrelid"
        " JOIN pg_class b ON b.oid = c.confrelid JOIN pg_namespace n ON n.oid = a.relnamespace"
        " WHERE c.contype = 'f' AND n.nspname = %s",
        [schema],
    ).fetchall()
    sorter = TopologicalSorter({name: set[str]() for name in tables})
    for table, other in pairs:
        if table in tables and other in tables:
            sorter.add(str(table), str(other))
    return list(sorter.static_order())


def _free_the_queue(connection: _Connection, schema: str) -> None:
    """Drop foreign keys of the queue: a table of the coordinator cannot refer to a distributed one.

    Erasures delete jobs themselves.
    """
    found = connection.execute(
        "SELECT conname FROM pg_constraint WHERE contype = 'f' AND conrelid = to_regclass(%s)",
        [f'"{schema}".consolidation_jobs'],
    ).fetchall()
    for (name,) in found:
        connection.execute(
            sql.SQL("ALTER TABLE {}.consolidation_jobs DROP CONSTRAINT {}").format(
                sql.Identifier(schema), sql.Identifier(str(name))
            )
        )


def _move(connection: _Connection, schema: str, table: str, there: set[str]) -> bool:
    place, name = place_of(table), f'"{schema}"."{table}"'
    if place == "coordinator" or table in there:
        return False
    bound = sql.SQL("ALTER TABLE {} {} ROW LEVEL SECURITY")
    guarded = sql.Identifier(schema, table)
    # The owner is bound to no tenant: it would see no rows to copy, and COPY refuses the table.
    connection.execute(bound.format(guarded, sql.SQL("NO FORCE")))
    _simplify_policies(connection, guarded, table)
    if place == "reference":
        connection.execute("SELECT create_reference_table(%s)", [name])
    elif table == FIRST:
        connection.execute("SELECT create_distributed_table(%s, 'tenant_id')", [name])
    else:
        connection.execute(
            "SELECT create_distributed_table(%s, 'tenant_id', colocate_with => %s)",
            [name, f'"{schema}"."{FIRST}"'],
        )
    connection.execute(bound.format(guarded, sql.SQL("FORCE")))
    return True


def _simplify_policies(connection: _Connection, guarded: sql.Identifier, table: str) -> None:
    """Say the policies of row security without sub-selects."""
    if table == "embedding_models":  # of no tenant
        return
    within = "ALTER POLICY within_scope ON {} USING (%s) WITH CHECK (%s)"
    said = [within % (WITHIN_SCOPE, WITHIN_SCOPE)]
    if table in ABOVE_SCOPE:
        said.append(f"ALTER POLICY above_scope ON {{}} USING ({ABOVE_SCOPE[table]})")
    for one in said:
        connection.execute(sql.SQL(one).format(guarded))


def _drop_copies(connection: _Connection, schema: str, tables: list[SpreadTable]) -> None:
    """Drop the coordinator's hidden copies of distributed rows, which would outlast an erasure."""
    for table in tables:
        connection.execute(
            "SELECT truncate_local_data_after_distributing_table(%s)",
            [f'"{schema}"."{table.table}"'],
        )


_ONE = rb"set_config\(\s*'([\w.]+)'\s*,\s*(?:'([^']*)'|%\((\w+)\)s)\s*,\s*true\s*\)"
_SETTING = re.compile(_ONE)
_SETTINGS = re.compile(
    rb"\s*(?:--[^\n]*\n\s*)*SELECT\s+" + _ONE + rb"(?:\s*,\s*" + _ONE + rb")*\s*"
)


def bound_everywhere(values: Mapping[str, str]) -> list[Statement]:
    """Return the statements that bind a transaction on every node."""
    return [
        (b"SELECT", {}),  # a SET LOCAL that comes first is warned of in the server's log
        (f"{LITERAL}search_path TO {values['search_path']}".encode(), {}),
        _set("statement_timeout", values["statement_timeout"]),
        _set("hippocampus.scope", values["scope"]),
    ]


def propagated(sent: Statement) -> list[Statement]:
    """Return a statement of only set_config() calls as SET LOCALs, any other one unchanged."""
    text, values = sent
    if not _SETTINGS.fullmatch(text):
        return [sent]
    return [
        _set(name.decode(), str(values[parameter.decode()]) if parameter else literal.decode())
        for name, literal, parameter in _SETTING.findall(text)
    ]


def answers_of(groups: list[list[Statement]], answers: list[Rows]) -> list[Rows]:
    """Return the answer of each group of statements: that of its last statement."""
    rest = iter(answers)
    return [[next(rest) for _ in group][-1] for group in groups]


def _set(name: str, value: str) -> Statement:
    quoted = "'" + value.replace("'", "''").replace("%", "%%") + "'"
    return f"{LITERAL}{name} TO {quoted}".encode(), {}
