"""The key-value face of memory: batches that read, search, list and write items by address."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeAlias

from shared_core.domain import JsonValue, MemoryId, Namespace
from shared_core.embedding import Embedding
from shared_core.errors import InvalidInput
from shared_core.ids import uuid7
from shared_core.ingest import TEXT_FIELD
from shared_core.item_ports import Item, ItemAddress, ItemQuery, NamespaceQuery
from shared_core.jsontext import check_json
from shared_core.namespaces import check_label, clean_text
from shared_core.ports import Clock, MemoryRow, Storage
from shared_core.text import has_words, search_terms

MAX_TTL_S = 100 * 366 * 86_400.0
"""The longest time to live, 100 years; who wants more means for ever, and leaves it out."""

MAX_BOUND = 1_000_000_000

CONTENT_FIELDS = ("content", "text", "memory")
"""Where a value says in words what it is about; the first that holds text is the memory's text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadItem:
    """Read one item. refresh: give it its full time to live again, if it has one."""

    address: ItemAddress
    refresh: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class FindItems:
    """Find items below a namespace: nearest to query first, or newest first without one."""

    prefix: Namespace
    query: str | None = None
    filter: Mapping[str, JsonValue] = field(default_factory=dict)
    limit: int = 10
    offset: int = 0
    refresh: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteItem:
    """Write one item, or delete it when value is None.

    texts: field name to the text to embed for it; None embeds what the value says in words, an
    empty mapping keeps the item out of every search by meaning. ttl_s: seconds to live.
    """

    address: ItemAddress
    value: Mapping[str, JsonValue] | None
    texts: Mapping[str, str] | None = None
    ttl_s: float | None = None


ItemOp: TypeAlias = ReadItem | FindItems | NamespaceQuery | WriteItem
ItemResult: TypeAlias = "Item | Sequence[Item] | Sequence[Namespace] | None"


async def run_item_ops(
    storage: Storage, embedding: Embedding, clock: Clock, ops: Sequence[ItemOp]
) -> list[ItemResult]:
    """Run a batch and return a result for each op, in order: reads see the state before it.

    Reads first, then searches, then lists, then writes; the last write to an address wins.
    """
    results: list[ItemResult] = [None] * len(ops)
    touched: list[ItemAddress] = []
    reads = {position: op for position, op in enumerate(ops) if isinstance(op, ReadItem)}
    if reads:
        addresses = list(dict.fromkeys(op.address for op in reads.values()))
        items = await storage.get_items(addresses)
        found = {(item.namespace, item.key): item for item in items}
        for position, read in reads.items():
            results[position] = found.get(read.address)
        again = {op.address for op in reads.values() if op.refresh}
        touched += [a for a, item in found.items() if item.has_ttl and a in again]
    for position, op in enumerate(ops):
        if isinstance(op, FindItems):
            hits = await _find(storage, embedding, op)
            results[position] = hits
            touched += [(i.namespace, i.key) for i in hits if i.has_ttl and op.refresh]
        elif isinstance(op, NamespaceQuery):
            _check_bounds(op)
            results[position] = await storage.list_namespaces(op)
    if touched:
        await storage.extend_items(list(dict.fromkeys(touched)))
    await _write(storage, embedding, clock, [op for op in ops if isinstance(op, WriteItem)])
    return results


def text_of(value: Mapping[str, JsonValue]) -> str:
    """Return what a value says in words: its content, text or memory field, else its own texts."""
    for name in CONTENT_FIELDS:
        words = value.get(name)
        if isinstance(words, str) and words.strip():
            return clean_text(words)
    return clean_text("\n".join(_lines(value)))


def _lines(value: Mapping[str, JsonValue]) -> list[str]:
    """Return "path: text" for everything a value says, in order; a list's entries share a path."""
    lines: list[str] = []
    waiting: list[tuple[str, JsonValue]] = [("", value)]
    while waiting:
        path, part = waiting.pop()
        if isinstance(part, Mapping):
            below = [(f"{path}.{key}" if path else str(key), inner) for key, inner in part.items()]
            waiting += reversed(below)
        elif isinstance(part, Sequence) and not isinstance(part, str):
            waiting += [(path, inner) for inner in reversed(part)]
        elif part is not None and has_words(str(part)):
            lines.append(f"{path}: {part!s}")
    return lines


def _check_bounds(op: FindItems | NamespaceQuery) -> None:
    depth = op.max_depth if isinstance(op, NamespaceQuery) else None
    if op.limit < 0 or op.offset < 0 or (depth or 0) < 0:
        raise InvalidInput("limit, offset and max_depth must not be negative")
    if max(op.limit, op.offset, depth or 0) > MAX_BOUND:
        raise InvalidInput(f"limit, offset and max_depth must not be above {MAX_BOUND:,}")


async def _find(storage: Storage, embedding: Embedding, op: FindItems) -> Sequence[Item]:
    _check_bounds(op)
    if op.limit == 0:
        return []
    query = ItemQuery(prefix=op.prefix, limit=op.limit, offset=op.offset, filter=op.filter)
    if op.query and has_words(clean_text(op.query)):
        query = ItemQuery(
            prefix=op.prefix,
            limit=op.limit,
            offset=op.offset,
            filter=op.filter,
            model=embedding.model,
            vector=await embedding.query(op.query),
        )
    return await storage.find_items(query)


async def _write(
    storage: Storage, embedding: Embedding, clock: Clock, ops: Sequence[WriteItem]
) -> None:
    last = {op.address: op for op in ops}
    rows: list[MemoryRow] = []
    texts: list[tuple[ItemAddress, str, str]] = []
    now = clock()
    for address, op in last.items():
        if op.value is not None:
            row, fields = _row(address, op, now)
            rows.append(row)
            texts += [(address, name, text) for name, text in fields.items()]
    gone = [address for address, op in last.items() if op.value is None]
    if rows or gone:
        await storage.put_memories(rows, await embedding.rows(texts), gone)


def _row(address: ItemAddress, op: WriteItem, now: datetime) -> tuple[MemoryRow, dict[str, str]]:
    """Return the row of a write, and the texts to embed for it by field."""
    assert op.value is not None
    namespace, key = address
    check_label(key, f"the key of an item in {namespace}")
    if op.ttl_s is not None and not 0 < op.ttl_s <= MAX_TTL_S:
        raise InvalidInput(
            f"the time to live of {key!r} must be above 0 and at most 100 years, not {op.ttl_s} s"
        )
    check_json(op.value, f"the value of {key!r} in {namespace}")
    text = text_of(op.value)
    fields = {TEXT_FIELD: text} if op.texts is None else dict(op.texts)
    fields = {name: words for name, words in fields.items() if has_words(words)}
    row = MemoryRow(
        memory_id=MemoryId(uuid7()),
        namespace=namespace,
        key=key,
        kind="item",
        text=text,
        value=op.value,
        terms=search_terms(text) if fields else (),
        occurred_at=now,
        expires_at=now + timedelta(seconds=op.ttl_s) if op.ttl_s else None,
        ttl_s=op.ttl_s,
    )
    return row, fields
