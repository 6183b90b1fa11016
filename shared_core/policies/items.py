"""Deleting items, importing them with their times, and the versions of instructions.

The newest version of an instruction is an item as well; a table of its own holds all versions. An
import marks its items, so that a later import does not bring back those deleted here since.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeAlias
from uuid import UUID

from shared_core.core.domain import Scope
from shared_core.core.ids import is_uuid
from shared_core.core.namespaces import (
    INSTRUCTIONS,
    MEMORIES,
    instructions_namespace,
    rest_of,
    storable,
    to_path,
)
from shared_core.policies.forgetting import NAMED, forget_named, select_turns
from shared_core.ports.items import (
    ImportMark,
    Instruction,
    ItemAddress,
    ItemStamp,
    MemoryRow,
    VectorRows,
)
from shared_core.ports.jobs import NewJob
from shared_core.ports.operations import (
    Aggregate,
    Delete,
    Insert,
    Last,
    Operation,
    Policy,
    Row,
    Select,
    Update,
    UpdateEach,
    Verb,
    equal,
    one_of,
    one_of_rows,
)

Place: TypeAlias = tuple[str, str]
"""Where a memory stands in its tenant: the path of its namespace, and its key."""
EVERY_ITEM = b""
"""The hash in import_marks that stands for every item of a tenant."""
_PLACE = ("namespace", "key")
_MEMORIES, _INSTRUCTIONS = to_path((MEMORIES,)), to_path((INSTRUCTIONS,))
_VERSION = ("instruction_key", "version", "metadata", "created_at")
_TIMES = ("created_at", "updated_at", "occurred_at", "expires_at", "ttl_s")


def forget_items(
    addresses: Iterable[ItemAddress], now: datetime, also: Sequence[Operation] = ()
) -> Policy[int]:
    """Delete items of one tenant with what rests on them alone; return how many memories go.

    An instruction goes with all its versions, and imported items are marked as deleted.
    also: operations that belong to the same transaction.
    """
    return (yield from _forget([_place(one) for one in addresses], (), now, also))


def forget_keys(keys: Iterable[str], now: datetime) -> Policy[int]:
    """Delete memories of a user by key or id with what rests on them; return how many go."""
    named = list(keys)
    ids = [UUID(key) for key in named if is_uuid(key)]
    return (yield from _forget([(_MEMORIES, key) for key in named], ids, now, ()))


def _forget(
    places: Sequence[Place], ids: Sequence[UUID], now: datetime, also: Sequence[Operation]
) -> Policy[int]:
    there = {place for place in places if storable(place[1])}
    wanted = [one_of_rows(_PLACE, sorted(there)), *([one_of("memory_id", ids)] if ids else [])]
    rows = yield [
        *(Select("memories", (*NAMED, *_PLACE), (where,)) for where in wanted),
        *map(select_turns, wanted),
    ]
    found = {row for of_one in rows[: len(wanted)] for row in of_one}
    turns = {(row[0], row[1]) for of_one in rows[len(wanted) :] for row in of_one}
    there |= {(row[-2], row[-1]) for row in found}
    operations = [*also, _marked_deleted(there, now)]
    if keys := _versioned(there):
        operations.append(Delete("instructions", (one_of("instruction_key", keys),)))
    if not found:
        yield Last(operations)
        return 0
    named = [row[: len(NAMED)] for row in sorted(found)]
    return (yield from forget_named(named, turns, now, operations))


def put_items(
    rows: Sequence[MemoryRow],
    vectors: VectorRows | None,
    forgotten: Sequence[ItemAddress],
    stamps: Sequence[ItemStamp],
    now: datetime,
    job: NewJob | None = None,
) -> Policy[None]:
    """Write items of one tenant and delete others.

    stamps: original times of imported ones. job: embeds what was written without its vectors.
    """
    written = [Verb("put_items", (rows,)), Verb("add_vectors", (vectors,))]
    if job:
        written.append(Verb("enqueue", (None, job)))
    found = yield [*written, *_select_stamped(stamps)]
    operations = _stamped(stamps, found[len(written) :], written=True)
    if forgotten:
        yield from forget_items(forgotten, now, operations)
    else:
        yield Last(operations)


def stamp_items(stamps: Sequence[ItemStamp]) -> Policy[None]:
    """Mark items of one tenant as imported, with their original times unless written since.

    If neither side was written since, the later expiry wins: reads may have extended either.
    """
    rows = yield _select_stamped(stamps)
    yield Last(_stamped(stamps, rows, written=False))


def select_marks(addresses: Iterable[ItemAddress]) -> Select:
    """Return what reads the import marks of items of one tenant, for marks_of()."""
    hashes = sorted({_hash(_place(address)) for address in addresses} | {EVERY_ITEM})
    return Select(
        "import_marks",
        ("address_hash", "updated_at", "deleted_at"),
        (one_of("address_hash", hashes),),
    )


def marks_of(
    addresses: Iterable[ItemAddress], rows: Iterable[Row]
) -> dict[ItemAddress, ImportMark]:
    """Return the mark of each marked item: its own, or that of its tenant."""
    found = {
        bytes(digest): ImportMark(updated_at=updated_at, deleted_at=deleted_at)
        for digest, updated_at, deleted_at in rows
    }
    shared = found.get(EVERY_ITEM)
    marks: dict[ItemAddress, ImportMark] = {}
    for address in addresses:
        own = found.get(_hash(_place(address)))
        if own and shared:
            marks[address] = own.after(shared)
        elif mark := own or shared:
            marks[address] = mark
    return marks


def put_instruction(
    scope: Scope, row: MemoryRow, vectors: VectorRows | None
) -> Policy[Instruction]:
    """Add a version of an instruction unless the newest is equal; return the newest."""
    *_, newest, first = yield [
        Verb("put_items", ([row],)),
        Verb("add_vectors", (vectors,)),
        *select_versions(row.key, 1),
    ]
    yield Last([])
    return versions_of(scope, newest, first)[0]


def drop_instruction(scope: Scope, key: str, now: datetime) -> Policy[int]:
    """Delete an instruction with its item and all its versions; return their number."""
    count = (Aggregate("count"),)
    [[(versions,)]] = yield [Select("instructions", count, (equal("instruction_key", key),))]
    yield from forget_items([(instructions_namespace(scope), key)], now)
    return int(versions)


def select_versions(key: str, limit: int) -> list[Select]:
    """Return what reads the newest versions of an instruction, for versions_of()."""
    of_key = (equal("instruction_key", key),)
    return [
        Select("instructions", _VERSION, of_key, order=("-version",), limit=limit),
        Select("instructions", (Aggregate("min", "created_at"),), of_key),
    ]


def versions_of(scope: Scope, rows: Iterable[Row], first: Sequence[Row]) -> list[Instruction]:
    """Return versions of an instruction, newest first, from the rows of select_versions()."""
    return [_version(scope, row, first[0][0]) for row in rows]


def newest_instructions(scope: Scope, limit: int, offset: int) -> Policy[list[Instruction]]:
    """Return the newest version of each instruction, latest change first."""
    columns = ("instruction_key", "version", "created_at")
    [rows] = yield [Select("instructions", columns)]
    newest: dict[str, tuple[int, datetime]] = {}
    first_at: dict[str, datetime] = {}
    for key, version, at in rows:
        newest[key] = max(newest.get(key, (0, at)), (version, at))
        first_at[key] = min(first_at.get(key, at), at)
    keys = sorted(newest)
    keys.sort(key=lambda key: newest[key][1], reverse=True)
    page = {key: newest[key][0] for key in keys[offset : offset + limit]}
    where = one_of_rows(("instruction_key", "version"), sorted(page.items()))
    [found] = yield [Select("instructions", _VERSION, (where,))]
    by_key = {row[0]: row for row in found}
    return [_version(scope, by_key[key], first_at[key]) for key in page]


def _version(scope: Scope, row: Row, first_at: datetime) -> Instruction:
    key, version, value, written_at = row
    return Instruction(
        scope=scope,
        key=key,
        version=version,
        value=value,
        written_at=written_at,
        created_at=first_at,
    )


def _place(address: ItemAddress) -> Place:
    namespace, key = address
    return rest_of(namespace), key


def _hash(place: Place) -> bytes:
    return hashlib.sha256("\0".join(place).encode(errors="surrogatepass")).digest()


def _versioned(places: Iterable[Place]) -> list[str]:
    """Return the keys of the instructions among some items, in order."""
    return sorted({key for path, key in places if path == _INSTRUCTIONS})


def _marked_deleted(places: Iterable[Place], now: datetime) -> Operation:
    hashes = sorted(map(_hash, places))
    return Update("import_marks", {"deleted_at": now}, (one_of("address_hash", hashes),))


def _select_stamped(stamps: Sequence[ItemStamp]) -> list[Select]:
    """Return what reads items to stamp, and the newest versions of instructions among them."""
    if not stamps:
        return []
    places = sorted({_place(stamp.address) for stamp in stamps})
    keys = _versioned(places)
    items = (*_PLACE, "memory_id", "updated_at", "expires_at")
    newest = ("instruction_key", Aggregate("max", "version"))
    return [
        Select("memories", items, (one_of_rows(_PLACE, places),)),
        Select("instructions", newest, (one_of("instruction_key", keys),)),
    ]


def _stamped(
    stamps: Sequence[ItemStamp], rows: Sequence[Sequence[Row]], *, written: bool
) -> list[Operation]:
    """Return what marks items as imported and sets their times; rows: of _select_stamped().

    written: this transaction wrote the items. A later stamp of the same item wins.
    """
    if not stamps:
        return []
    held = {(path, key): rest for path, key, *rest in rows[0]}
    newest: Mapping[str, int] = dict(rows[1])
    items: dict[UUID, tuple[Any, ...]] = {}
    versions: dict[str, datetime] = {}
    marks: dict[bytes, datetime] = {}
    for stamp in stamps:
        place = _place(stamp.address)
        digest = _hash(place)
        marks[digest] = max(stamp.updated_at, marks.get(digest, stamp.updated_at))
        if place not in held:
            continue
        memory_id, updated_at, expires_at = held[place]
        if written or _is_older(updated_at, expires_at, stamp):
            at = updated_at = stamp.updated_at
            items[memory_id] = (stamp.created_at, at, at, stamp.expires_at, stamp.ttl_s)
        if place[0] == _INSTRUCTIONS and place[1] in newest:
            versions[place[1]] = updated_at
    marked = [(digest, at) for digest, at in sorted(marks.items())]
    dated = [(key, newest[key], at) for key, at in sorted(versions.items())]
    operations: list[Operation] = [
        Insert("import_marks", ("address_hash", "updated_at"), marked, "update", ("updated_at",))
    ]
    if items:
        rows_of = [(memory_id, *times) for memory_id, times in items.items()]
        operations.append(UpdateEach("memories", ("memory_id",), _TIMES, rows_of))
    if dated:
        key = ("instruction_key", "version")
        operations.append(UpdateEach("instructions", key, ("created_at",), dated))
    return operations


def _is_older(updated_at: datetime, expires_at: datetime | None, stamp: ItemStamp) -> bool:
    if updated_at != stamp.updated_at:
        return updated_at < stamp.updated_at
    if expires_at is None:
        return False
    return stamp.expires_at is None or stamp.expires_at > expires_at
