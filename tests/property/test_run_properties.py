"""Runs of random plans keep the rules between rows, and undo restores what was before them."""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from dictionaries import Tables, run, tables
from hypothesis import given, settings, strategies as st
from long_forms import LONG
from random_runs import NOW, SCOPE, THREADS, RandomRuns

from shared_core.core.namespaces import scope_path
from shared_core.errors import Conflict
from shared_core.policies.applying import apply_run
from shared_core.policies.facts import FactQuery
from shared_core.policies.forgetting import forget_turns
from shared_core.policies.reopening import restore_fact
from shared_core.policies.run_reads import known_of
from shared_core.policies.run_undo import undo_run
from shared_core.ports.operations import Last, Policy, Verb
from shared_core.ports.runs import Fact, RunPlan

LEFT_OUT = ("runs", "run_changes", "consolidation_jobs", "extraction_counts")
SEEDS = st.integers(0, 1_000_000)
few = settings(max_examples=40 if LONG else 10)


def appended(thread: str, rows: Any) -> Policy[None]:
    yield Last([Verb("append_turns", (thread, rows))])


class Runs:
    """Applies random runs to a world of dictionaries, one a minute."""

    def __init__(self, seed: int) -> None:
        self.found, self.plans, self.now = tables(), RandomRuns(seed), NOW
        for thread in THREADS:
            run(appended(thread, self.plans.turns(thread, 4)), self.found, NOW)

    def apply(self) -> Any:
        """Apply a run; return its plan, or None if it is refused."""
        self.now += timedelta(minutes=1)
        self.plans.retired = {
            one["memory_id"] for one in self.found["memories"] if one["superseded_at"]
        }
        number = run(known_of([], [], NOW), self.found).number
        plan = self.plans.plan(number)
        try:
            run(apply_run(plan, self.now), self.found, self.now)
        except Conflict:
            return None
        return plan

    def applied(self, number: int) -> list[Any]:
        """Apply some runs that are kept; return the plans of those that are not refused."""
        kept = []
        for plan in filter(None, (self.apply() for _ in range(number))):
            self.plans.applied(plan)
            kept.append(plan)
        return kept


def held(found: Tables, kept: Iterable[Any]) -> dict[str, list[str]]:
    """Return the rows of a world in an order of their own, without the records of runs.

    kept: the memories with counters that count; undo leaves those of rows that are gone.
    """
    ids = set(kept)
    rows = {table: [{**one} for one in some] for table, some in found.items()
            if some and table not in LEFT_OUT}  # fmt: skip
    rows["memory_access"] = [
        {**one, "forget_at": None} for one in rows["memory_access"] if one["memory_id"] in ids
    ]
    for one in rows["memories"]:
        one["updated_at"] = None
    for one in rows["threads"]:
        one["unread_bytes"] = 0  # what is unread is counted anew
    return {table: sorted(map(repr, some)) for table, some in rows.items() if some}


def is_open(row: dict[str, Any]) -> bool:
    return row["valid_until"] is None and row["superseded_at"] is None


def require_rules(found: Tables) -> None:
    """Assert the rules that hold between the rows of a user after every change."""
    facts = Counter((one["fact_type"], one["key"]) for one in found["facts"] if is_open(one))
    edges = Counter(
        place
        for one in found["edges"]
        if is_open(one)
        for place in ((one["subject_key"], one["relation"], "object", one["object_key"]),
                      *([(one["subject_key"], one["relation"])] if one["functional"] else []))
    )  # fmt: skip
    assert max([*facts.values(), *edges.values()], default=1) == 1
    for one in (*found["facts"], *found["edges"]):
        if one["valid_until"] is not None and one["superseded_at"] is not None:
            assert one["valid_until"] >= one["valid_from"]
    memories = {one["memory_id"]: one for one in found["memories"]}
    for one in found["memory_bases"]:
        basis, drawn = memories[one["basis_id"]], memories[one["memory_id"]]
        assert not basis["superseded_at"] or drawn["superseded_at"], (basis, drawn)
    for table in ("facts", "memory_sources", "embeddings", "memory_access"):
        assert {one["memory_id"] for one in found[table]} <= memories.keys(), table
    edge_ids = {one["edge_id"] for one in found["edges"]}
    assert {one["edge_id"] for one in found["edge_sources"]} <= edge_ids
    for one in found["threads"]:
        assert 0 <= one["consolidated_seq"] <= one["last_memory_seq"]
    numbers = [one["number"] for one in found["runs"]]
    assert len(set(numbers)) == len(numbers)


@few
@given(SEEDS)
def test_every_run_leaves_rows_that_keep_the_rules(seed):
    runs = Runs(seed)
    for _ in range(8):
        runs.applied(1)
        require_rules(runs.found)


@few
@given(SEEDS)
def test_a_run_that_is_undone_leaves_what_was_before(seed):
    runs = Runs(seed)
    runs.applied(4)
    for _ in range(4):
        ids = [one["memory_id"] for one in runs.found["memory_access"]]
        before = held(runs.found, ids)
        if plan := runs.apply():
            run(undo_run(SCOPE, plan.run_id, runs.now), runs.found)
            assert before == held(runs.found, ids)


@few
@given(SEEDS)
def test_runs_are_undone_in_the_order_that_a_refusal_names(seed):
    runs = Runs(seed)
    before = held(runs.found, ids := [one["memory_id"] for one in runs.found["memory_access"]])
    kept = runs.applied(6)
    for plan in reversed(kept):
        run(undo_run(SCOPE, plan.run_id, runs.now), runs.found)
        require_rules(runs.found)
    assert before == held(runs.found, ids)


@few
@given(SEEDS, st.sets(st.integers(1, 4)))
def test_nothing_rests_on_a_forgotten_turn(seed, numbers):
    runs = Runs(seed)
    runs.applied(6)
    thread = THREADS[0]
    gone = {f"{thread}{number}" for number in numbers}
    whole = bases(runs.found, thread, gone)
    run(forget_turns(thread, sorted(gone), runs.now), runs.found, runs.now)
    assert not gone & {one["event_id"] for one in runs.found["events"]
                       if one["thread_id"] == thread}  # fmt: skip
    require_rules(runs.found)
    for table in ("memory_sources", "edge_sources"):
        left = {(one["thread_id"], one["event_id"]) for one in runs.found[table]}
        assert not left & {(thread, event_id) for event_id in gone}, table
    stored = {one["memory_id"] for one in runs.found["memories"]}
    for memory_id, has_whole_basis in whole.items():
        assert memory_id not in stored or has_whole_basis


@few
@given(SEEDS)
def test_an_edge_that_a_run_ends_and_moves_holds_again_after_undo(seed):
    runs = Runs(seed)
    runs.applied(4)
    before = held(runs.found, ids := [one["memory_id"] for one in runs.found["memory_access"]])
    edges = [one["edge_id"] for one in runs.found["edges"] if is_open(one)]
    plan = RunPlan(
        run_id=runs.plans.id(), kind="graph", scope=SCOPE, thread_id=None, extractor="caller",
        started_at=NOW,
        close_edges=[(one, NOW + timedelta(days=2)) for one in edges],
        move_edges=[(one, NOW + timedelta(days=1)) for one in edges],
    )  # fmt: skip
    run(apply_run(plan, runs.now), runs.found, runs.now)
    for one in runs.found["edges"]:
        if one["edge_id"] in edges:
            assert one["valid_until"] == max(NOW + timedelta(days=1), one["valid_from"])
    run(undo_run(SCOPE, plan.run_id, runs.now), runs.found)
    assert before == held(runs.found, ids)


def listed(now: datetime) -> Policy[list[Fact]]:
    """Read all facts, ended ones too."""
    query = FactQuery(now=now, history=True)
    return list(query.facts((yield query.selects())))


@few
@given(SEEDS, st.randoms(use_true_random=False))
def test_a_fact_that_is_restored_holds_until_that_is_undone(seed, random):
    runs = Runs(seed)
    runs.applied(6)
    ended = [one for one in run(listed(runs.now), runs.found) if one.superseded_at is not None]
    if not ended:
        return
    fact, run_id, tenant = random.choice(ended), runs.plans.id(), scope_path(SCOPE)
    ids = [one["memory_id"] for one in runs.found["memory_access"]]
    before = held(runs.found, ids)
    try:
        run(restore_fact(tenant, fact, run_id, runs.now), runs.found, runs.now)
    except Conflict:
        assert before == held(runs.found, ids)
        return
    [row] = [one for one in runs.found["facts"] if one["memory_id"] == fact.memory_id]
    assert is_open(row)
    [memory] = [one for one in runs.found["memories"] if one["memory_id"] == fact.memory_id]
    assert memory["superseded_at"] is None
    require_rules(runs.found)
    run(undo_run(SCOPE, run_id, runs.now), runs.found)
    assert before == held(runs.found, ids)


def bases(found: Tables, thread: str, gone: set[str]) -> dict[Any, bool]:
    """Return whether each memory with turns has a basis without one of those that go."""
    broken = dict[tuple[Any, int], bool]()
    for one in found["memory_sources"]:
        place = one["memory_id"], one["basis"]
        is_gone = one["thread_id"] == thread and one["event_id"] in gone
        broken[place] = broken.get(place, False) or is_gone
    whole = dict[Any, bool]()
    for (memory_id, _), is_broken in broken.items():
        whole[memory_id] = whole.get(memory_id, False) or not is_broken
    return whole
