"""The check behind benchmarks.kills finds each kind of damage, and nothing in a whole database."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from every_case import every_case

from benchmarks.kill_checks import Check, Rows
from benchmarks.kill_clients import Notes

TENANT = {"tenant_id": "/app/u1/"}
TURNS = {"op": 1, "kind": "append", "user": "u1", "thread": "t", "items": ["e1", "e2"]}
TEXTS = ["I love red tea. Note e1.", "I love green tea. Note e2."]
KEYED = {"op": 2, "kind": "remember", "user": "u1", "items": ["k1"], "texts": ["A note."]}


def whole() -> dict[str, list[dict[str, Any]]]:
    """The rows after two turns of a thread, their facts, and a memory with a key."""
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    rows["threads"] = [
        {**TENANT, "thread_id": "t", "last_seq": 2, "last_memory_seq": 2, "consolidated_seq": 2}
    ]
    for seq, text in enumerate(TEXTS, start=1):
        of_turn = {**TENANT, "thread_id": "t", "event_id": f"e{seq}"}
        rows["events"].append({**of_turn, "seq": seq, "memory_seq": seq, "text": text})
        episode = {**TENANT, "memory_id": f"m{seq}", "key": f"m{seq}", "thread_id": "t"}
        rows["memories"].append({**episode, "kind": "episodic", "text": text})
        rows["memory_sources"].append({**of_turn, "memory_id": f"m{seq}"})
        liked = text.split()[2] + " tea"
        fact = {**TENANT, "memory_id": f"f{seq}", "key": f"like:{liked}", "thread_id": "t"}
        rows["memories"].append({**fact, "kind": "semantic", "text": liked})
        rows["facts"].append({**fact, "slot": "like", "value": liked, "valid_until": None})
    keyed = {**TENANT, "memory_id": "k", "key": "k1", "thread_id": None, "kind": "semantic"}
    rows["memories"].append({**keyed, "text": "A note."})
    rows["embeddings"] = [{**TENANT, "memory_id": row["memory_id"]} for row in rows["memories"]]
    return rows


def kinds(rows: Rows, notes: Notes | None = None) -> list[str]:
    ops = {1: {**TURNS, "texts": TEXTS}, 2: KEYED}
    found = Check("app", notes or Notes(ops=ops, acked={1, 2}), rows).run()
    return [kind for kind, of_kind in found.by_kind().items() if of_kind]


def test_a_whole_database_is_whole() -> None:
    assert kinds(whole()) == []


DAMAGE: list[tuple[str, Callable[[Any], object]]] = [
    ("lost", lambda rows: rows["memories"].pop()),
    ("halved", lambda rows: rows["events"].pop()),
    ("halved", lambda rows: rows["embeddings"].pop()),
    ("halved", lambda rows: rows["memory_sources"].pop()),
    ("halved", lambda rows: rows["events"][0].update(text="I love")),
    ("doubled", lambda rows: rows["events"].append(rows["events"][0])),
    ("doubled", lambda rows: rows["memories"].append({**rows["memories"][-1], "memory_id": "k2"})),
    ("mixed", lambda rows: rows["events"][0].update(tenant_id="/app/u2/")),
    ("mixed", lambda rows: rows["events"][0].update(event_id="e7")),
    ("facts", lambda rows: rows["facts"].pop()),
    ("facts", lambda rows: rows["facts"].append(rows["facts"][0])),
    ("facts", lambda rows: rows["facts"][0].update(value="tea")),
    ("jobs", lambda rows: rows["threads"][0].update(consolidated_seq=1)),
    ("jobs", lambda rows: rows["consolidation_jobs"].append({"status": "running", "job_type": ""})),
]


@every_case(*DAMAGE)
def test_each_damage_is_found(kind: str, damage: Callable[[Any], object]) -> None:
    rows = whole()
    damage(rows)
    assert kind in kinds(rows)


def test_what_was_forgotten_may_not_come_back() -> None:
    forget = {"op": 3, "kind": "forget", "user": "u1", "items": ["k1"]}
    ops = {1: {**TURNS, "texts": TEXTS}, 2: KEYED, 3: forget}
    assert kinds(whole(), Notes(ops=ops, acked={1, 2, 3})) == ["resurrected"]
    assert kinds(whole(), Notes(ops=ops, acked={1, 2})) == []


def test_an_interrupted_write_may_be_there_or_not_but_not_in_part() -> None:
    rows = whole()
    assert kinds(rows, Notes(ops={1: {**TURNS, "texts": TEXTS}, 2: KEYED})) == []
    for table in ("memories", "embeddings"):
        rows[table].pop()
    assert kinds(rows, Notes(ops={1: {**TURNS, "texts": TEXTS}, 2: KEYED}, acked={1})) == []
    rows["events"].pop()
    assert "halved" in kinds(rows, Notes(ops={1: {**TURNS, "texts": TEXTS}, 2: KEYED}))
