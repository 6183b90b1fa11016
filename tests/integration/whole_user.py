"""Creates a user with rows in every table."""

from collections.abc import Callable
from datetime import datetime, timedelta

import psycopg
import turns
from turns import START

from shared_core import Event, MemoryEngine, NewMemory, RetentionPolicy, Scope
from shared_core.ingest.items import ReadItem, WriteItem
from shared_core.ports.items import ItemStamp
from shared_core.ports.session_logs import Seen, StateChange

PAYLOAD = '{"id":  "s1",\n "n": 12345678901234567890.10, "text": "nested\\nline \\u4e0a"}'


class WholeClock:
    """A clock that the caller moves; every reading advances it, as on a real clock."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        self.now += timedelta(microseconds=7)
        return self.now


def said(number: int, text: str) -> Event:
    metadata = {"n": number, "quote": '"; DROP TABLE', "big": 10**30}
    return turns.said(number, text, metadata=metadata)


async def populate(memory: MemoryEngine, scope: Scope, clock: WholeClock) -> None:
    """Write the rows through the verbs; write_the_rest() fills the other tables."""
    await memory.append_events(
        scope, "t1",
        [said(1, "My name is Ana. I live in Leeds."), said(2, "I work at Acme."),
         said(3, "我住在上海。\u2028 My sister Mia likes tea."), said(4, "My PIN is a story.")],
    )  # fmt: skip
    await memory.consolidate(scope, "t1")
    clock.now += timedelta(days=2)
    await memory.append_events(scope, "t1", [said(5, "I moved to Lisbon. I love fado.")])
    await memory.consolidate(scope, "t1")
    await memory.append_events(scope, "t2", [said(6, "I love fado."), said(7, "I love fado")])
    await memory.consolidate(scope, "t2")
    await memory.reflect(scope)
    lisbon = next(fact for fact in await memory.facts(scope) if "Lisbon" in fact.value)
    await memory.retract(scope, lisbon)
    await memory.restore(scope, lisbon)
    await memory.append_events(scope, "t1", [said(8, "I no longer like jazz.")])
    await memory.consolidate(scope, "t1")
    await memory.graph.merge_aliases(scope, "Mia", ["Mimi", "米娅"])
    await memory.graph.unmerge_aliases(scope, "Mia", ["Mimi"])
    await memory.remember(
        scope, [NewMemory(text="Ana plays the cello.", key="cello", importance=9)]
    )
    for text in ("Be brief.", "Be brief and kind."):
        await memory.instructions.write(scope, "tone", {"content": text})
    await _items(memory, scope, clock)
    log = await memory.sessions.create(
        scope, "s", StateChange(app={"a": 1}, user={"u": None}, session={"s": [1.5]})
    )
    await memory.sessions.append(
        scope, "s", said(20, "Logged only"), PAYLOAD, seen=Seen(version=log.version)
    )
    await _kept(memory, scope, clock)
    await memory.process_memory("I like tea.", scope.user, app=scope.app)
    await memory.flush()  # otherwise these reads would be counted at a random later time
    await memory.append_events(scope, "t3", [said(30, "Embed me later.")], later=True, delay_s=9e6)


async def _items(memory: MemoryEngine, scope: Scope, clock: Callable[[], datetime]) -> None:
    place = (scope.app, scope.user, "notes", "100%/a")
    await memory.run_item_ops(
        [
            WriteItem(address=(place, "k1"), value={"text": "buy milk", "n": 0.1}, ttl_s=9e6),
            WriteItem(
                address=(place, "k2"),
                value={"title": "A title", "body": "of a book", "null": None},
                texts={"title": "A title", "body": "of a book"},
            ),
            WriteItem(address=(place, "k3"), value={"silent": 1}, texts={}),
        ]
    )
    now = clock()
    stamp = ItemStamp(
        address=(place, "k3"), created_at=now, updated_at=now, expires_at=None, ttl_s=None
    )
    await memory.imported_items.stamp([stamp])
    await memory.run_item_ops([ReadItem(address=(place, "k1"))])


async def _kept(memory: MemoryEngine, scope: Scope, clock: WholeClock) -> None:
    policy = RetentionPolicy(
        min_age_days=7, archive_threshold=1, archive_after_days=5, erase_threshold=None
    )
    await memory.retention.set_policy(policy, scope)
    hits = await memory.recall(scope, "PIN", kinds=["episodic"])
    await memory.forget(scope, next(h.memory.key for h in hits if "PIN" in h.memory.text))
    await memory.retention.pin(scope, ["cello"])
    await memory.recall(scope, "Where does Ana live?")
    await memory.flush()
    clock.now += timedelta(days=400)
    for _ in range(3):  # demoted, then archived
        await memory.retention.forget_faded(scope)
        clock.now += timedelta(days=31)


def write_the_rest(dsn: str, tenant: str) -> None:
    """Fill the tables that no verb writes yet."""
    with psycopg.connect(dsn) as connection:
        connection.execute("SET search_path TO hippocampus")
        for statement in (
            "INSERT INTO profiles (tenant_id, subject_kind, subject_id, version, content_hash,"
            " created_at, memory_id, entries, began_at) SELECT %(t)s, 'agent', 'Ana: «Lisbon»', 1,"
            " '\\x00ff', '2026-01-01', gen_random_uuid(), '[{\"a\": 1.10}]', '2026-01-01'"
            " ON CONFLICT DO NOTHING",
            "INSERT INTO pipeline_log (tenant_id, run_id, step, stage, output, started_at,"
            " duration_s) SELECT tenant_id, run_id, 1, 'update', '{}',"
            " '2026-01-01 00:00:00.000001', 0.1 FROM runs WHERE tenant_id = %(t)s LIMIT 1"
            " ON CONFLICT DO NOTHING",
            "INSERT INTO erasures SELECT %(t)s, gen_random_uuid(), '{}', '{}', '\\x01',"
            " '2026-01-01', '2026-01-02' ON CONFLICT DO NOTHING",
            "INSERT INTO edge_sources SELECT tenant_id, edge_id, 0, 't1', 'e5' FROM edges"
            " WHERE tenant_id = %(t)s",
            "INSERT INTO extraction_counts VALUES (%(t)s, 3) ON CONFLICT DO NOTHING",
        ):
            connection.execute(statement, {"t": tenant})
