"""The mark of a write stays in one table, whatever its later attempts write."""

from __future__ import annotations

from every_case import every_case

from shared_core.storage.postgres.connection.marks import Mark


@every_case((True, b"coordinator_writes"), (False, b" writes"))
def test_the_first_attempt_decides_where_the_mark_is(first: bool, table: bytes) -> None:
    mark = Mark("/app/ana/")
    attempts = [mark.written(on_coordinator=one) for one in (first, not first)]
    for statements in (*attempts, [mark.looked_for()]):
        assert all(table in text for text, _ in statements)
