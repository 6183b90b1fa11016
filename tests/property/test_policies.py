"""Whatever workers and callers do in any order, a work waits once and a thread is read once."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from dictionaries import Tables, run, tables
from hypothesis import given, strategies as st

from shared_core.core.domain import ThreadId
from shared_core.errors import Conflict, InvalidInput
from shared_core.policies import jobs as policies
from shared_core.policies.vectors import add_missing_vectors, fields_without_vectors
from shared_core.ports.indexes import EmbeddedField
from shared_core.ports.jobs import JobType, NewJob
from shared_core.ports.operations import Last, Policy

NOW = datetime(2026, 3, 1, tzinfo=UTC)
OPEN = ("pending", "running")
KINDS = (JobType.FAST_REPLAY, JobType.DEEP_REFLECTION)
IDS = st.integers(0, 7).map(lambda number: UUID(int=number))
WORKERS = st.sampled_from(["w1", "w2"])
THREADS = st.sampled_from(["a", "b"])
STEPS = st.one_of(
    st.tuples(st.just("start"), IDS, THREADS, st.sampled_from(KINDS), WORKERS),
    st.tuples(st.just("extend"), IDS, WORKERS),
    st.tuples(st.just("complete"), IDS, WORKERS),
    st.tuples(st.just("return"), IDS, WORKERS, st.booleans(), st.booleans()),
    st.tuples(st.just("retry"), st.lists(IDS, max_size=4)),
    st.tuples(st.just("cancel"), st.lists(IDS, max_size=3)),
)
ROWS = st.lists(
    st.tuples(THREADS, st.sampled_from(KINDS), st.sampled_from(["pending", "running", "failed",
              "completed", "cancelled"]), WORKERS, st.integers(-1, 1)),
    max_size=8,
)  # fmt: skip


def world_of(rows: list[tuple[str, JobType, str, str, int]]) -> Tables:
    """Return jobs of two threads, and sessions that wait for them; no rule is broken yet."""
    jobs: list[dict[str, Any]] = []
    for place, (thread, kind, status, worker, lease) in enumerate(rows):
        same_work = [one for one in jobs if (one["thread_id"], one["job_type"]) == (thread, kind)]
        if status == "pending" and any(one["status"] == status for one in same_work):
            continue
        if status == "running" and any(
            (one["thread_id"], one["status"]) == (thread, status) for one in jobs
        ):
            continue
        is_running = status == "running"
        jobs.append(
            {"job_id": UUID(int=place), "thread_id": thread, "job_type": str(kind),
             "status": status, "attempts": 1, "run_after": NOW, "created_at": NOW,
             "worker_id": worker if is_running else None, "result": {}, "priority": 0,
             "lease_until": NOW + timedelta(hours=lease) if is_running else None}
        )  # fmt: skip
    talks = [
        {"thread_id": one, "status": "ending", "event_count": 1, "created_at": NOW,
         "last_active_at": NOW, "ends_at": NOW}
        for one in "ab"
    ]  # fmt: skip
    threads = [{"thread_id": one, "created_at": NOW, "updated_at": NOW} for one in "ab"]
    return tables(consolidation_jobs=jobs, conversations=talks, threads=threads)


def policy_of(step: tuple[Any, ...]) -> Policy[Any]:
    what, *given_ = step
    match what:
        case "start":
            job_id, thread, kind, worker = given_
            job = NewJob(job_id=job_id, job_type=kind, run_after=NOW)
            return policies.start_job(ThreadId(thread), job, worker, NOW + timedelta(hours=1), NOW)
        case "extend":
            return policies.extend_job(*given_, NOW + timedelta(hours=2))
        case "complete":
            return policies.complete_job(*given_, {"n": 1}, NOW)
        case "return":
            job_id, worker, again, counted = given_
            after = NOW if again else None
            return policies.return_job(job_id, worker, "e", after, NOW, counted=counted)
        case "retry":
            return policies.retry_jobs(*given_, NOW)
    return policies.cancel_jobs(*given_, NOW)


@given(ROWS, st.lists(STEPS, max_size=12))
def test_no_order_of_steps_breaks_the_rules_of_the_queue(rows, steps):
    world, ended = world_of(rows), set[str]()
    for step in steps:
        before = {one["job_id"]: dict(one) for one in world[policies.JOBS]}
        if step[0] == "start" and step[1] in before:
            continue  # the id of a new job is new
        try:
            run(policy_of(step), world)
        except Conflict:
            assert step[0] == "start"
        jobs = world[policies.JOBS]
        waiting = Counter(
            (one["thread_id"], one["job_type"]) for one in jobs if one["status"] == "pending"
        )
        running = Counter(one["thread_id"] for one in jobs if one["status"] == "running")
        assert max(waiting.values(), default=1) == max(running.values(), default=1) == 1
        held = [one for one in before.values() if one["status"] == "running"]
        if step[0] in ("extend", "complete", "return"):
            others = [one for one in held if one["worker_id"] != step[2]]
            assert all(one in jobs for one in others)
        assert all(one["lease_until"] is None for one in jobs if one["status"] != "running")
        awaited = {one["thread_id"] for one in jobs if one["status"] in OPEN}
        for talk in world["conversations"]:
            if talk["status"] == "ended" and talk["thread_id"] not in ended:
                ended.add(talk["thread_id"])
                assert talk["thread_id"] not in awaited


@given(st.lists(IDS, min_size=1, max_size=8, unique=True))
def test_of_dead_jobs_of_one_work_one_is_tried_again(ids):
    world = tables(
        consolidation_jobs=[
            {"job_id": one, "thread_id": "a", "job_type": "fast_replay", "status": "failed",
             "attempts": 5, "error": "e", "run_after": NOW, "created_at": NOW, "result": {}}
            for one in ids
        ]
    )  # fmt: skip
    assert run(policies.retry_jobs([*ids, UUID(int=99)], NOW), world) == len(ids)
    found = Counter(one["status"] for one in world[policies.JOBS])
    assert found == Counter({"pending": 1, "cancelled": len(ids) - 1}) - Counter()
    assert all((one["attempts"], one["error"]) == (0, None) for one in world[policies.JOBS])


def test_a_job_that_another_worker_claimed_is_not_put_back_and_a_needed_memory_is_missed():
    """The claim comes between the reads and the writes of start_job()."""
    world = world_of([("a", JobType.FAST_REPLAY, "running", "w1", -1)])
    job = NewJob(job_id=UUID(int=9), job_type=JobType.DEEP_REFLECTION, run_after=NOW)
    policy = policies.start_job(ThreadId("a"), job, "w3", NOW + timedelta(hours=1), NOW)
    answers = run(_rows_of(next(policy)), world)
    row = world[policies.JOBS][0]
    row |= {"worker_id": "w2", "lease_until": NOW + timedelta(hours=1)}
    run(_done(policy.send(answers)), world)
    row = world[policies.JOBS][0]
    assert (row["status"], row["worker_id"]) == ("running", "w2")
    policy = fields_without_vectors(TENANT, "m", [(UUID(int=7), "text")], must_exist=True)
    next(policy)
    with pytest.raises(InvalidInput, match=f"no memory {UUID(int=7)}"):
        policy.send([[], []])


def _rows_of(batch: Any) -> Policy[Any]:
    return (yield batch)


def _done(last: Any) -> Policy[None]:
    yield last


TENANT, START = "/app/ana/", datetime(2026, 3, 1, tzinfo=UTC)
NAMES = st.tuples(st.integers(0, 4), st.sampled_from(["text", "title"]))


def memory_rows(memories: dict[int, int]) -> list[tuple[Any, ...]]:
    """Return rows as the policy selects them; memories: when each was last updated."""
    return [
        (UUID(int=memory), "/notes/", f"k{memory}", "a text", {}, START + timedelta(hours=updated))
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
