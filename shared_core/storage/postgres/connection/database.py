"""Sends the steps of a transaction, bound to one scope, in one round trip."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import psycopg
from pgvector.psycopg.halfvec import register_halfvec_info
from psycopg.adapt import AdaptersMap
from psycopg.types import TypeInfo

from shared_core.core.event_loops import exiting, until_done
from shared_core.errors import (
    Conflict,
    EmbeddingMismatch,
    InvalidInput,
    MemoryCoreError,
    NotFound,
    StorageReadOnly,
    StorageUnavailable,
)
from shared_core.settings import Settings, redacted
from shared_core.storage.postgres.connection.citus import answers_of, bound_everywhere, propagated
from shared_core.storage.postgres.connection.connecting import connect, silence_s
from shared_core.storage.postgres.connection.embedded import EmbeddedPostgres, describe
from shared_core.storage.postgres.connection.marks import AnswerLost, Mark, is_marked
from shared_core.storage.postgres.connection.migrations import (
    APP_ROLE,
    PreparedSchema,
    grants,
    permission_denied,
    prepare,
)
from shared_core.storage.postgres.connection.operations import tables_of
from shared_core.storage.postgres.connection.pipeline import (
    LOST_STATEMENT,
    Connection,
    NoAnswer,
    Rows,
    Statement,
    UtcLoader,
)
from shared_core.storage.postgres.connection.pool import (
    ConnectionPool,
    NoFreeSlot,
    has_no_slot,
    pauses_s,
)
from shared_core.storage.postgres.connection.pooling import probe_pooling
from shared_core.storage.postgres.connection.statements import Step, statement, step

BEGIN_READING: Statement = (b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", {})
COMMIT: Statement = (b"COMMIT", {})
TRIES = 5
"""How often a transaction is sent before its error reaches the caller."""
CONFLICT = "HC409"
"""SQLSTATE that the SQL function require() raises. psycopg maps unknown states to
OperationalError."""
ROLLED_BACK = ("40P01", "40001")
"""Deadlock and serialisation failure: the server undid the whole transaction; send it again."""
PLANS_LAST = 500
"""Rows sent before statements are planned again, and again after each doubling. Plans made on
small tables walk through all of a tenant for every row, until the server's autovacuum runs."""
REFUSED_VALUES = (
    psycopg.errors.CheckViolation,
    psycopg.errors.CharacterNotInRepertoire,
    psycopg.errors.DatetimeFieldOverflow,
    psycopg.errors.InvalidTextRepresentation,
    psycopg.errors.NumericValueOutOfRange,
    psycopg.errors.UntranslatableCharacter,
)
"""Errors for a value that JSON or Python can hold and PostgreSQL cannot."""


log = logging.getLogger("hippocampus")

T = TypeVar("T")


class Answers(list[Rows]):
    """The rows of every step of a transaction, in order and by the step's name."""

    def __init__(self, steps: Sequence[Step], rows: Sequence[Rows]) -> None:
        super().__init__(rows)
        self._names = [one.name for one in steps]

    def named(self, name: str) -> Rows:
        """Return the rows of the step with this name, which occurs once."""
        if self._names.count(name) != 1:
            raise AssertionError(f"{name} is not one step of {self._names}")
        return self[self._names.index(name)]


class PostgresDatabase:
    """One schema of one PostgreSQL, embedded or a server; opened once, used from any loop."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        home = settings.embedded_home
        self._embedded = EmbeddedPostgres(home) if home else None
        self.conninfo = settings.uri
        self.schema = settings.db_schema
        self._adapters = AdaptersMap(psycopg.adapters)
        self._adapters.register_loader("timestamptz", UtcLoader)
        self._pool = self._new_pool()
        self.prepared: PreparedSchema | None = None
        self._user = ""
        self.prepares = settings.prepare
        self.statement_s = settings.statement_timeout_s
        self._rows_sent = 0
        self._plans_of: WeakKeyDictionary[Connection, int] = WeakKeyDictionary()
        self.on_change: Callable[[str, bool], None] = lambda tenant, is_any: None

    async def open(self) -> None:
        """Start the embedded server if there is one, migrate, and learn the types.

        A failure closes everything again; open may then be called again.
        """
        self._pool = self._new_pool()
        try:
            if self._embedded:
                await asyncio.to_thread(self._require_cluster)
                self.conninfo = await until_done(asyncio.to_thread(self._embedded.acquire))
            async with self._pool.connection() as connection:
                self._user = connection.info.user
                connection.silence_s = self._silence_s()
                self.statement_s = await self._deadline(connection)
                self.prepared = await prepare(
                    connection, self._settings.db_schema, create=self._settings.create
                )
                await self._learn_types(connection)
        except BaseException as error:
            await self.close()
            if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
                raise self._unavailable(error) from error
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

    async def _deadline(self, connection: Connection) -> float:
        """Return the statement_timeout of the DSN's options in seconds, or else of the settings."""
        [rows] = await connection.exchange([(statement("deadline_of_client"), {})], prepare=False)
        return rows[0][0] / 1000 if rows else self._settings.statement_timeout_s

    async def close(self) -> None:
        """Close all connections and leave the embedded server, which stops with its last user."""
        try:
            await self._pool.close()
        finally:
            # An exiting process leaves its server by atexit, and cannot start a thread any more.
            if self._embedded and not exiting():
                await until_done(asyncio.to_thread(self._embedded.release))

    @property
    def is_spread(self) -> bool:
        """Whether the tables lie on the nodes of a Citus cluster."""
        return self.prepared is not None and self.prepared.is_spread

    async def run(
        self,
        scope: str,
        *steps: Step,
        keep_plans: bool = True,
        mark: Mark | None = None,
        one_moment: bool = False,
    ) -> Answers:
        """Run steps as one transaction inside a scope and return the rows of each.

        All steps travel in one message (decision 3). A transaction is sent again after a deadlock
        and after a lost connection, which does not tell whether the server committed.

        Args:
            scope: the path that row security allows: a tenant, or a path above several.
            steps: the statements, in order.
            keep_plans: False for statements that hold literals: prepared, they would push others
                out of the connection's cache.
            mark: of statements that may not run twice. An attempt after a lost answer looks for it.
            one_moment: all statements read the same snapshot, and write nothing.

        Raises:
            AnswerLost: an earlier attempt stored the mark; these statements have run.
            Conflict: the SQL function require() refused.
            PermissionDenied: the database user lacks a right.
            StorageUnavailable: no try succeeded.
        """
        self.count_rows(_rows(steps))
        groups = [propagated(one.statement) if self.is_spread else [one.statement] for one in steps]
        sent = [one for group in groups for one in group]

        if mark:
            sent += mark.written(on_coordinator=False)
        begin, end = ([BEGIN_READING], [COMMIT]) if one_moment else ([], [])
        was_lost = False

        async def attempt(connection: Connection) -> Answers:
            nonlocal was_lost
            first = [*begin, *self.fresh_plans(connection), *self.bind(scope)]
            if mark and was_lost:
                looked = [*first, mark.looked_for()]
                if (await connection.exchange(looked, prepare=self.prepares))[-1]:
                    raise AnswerLost
            try:
                rows = await connection.exchange(
                    [*first, *sent, *end], keep=keep_plans, prepare=self.prepares
                )
            except psycopg.Error as error:
                was_lost = was_lost or connection.closed
                if is_marked(error):
                    raise AnswerLost from error
                raise
            return Answers(steps, answers_of(groups, rows[len(first) :]))

        return await self.attempts(attempt)

    async def attempts(self, attempt: Callable[[Connection], Awaitable[T]]) -> T:
        """Return what an attempt returns; repeat it after a deadlock and a lost connection."""
        for last_try in [False] * (TRIES - 1) + [True]:
            connection: Connection | None = None
            try:
                async with self._pool.connection() as connection:
                    connection.silence_s = self._silence_s()
                    return await attempt(connection)
            except psycopg.Error as error:
                if known := self._explained(error):
                    raise known from error
                if isinstance(error, NoAnswer):  # the deadline has passed: nothing is sent again
                    raise self._unavailable(error) from error
                if error.sqlstate in LOST_STATEMENT and not last_try:
                    self._stop_preparing(error)
                    continue
                if not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
                    raise
                lost = connection is not None and connection.broken
                if last_try or not (lost or error.sqlstate in ROLLED_BACK):
                    raise self._unavailable(error) from error
        raise AssertionError("unreachable")

    async def rows(self, scope: str, name: str, /, **values: object) -> Rows:
        """Run one named statement inside a scope, %(tenant)s of its values; return its rows."""
        [rows] = await self.run(scope, step(name, {"tenant": scope, **values}))
        return rows

    def noted(self, notes: Sequence[Step]) -> Sequence[Step]:
        """Return the steps that note changes; none on a cluster, where no process keeps memories.

        Tells on_change of each user for whom this process writes now, and whether any of their
        memories may change.
        """
        if self.is_spread:
            return ()
        for note in notes:
            self.on_change(note.values["tenant"], None in note.values["memory_ids"])
        return notes

    def count_rows(self, number: int) -> None:
        """Count the rows that are sent: after enough of them, statements are planned again."""
        self._rows_sent += number

    def _stop_preparing(self, error: psycopg.Error) -> None:
        """Send every later statement in full: a pooler gives each message any of its sessions."""
        if self.prepares:
            self.prepares = False
            log.warning(
                "the pooler at %r does not keep prepared statements (%s): the memory goes on"
                " without them. Set HIPPOCAMPUS_PREPARE=off to do so from the start, or let the"
                " pooler keep them (PgBouncer 1.21 or newer: max_prepared_statements)",
                redacted(self._settings.uri),
                error.diag.message_primary,
            )

    def _explained(self, error: psycopg.Error) -> MemoryCoreError | None:
        """Return the error of this library that explains a refusal of the server, if one does."""
        message = error.diag.message_primary
        if error.sqlstate == CONFLICT:
            return Conflict(message or str(error))
        if isinstance(error, psycopg.errors.ForeignKeyViolation) and {
            "embeddings",
            "embedding_models",
        } <= tables_of(error):
            return EmbeddingMismatch(
                "another embedder took over this memory before any vector was stored: open it"
                " with that one, or give another schema, e.g. open_memory(schema='other')"
            )
        if isinstance(error, psycopg.errors.UniqueViolation) and "events" in tables_of(error):
            return Conflict(f"another event has this place: {error.diag.message_detail}")
        if isinstance(error, psycopg.errors.InsufficientPrivilege):
            return self._denied(error)
        if isinstance(error, psycopg.errors.ProgramLimitExceeded):
            return _too_large(error)
        if isinstance(error, REFUSED_VALUES):
            return InvalidInput(f"PostgreSQL cannot store or compare a value: {message}")
        if isinstance(error, psycopg.errors.ReadOnlySqlTransaction):
            uri = redacted(self._settings.uri)
            return StorageReadOnly(f"the database at {uri!r} is read only: {message}")
        return None

    def _denied(self, error: psycopg.errors.InsufficientPrivilege) -> MemoryCoreError:
        message = error.diag.message_primary or ""
        # The second is the text of a node of a Citus cluster, which sends on no function.
        if error.diag.source_function == "ExecWithCheckOptions" or "row-level security" in message:
            return InvalidInput(f"a row belongs to another scope: {message}")  # no right is missing
        assert self.prepared is not None
        worker = self._user if self.prepared.role == "none" else APP_ROLE
        return permission_denied(error, self._user, grants(self.schema, worker))

    @asynccontextmanager
    async def snapshot(self, scope: str) -> AsyncIterator[Connection]:
        """Lend a connection outside of the pool that reads one moment of a scope and cannot write.

        Raises StorageUnavailable when the connection is lost, PermissionDenied without a right.
        """
        connection = await self._with_slot(self._connect_or_restart)
        connection.silence_s = self._silence_s()
        try:
            await connection.set_read_only(True)
            await connection.set_isolation_level(psycopg.IsolationLevel.REPEATABLE_READ)
            async with connection.transaction():
                for bound in self.bind(scope):
                    await connection.execute(*bound)
                yield connection
        except psycopg.errors.InsufficientPrivilege as error:
            raise self._denied(error) from error
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            raise self._unavailable(error) from error
        finally:
            await connection.close()

    def fresh_plans(self, connection: Connection) -> list[Statement]:
        """Return the statement that drops a connection's plans if its tables outgrew them."""
        now = (self._rows_sent // PLANS_LAST).bit_length()
        then = self._plans_of.setdefault(connection, now)
        self._plans_of[connection] = now
        return [(statement("forget_plans"), {})] if then < now else []

    def bind(self, scope: str) -> list[Statement]:
        """Return the statements that bind a transaction to a scope."""
        assert self.prepared is not None
        values = {
            "role": self.prepared.role,
            "search_path": self.prepared.search_path,
            "statement_timeout": str(int(self.statement_s * 1000)),
            "scope": scope,
        }
        if self.prepared.is_spread:
            return bound_everywhere(values)
        return [(statement("bind"), values)]

    def _silence_s(self) -> float | None:
        """Return how long a server that lives may be silent; None where no deadline is set."""
        return silence_s(self.statement_s)

    def _new_pool(self) -> ConnectionPool:
        return ConnectionPool(
            self._connect_or_restart,
            max_size=self._settings.pool_size,
            timeout_s=self._settings.connect_timeout_s,
        )

    async def connect(self) -> Connection:
        """Return a connection outside of the pool, bound to no scope; the caller closes it.

        Its silence_s is that of a statement: a caller that waits for longer sets None.
        """
        return await self._with_slot(self._connect)

    async def _with_slot(self, connect: Callable[[], Awaitable[Connection]]) -> Connection:
        """Connect outside of the pool; wait connect_timeout_s for a free slot of the server."""
        ends_at = time.monotonic() + self._settings.connect_timeout_s
        for pause_s in pauses_s():
            try:
                return await connect()
            except NoFreeSlot:
                if time.monotonic() >= ends_at:
                    raise
            await asyncio.sleep(pause_s)
        raise AssertionError("unreachable")

    async def _connect(self) -> Connection:
        try:
            return await connect(self.conninfo, self._settings, adapters=self._adapters)
        except (psycopg.OperationalError, psycopg.ProgrammingError) as error:
            raise self._unavailable(error) from error

    async def shares_sessions(self) -> bool:
        """Return whether a transaction pooler gives each message any of its sessions."""
        try:
            return (await probe_pooling(self.connect)).shares_sessions
        except psycopg.Error as error:
            raise self._unavailable(error) from error

    async def _connect_or_restart(self) -> Connection:
        """Connect; start an embedded server that died, or was killed, again first."""
        try:
            return await self._connect()
        except NoFreeSlot:
            raise
        except StorageUnavailable:
            if self._embedded is None:
                raise
            await until_done(asyncio.to_thread(_restart, self._embedded))
            return await self._connect()

    def _unavailable(self, error: Exception) -> StorageUnavailable:
        if isinstance(error, psycopg.errors.QueryCanceled):
            return StorageUnavailable(
                f"a statement took longer than {self.statement_s:g} s"
                " (statement_timeout_s) and was cancelled"
            )
        reason = " ".join(redacted(str(error)).split()).rstrip(".")
        if isinstance(error, psycopg.errors.DiskFull):
            return StorageUnavailable(
                f"the disk of the server at {redacted(self._settings.uri)!r} is full, and this call"
                f" stored nothing: free space there, then retry ({error.diag.message_primary})"
            )
        if isinstance(error, NoAnswer):
            reason += (
                "; if a pooler stands before the server, it may have no free session: give it more,"
                f" or each process a smaller pool_size, got {self._settings.pool_size}"
            )
        if isinstance(error, psycopg.OperationalError) and has_no_slot(error):
            return NoFreeSlot(
                f"the server at {redacted(self._settings.uri)!r} has no free connection for"
                f" {self._settings.connect_timeout_s:g} s: raise its max_connections, or give each"
                f" process a smaller pool_size, got {self._settings.pool_size} ({reason})"
            )
        end = "" if reason.endswith("?") else "."
        return StorageUnavailable(
            f"the database at {redacted(self._settings.uri)!r} cannot be used: {reason}{end}"
            " Check HIPPOCAMPUS_URI or the uri argument; 'hippocampus doctor' tells more"
        )


def _restart(embedded: EmbeddedPostgres) -> None:
    embedded.acquire()
    embedded.release()  # its user was counted already


def _rows(steps: Sequence[Step]) -> int:
    """Return the largest number of items or events that one of the steps names."""
    return max(
        (len(one.values.get(ids, ())) for one in steps for ids in ("keys", "event_ids")), default=0
    )


def _too_large(error: psycopg.errors.ProgramLimitExceeded) -> InvalidInput:
    # By the message only on a node of a Citus cluster: a server may answer in its own language.
    message = error.diag.message_primary or ""
    of_an_index = error.diag.constraint_name is not None or message.startswith("index row")
    if of_an_index or (error.diag.source_function or "").startswith("index_form_tuple"):
        what = (
            "an id, a label or a key is too long for an index of PostgreSQL, which holds about"
            " 2,600 bytes in all"
        )
    else:
        what = (
            "a value or a text is larger than PostgreSQL takes (about 268 MB of JSON): split it, or"
            " store a reference to it"
        )
    return InvalidInput(f"{what}: {message}")


def by_column(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> dict[str, object]:
    """Return the columns of rows by name, one list per column, as unnest() wants them."""
    columns = zip(*rows, strict=True) if rows else ((),) * len(names)
    return {name: list(column) for name, column in zip(names, columns, strict=True)}
