"""Spreads the tables of a schema over the nodes of a Citus cluster, by tenant."""

from __future__ import annotations

from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import Literal

import psycopg
from psycopg import sql

from shared_core.errors import CapabilityMissing, StorageUnavailable
from shared_core.settings import redacted
from shared_core.storage._uris import is_oceanbase

Place = Literal["distributed", "reference", "coordinator"]

FIRST = "threads"
"""Every other table lies where the rows of this one with the same tenant lie."""
REFERENCES = ("embedding_models",)
"""Small, and joined by what is spread: a copy on every node."""
ON_COORDINATOR = {
    "api_tokens": "a token is looked up before its tenant is known",
    "consolidation_jobs": "a worker claims the most urgent job of all tenants",
    "retimings": "belongs to one database",
    "schedules": "belongs to one database",
    "schema_migrations": "belongs to one database",
}
"""Tables that stay whole on the coordinator, and why."""


@dataclass(frozen=True, slots=True)
class SpreadTable:
    """Where a table is, and whether it was moved there now."""

    table: str
    place: Place
    moved: bool


def spread(dsn: str, schema: str) -> list[SpreadTable]:
    """Spread all tables of a migrated schema that are not spread yet; return where each is.

    All or nothing, on the coordinator, which gives up its own copies of the rows afterwards.
    Identities reach the workers by SET LOCAL, which the database is told to propagate: open
    connections anew afterwards. Run it again after a failure: it goes on where it was.
    Raises CapabilityMissing where the database has no extension citus, StorageUnavailable where
    the user may not.
    """
    if is_oceanbase(dsn):
        raise CapabilityMissing("--distribute is for Citus: OceanBase spreads tables by itself")
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


def has_citus(connection: psycopg.Connection[tuple[object, ...]]) -> bool:
    """Tell whether the extension is there."""
    found = connection.execute("SELECT FROM pg_extension WHERE extname = 'citus'")
    return found.fetchone() is not None


def place_of(table: str) -> Place:
    """Return where a table of the schema belongs."""
    if table in REFERENCES:
        return "reference"
    return "coordinator" if table in ON_COORDINATOR else "distributed"


def _spread_all(
    connection: psycopg.Connection[tuple[object, ...]], schema: str
) -> list[SpreadTable]:
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
    _free_the_queue(connection, schema)
    waiting = [name for name in tables if name != FIRST and place_of(name) == "distributed"]
    order = [*REFERENCES, FIRST, *_referred_first(connection, schema, waiting), *ON_COORDINATOR]
    moved = [
        SpreadTable(name, place_of(name), _move(connection, schema, name, there)) for name in order
    ]
    return sorted(moved, key=lambda table: table.table)


def _referred_first(
    connection: psycopg.Connection[tuple[object, ...]], schema: str, tables: list[str]
) -> list[str]:
    """Return tables so that each comes after those it refers to."""
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


def _free_the_queue(connection: psycopg.Connection[tuple[object, ...]], schema: str) -> None:
    """A table of the coordinator may refer to none that is spread; erasing drops jobs by itself."""
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


def _move(
    connection: psycopg.Connection[tuple[object, ...]], schema: str, table: str, there: set[str]
) -> bool:
    place, name = place_of(table), f'"{schema}"."{table}"'
    if place == "coordinator" or table in there:
        return False
    if place == "reference":
        connection.execute("SELECT create_reference_table(%s)", [name])
        return True
    bound = sql.SQL("ALTER TABLE {} {} ROW LEVEL SECURITY")
    guarded = sql.Identifier(schema, table)
    # Bound to no tenant, its owner would have no rows to copy, and COPY refuses the table.
    connection.execute(bound.format(guarded, sql.SQL("NO FORCE")))
    if table == FIRST:
        connection.execute("SELECT create_distributed_table(%s, 'tenant_id')", [name])
    else:
        connection.execute(
            "SELECT create_distributed_table(%s, 'tenant_id', colocate_with => %s)",
            [name, f'"{schema}"."{FIRST}"'],
        )
    connection.execute(bound.format(guarded, sql.SQL("FORCE")))
    return True


def _drop_copies(
    connection: psycopg.Connection[tuple[object, ...]], schema: str, tables: list[SpreadTable]
) -> None:
    """What was moved stays on the coordinator too, unseen, and would outlast an erasure."""
    for table in tables:
        connection.execute(
            "SELECT truncate_local_data_after_distributing_table(%s)",
            [f'"{schema}"."{table.table}"'],
        )
