"""What the compiler of PostgreSQL writes into the text of a statement, and what it sends beside."""

from __future__ import annotations

from shared_core.ports.operations import Select, equal, is_not_null
from shared_core.storage.postgres.connection.operations import compiled


def test_a_value_that_a_partial_index_names_stands_in_the_text() -> None:
    """A generic plan uses the index of summaries only if the statement says 'summary'."""
    where = (equal("thread_id", "t"), equal("kind", "summary"), is_not_null("superseded_at"))
    text, values = compiled(Select("memories", ("memory_id",), where), "/app/ana/")
    assert b"t.kind = 'summary'" in text
    assert {"p0": "/app/ana/", "p1": "t"} == values


def test_any_other_value_is_sent_beside_the_text() -> None:
    where = (equal("kind", "item"), equal("key", "summary"))
    text, values = compiled(Select("memories", ("memory_id",), where), "/app/ana/")
    assert b"item" not in text
    assert {"p0": "/app/ana/", "p1": "item", "p2": "summary"} == values
