"""Lends empty databases on one embedded SeekDB. Creating their tables takes a second, so they are
reused: the rows of a test are deleted after it."""

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pymysql

from shared_core import run_sync
from shared_core.settings import Settings
from shared_core.storage.oceanbase.connection.database import OceanBaseDatabase
from shared_core.storage.oceanbase.connection.embedded import EmbeddedSeekdb

KEPT = ("schema_migrations",)


class SeekdbDatabases:
    """Lends the databases of one worker of the test run."""

    def __init__(self, home: Path, worker: str) -> None:
        self._home = home
        self._worker = worker
        self._users = home.with_name(f"{home.name}-users")
        self._free: list[str] = []
        self._made = 0
        self._server: EmbeddedSeekdb | None = None

    def lend(self) -> Iterator[str]:
        """Yield the uri of an empty database, and empty it afterwards."""
        if self._server is None:
            self._server = self._join()
        name = self._free.pop() if self._free else self._make()
        yield self._uri(name)
        self._drop_those_of(name)
        self.empty(self._uri(name))
        self._free.append(name)

    def close(self) -> None:
        """Stop the server with the last worker, and remove its folder."""
        if self._server is None:
            return
        with self._alone():
            self._server.release()
            (self._users / self._worker).unlink()
            if not any(self._users.iterdir()):
                self._users.rmdir()
                shutil.rmtree(self._home)

    def _join(self) -> EmbeddedSeekdb:
        """Start the server or join it, and note that this worker uses its folder."""
        server = EmbeddedSeekdb(self._home)
        with self._alone():
            self._users.mkdir(exist_ok=True)
            (self._users / self._worker).touch()
            server.acquire()
        return server

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other workers from joining or leaving meanwhile."""
        with self._home.with_name("hippocampus-seekdb.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _uri(self, name: str) -> str:
        return f"seekdb://{self._home}?database={name}"

    def _make(self) -> str:
        self._made += 1
        name = f"test_{self._worker}_{self._made}"

        async def made() -> None:
            database = OceanBaseDatabase(Settings(uri=self._uri(name), home=self._home))
            await database.open()
            await database.close()

        run_sync(made())
        return name

    @contextmanager
    def connection(self, uri: str = "") -> Iterator[Any]:
        """Yield a cursor of the superuser, in the database of a uri."""
        assert self._server is not None
        server = pymysql.connect(**self._server.options(), autocommit=True)
        with server, server.cursor() as cursor:
            if uri:
                cursor.execute(f"USE {uri.partition('database=')[2]}")
            yield cursor

    def _drop_those_of(self, name: str) -> None:
        """Drop the schemas that a test made in its database."""
        with self.connection() as cursor:
            cursor.execute("SHOW DATABASES")
            for (extra,) in cursor.fetchall():
                if extra.startswith(f"{name}_"):
                    cursor.execute(f"DROP DATABASE {extra}")

    def empty(self, uri: str) -> None:
        """Delete all rows of a lent database but its migrations."""
        with self.connection(uri) as cursor:
            cursor.execute("SET ob_query_timeout = 300000000, ob_trx_timeout = 300000000")
            cursor.execute("SET foreign_key_checks = 0")
            cursor.execute("SHOW TABLES")
            tables = [row[0] for row in cursor.fetchall() if row[0] not in KEPT]
            filled = " UNION ALL ".join(f"(SELECT '{one}' FROM {one} LIMIT 1)" for one in tables)
            cursor.execute(filled)
            for (table,) in cursor.fetchall():  # deleting from an empty table takes as long
                cursor.execute(f"DELETE FROM {table}")
