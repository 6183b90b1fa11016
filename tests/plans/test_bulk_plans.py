"""Writing many items into a fresh database: plans made while it was empty do not outlive that."""

from __future__ import annotations

import psycopg
from langgraph.store.base import PutOp

from langgraph_store import PgHippocampusStore
from langgraph_store.conformance.samples import HERE, INDEX

BATCHES, SIZE = 6, 500
ROWS_READ = """
    SELECT sum(t.seq_tup_read) + (SELECT sum(i.idx_tup_read) FROM pg_stat_user_indexes i
                                  WHERE i.schemaname = 'hippocampus' AND i.relname = 'memories')
    FROM pg_stat_user_tables t WHERE t.schemaname = 'hippocampus' AND t.relname = 'memories'"""


async def test_bulk_after_single_calls_reads_few_rows_per_item(dsn: str) -> None:
    """Each item is looked up by its key, not among all of its tenant: 90 rows, and not 980."""
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute("ALTER TABLE hippocampus.memories SET (autovacuum_enabled = false)")
    async with PgHippocampusStore(dsn, index=INDEX, pool_size=1) as store:
        await store.aput(HERE, "first", {"text": "one item, while there are no others"})
        await store.aget(HERE, "first")
        for batch in range(BATCHES):
            await store.abatch(
                [PutOp(HERE, f"{batch}-{n}", {"text": f"item {n}"}) for n in range(SIZE)]
            )
        for n in range(20):
            await store.aput(HERE, f"0-{n}", {"text": "rewritten"})
            assert await store.aget(HERE, f"0-{n}") is not None
    with psycopg.connect(dsn) as connection:
        [read] = connection.execute(ROWS_READ).fetchone() or [0]
    assert read < 300 * BATCHES * SIZE
