"""A vector is added once, and never for a text that is no longer the stored one."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given, strategies as st

from shared_core.errors import InvalidInput
from shared_core.policies.vectors import add_missing_vectors, fields_without_vectors
from shared_core.ports.indexes import EmbeddedField
from shared_core.ports.operations import Last

TENANT, START = "/app/ana/", datetime(2026, 3, 1, tzinfo=UTC)
NAMES = st.tuples(st.integers(0, 4), st.sampled_from(["text", "title"]))


def moment(number: int) -> datetime:
    return START + timedelta(hours=number)


def memory_rows(memories: dict[int, int]) -> list[tuple[Any, ...]]:
    """Return rows as the policy selects them; memories: when each was last updated."""
    return [
        (UUID(int=memory), "/notes/", f"k{memory}", "a text", {}, moment(updated))
        for memory, updated in memories.items()
    ]


def driven(policy: Any, rows: Sequence[Sequence[tuple[Any, ...]]]) -> tuple[Any, Last | None]:
    """Answer the one read of a policy; return its result and its last batch."""
    next(policy)
    last = None
    try:
        last = policy.send(list(rows))
        policy.send([])
    except StopIteration as end:
        return end.value, last
    raise AssertionError("a second read")


def waiting(
    memories: dict[int, int], made: set[tuple[int, str]], asked: list[tuple[int, str]]
) -> list[EmbeddedField]:
    fields = [(UUID(int=memory), field) for memory, field in asked]
    embedded = [(UUID(int=memory), field) for memory, field in made]
    policy = fields_without_vectors(TENANT, "m", fields, must_exist=False)
    found, last = driven(policy, [memory_rows(memories), embedded])
    assert last is None
    return list(found)


@given(
    st.dictionaries(st.integers(0, 4), st.integers(0, 1)), st.sets(NAMES),
    st.lists(NAMES, max_size=8), st.dictionaries(st.integers(0, 4), st.integers(0, 1)),
    st.sets(NAMES),
)  # fmt: skip
def test_only_what_is_missing_and_unchanged_gets_a_vector(memories, made, asked, later, made_later):
    read = waiting(memories, made, asked)
    names = [(one.memory_id.int, one.field) for one in read]
    assert names == [one for one in dict.fromkeys(asked) if one[0] in memories and one not in made]
    vectors = np.arange(2.0 * len(read), dtype=np.float32).reshape(len(read), 2)
    held = [(row[0], row[5]) for row in memory_rows(later)]
    embedded = [(UUID(int=memory), field) for memory, field in made_later]
    count, last = driven(add_missing_vectors("m", read, vectors), [held, embedded])
    fit = [
        place
        for place, (memory, field) in enumerate(names)
        if later.get(memory) == memories[memory] and (memory, field) not in made_later
    ]
    assert count == len(fit)
    if last is None:
        assert not fit
        return
    [verb] = last.operations
    [rows] = verb.arguments  # type: ignore[union-attr] # a verb
    assert rows.addresses == [(("app", "ana", "notes"), f"k{names[place][0]}") for place in fit]
    assert rows.fields == [names[place][1] for place in fit]
    assert rows.vectors.tolist() == vectors[fit].tolist()


def test_a_memory_that_must_exist_is_missed():
    policy = fields_without_vectors(TENANT, "m", [(UUID(int=7), "text")], must_exist=True)
    next(policy)
    with pytest.raises(InvalidInput, match=f"no memory {UUID(int=7)}"):
        policy.send([[], []])
