"""Creates a database for one run, and drops it afterwards."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg.conninfo import make_conninfo

from shared_core.storage.postgres.connection.embedded import EmbeddedPostgres


class Unusable(Exception):
    """Raised when the server of --dsn does not suit the benchmark."""


@contextmanager
def fresh_database(dsn: str | None) -> Iterator[str]:
    """Yield the DSN of an empty database on the server of dsn; None starts a private server."""
    if dsn is not None:
        with _database(dsn) as name:
            yield name
        return
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as folder:
        embedded = EmbeddedPostgres(Path(folder))
        try:
            with _database(embedded.acquire()) as name:
                yield name
        finally:
            embedded.release()


def vacuum(dsn: str) -> None:
    """Update the statistics and the visibility map of all tables of all contenders."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("VACUUM (ANALYZE)")
        connection.execute("CHECKPOINT")


def describe_server(dsn: str) -> dict[str, str]:
    """Return the versions of a server, and the settings that affect its write speed."""
    with psycopg.connect(dsn) as connection:
        row = connection.execute(
            "SELECT current_setting('server_version'), current_setting('shared_buffers'),"
            " current_setting('fsync'), current_setting('synchronous_commit'),"
            " (SELECT extversion FROM pg_extension WHERE extname = 'vector')"
        ).fetchone()
    assert row is not None
    names = ("postgres", "shared_buffers", "fsync", "synchronous_commit", "pgvector")
    return dict(zip(names, row, strict=True))


@contextmanager
def _database(server: str) -> Iterator[str]:
    name = psycopg.sql.Identifier(f"hippocampus_bench_{uuid.uuid4().hex}")
    try:
        admin = psycopg.connect(server, autocommit=True)
    except (psycopg.OperationalError, psycopg.ProgrammingError) as error:
        raise Unusable(f"the server cannot be reached: {str(error).strip()}") from error
    with admin:
        row = admin.execute("SELECT usesuper FROM pg_user WHERE usename = current_user").fetchone()
        if row != (True,):
            raise Unusable(
                "the user of --dsn must be a superuser (one contender is bare SQL without row"
                f" security), got {admin.info.user!r}"
            )
        admin.execute(psycopg.sql.SQL("CREATE DATABASE {}").format(name))
        try:
            yield make_conninfo(server, dbname=name.as_string(admin).strip('"'))
        finally:
            admin.execute(psycopg.sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))
