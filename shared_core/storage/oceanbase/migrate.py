"""Brings the tables up to date: numbered scripts, each done once, one process at a time.

A script has the number of the migration of PostgreSQL whose tables and columns it comes to: exports
name it, and the two engines read each other's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import pymysql

from shared_core.errors import SchemaOutOfDate, StorageUnavailable
from shared_core.storage.oceanbase.locations import Location

MIN_SEEKDB = (1, 4, 0, 0)
MIN_OCEANBASE = (4, 3, 5, 3)
LOCK_S = 60
PARTITIONS = 8
_NAME = re.compile(r"(\d{4})_(\w+)\.sql")


@dataclass(frozen=True, slots=True)
class Prepared:
    """What was found when the database was opened. engine: "SeekDB" or "OceanBase"."""

    engine: str
    version: str
    schema_version: int


def prepare(connection: pymysql.Connection[Any], location: Location) -> Prepared:
    """Create the database and its tables where they are missing; return what there is.

    Raises StorageUnavailable for a server that is too old, SchemaOutOfDate for tables of a newer
    release.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT version()")
        engine, version = checked_version(cursor.fetchall()[0][0])
        if location.folder:
            cursor.execute("ALTER SYSTEM SET syslog_level = 'ERROR'")  # else a log of 500 MB
        name = location.database
        lock = f"hippocampus:{name}"
        cursor.execute("SELECT get_lock(%s, %s)", (lock, LOCK_S))
        if cursor.fetchall()[0][0] != 1:
            raise StorageUnavailable(f"another process has been migrating {name!r} for {LOCK_S} s")
        try:
            cursor.execute(
                f"CREATE DATABASE IF NOT EXISTS {name} DEFAULT CHARACTER SET utf8mb4"
                " COLLATE utf8mb4_bin"
            )
            cursor.execute(f"USE {name}")
            done = _migrate(cursor, table_ending(location))
        finally:
            cursor.execute("SELECT release_lock(%s)", (lock,))
    return Prepared(engine, ".".join(map(str, version)), done)


def checked_version(text: str) -> tuple[str, tuple[int, ...]]:
    """Return the engine and its version, from what version() says of itself."""
    match = re.search(r"(seekdb|OceanBase)-v(\d+(?:\.\d+)*)", text)
    if match is None:
        raise StorageUnavailable(f"the server is no OceanBase and no SeekDB: it says {text!r}")
    version = tuple(int(part) for part in match[2].split("."))
    engine, least = ("SeekDB", MIN_SEEKDB) if match[1] == "seekdb" else ("OceanBase", MIN_OCEANBASE)
    if version < least:
        raise StorageUnavailable(
            f"{engine} {'.'.join(map(str, version))} is too old: {'.'.join(map(str, least))} or"
            " newer is needed (its vector indexes have cosine distance)"
        )
    return engine, version


def scripts() -> list[tuple[int, str]]:
    """Return the numbered scripts in order."""
    folder = files("shared_core.storage.oceanbase") / "sql"
    found = [
        (int(match[1]), file.read_text("utf-8"))
        for file in folder.iterdir()
        if (match := _NAME.fullmatch(file.name))
    ]
    return sorted(found)


def _migrate(cursor: Any, ending: str) -> int:
    cursor.execute(
        "CREATE TABLE IF NOT EXISTS schema_migrations"
        " (version INT PRIMARY KEY, applied_at DATETIME(6) NOT NULL) ORGANIZATION = INDEX"
    )
    cursor.execute("SELECT coalesce(max(version), 0) FROM schema_migrations")
    done = int(cursor.fetchall()[0][0])
    known = scripts()
    if done > known[-1][0]:
        raise SchemaOutOfDate(
            f"the tables are of version {done}, this library knows {known[-1][0]}: update it with"
            " pip install -U pg-hippocampus"
        )
    for version, script in known:
        if version <= done:
            continue
        for statement in statements(script, ending):
            cursor.execute(statement)  # commits by itself; each may be run again
        cursor.execute("INSERT INTO schema_migrations VALUES (%s, utc_timestamp(6))", (version,))
    return known[-1][0]


def statements(script: str, ending: str) -> list[str]:
    """Return the statements of a script; ending: of every table of tenants."""
    bare = re.sub(r"^\s*--.*\n", "", script, flags=re.MULTILINE)
    return [part.strip().replace("{table}", ending) for part in bare.split(";") if part.strip()]


def table_ending(location: Location) -> str:
    """Return what ends a table of tenants: kept by its key, on a server in partitions of tenants.

    ORGANIZATION is written out, because tables of the other kind show vectors with a delay.
    """
    by_key = f" PARTITION BY KEY (tenant_id) PARTITIONS {PARTITIONS}"
    return "ORGANIZATION = INDEX" + ("" if location.folder else by_key)
