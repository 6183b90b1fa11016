"""Brings the tables up to date: numbered scripts, each done once, one process at a time.

A script has the number of the migration of PostgreSQL whose tables and columns it comes to: exports
name it, and the two engines read each other's.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import pymysql

from shared_core.errors import NotFound, SchemaOutOfDate, StorageUnavailable
from shared_core.storage.oceanbase.connection.attempts import TABLE as WRITES
from shared_core.storage.oceanbase.connection.connections import Location

MIN_SEEKDB = (1, 4, 0, 0)
MIN_OCEANBASE = (4, 3, 5, 3)
LOCK_S = 60
TURN_S = 2
PARTITIONS = 8
_NAME = re.compile(r"(\d{4})_(\w+)\.sql")

MOST_BYTES_SENT = 268_435_456
"""In one statement to an embedded server, as much as a value of PostgreSQL holds; else 16 MB."""


@dataclass(frozen=True, slots=True)
class ServerVersions:
    """What was found when the database was opened. engine: "SeekDB" or "OceanBase"."""

    engine: str
    version: str
    schema_version: int


def prepare(
    connection: pymysql.Connection[Any], location: Location, *, create: bool = True
) -> ServerVersions:
    """Create the database and its tables where they are missing; return what there is.

    Raises StorageUnavailable for a server that is too old, SchemaOutOfDate for tables of a newer
    release, NotFound for tables that are not there, unless create.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT version()")
        engine, version = checked_version(cursor.fetchall()[0][0])
        if location.folder:
            cursor.execute("ALTER SYSTEM SET syslog_level = 'ERROR'")  # else a log of 500 MB
            _take_long_statements(cursor)
        if engine == "SeekDB":
            _log_transactions_whole(cursor, is_ours=location.folder is not None)
        done = version_there(cursor, location.database)
        if done is None and not create:
            raise NotFound(
                f"there is no memory in database {location.database!r}: check the uri and the"
                " schema"
            )
        if done == scripts()[-1][0]:
            if not _keeps_marks(cursor, location.database):
                cursor.execute(f"USE {location.database}")
                cursor.execute(WRITES)
        else:
            with _alone(cursor, location):
                if not _is_there(cursor, location.database):  # not everybody may make one
                    cursor.execute(
                        f"CREATE DATABASE IF NOT EXISTS {location.database}"
                        " DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
                    )
                cursor.execute(f"USE {location.database}")
                done = _migrate(cursor, table_ending(location))
    return ServerVersions(engine, ".".join(map(str, version)), done)


def _log_transactions_whole(cursor: Any, *, is_ours: bool) -> None:
    """Let a transaction reach the server's log when it commits, and no part of it before.

    What SeekDB 1.4 finds there of one that was never committed, after its own death, it takes for
    one that goes on, and keeps its locks for good. is_ours: on a server, who may not set this is
    not refused.
    """
    try:
        cursor.execute("ALTER SYSTEM SET _private_buffer_size = '0B'")
    except pymysql.MySQLError:
        if is_ours:
            raise


def _take_long_statements(cursor: Any) -> None:
    cursor.execute("SELECT @@global.max_allowed_packet")
    if int(cursor.fetchall()[0][0]) < MOST_BYTES_SENT:
        cursor.execute(f"SET GLOBAL max_allowed_packet = {MOST_BYTES_SENT}")


def version_there(cursor: Any, database: str) -> int | None:
    """Return of which version the tables of a database are; None if there are none."""
    cursor.execute(
        "SELECT 1 FROM information_schema.tables"
        " WHERE table_schema = %s AND table_name = 'schema_migrations'",
        (database,),
    )
    if not cursor.fetchall():
        return None
    cursor.execute(f"SELECT coalesce(max(version), 0) FROM {database}.schema_migrations")
    return int(cursor.fetchall()[0][0])


def _is_there(cursor: Any, database: str) -> bool:
    cursor.execute("SELECT 1 FROM information_schema.schemata WHERE schema_name = %s", (database,))
    return bool(cursor.fetchall())


def _keeps_marks(cursor: Any, database: str) -> bool:
    cursor.execute(
        "SELECT 1 FROM information_schema.tables WHERE table_schema = %s AND table_name = 'writes'",
        (database,),
    )
    return bool(cursor.fetchall())


@contextmanager
def _alone(cursor: Any, location: Location) -> Iterator[None]:
    """Let no other process migrate meanwhile; a lock goes with a process that is killed.

    A lock of an embedded server would not: the server dies with its last user, keeps the lock in
    its folder, and nobody is left to give it back. There the file system has it.
    """
    with _file_lock(location.folder) if location.folder else _server_lock(cursor, location):
        yield


@contextmanager
def _file_lock(folder: Path) -> Iterator[None]:
    import fcntl  # an embedded server is for Linux alone

    with (folder / "hippocampus.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def _server_lock(cursor: Any, location: Location) -> Iterator[None]:
    name = location.database
    lock, end = f"hippocampus:{name}", time.monotonic() + LOCK_S
    while True:  # in turns: a statement has an end of its own
        cursor.execute("SELECT get_lock(%s, %s)", (lock, TURN_S))
        if cursor.fetchall()[0][0] == 1:
            break
        if time.monotonic() > end:
            raise StorageUnavailable(f"another process has been migrating {name!r} for {LOCK_S} s")
    try:
        yield
    finally:
        cursor.execute("SELECT release_lock(%s)", (lock,))


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
    cursor.execute(WRITES)
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
