"""engine.imports: memories of other products, written with the verbs of this memory.

Everything has an id made from the ids of the source. So a second import doubles nothing, and one
that was interrupted goes on where it stopped.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, TypeAlias
from uuid import NAMESPACE_URL, uuid5

from shared_core.core.domain import (
    USER,
    Event,
    FactDraft,
    JsonValue,
    MemoryId,
    NewMemory,
    Scope,
    ThreadId,
    TripleDraft,
)
from shared_core.core.namespaces import check_label, memories_namespace, scope_path
from shared_core.errors import InvalidInput, NotFound
from shared_core.ingest.events import remember_imported
from shared_core.ingest.items import ImportedItems
from shared_core.nlp.relation_schema import (
    DECLARED,
    present_relation,
    relation_name,
    slot_of_relation,
)
from shared_core.nlp.text import language, short_name
from shared_core.policies.importing import forget_tombstones
from shared_core.policies.items import marks_of, select_marks
from shared_core.ports.items import ImportMark, ItemAddress, ItemStamp
from shared_core.ports.operations import Select, one_of
from shared_core.transfer.sources.records import (
    FactRecord,
    LeftTurn,
    Record,
    RecordSource,
    SkippedRecord,
    StatementRecord,
    TurnRecord,
)

if TYPE_CHECKING:
    from shared_core.ingest.service import Turns
    from shared_core.knowledge.facts import Facts
    from shared_core.knowledge.service import Runs
    from shared_core.lifecycle import Handle
    from shared_core.privacy.sanitizing import Intake

BATCH = 32
"""Maximum number of records in one write, and between two reports of progress; an answer to the
last of them is one more."""
BATCH_CHARACTERS = 200_000
"""Maximum number of characters of a batch; a longer record is a batch of its own."""
READ_AT_ONCE = 200
"""Number of entries that are read between two reports of progress."""
SHOWN_USERS = 5
DESCRIPTIONS = ("title", "described_as")
"""Metadata in words, which is masked as a text is."""
PATTERN = "imported"
"""Pattern of an imported fact: no rule read it from a turn."""

Memories: TypeAlias = TurnRecord | StatementRecord | FactRecord
LeftTurns: TypeAlias = dict[tuple[str | None, str], list[str]]
"""The ids of the turns on branches that a source does not show, by user and thread."""
Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with the name of a step, the number of records done, and of all; 0 if unknown."""
Failed: TypeAlias = Callable[[str, str], None]
"""Called with the id of a record that could not be stored, and the reason."""


@dataclass(slots=True, kw_only=True)
class RecordCounts:
    """The number of records of one kind by outcome.

    here: known here already. deleted: imported before, and forgotten here since.
    """

    read: int = 0
    written: int = 0
    here: int = 0
    deleted: int = 0
    failed: int = 0


@dataclass(slots=True, kw_only=True)
class RecordReport:
    """What became of the records of a source.

    skipped: the number of entries that are no memories, by reason. threads: number of threads.
    """

    product: str
    users: Sequence[str] = ()
    threads: int = 0
    turns: RecordCounts = field(default_factory=RecordCounts)
    statements: RecordCounts = field(default_factory=RecordCounts)
    facts: RecordCounts = field(default_factory=RecordCounts)
    skipped: Counter[str] = field(default_factory=Counter)

    @property
    def read(self) -> int:
        """Number of turns, statements and facts in the source."""
        return self.turns.read + self.statements.read + self.facts.read

    @property
    def complete(self) -> bool:
        """Whether none failed."""
        return not (self.turns.failed or self.statements.failed or self.facts.failed)

    def to_dict(self) -> dict[str, JsonValue]:
        """Return a JSON object."""
        return {
            "product": self.product,
            "users": list(self.users),
            "threads": self.threads,
            "turns": asdict(self.turns),
            "statements": asdict(self.statements),
            "facts": asdict(self.facts),
            "skipped": dict(self.skipped),
            "complete": self.complete,
        }

    def of(self, record: Memories) -> RecordCounts:
        """Return the outcome that counts a record."""
        if isinstance(record, TurnRecord):
            return self.turns
        return self.statements if isinstance(record, StatementRecord) else self.facts


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordOptions:
    """The options of an import.

    Attributes:
        app: The application that gets the memories.
        user: The user who gets them all. By default each record goes to the user it names.
        source_user: Only the records of this user of the source.
        later: Leave embedding and consolidation of turns to a worker.
        restore: Also write what was imported before and forgotten here since.
    """

    app: str
    user: str | None = None
    source_user: str | None = None
    later: bool = False
    restore: bool = False


def _quiet(*_: object) -> None:
    """Report nothing."""


class RecordImports:
    """Imports the records of other products: engine.imports."""

    def __init__(self, handle: Handle, turns: Turns, runs: Runs, facts: Facts) -> None:
        self._handle = handle
        self._turns = turns
        self._runs = runs
        self._facts = facts
        self._items = ImportedItems(handle)

    async def check(
        self, source: RecordSource, options: RecordOptions, *, progress: Progress = _quiet
    ) -> RecordReport:
        """Read a source to its end and count its records; write nothing, and open no database.

        Raises:
            InvalidInput: the source cannot be read, has entries but no memory among them, or does
                not make clear who gets the records.
            NotFound: the source has no record of options.source_user.
        """
        check_label(options.app, "app")
        return await asyncio.to_thread(_checked, source, options, progress, self._handle.sanitizer)

    async def run(
        self,
        source: RecordSource,
        options: RecordOptions,
        *,
        progress: Progress = _quiet,
        failed: Failed = _quiet,
        checked: Callable[[RecordReport], None] = _quiet,
    ) -> RecordReport:
        """Write the records of a source that are not here, and consolidate their threads.

        The source is read to its end first, so a broken one changes nothing. Idempotent. A record
        that cannot be stored is passed to failed and stops nothing.

        checked: called before the first write with the report, whose counts grow from then on. An
        import that is cancelled returns no report.

        Raises:
            InvalidInput, NotFound: as check().
            StorageUnavailable, ModelUnavailable: the import cannot go on. A repeated one writes
                the rest.
        """
        report = await self.check(source, options, progress=progress)
        checked(report)
        return await _RecordRun(self._handle, self._turns, self._runs, self._facts, self._items,
                          options, report, progress, failed).all(source)  # fmt: skip


def _checked(
    source: RecordSource, options: RecordOptions, progress: Progress, sanitizer: Intake
) -> RecordReport:
    report = RecordReport(product=source.product)
    owners: set[str | None] = set()
    threads: set[tuple[str | None, str]] = set()
    others: set[str | None] = set()
    for number, record in enumerate(_masked(source.records(options.user), sanitizer), 1):
        if number % READ_AT_ONCE == 0:
            progress("Reading", number, 0)
        if isinstance(record, SkippedRecord):
            report.skipped[record.reason] += 1
        elif options.source_user is not None and record.user != options.source_user:
            others.add(record.user)
            report.skipped["of other users"] += 1
        elif record.user is None and options.user is None:
            report.skipped["of no user (give --user)"] += 1
        else:
            owners.add(record.user)
            report.of(record).read += 1
            if isinstance(record, TurnRecord):
                threads.add((options.user or record.user, record.thread))
    _require_owner(source, options, report, owners, others)
    _require_memories(source, report)
    named = {options.user} if options.user else owners
    report.users = sorted(one for one in named if one is not None)
    report.threads = len(threads)
    for user in report.users:
        scope_path(Scope(options.app, user))
    return report


def _require_owner(
    source: RecordSource,
    options: RecordOptions,
    report: RecordReport,
    owners: set[str | None],
    others: set[str | None],
) -> None:
    """Raise unless it is clear who gets the records."""
    if options.source_user is not None and not owners:
        raise NotFound(
            f"{source.name} has nothing of {options.source_user!r}, but of {_listed(others)}:"
            " name one of them with --source-user"
        )
    if not owners and report.skipped["of no user (give --user)"]:
        raise InvalidInput(
            f"{source.name} does not say whose memories it holds: name the user with --user"
        )
    if options.user is not None and len(owners) > 1:
        raise InvalidInput(
            f"{source.name} holds memories of {_listed(owners)}, and --user would give all of them"
            f" to {options.user!r}: choose one with --source-user, or leave out --user to keep"
            " them apart"
        )


def _require_memories(source: RecordSource, report: RecordReport) -> None:
    """Raise if the source has entries, and none of them is a memory."""
    if report.skipped and not report.read:
        found = ", ".join(f"{number:,} {reason}" for reason, number in report.skipped.most_common())
        raise InvalidInput(
            f"{source.name} holds nothing that can be imported: {found}. Check that it is an export"
            f" of {source.product}, and a whole one"
        )


def _listed(users: set[str | None]) -> str:
    names = sorted(f"{one!r}" if one else "nobody" for one in users) or ["nobody"]
    more = f" and {len(names) - SHOWN_USERS:,} more" if len(names) > SHOWN_USERS else ""
    return ", ".join(names[:SHOWN_USERS]) + more


class _RecordRun:
    """One import on its way. seen: memories written or found here, by address."""

    def __init__(
        self,
        handle: Handle,
        turns: Turns,
        runs: Runs,
        facts: Facts,
        items: ImportedItems,
        options: RecordOptions,
        report: RecordReport,
        progress: Progress,
        failed: Failed,
    ) -> None:
        self._handle = handle
        self._turns = turns
        self._runs = runs
        self._facts = facts
        self._items = items
        self._options = options
        self._report = report
        self._progress = progress
        self._failed = failed
        self._threads: dict[tuple[Scope, str], datetime] = {}

    async def all(self, source: RecordSource) -> RecordReport:
        """Write all records, then consolidate the threads, and return the report."""
        done, total = 0, self._report.read
        self._progress("Importing", 0, total)
        records = _masked(source.records(self._options.user), self._handle.sanitizer)
        left: LeftTurns = defaultdict(list)
        batches = _batches(records, self._options, left)
        while (batch := await asyncio.to_thread(next, batches, None)) is not None:
            await self._write(batch)
            done += len(batch)
            self._progress("Importing", done, total)
        for (user, thread), ids in left.items():  # an earlier import may have stored the branch
            await self._turns.leave(Scope(self._options.app, str(user)), thread, ids)
        if self._options.later:
            return self._report
        threads = sorted(self._threads, key=lambda one: self._threads[one])
        for number, (scope, thread) in enumerate(threads, 1):
            await self._runs.consolidate(scope, ThreadId(thread))
            self._progress("Consolidating", number, len(threads))
        return self._report

    async def _write(self, batch: Sequence[Memories]) -> None:
        """Write records of one kind, user and thread; if one is refused, write each alone."""
        first = batch[0]
        scope = Scope(self._options.app, str(self._options.user or first.user))
        turns = [one for one in batch if isinstance(one, TurnRecord)]
        statements = [one for one in batch if isinstance(one, StatementRecord)]
        facts = [one for one in batch if isinstance(one, FactRecord)]
        try:
            if turns:
                await self._write_turns(scope, turns)
            elif statements:
                await self._write_statements(scope, statements)
            else:
                await self._write_facts(scope, facts)
        except InvalidInput as error:
            if len(batch) > 1:
                for one in batch:
                    await self._write([one])
                return
            self._report.of(first).failed += 1
            self._failed(first.event_id if isinstance(first, TurnRecord) else first.key, str(error))

    async def _write_turns(self, scope: Scope, turns: Sequence[TurnRecord]) -> None:
        thread = turns[0].thread
        events = [
            Event(
                event_id=one.event_id, author=one.author, role=one.role, text=one.text,
                occurred_at=one.at, metadata=one.metadata,
            )
            for one in turns
        ]  # fmt: skip
        if self._options.restore:
            storage, ids = await self._handle.storage(), [one.event_id for one in turns]
            await storage.transact(scope_path(scope), partial(forget_tombstones, thread, ids))
        done = await self._turns.append(
            scope, thread, events, later=self._options.later, session_end=self._options.later
        )
        written = len(done.new) + len(done.edited)
        self._report.turns.written += written
        self._report.turns.here += len(turns) - written
        begun = self._threads.get((scope, thread), turns[0].at)
        self._threads[scope, thread] = min(begun, turns[0].at)

    async def _write_statements(self, scope: Scope, records: Sequence[StatementRecord]) -> None:
        outcome, namespace = self._report.statements, memories_namespace(scope)
        distinct = {one.key: one for one in records}
        here, deleted = len(records) - len(distinct), 0
        addresses: list[ItemAddress] = [(namespace, key) for key in distinct]
        marks = await self._items.marks(addresses)
        found = await self._items.read(addresses)
        new: list[tuple[NewMemory, ItemStamp]] = []
        now = self._handle.clock()
        for address, record, known in zip(addresses, distinct.values(), found, strict=True):
            at = record.at or now
            if known is not None and (record.at is None or known.updated_at >= record.at):
                here += 1
            elif known is None and self._is_forgotten(
                marks.get(address), record.at, record.expires_at
            ):
                deleted += 1
            else:
                new.append((_memory(record, at), _stamp(address, record, at)))
        if new:
            memories, stamps = [one for one, _ in new], [stamp for _, stamp in new]
            await remember_imported(self._handle, scope, memories, stamps)
        # Counted after the write: a refused batch is written again, one by one.
        outcome.here += here
        outcome.deleted += deleted
        outcome.written += len(new)

    def _is_forgotten(
        self, mark: ImportMark | None, at: datetime | None, expires_at: datetime | None
    ) -> bool:
        """Tell whether a memory that is not here was imported before and is to stay away.

        at: of its last change in the source; None if unknown, so nothing shows a change.
        """
        if mark is None or self._options.restore:
            return False
        if at is None:
            return mark.deleted_at is not None or expires_at is None
        if mark.deleted_at is not None:
            return at <= mark.deleted_at
        return expires_at is None and at <= mark.updated_at

    async def _write_facts(self, scope: Scope, records: Sequence[FactRecord]) -> None:
        outcome, namespace = self._report.facts, memories_namespace(scope)
        ids = [_fact_id(scope, one.key) for one in records]
        addresses: list[ItemAddress] = [(namespace, str(one)) for one in ids]
        storage = await self._handle.storage()
        held, rows = await storage.read(
            scope_path(scope),
            [
                Select("memories", ("memory_id",), (one_of("memory_id", ids),)),
                select_marks(addresses),
            ],
        )
        known, marks = {row[0] for row in held}, marks_of(addresses, rows)
        for record, memory_id, address in zip(records, ids, addresses, strict=True):
            at = min(record.valid_from, self._handle.clock())
            if memory_id in known:
                outcome.here += 1
            elif self._is_forgotten(marks.get(address), at, None):
                outcome.deleted += 1
            elif await self._write_fact(scope, record, memory_id, address, at):
                known.add(memory_id)
                outcome.written += 1

    async def _write_fact(
        self,
        scope: Scope,
        record: FactRecord,
        memory_id: MemoryId,
        address: ItemAddress,
        at: datetime,
    ) -> bool:
        """Write a fact and its edge; count it and return False if it fails or is known."""
        try:
            draft, triple = _fact(record, self._handle.sanitizer)
            is_new = await self._facts.import_fact(scope, memory_id, draft, triple)
        except InvalidInput as error:
            self._report.facts.failed += 1
            self._failed(record.key, str(error))
            return False
        if not is_new:
            self._report.facts.here += 1
            return False
        stamp = ItemStamp(
            address=address, created_at=at, updated_at=at, expires_at=None, ttl_s=None
        )
        await self._items.stamp([stamp])
        return True


def _masked(records: Iterator[Record], sanitizer: Intake) -> Iterator[Record]:
    """Yield the records without the secrets that the mask of a text or of metadata would miss.

    A value alone, such as "hunter22", does not look like a secret; its sentence does.
    """
    for record in records:
        if isinstance(record, FactRecord) and sanitizer.privacy.redact(record.text).found:
            yield _without_value(record)
        elif isinstance(record, TurnRecord | StatementRecord):
            texts = {
                name: sanitizer.shown_text(text)
                for name in DESCRIPTIONS
                if isinstance(text := record.metadata.get(name), str)
            }
            yield replace(record, metadata={**record.metadata, **texts}) if texts else record
        else:
            yield record


def _without_value(record: FactRecord) -> Record:
    """Return the sentence of a fact as a statement, without its value and edge."""
    if record.valid_until is not None:
        return SkippedRecord("ended facts that tell a secret")
    return StatementRecord(
        user=record.user, key=record.key, text=record.text, created_at=record.valid_from,
        at=record.valid_from, metadata={"imported_from": record.key.partition("/")[0]},
    )  # fmt: skip


def _batches(
    records: Iterator[Record], options: RecordOptions, left: LeftTurns
) -> Iterator[list[Memories]]:
    """Yield the records to import in batches of one kind, user and thread; collect left turns."""
    waiting: list[Memories] = []
    size = 0
    for record in records:
        if isinstance(record, LeftTurn) and _is_wanted(record, options):
            left[options.user or record.user, record.thread].append(record.event_id)
        if isinstance(record, SkippedRecord) or not _is_wanted(record, options):
            continue
        full = len(waiting) >= BATCH or size + len(record.text) > BATCH_CHARACTERS
        if waiting and (
            _place(waiting[0]) != _place(record) or (full and not _answers(waiting[-1], record))
        ):
            yield waiting
            waiting, size = [], 0
        waiting.append(record)
        size += len(record.text)
    if waiting:
        yield waiting


def _answers(record: Memories, after: Memories) -> bool:
    """Tell whether a turn may answer the one before it, and so belongs in the same write."""
    if not isinstance(record, TurnRecord) or not isinstance(after, TurnRecord):
        return False
    return (record.role, after.role) == ("agent", "user")


def _is_wanted(record: Memories | LeftTurn, options: RecordOptions) -> bool:
    if options.source_user is not None:
        return record.user == options.source_user
    return options.user is not None or record.user is not None


def _place(record: Memories) -> tuple[object, ...]:
    return type(record), record.user, record.thread if isinstance(record, TurnRecord) else ""


def _memory(record: StatementRecord, at: datetime) -> NewMemory:
    return NewMemory(
        text=record.text, key=record.key, author=record.author, occurred_at=at,
        expires_at=record.expires_at, metadata=record.metadata,
    )  # fmt: skip


def _stamp(address: ItemAddress, record: StatementRecord, at: datetime) -> ItemStamp:
    return ItemStamp(
        address=address, created_at=record.created_at or at, updated_at=at,
        expires_at=record.expires_at, ttl_s=None,
    )  # fmt: skip


def _fact_id(scope: Scope, key: str) -> MemoryId:
    return MemoryId(uuid5(NAMESPACE_URL, f"{scope_path(scope)}{key}"))


def _fact(record: FactRecord, sanitizer: Intake) -> tuple[FactDraft, TripleDraft]:
    """Return the drafts of a fact and of its edge.

    A relation of the user that stands for a slot ("lives_in") takes that slot, so that it is
    compared with what the user said. Every other relation holds many values. A past form such as
    "lived_in" takes the slot too, and had ended when it was said.
    """
    text, subject, object_ = (
        sanitizer.memory(NewMemory(text=one)).text
        for one in (record.text, short_name(record.subject), short_name(record.object))
    )
    relation, until = relation_name(record.relation), record.valid_until
    if subject == USER:
        past = present_relation(relation)
        relation = past or DECLARED.name(relation)
        if past and until is None:
            until = max(record.valid_from, record.said_at or record.valid_from)
    slot = slot_of_relation(relation) if subject == USER else None
    draft = FactDraft(
        fact_type=slot.fact_type if slot else "custom",
        slot=slot.name if slot else relation,
        value=object_,
        statement=text,
        event_id="",
        functional=slot.functional if slot else False,
        confidence=1.0,
        pattern=PATTERN,
        language="zh" if language(text) == "zh" else "en",
        subject=subject,
        valid_from=record.valid_from.astimezone(UTC),
        valid_until=until and until.astimezone(UTC),
    )
    triple = TripleDraft(
        subject=subject, relation=relation, object=object_, event_id="",
        functional=draft.functional, valid_from=draft.valid_from,
    )  # fmt: skip
    return draft, triple
