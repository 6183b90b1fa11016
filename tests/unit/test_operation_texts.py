"""What goes to PostgreSQL: statements, the values beside them, and the mark of a write."""

from every_case import every_case

from shared_core.ports.operations import Delete, Select, equal, is_not_null, one_of_rows
from shared_core.storage.postgres.connection.marks import Mark
from shared_core.storage.postgres.connection.operations import compiled


def test_a_value_that_a_partial_index_names_stands_in_the_text():
    """A generic plan uses the index of summaries only if the statement says 'summary'."""
    where = (equal("thread_id", "t"), equal("kind", "summary"), is_not_null("superseded_at"))
    text, values = compiled(Select("memories", ("memory_id",), where), "/app/ana/")
    assert b"t.kind = 'summary'" in text
    assert {"p0": "/app/ana/", "p1": "t"} == values


def test_any_other_value_is_sent_beside_the_text():
    where = (equal("kind", "item"), equal("key", "summary"))
    text, values = compiled(Select("memories", ("memory_id",), where), "/app/ana/")
    assert b"item" not in text
    assert {"p0": "/app/ana/", "p1": "item", "p2": "summary"} == values


def test_turns_that_are_deleted_are_looked_up_one_by_one():
    """A list of threads beside a list of turns would let each delete read whole threads."""
    turns = one_of_rows(("thread_id", "event_id"), [("t", "e1"), ("t", "e2")])
    text, values = compiled(Delete("events", (turns,)), "/app/ana/")
    assert b"USING unnest(%(p1)b::text[], %(p2)b::text[])" in text
    assert b"ANY" not in text
    assert {"p0": "/app/ana/", "p1": ["t", "t"], "p2": ["e1", "e2"]} == values


@every_case((True, b"coordinator_writes"), (False, b" writes"))
def test_the_first_attempt_decides_where_the_mark_is(first, table):
    mark = Mark("/app/ana/")
    attempts = [mark.written(on_coordinator=one) for one in (first, not first)]
    for statements in (*attempts, [mark.looked_for()]):
        assert all(table in text for text, _ in statements)
