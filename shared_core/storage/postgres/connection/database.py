"""Sends named statements, each transaction bound to one scope, in one round trip if it can."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import psycopg
from pgvector.psycopg.halfvec import register_halfvec_info
from psycopg.adapt import AdaptersMap
from psycopg.types import TypeInfo

from shared_core.core.event_loops import exiting
from shared_core.errors import (
    Conflict,
    EmbeddingMismatch,
    InvalidInput,
    NotFound,
    StorageReadOnly,
    StorageUnavailable,
)
from shared_core.settings import Settings, redacted
from shared_core.storage.postgres.connection.citus_settings import (
    answers_of,
    bound_everywhere,
    sent_on,
)
from shared_core.storage.postgres.connection.embedded import EmbeddedPostgres, describe
from shared_core.storage.postgres.connection.migrations import PreparedSchema, prepare
from shared_core.storage.postgres.connection.pipeline import Connection, Rows, Statement
from shared_core.storage.postgres.connection.pool import ConnectionPool
from shared_core.storage.postgres.connection.sql_files import statement

TRIES = 5
CONFLICT = "HC409"
"""Raised by the SQL function require(). psycopg takes what it does not know for operational."""
ROLLED_BACK = ("40P01", "40001")
"""Deadlock and serialisation failure: the server undid the whole transaction; send it again."""
PLANS_LAST = 500
"""After so many rows were sent, and whenever their number has doubled, statements are planned anew.
Planned on small tables, they would walk through all of a tenant for every row, until the server's
autovacuum comes by."""
REFUSED_VALUES = (
    psycopg.errors.CharacterNotInRepertoire,
    psycopg.errors.DatetimeFieldOverflow,
    psycopg.errors.InvalidTextRepresentation,
    psycopg.errors.NumericValueOutOfRange,
    psycopg.errors.UntranslatableCharacter,
)
"""What the server says of a value that JSON or Python can hold and it cannot."""

T = TypeVar("T")


class PostgresDatabase:
    """One schema of one PostgreSQL, embedded or a server. Opened once, used from any loop."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        home = settings.embedded_home
        self._embedded = EmbeddedPostgres(home) if home else None
        self.conninfo = settings.uri
        self.schema = settings.db_schema
        self._adapters = AdaptersMap(psycopg.adapters)
        self._pool = self._new_pool()
        self.prepared: PreparedSchema | None = None
        self._rows_sent = 0
        self._plans_of: WeakKeyDictionary[Connection, int] = WeakKeyDictionary()

    async def open(self) -> None:
        """Start the embedded server if there is one, migrate, and learn the types.

        After a failure everything is closed again, and open may be called again.
        """
        self._pool = self._new_pool()
        try:
            if self._embedded:
                await asyncio.to_thread(self._require_cluster)
                self.conninfo = await _finished(asyncio.to_thread(self._embedded.acquire))
            async with self._pool.connection() as connection:
                self.prepared = await prepare(
                    connection, self._settings.db_schema, create=self._settings.create
                )
                await self._learn_types(connection)
        except BaseException:
            await self.close()
            raise

    def _require_cluster(self) -> None:
        home = self._settings.embedded_home
        if home and not self._settings.create and not describe(home).initialised:
            raise NotFound(f"there is no memory in the folder {str(home)!r}: check the uri")

    async def _learn_types(self, connection: Connection) -> None:
        assert self.prepared is not None
        async with connection.transaction():
            await connection.execute(
                "SELECT set_config('search_path', %s, true)", [self.prepared.search_path]
            )
            halfvec = await TypeInfo.fetch(connection, "halfvec")
        if halfvec is None:
            raise StorageUnavailable("the type halfvec of pgvector cannot be found")
        register_halfvec_info(self._adapters, halfvec)  # type: ignore[arg-type] # a context
        await connection.close()  # it was made before the types were known

    async def close(self) -> None:
        """Close all connections and leave the embedded server, which stops with its last user."""
        await self._pool.close()
        if self._embedded and not exiting():  # then it is left by itself, and no thread can start
            await asyncio.to_thread(self._embedded.release)

    async def run(
        self, scope: str, *steps: Statement, keep_plans: bool = True, repeats: bool = True
    ) -> list[Rows]:
        """Run statements as one transaction inside a scope; return the rows of each.

        All travel together and are answered together.
        keep_plans: False for statements that hold literals: prepared, they would crowd out others.
        After a deadlock all of it is sent again, and after a lost connection, which leaves open
        whether it was committed. repeats: False for what counts twice if it is done twice.
        Raises Conflict when require() refused, StorageUnavailable when nothing helped.
        """
        self._rows_sent += _rows(steps)
        is_spread = self.prepared is not None and self.prepared.is_spread
        groups = [sent_on(step) if is_spread else [step] for step in steps]
        sent = [one for group in groups for one in group]
        for last_try in [False] * (TRIES - 1) + [True]:
            connection: Connection | None = None
            try:
                async with self._pool.connection() as connection:
                    fresh = self._fresh_plans(connection)
                    first = [*fresh, *self._bind(scope)]
                    answers = await connection.exchange([*first, *sent], keep=keep_plans)
                    return answers_of(groups, answers[len(first) :])
            except psycopg.errors.ForeignKeyViolation as error:
                if error.diag.constraint_name != "embeddings_model_fkey":
                    raise
                raise EmbeddingMismatch(
                    "another embedder took over this memory before any vector was stored: open it"
                    " with that one, or give another schema, e.g. open_memory(schema='other')"
                ) from error
            except psycopg.errors.UniqueViolation as error:
                if error.diag.constraint_name != "events_pkey":
                    raise
                raise Conflict(f"another event has this place: {error.diag.message_detail}") from (
                    error
                )
            except psycopg.errors.ProgramLimitExceeded as error:
                raise _too_large(error) from error
            except REFUSED_VALUES as error:
                raise InvalidInput(
                    f"PostgreSQL cannot store or compare a value: {error.diag.message_primary}"
                ) from error
            except psycopg.errors.ReadOnlySqlTransaction as error:
                raise StorageReadOnly(
                    f"the database at {redacted(self._settings.uri)!r} is read only:"
                    f" {error.diag.message_primary}"
                ) from error
            except (psycopg.OperationalError, psycopg.InterfaceError) as error:
                if error.sqlstate == CONFLICT:
                    raise Conflict(error.diag.message_primary or str(error)) from error
                lost = repeats and connection is not None and connection.broken
                if last_try or not (lost or error.sqlstate in ROLLED_BACK):
                    raise self._unavailable(error) from error
        raise AssertionError("unreachable")

    @asynccontextmanager
    async def snapshot(self, scope: str) -> AsyncIterator[Connection]:
        """Return a connection outside of the pool on which all reads are of one moment.

        It is bound to a scope, and may not write. Raises StorageUnavailable when it is lost.
        """
        connection = await self._connect_or_restart()
        try:
            await connection.set_read_only(True)
            await connection.set_isolation_level(psycopg.IsolationLevel.REPEATABLE_READ)
            async with connection.transaction():
                for bound in self._bind(scope):
                    await connection.execute(*bound)
                yield connection
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            raise self._unavailable(error) from error
        finally:
            await connection.close()

    def _fresh_plans(self, connection: Connection) -> list[Statement]:
        """Return what makes a connection drop its plans, where the tables have outgrown them."""
        now = (self._rows_sent // PLANS_LAST).bit_length()
        then = self._plans_of.setdefault(connection, now)
        self._plans_of[connection] = now
        return [(statement("forget_plans"), {})] if then < now else []

    def _bind(self, scope: str) -> list[Statement]:
        assert self.prepared is not None
        values = {
            "role": self.prepared.role,
            "search_path": self.prepared.search_path,
            "statement_timeout": str(int(self._settings.statement_timeout_s * 1000)),
            "scope": scope,
        }
        return (
            bound_everywhere(values) if self.prepared.is_spread else [(statement("bind"), values)]
        )

    def _new_pool(self) -> ConnectionPool:
        return ConnectionPool(
            self._connect_or_restart,
            max_size=self._settings.pool_size,
            timeout_s=self._settings.connect_timeout_s,
        )

    async def connect(self) -> Connection:
        """Return a connection outside of the pool, bound to nothing; whoever asks closes it."""
        try:
            return await Connection.connect(
                self.conninfo,
                autocommit=True,
                context=self._adapters,
                connect_timeout=max(2, int(self._settings.connect_timeout_s)),
                application_name="hippocampus",
            )
        except (psycopg.OperationalError, psycopg.ProgrammingError) as error:
            raise self._unavailable(error) from error

    async def _connect_or_restart(self) -> Connection:
        """Connect; an embedded server that died, or was killed, is started again first."""
        try:
            return await self.connect()
        except StorageUnavailable:
            if self._embedded is None:
                raise
            await _finished(asyncio.to_thread(self._embedded.acquire))
            await asyncio.to_thread(self._embedded.release)  # this object was counted already
            return await self.connect()

    def _unavailable(self, error: Exception) -> StorageUnavailable:
        if isinstance(error, psycopg.errors.QueryCanceled):
            return StorageUnavailable(
                f"a statement took longer than {self._settings.statement_timeout_s:g} s"
                " (statement_timeout_s) and was cancelled"
            )
        reason = redacted(str(error).strip())
        return StorageUnavailable(
            f"the database at {redacted(self._settings.uri)!r} cannot be used: {reason}."
            " Check HIPPOCAMPUS_URI or the uri argument; 'hippocampus doctor' tells more"
        )


def _rows(steps: Sequence[Statement]) -> int:
    """Return how many items or events, by their keys or ids, statements name at most."""
    return max(
        (len(values.get(ids, ())) for _, values in steps for ids in ("keys", "event_ids")),
        default=0,
    )


def _too_large(error: psycopg.errors.ProgramLimitExceeded) -> InvalidInput:
    # Not by the message, which a server may say in its own language.
    of_an_index = error.diag.constraint_name is not None
    if of_an_index or (error.diag.source_function or "").startswith("index_form_tuple"):
        what = (
            "an id, a label or a key is too long for an index of PostgreSQL, which holds about"
            " 2,600 bytes in all"
        )
    else:
        what = (
            "a value or a text is larger than PostgreSQL takes (about 268 MB of JSON): split it, or"
            " keep it elsewhere and remember where"
        )
    return InvalidInput(f"{what}: {error.diag.message_primary}")


async def _finished(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of work; a cancelled caller still waits for it, so it can be undone."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise


def by_column(rows: Sequence[Sequence[Any]], width: int) -> list[list[Any]]:
    """Return the columns of rows, one list per column, as unnest() wants them."""
    return [list(column) for column in zip(*rows, strict=True)] or [[] for _ in range(width)]
