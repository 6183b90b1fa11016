"""Brings the tables up to date: each migration is applied once, by one process at a time."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import pymysql
from pymysql.constants import ER

from shared_core.errors import NotFound, StorageUnavailable
from shared_core.storage._file_locks import locked
from shared_core.storage._migrations import Migration, check_applied, migrations_in
from shared_core.storage.oceanbase.connection.connections import Location
from shared_core.storage.oceanbase.connection.embedded_server import MIGRATION_LOCK

MIN_SEEKDB = (1, 4, 0, 0)
MIN_OCEANBASE = (4, 3, 5, 3)
LOCK_S = 60
"""Seconds to wait for another process that migrates."""
TURN_S = 2
"""Seconds of one attempt to lock, shorter than the time limit of a statement."""
PARTITIONS = 8
ALREADY_DONE = (
    (ER.TABLE_EXISTS_ERROR,), (ER.DUP_FIELDNAME,), (ER.DUP_KEYNAME,), (ER.CANT_DROP_FIELD_OR_KEY,)
)  # fmt: skip
"""Errors of a statement that has been executed before. SeekDB has no ADD COLUMN IF NOT EXISTS."""
_LABELS = "tenant_id LIKE '{least}' AND tenant_id NOT LIKE '/%/%/%/' AND tenant_id NOT LIKE '%//%'"
TENANTS = {
    "user": _LABELS.format(least="/%/%/"),
    "namespace": _LABELS.format(least="/%/"),
    "path": f"tenant_id = '/' OR {_LABELS.format(least='/%/')}",
}
"""Conditions on the tenants of a table: a user; also one label; also the path above all."""
PLANS_PERCENT = 20
"""Share of an embedded server's memory for plans. In its default of 2 % ours evict each other."""
MOST_BYTES_SENT = 268_435_456
"""Bytes of one statement to an embedded server, as for PostgreSQL; its default is 16 MB."""


@dataclass(frozen=True, slots=True)
class ServerVersions:
    """The database as it was opened. engine: "SeekDB" or "OceanBase"."""

    engine: str
    version: str
    schema_version: int


def prepare(
    connection: pymysql.Connection[Any], location: Location, *, create: bool = True
) -> ServerVersions:
    """Create the database and its tables if they are missing, and return what there is.

    Raises:
        StorageUnavailable: the server is too old.
        SchemaOutOfDate: a newer release or a development version made the tables.
        NotFound: create is False and there are no tables.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT version()")
        engine, version = checked_version(cursor.fetchall()[0][0])
        if location.folder:
            # The default level writes a log of 500 MB.
            cursor.execute("ALTER SYSTEM SET syslog_level = 'ERROR'")
            _raise_limits(cursor)
        if engine == "SeekDB":
            _log_transactions_whole(cursor, is_ours=location.folder is not None)
        done = applied(cursor, location.database)
        if done is None and not create:
            raise NotFound(
                f"there is no memory in database {location.database!r}: check the uri and the"
                " schema"
            )
        check_applied(f"database {location.database!r}", done or {}, migrations())
        if done is None or len(done) < len(migrations()):
            with _alone(cursor, location):
                if not _is_there(cursor, location.database):  # a user may lack the right to create
                    cursor.execute(
                        f"CREATE DATABASE IF NOT EXISTS {location.database}"
                        " DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
                    )
                cursor.execute(f"USE {location.database}")
                _migrate(cursor, location)
    return ServerVersions(engine, ".".join(map(str, version)), len(migrations()))


def _log_transactions_whole(cursor: Any, *, is_ours: bool) -> None:
    """Let a transaction reach the server's log only when it commits.

    After a crash, SeekDB 1.4 treats the logged part of an uncommitted transaction as running, and
    keeps its locks for good. is_ours: whether the server is embedded; on another server a user may
    lack the right to set this, and works without it.
    """
    try:
        cursor.execute("ALTER SYSTEM SET _private_buffer_size = '0B'")
    except pymysql.MySQLError:
        if is_ours:
            raise


def _raise_limits(cursor: Any) -> None:
    limits = {"max_allowed_packet": MOST_BYTES_SENT, "ob_plan_cache_percentage": PLANS_PERCENT}
    cursor.execute("SELECT " + ", ".join(f"@@global.{name}" for name in limits))
    for (name, least), value in zip(limits.items(), cursor.fetchall()[0], strict=True):
        if int(value) < least:
            cursor.execute(f"SET GLOBAL {name} = {least}")


def applied(cursor: Any, database: str) -> dict[int, str] | None:
    """Return the checksums of the applied migrations by version, or None if there are no tables."""
    try:
        cursor.execute(f"SELECT version, checksum FROM {database}.schema_migrations")
    except pymysql.MySQLError as error:
        if error.args[0] in (ER.NO_SUCH_TABLE, ER.BAD_DB_ERROR):
            return None
        if error.args[0] != ER.BAD_FIELD_ERROR:
            raise
        # Development versions kept no checksum: '' is the checksum of no migration.
        cursor.execute(f"SELECT version, '' FROM {database}.schema_migrations")
    return dict(cursor.fetchall())


def _is_there(cursor: Any, database: str) -> bool:
    cursor.execute("SELECT 1 FROM information_schema.schemata WHERE schema_name = %s", (database,))
    return bool(cursor.fetchall())


@contextmanager
def _alone(cursor: Any, location: Location) -> Iterator[None]:
    """Keep other processes from migrating; the server releases the lock of a killed process.

    An embedded server would not release it: the server stops with its last user, and its folder
    keeps the lock. There a lock of the file system is used.
    """
    folder = location.folder
    with locked(folder / MIGRATION_LOCK) if folder else _server_lock(cursor, location):
        yield


@contextmanager
def _server_lock(cursor: Any, location: Location) -> Iterator[None]:
    name = location.database
    lock, end = f"hippocampus:{name}", time.monotonic() + LOCK_S
    while True:  # several short attempts: a statement has a time limit of its own
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
    """Return the engine and its version from the answer of version()."""
    match = re.search(r"(seekdb|OceanBase)-v(\d+(?:\.\d+)*)", text)
    if match is None:
        raise StorageUnavailable(f"the server is neither OceanBase nor SeekDB: it is {text!r}")
    version = tuple(int(part) for part in match[2].split("."))
    engine, least = ("SeekDB", MIN_SEEKDB) if match[1] == "seekdb" else ("OceanBase", MIN_OCEANBASE)
    if version < least:
        raise StorageUnavailable(
            f"{engine} {'.'.join(map(str, version))} is too old: {'.'.join(map(str, least))} or"
            " newer is needed (its vector indexes have cosine distance)"
        )
    return engine, version


@cache
def migrations() -> tuple[Migration, ...]:
    """Return all migrations in order."""
    return migrations_in(files("shared_core.storage.oceanbase") / "sql")


def _migrate(cursor: Any, location: Location) -> None:
    cursor.execute(
        "CREATE TABLE IF NOT EXISTS schema_migrations (version INT PRIMARY KEY,"
        " name VARCHAR(255) NOT NULL, checksum VARCHAR(32) NOT NULL,"
        " applied_at DATETIME(6) NOT NULL) ORGANIZATION = INDEX"
    )
    done = applied(cursor, location.database) or {}
    check_applied(f"database {location.database!r}", done, migrations())
    for migration in migrations():
        if migration.version in done:
            continue
        for statement in statements(migration.sql, table_ending(location)):
            _execute_again(cursor, statement)
        cursor.execute(
            "INSERT INTO schema_migrations VALUES (%s, %s, %s, utc_timestamp(6))",
            (migration.version, migration.name, migration.checksum),
        )


def _execute_again(cursor: Any, statement: str) -> None:
    """Execute a statement that an interrupted migration may have executed: each commits alone."""
    try:
        cursor.execute(statement)
    except pymysql.MySQLError as error:
        if error.args[:1] not in ALREADY_DONE:
            raise


def statements(script: str, ending: str) -> list[str]:
    """Return the statements of a script. ending: what ends every table of tenants."""
    bare = re.sub(r"^[ \t]*+--.*\n", "", script, flags=re.MULTILINE)
    for name, condition in TENANTS.items():
        bare = bare.replace(f"\n) {{{name}}}", f",\n    CHECK ({condition})\n) {{table}}")
    return [text.strip().replace("{table}", ending) for text in bare.split(";") if text.strip()]


def table_ending(location: Location) -> str:
    """Return what ends a table of tenants: organised by key, on a server in partitions by tenant.

    ORGANIZATION is explicit, because tables of the other kind show new vectors with a delay.
    """
    by_key = f" PARTITION BY KEY (tenant_id) PARTITIONS {PARTITIONS}"
    return "ORGANIZATION = INDEX" + ("" if location.folder else by_key)
