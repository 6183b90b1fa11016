"""Which fields of memories lack a vector of a model, and how they get one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from shared_core.core.namespaces import MEMORIES, from_path, to_path
from shared_core.errors import InvalidInput
from shared_core.ports.indexes import EmbeddedField
from shared_core.ports.items import VectorRows
from shared_core.ports.operations import (
    Join,
    Last,
    Policy,
    Select,
    Update,
    Verb,
    begins_with,
    compare,
    equal,
    is_null,
    one_of,
    open_after,
)

if TYPE_CHECKING:
    from shared_core.ports.indexes import Matrix

TEXT_FIELD = "text"
"""Name of the vector of a memory's text."""
EARLY = "!"
"""Begins the field names of passages that were written while others of their text had no vector."""
_PASSAGE = re.compile(f"{EARLY}?{TEXT_FIELD}:([0-9]+)-([0-9]+)")


def turns_without_vectors(
    tenant: str, thread_id: str, model: str, limit: int, now: datetime
) -> Policy[list[EmbeddedField]]:
    """Return the texts of turns of a thread without a vector of a model, oldest first."""
    living = (
        equal("m.kind", "episodic"),
        compare("m.term_count", ">", 0),
        begins_with("m.namespace", to_path((MEMORIES,))),
        is_null("m.superseded_at"),
        is_null("m.demoted_at"),
        open_after("m.expires_at", now),
    )
    memories = Join("memories", "m", (("memory_id", "memory_id"),))
    where = (equal("thread_id", thread_id), *living)
    [turns] = yield [Select("memory_sources", ("memory_id",), where, (memories,), is_distinct=True)]
    ids = [row[0] for row in turns]
    of_model = (one_of("memory_id", ids), equal("model", model))
    [embedded] = yield [Select("embeddings", ("memory_id",), of_model, is_distinct=True)]
    waiting = sorted(set(ids) - {row[0] for row in embedded})[:limit]
    if not waiting:
        return []
    fields = [(memory_id, TEXT_FIELD) for memory_id in waiting]
    return (yield from fields_without_vectors(tenant, model, fields, must_exist=False))


def fields_without_vectors(
    tenant: str, model: str, fields: Sequence[tuple[UUID, str]], *, must_exist: bool
) -> Policy[list[EmbeddedField]]:
    """Return those of some fields (memory, field) that have no vector of a model.

    Args:
        tenant: the path of the user or the application.
        model: the name of the model.
        fields: each a memory's id and the name of its field.
        must_exist: whether a memory that does not exist is an error; else it is left out.

    Raises:
        InvalidInput: a memory does not exist.
    """
    named = one_of("memory_id", sorted({memory_id for memory_id, _ in fields}))
    columns = ("memory_id", "namespace", "key", "text", "value", "updated_at")
    rows, embedded = yield [
        Select("memories", columns, (named,)),
        Select("embeddings", ("memory_id", "field"), (named, equal("model", model))),
    ]
    memories, made = {row[0]: row[1:] for row in rows}, set(embedded)
    found = []
    for memory_id, field in dict.fromkeys(fields):
        if memory_id not in memories:
            if must_exist:
                raise InvalidInput(f"it does not fit its table: there is no memory {memory_id}")
        elif (memory_id, field) not in made:
            namespace, key, text, value, updated_at = memories[memory_id]
            address = (from_path(tenant + namespace[1:]), key)
            found.append(
                EmbeddedField(
                    tenant=tenant,
                    memory_id=memory_id,
                    address=address,
                    field=field,
                    text=text,
                    value=value,
                    updated_at=updated_at,
                )
            )
    return found


def items_without_vectors(
    after: UUID | None, limit: int, now: datetime
) -> Policy[tuple[UUID | None, dict[UUID, int]]]:
    """Return the next page of items that have words but no vector, or EARLY ones alone.

    Args:
        after: the cursor of the page before, None for the first page.
        limit: number of items to look at.
        now: items that expired before it are left out.

    Returns:
        The cursor for the next page, None after the last one, and the number of words of each item
        by its id.
    """
    where = (
        equal("kind", "item"),
        compare("term_count", ">", 0),
        is_null("superseded_at"),
        is_null("demoted_at"),
        open_after("expires_at", now),
        *(() if after is None else (compare("memory_id", ">", after),)),
    )
    columns = ("memory_id", "term_count")
    [page] = yield [Select("memories", columns, where, order=("memory_id",), limit=limit)]
    ids = [row[0] for row in page]
    whole = (one_of("memory_id", ids), compare("field", ">", f"{EARLY}{TEXT_FIELD};"))
    [embedded] = yield [Select("embeddings", ("memory_id",), whole, is_distinct=True)]
    done = {row[0] for row in embedded}
    waiting = {memory_id: count for memory_id, count in page if memory_id not in done}
    return ids[-1] if len(ids) == limit else None, waiting


def replace_terms(one: EmbeddedField, terms: Sequence[str]) -> Policy[None]:
    """Set the search terms of a memory, unless its text changed since it was read."""
    as_read = (equal("memory_id", one.memory_id), equal("updated_at", one.updated_at))
    yield Last([Update("memories", {"terms": terms, "term_count": len(terms)}, as_read)])


def fields_with_vectors(model: str, ids: Sequence[UUID]) -> Select:
    """Return the query for the fields (memory, field) of memories that have a vector of a model."""
    of_model = (one_of("memory_id", ids), equal("model", model))
    return Select("embeddings", ("memory_id", "field"), of_model)


def passage_field(begin: int, end: int, *, is_early: bool) -> str:
    """Return the field name of the vector of text[begin:end]."""
    return f"{EARLY if is_early else ''}{TEXT_FIELD}:{begin}-{end}"


def passage_of(field: str) -> slice | None:
    """Return the slice of the text that passage_field() named, or None for another field."""
    found = _PASSAGE.fullmatch(field)
    return slice(int(found[1]), int(found[2])) if found else None


def add_missing_vectors(
    model: str, fields: Sequence[EmbeddedField], vectors: Matrix
) -> Policy[int]:
    """Add vectors of a tenant's fields, row i of vectors for fields[i]; return their number.

    Left out are fields that have a vector by now, and those of memories that were rewritten since
    they were read: their new text needs another one. A rewrite waits for the end of this.
    """
    named = one_of("memory_id", sorted({one.memory_id for one in fields}))
    held, embedded = yield [
        Select(
            "memories", ("memory_id", "updated_at"), (named,), order=("memory_id",), lock="update"
        ),
        Select("embeddings", ("memory_id", "field"), (named, equal("model", model))),
    ]
    updated_at, made = dict[UUID, datetime](held), set(embedded)
    kept = [
        place
        for place, one in enumerate(fields)
        if updated_at.get(one.memory_id) == one.updated_at
        and (one.memory_id, one.field) not in made
    ]
    if kept:
        rows = VectorRows(
            model=model,
            addresses=[fields[place].address for place in kept],
            fields=[fields[place].field for place in kept],
            vectors=vectors[kept],
        )
        yield Last([Verb("add_vectors", (rows,))])
    return len(kept)
