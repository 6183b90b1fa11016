"""A connection that sends several statements as one message and reads their answers together.

psycopg's own pipeline writes to the socket and polls it once for each statement, and makes a cursor
for each. For look-ups of a third of a millisecond that doubled the work (decision 3). Adaptation of
types, waiting, cancelling and errors are psycopg's.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import select
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, TypeAlias, TypeVar

import psycopg
from psycopg import AsyncConnection, abc, capabilities
from psycopg.abc import Buffer, PQGen
from psycopg.adapt import Loader, PyFormat, Transformer
from psycopg.pq import ConnStatus, ExecStatus, Format, TransactionStatus
from psycopg.pq.abc import PGresult
from psycopg.waiting import Wait, wait_async

from shared_core.core.event_loops import on_callers_own_loop
from shared_core.core.timestamps import EARLIEST, LATEST

Rows: TypeAlias = list[tuple[Any, ...]]
Statement: TypeAlias = tuple[bytes, Mapping[str, Any]]
"""SQL with placeholders %(name)s, or %(name)b for a value sent in binary, and its values."""

LITERAL = "SET LOCAL "
"""Begins a statement that takes no parameters: its text differs each time, so it is not kept."""

LOST_STATEMENT = ("26000", "42P05")
"""A prepared statement is missing, or another client made it: a pooler changed the session. The
server undid the whole message."""

MAX_PREPARED = 200
"""Maximum number of prepared statements on a connection; the least recently used one is dropped."""

CANCEL_S = 2.0
"""Seconds in which a cancelled statement must have ended; then its connection is closed."""

_POLL_S = 0.1
"""Seconds from one look at a silent connection to the next."""

_BLOCKING_MS = 5
"""Milliseconds for which a sync caller's thread polls for an answer without its event loop."""

_BLOCKING_ALONE_MS = 50
"""The same while no other task is on that loop. It returns to the loop to watch the silence."""

_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
"""The moment from which the binary form of a timestamptz counts microseconds."""

_PLACEHOLDER = re.compile(rb"%(?:%|\((\w+)\)([sb]))")
_FORMATS = {b"s": PyFormat.AUTO, b"b": PyFormat.BINARY}

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Query:
    """A statement in the server's form, with $1, $2, ... for the values of these names."""

    text: bytes
    names: Sequence[str]
    formats: Sequence[PyFormat]


@lru_cache(maxsize=512)
def _query(text: bytes) -> _Query:
    names: dict[bytes, tuple[int, PyFormat]] = {}

    def numbered(found: re.Match[bytes]) -> bytes:
        name, form = found.groups()
        if name is None:
            return b"%"
        place, _ = names.setdefault(name, (len(names) + 1, _FORMATS[form]))
        return b"$%d" % place

    sent = _PLACEHOLDER.sub(numbered, text)
    return _Query(sent, [name.decode() for name in names], [form for _, form in names.values()])


_Key: TypeAlias = tuple[bytes, tuple[int, ...] | None]
"""A statement is prepared once for the types of its values."""

_Values: TypeAlias = Sequence[Buffer | None]
_Formats: TypeAlias = list[Format] | None
_Adapted: TypeAlias = tuple[_Key, _Values, _Formats]


@dataclass(frozen=True, slots=True)
class _StatementUse:
    """One prepared statement of a message; a new one is prepared in the same message."""

    key: _Key
    name: bytes
    is_new: bool
    values: _Values
    formats: _Formats


class NoAnswer(psycopg.OperationalError):
    """The server, or the network before it, was silent for too long; the connection is closed."""


class UtcLoader(Loader):
    """Reads a binary timestamptz as a moment in UTC, whatever the time zone of the session.

    A moment outside of the years 1 to 9999, such as infinity, is read as EARLIEST or LATEST. An
    error here would hide all rows of an answer, and end a worker.
    """

    format = Format.BINARY

    def load(self, data: Buffer) -> datetime:
        microseconds = int.from_bytes(data, "big", signed=True)
        try:
            return _EPOCH + timedelta(microseconds=microseconds)
        except OverflowError:
            return LATEST if microseconds > 0 else EARLIEST


class Connection(AsyncConnection[tuple[Any, ...]]):
    """A connection of psycopg that can exchange() statements for rows.

    silence_s: seconds without a byte to or from the server after which a statement raises NoAnswer;
    None waits for ever.
    """

    silence_s: float | None = None

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._names: OrderedDict[_Key, bytes] = OrderedDict()
        self._adapter: abc.Transformer | None = None

    async def exchange(
        self, steps: Sequence[Statement], *, keep: bool = True, prepare: bool = True
    ) -> list[Rows]:
        """Run statements in one transaction and return the rows of each.

        In autocommit one message is one transaction, without BEGIN and COMMIT (decision 3).

        Args:
            steps: the statements, in order.
            keep: False for statements that are not sent again; new ones then stay unnamed.
            prepare: False leaves every statement unnamed, also those that were prepared before.

        Raises the server's first error; the transaction was then rolled back.
        """
        # Adapts all values before it names a statement: a value that fails leaves nothing behind.
        adapted = [self._adapted(*step) for step in steps]
        parts = self._named(adapted, keep) if prepare else [_unnamed(*step) for step in adapted]
        outdated = []
        while len(self._names) > MAX_PREPARED:
            outdated.append(self._names.popitem(last=False)[1])
        answers = await self._answered(self._talk(parts, outdated))
        return self._rows(parts, answers)

    def _adapted(self, text: bytes, values: Mapping[str, Any]) -> _Adapted:
        if self._adapter is None:
            self._adapter = Transformer(self)
        query = _query(text)
        dumped = self._adapter.dump_sequence([values[name] for name in query.names], query.formats)
        return (query.text, self._adapter.types), dumped, self._adapter.formats

    def _named(self, adapted: Sequence[_Adapted], keep: bool) -> list[_StatementUse]:
        """Name the statements of a message; each new one is prepared where it first occurs."""
        parts: list[_StatementUse] = []
        made: set[_Key] = set()
        for key, values, formats in adapted:
            is_new = key not in self._names and key not in made
            if is_new and (not keep or key[0].startswith(LITERAL.encode())):
                parts.append(_unnamed(key, values, formats))
                continue
            if is_new:
                made.add(key)
            elif key in self._names:
                self._names.move_to_end(key)
            parts.append(_StatementUse(key, _name(key), is_new, values, formats))
        return parts

    def _talk(
        self, parts: Sequence[_StatementUse], outdated: Sequence[bytes]
    ) -> PQGen[list[PGresult]]:
        """Send a message and collect its answers; an interruption closes the connection."""
        pgconn = self.pgconn
        try:
            pgconn.enter_pipeline_mode()
            self._send(parts, outdated)
            while pgconn.flush():
                yield Wait.RW
                pgconn.consume_input()
            answers = yield from self._collected()
            pgconn.exit_pipeline_mode()
        except BaseException:
            pgconn.finish()
            raise
        # Recorded here and not where the answers are read: a cancelled caller reads none.
        del answers[: len(outdated)]
        for part, made in _prepared(parts, answers):
            if part.name and made.status == ExecStatus.COMMAND_OK:
                self._names[part.key] = part.name
        return answers

    def _send(self, parts: Sequence[_StatementUse], outdated: Sequence[bytes]) -> None:
        for name in outdated:
            if capabilities.has_send_close_prepared():
                self.pgconn.send_close_prepared(name)
            else:
                self.pgconn.send_query_params(b"DEALLOCATE " + name, None)
        for part in parts:
            if part.is_new:
                self.pgconn.send_prepare(part.name, *part.key)
            self.pgconn.send_query_prepared(
                part.name, part.values, part.formats, result_format=Format.BINARY
            )
        self.pgconn.pipeline_sync()

    def _collected(self) -> PQGen[list[PGresult]]:
        """Return all answers up to the end of the message; libpq puts None between two of them."""
        answers: list[PGresult] = []
        while True:
            while self.pgconn.is_busy():
                yield Wait.R
                self.pgconn.consume_input()
            answer = self.pgconn.get_result()
            if answer is None:
                if self.pgconn.status == ConnStatus.BAD:
                    raise psycopg.OperationalError("the server closed the connection")
            elif answer.status == ExecStatus.PIPELINE_SYNC:
                return answers
            else:
                answers.append(answer)

    def _rows(self, parts: Sequence[_StatementUse], answers: Sequence[PGresult]) -> list[Rows]:
        for answer in answers:
            if answer.status == ExecStatus.FATAL_ERROR:
                raise psycopg.errors.error_from_result(answer, encoding=self.info.encoding)
        assert self._adapter is not None
        place = -1
        rows: list[Rows] = []
        for part in parts:
            place += 1 + part.is_new
            self._adapter.set_pgresult(answers[place])
            rows.append(self._adapter.load_rows(0, answers[place].ntuples, tuple))
        self._adapter.set_pgresult(None)
        return rows

    async def wait(  # type: ignore[override] # psycopg's parameters differ by version
        self, gen: PQGen[T], interval: float = _POLL_S, **options: Any
    ) -> T:
        """Complete an exchange of psycopg, within silence_s; a cancelled one within CANCEL_S."""
        watched = self._watched(gen)
        try:
            return await wait_async(watched, self.pgconn.socket, interval=interval, **options)
        except (asyncio.CancelledError, KeyboardInterrupt):
            if self.pgconn.transaction_status == TransactionStatus.ACTIVE:
                await self._cancel_statement(watched)
            raise

    def _watched(self, gen: PQGen[T]) -> PQGen[T]:
        heard_at = time.monotonic()
        ready: Any = None
        while True:
            try:
                waits_for = gen.send(ready)
            except StopIteration as done:
                ended: T = done.value
                return ended
            ready = yield waits_for
            if ready != 0:  # psycopg sends 0 where nothing happened for _POLL_S
                heard_at = time.monotonic()
            elif self.silence_s and time.monotonic() - heard_at > self.silence_s:
                self.pgconn.finish()
                raise NoAnswer(f"no answer came for {self.silence_s:g} s")

    async def _cancel_statement(self, gen: PQGen[T]) -> None:
        try:
            async with asyncio.timeout(CANCEL_S):
                await self.cancel_safe(timeout=CANCEL_S)
                await wait_async(gen, self.pgconn.socket, interval=_POLL_S)
        except psycopg.errors.QueryCanceled:
            return
        except (TimeoutError, psycopg.Error):
            self.pgconn.finish()
        except BaseException:
            self.pgconn.finish()
            raise

    async def _answered(self, talk: PQGen[T]) -> T:
        """Complete an exchange; a sync caller first polls without its event loop."""
        # The loop of a sync caller serves only this call: polling saves its overhead (decision 2).
        if on_callers_own_loop():
            try:
                while next(talk) == Wait.R and (
                    _is_readable(self.fileno(), _BLOCKING_MS)
                    or (
                        len(asyncio.all_tasks()) == 1
                        and _is_readable(self.fileno(), _BLOCKING_ALONE_MS)
                    )
                ):
                    pass
            except StopIteration as done:
                ended: T = done.value
                return ended
        return await self.wait(talk)


def _unnamed(key: _Key, values: _Values, formats: _Formats) -> _StatementUse:
    return _StatementUse(key, b"", True, values, formats)


@lru_cache(maxsize=1024)
def _name(key: _Key) -> bytes:
    """Return a name that no other SQL or types have, also on a session that others used."""
    return b"hippocampus_" + hashlib.sha256(repr(key).encode()).hexdigest()[:32].encode()


def _prepared(
    parts: Sequence[_StatementUse], answers: Sequence[PGresult]
) -> Iterator[tuple[_StatementUse, PGresult]]:
    """Yield the new statements with the answers that show whether they are prepared."""
    place = 0
    for part in parts:
        if part.is_new:
            yield part, answers[place]
        place += 1 + part.is_new


def _is_readable(fileno: int, within_ms: int) -> bool:
    if not hasattr(select, "poll"):
        return False
    watch = select.poll()
    watch.register(fileno, select.POLLIN)
    return bool(watch.poll(within_ms))
