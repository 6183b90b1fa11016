"""engine.transfer: export and import everything of a user or an application."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import uuid4

from shared_core.core.domain import Scope
from shared_core.core.shown import shown
from shared_core.core.validation import optional_function
from shared_core.errors import Conflict, InvalidInput, MemoryCoreError
from shared_core.jobs.scheduled_task import ScheduledTask
from shared_core.models.embedding import Embedding
from shared_core.nlp.text import has_words
from shared_core.policies.conversations import ask_for_ends
from shared_core.policies.importing import (
    ERASURES,
    erased,
    erased_here,
    import_rows,
    require_unforgotten,
)
from shared_core.ports.operations import Row
from shared_core.ports.transfer import EMBEDDINGS, RowBatch, Written
from shared_core.transfer.imported_vectors import FIELD, import_vectors, without_vectors
from shared_core.transfer.lines import (
    EndLine,
    Header,
    LineReader,
    Values,
    export_scope_of,
    lines_of,
    opened,
    read_rows,
    row_line,
)
from shared_core.transfer.reembedding import TextOfField, add_vectors, field_texts

if TYPE_CHECKING:
    from shared_core.lifecycle import Handle
    from shared_core.ports.storage import Clock, Storage
    from shared_core.recall.access_log import AccessLog

Progress: TypeAlias = Callable[[int], None]
TENANTS_AT_ONCE = 100
"""Maximum number of users whose ended sessions one transaction looks for."""
EMBEDDED_AT_ONCE = 50
"""Maximum number of texts to embed between two reports of progress."""
_NAMES = ("namespace", "key", "thread_id", "event_id", "memory_id")
"""Columns that identify a row in messages, where it has them."""
_NAMING = ("tenant_id", "thread_id", "event_id", "memory_seq")
"""Columns of an event that tell whether it was forgotten."""
_NOTHING = "Nothing was imported"
_BEFORE = "The lines before it are imported"


@dataclass(slots=True, kw_only=True)
class ImportedLines:
    """The number of imported rows by outcome.

    written: new rows. here: rows that existed already. differ: those of here with other values,
    which stay. embedded: computed vectors. unembedded: fields without a vector, because their text
    is unknown; a search by words finds them.
    """

    written: int = 0
    here: int = 0
    differ: int = 0
    embedded: int = 0
    unembedded: int = 0

    @property
    def rows(self) -> int:
        """Number of rows read."""
        return self.written + self.here + self.unembedded


class Transfer:
    """Exports as lines of JSON, and imports them."""

    def __init__(self, handle: Handle, accesses: AccessLog) -> None:
        self._handle = handle
        self._accesses = accesses

    async def export(
        self, scope: Scope | None = None, *, app: str | None = None, vectors: bool = False
    ) -> AsyncGenerator[str, None]:
        """Yield everything of a user, or of all users of an application, as lines of JSON.

        engine.export() explains the arguments and the lines.
        """
        export_scope = export_scope_of(scope, app)
        storage = await self._handle.storage()
        await self._accesses.flush()
        async with storage.transfer.snapshot(export_scope, vectors=vectors) as snapshot:
            yield Header(
                export_scope=export_scope,
                model=snapshot.model if vectors else None,
                dimensions=snapshot.dimensions if vectors else None,
            ).as_line()
            count = 0
            async for row in snapshot.rows:
                count += 1
                yield row_line(row)
            yield EndLine(rows=count).as_line()

    async def applications(self) -> Sequence[str]:
        """Return the names of all applications with data, sorted."""
        storage = await self._handle.storage()
        return await storage.transfer.applications()

    async def is_same(self, other: Transfer) -> bool:
        """Return whether another memory is on the same database and schema.

        It stores a mark here for a moment, and looks for it in the other memory.
        """
        storage = await self._handle.storage()
        there = await other._handle.storage()
        mark = f"mark:{uuid4().hex}"
        await ScheduledTask(storage, mark).take(mark, datetime.now(UTC), 0)
        try:
            return await ScheduledTask(there, mark).last() is not None
        finally:
            await ScheduledTask(storage, mark).drop()

    async def import_lines(
        self,
        source: str | Path | Iterable[bytes | str],
        *,
        restore: bool = False,
        text_of_field: TextOfField | None = None,
        progress: Progress | None = None,
    ) -> ImportedLines:
        """Write the rows of an export that are not here, for the user or application it names.

        engine.import_lines() explains the arguments and the errors.
        """
        if not isinstance(source, str | Path | Iterable):
            raise InvalidInput(f"source must be a file or lines, got {shown(source)}")
        optional_function(text_of_field, "text_of_field")
        optional_function(progress, "progress")
        storage = await self._handle.storage()
        handle = self._handle
        run = _LineImport(storage, handle.clock, handle.embedding, restore, text_of_field, progress)
        if isinstance(source, str | Path):
            path = Path(source)
            with opened(path) as file:
                await run.check(LineReader(path.name), lines_of(file, path.name))
            with opened(path) as file:
                return await run.all(LineReader(path.name), lines_of(file, path.name))
        if isinstance(source, Sequence):
            with suppress(
                InvalidInput
            ):  # raised again below, after the lines before it are written
                await run.check(LineReader("the export"), source)
        return await run.all(LineReader("the export"), source)


class _LineImport:
    def __init__(
        self,
        storage: Storage,
        clock: Clock,
        embedding: Embedding,
        restore: bool,
        text_of_field: TextOfField | None,
        progress: Progress | None,
    ) -> None:
        self._storage = storage
        self._clock = clock
        self._embedding = embedding
        self._restore = restore
        self._text_of_field = text_of_field
        self._progress = progress
        self._report = ImportedLines()
        self._talking: set[str] = set()
        """The tenants of imported sessions."""
        self._receipts: set[str] = set()
        """The ids of the erasures that the export knows."""

    async def check(self, reader: LineReader, lines: Iterable[bytes | str]) -> None:
        """Read all lines. Raises InvalidInput for a bad line, Conflict for a row to refuse."""
        erasures: dict[str, Sequence[Row]] = {}
        refused: dict[str, RowBatch] = {}
        batches = reader.batches(lines)
        while (batch := await asyncio.to_thread(next, batches, None)) is not None:
            if self._restore or batch.table == EMBEDDINGS:
                continue
            for place, row in enumerate(map(_row, batch.lines)):
                tenant = row["tenant_id"]
                if tenant not in erasures:
                    [erasures[tenant]] = await self._storage.read(tenant, [ERASURES])
                if found := erased_here(batch.table, row, erasures[tenant], reader.receipts):
                    refused.setdefault(found, _part(batch, slice(place, place + 1)))
            if batch.table == "events":
                await self._require_unforgotten(reader, batch)
        for erasure_id in refused.keys() - reader.receipts:  # an older export holds them late
            raise self._named(reader, refused[erasure_id], erased(erasure_id), _NOTHING)
        self._receipts = reader.receipts

    async def _require_unforgotten(self, reader: LineReader, batch: RowBatch) -> None:
        try:
            for tenant, rows in self._by_tenant(batch, _NAMING).items():
                checking = partial(require_unforgotten, batch.table, rows, reader.receipts)
                await self._storage.query(tenant, checking)
        except (InvalidInput, Conflict) as error:
            if len(batch.lines) == 1:
                raise self._named(reader, batch, error, _NOTHING) from error
            for part in _halves(batch):
                await self._require_unforgotten(reader, part)

    def _by_tenant(self, batch: RowBatch, names: Sequence[str] = ()) -> dict[str, list[Values]]:
        by_tenant: dict[str, list[Values]] = {}
        for row in read_rows(batch, self._clock(), names):
            by_tenant.setdefault(row["tenant_id"], []).append(row)
        return by_tenant

    def _named(
        self, reader: LineReader, batch: RowBatch, error: MemoryCoreError, what_is_in: str
    ) -> MemoryCoreError:
        """Return the error of the only row of a batch, with its line and address."""
        return type(error)(
            f"{reader.name}, line {batch.numbers[0]}, a row of {batch.table}: {error}. It is"
            f" {_address(batch)}. {what_is_in}: fix it and import all again"
        )

    async def all(self, reader: LineReader, lines: Iterable[bytes | str]) -> ImportedLines:
        batches = reader.batches(lines)
        while (batch := await asyncio.to_thread(next, batches, None)) is not None:
            assert reader.header is not None
            self._receipts |= reader.receipts
            await self._put(reader, reader.header, batch)
            if self._progress:
                self._progress(batch.numbers[-1])
        assert reader.header is not None
        await self._ask_for_ends()
        return self._report

    async def _ask_for_ends(self) -> None:
        """Enqueue a consolidation for each imported session that ended without one."""
        tenants, asking = sorted(self._talking), partial(ask_for_ends, self._clock())
        for start in range(0, len(tenants), TENANTS_AT_ONCE):
            page = tenants[start : start + TENANTS_AT_ONCE]
            await self._storage.transact_all(dict.fromkeys(page, asking))

    async def _put(self, reader: LineReader, header: Header, batch: RowBatch) -> None:
        """Write a batch. If it is refused, write the lines before the first bad one, and raise."""
        try:
            if batch.table == EMBEDDINGS:
                done = await self._put_vectors(header, batch)
            else:
                done = await self._put_rows(batch)
        except (InvalidInput, Conflict) as error:
            if len(batch.lines) == 1:
                raise self._named(reader, batch, error, _BEFORE) from error
            for part in _halves(batch):
                await self._put(reader, header, part)
            return
        if batch.table == "conversations":
            self._talking |= {row["tenant_id"] for row in map(_row, batch.lines)}
        self._report.written += done.written
        self._report.here += len(batch.lines) - done.written - done.left
        self._report.unembedded += done.left
        self._report.differ += done.differ

    async def _put_rows(self, batch: RowBatch) -> Written:
        by_tenant = await asyncio.to_thread(self._by_tenant, batch)
        importing = partial(
            import_rows, batch.table, receipts=self._receipts, restore=self._restore
        )
        done = await self._storage.transact_all(
            {tenant: partial(importing, rows) for tenant, rows in by_tenant.items()}
        )
        return Written(
            written=sum(one.written for one in done.values()),
            differ=sum(one.differ for one in done.values()),
        )

    async def _put_vectors(self, header: Header, batch: RowBatch) -> Written:
        if header.model and "embedding" in batch.columns:
            await self._embedding.adopt(header.model)
        model = await self._embedding.model()
        if header.model == model and header.dimensions and "embedding" in batch.columns:
            await self._storage.use_model(model, header.dimensions)
            return Written(
                written=await import_vectors(
                    self._storage, batch, model, header.dimensions, self._clock()
                )
            )
        waiting = await without_vectors(
            self._storage, read_rows(batch, self._clock(), FIELD), model
        )
        named = {(one.address, one.field): one for one in waiting}
        texts = field_texts([*named.values()], self._text_of_field)
        with_words = [(*at, text) for at, text in zip(named, texts, strict=True) if has_words(text)]
        for start in range(0, len(with_words), EMBEDDED_AT_ONCE):
            made = await self._embedding.rows(with_words[start : start + EMBEDDED_AT_ONCE])
            if made is not None:
                fields = [named[at] for at in zip(made.addresses, made.fields, strict=True)]
                self._report.embedded += await add_vectors(
                    self._storage, model, fields, made.vectors
                )
            if self._progress:
                done = start * len(batch.numbers) // len(with_words)
                self._progress(batch.numbers[done])
        return Written(written=len(with_words), left=len(waiting) - len(with_words))


def _address(batch: RowBatch) -> str:
    """Return what identifies the only row of a batch, e.g. "of '/app/ana/', key 'employer'"."""
    row = _row(batch.lines[0])
    named = [f"{name} {row[name]!r:.80}" for name in _NAMES if isinstance(row.get(name), str)]
    return ", ".join([f"of {row['tenant_id']!r:.80}", *named])


def _row(line: str) -> dict[str, Any]:
    row: dict[str, Any] = json.loads(line, parse_int=str, parse_float=str)["row"]
    return row


def _halves(batch: RowBatch) -> tuple[RowBatch, RowBatch]:
    middle = len(batch.lines) // 2
    return _part(batch, slice(None, middle)), _part(batch, slice(middle, None))


def _part(batch: RowBatch, part: slice) -> RowBatch:
    return replace(batch, lines=batch.lines[part], numbers=batch.numbers[part])
