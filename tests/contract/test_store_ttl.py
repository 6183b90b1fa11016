"""Times to live: in minutes with fractions, refreshed by reads, swept by hand or by themselves."""

import gc
import logging
import os
import re
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from every_case import every_case
from langgraph.store.base import GetOp, PutOp
from turns import said

from langgraph_store import PgHippocampusStore, memories_namespace
from shared_core import InvalidInput, Scope, StorageUnavailable, open_memory, run_sync

HERE = ("ttl", "alice")
LIVING: Any = {"omit_expired": True}
BY_ITSELF: Any = {"default_ttl": 0.001, "sweep_interval_minutes": 0.002}


@pytest.fixture
def ours(dsn, clock):
    """Our store without expired items, whose time stands still."""
    engine = open_memory(dsn, clock=clock)
    yield PgHippocampusStore(engine=engine, ttl=LIVING)
    run_sync(engine.close())


def rows(dsn: str) -> int:
    with psycopg.connect(dsn) as superuser:
        return superuser.execute("SELECT FROM hippocampus.memories").rowcount


def soon(held: Callable[[], bool], seconds: float = 20) -> bool:
    end = time.monotonic() + seconds
    while not held() and time.monotonic() < end:
        time.sleep(0.02)
    return held()


def sweepers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "hippocampus-sweeper"]


def test_minutes_may_be_fractions(ours, clock):
    for ttl in (0.001, 0.25, 1, 1.5, 60 * 24 * 365):
        ours.put(HERE, "k", {"n": 1}, ttl=ttl, index=False)
        clock.forward(minutes=ttl * 0.9)
        assert ours.get(HERE, "k") is not None, ttl
        clock.forward(minutes=ttl * 0.9)
        assert ours.get(HERE, "k", refresh_ttl=False) is not None, ttl
        clock.forward(minutes=ttl * 0.2)
        assert ours.get(HERE, "k") is None, ttl
        assert ours.search(HERE) == ours.list_namespaces() == [], ttl


@pytest.mark.parametrize(("on_read", "alive"), [(True, True), (False, False)])
def test_refresh_on_read_is_the_default_of_reads(ours, clock, on_read, alive):
    ours.ttl_config = {"refresh_on_read": on_read, "default_ttl": 1, "omit_expired": True}
    for key in ("got", "found"):
        ours.put((*HERE, key), key, {"n": 1}, index=False)
    for _ in range(3):
        clock.forward(minutes=0.6)
        ours.get((*HERE, "got"), "got")
        ours.search((*HERE, "found"))
    assert ["found", "got"] * alive == sorted(item.key for item in ours.search(HERE))


def test_one_refreshing_read_of_a_batch_is_enough(ours, clock):
    ours.put(HERE, "k", {"n": 1}, ttl=1, index=False)
    clock.forward(minutes=0.9)
    ours.batch([GetOp(HERE, "k", False), GetOp(HERE, "k", True), GetOp(HERE, "k", False)])
    clock.forward(minutes=0.9)
    assert ours.get(HERE, "k") is not None


def test_expired_items_are_read_until_they_are_swept_or_are_omitted(ours, clock, dsn):
    for config, there in (
        ({}, ["k"]),
        ({"omit_expired": False}, ["k"]),
        ({"omit_expired": True}, []),
    ):
        ours.ttl_config = config
        ours.put(HERE, "k", {"text": "tea"}, ttl=1)
        clock.forward(minutes=2)
        assert there == [item.key for item in (ours.get(HERE, "k", refresh_ttl=False),) if item]
        for query in (None, "tea"):
            assert there == [item.key for item in ours.search(HERE, query=query, refresh_ttl=False)]
        assert [HERE] * len(there) == ours.list_namespaces()
        assert (1, 0) == (ours.sweep_ttl(), rows(dsn))


def test_a_refreshing_read_brings_back_what_has_expired_and_is_not_omitted(ours, clock):
    for omit, there in ((True, False), (False, True)):
        ours.ttl_config = {"omit_expired": omit}
        ours.put(HERE, "k", {"n": 1}, ttl=1, index=False)
        clock.forward(minutes=2)
        assert there == (ours.get(HERE, "k") is not None)
        assert 1 - there == ours.sweep_ttl()


def test_an_expired_memory_is_never_read(ours, clock):
    ours.ttl_config = {}
    ann = Scope("app", "ann")
    turn = said("1", "I like tea.", clock.now, expires_at=clock.now + timedelta(minutes=1))
    run_sync(ours.engine.append_events(ann, "t", [turn]))
    [item] = ours.search(memories_namespace("app", "ann"))
    clock.forward(minutes=2)
    assert ours.search(("app",)) == [] and ours.get(item.namespace, item.key) is None


def test_a_sweep_takes_all_there_is_however_much(ours, clock, dsn):
    spaces = [(f"app{n % 3}", f"user{n % 7}") for n in range(2500)]
    ours.batch([PutOp(space, str(n), {"n": n}, False, 1) for n, space in enumerate(spaces)])
    ours.put(HERE, "stays", {"n": 1}, index=False)
    clock.forward(minutes=2)
    assert 2500 == ours.sweep_ttl()
    assert (0, 1) == (ours.sweep_ttl(), rows(dsn))


@every_case(0, -1, float("nan"), "5", True)
def test_an_interval_that_makes_no_sense_is_refused(interval):
    with pytest.raises(InvalidInput, match="sweep_interval_minutes"):
        PgHippocampusStore("embedded", ttl={"sweep_interval_minutes": interval})
    with pytest.raises(InvalidInput, match="sweep_interval_minutes"):
        PgHippocampusStore("embedded").start_ttl_sweeper(interval)


def test_a_sweeper_starts_with_the_first_operation_and_stops_with_the_store(dsn):
    before = len(sweepers())
    with PgHippocampusStore(dsn, ttl=BY_ITSELF) as store:
        assert before == len(sweepers())
        store.put(HERE, "k", {"n": 1}, index=False)
        assert before + 1 == len(sweepers())
        assert soon(lambda: rows(dsn) == 0)
    assert before == len(sweepers())


async def test_it_stops_with_an_async_store_too(dsn):
    before = len(sweepers())
    async with PgHippocampusStore(dsn, ttl=BY_ITSELF) as store:
        await store.aput(HERE, "k", {"n": 1}, index=False)
        assert before + 1 == len(sweepers())
    assert before == len(sweepers())


def test_it_is_started_and_stopped_by_hand_as_the_reference(dsn):
    with PgHippocampusStore(dsn) as store:
        assert store.stop_ttl_sweeper()
        store.put(HERE, "k", {"n": 1}, ttl=0.001, index=False)
        future = store.start_ttl_sweeper(0.002)
        assert future is store.start_ttl_sweeper(99)
        assert soon(lambda: rows(dsn) == 0)
        assert store.stop_ttl_sweeper(timeout=10) and future.result(timeout=5) is None
        assert store.start_ttl_sweeper(99).cancel() and soon(lambda: not store._sweeper.running)


def test_one_that_was_stopped_by_hand_does_not_come_back_by_itself(dsn):
    with PgHippocampusStore(dsn, ttl=BY_ITSELF) as store:
        store.put(HERE, "k", {"n": 1}, index=False)
        assert store.stop_ttl_sweeper(10)
        store.put(HERE, "k", {"n": 1}, index=False)
        assert not store._sweeper.running


def test_one_that_was_cancelled_does_not_come_back_by_itself(dsn):
    with PgHippocampusStore(dsn, ttl=BY_ITSELF) as store:
        store.put(HERE, "k", {"n": 1}, index=False)
        assert store.start_ttl_sweeper().cancel() and soon(lambda: not store._sweeper.running)
        store.put(HERE, "k", {"n": 1}, index=False)
        assert not store._sweeper.running
        assert not store.start_ttl_sweeper().cancelled()
        assert store._sweeper.running


def test_one_that_is_started_again_keeps_to_the_configuration(dsn, monkeypatch):
    with PgHippocampusStore(dsn, ttl=BY_ITSELF) as store:
        stopped = store.start_ttl_sweeper(99)
        assert store.stop_ttl_sweeper(10) and stopped.done()
        intervals: list[float] = []
        start = store._sweeper.start

        def noted(interval_s: float) -> Any:
            intervals.append(interval_s)
            return start(interval_s)

        monkeypatch.setattr(store._sweeper, "start", noted)
        assert store.start_ttl_sweeper().cancel()
        assert not store.start_ttl_sweeper().cancelled()  # not the one that is just ending
        assert [60 * BY_ITSELF["sweep_interval_minutes"]] * 2 == intervals


@pytest.mark.both_engines
def test_a_store_that_nobody_holds_is_not_kept_alive(dsn):
    store = PgHippocampusStore(dsn, ttl=BY_ITSELF)
    store.put(HERE, "k", {"n": 1}, index=False)
    run_sync(store.aput(HERE, "async", {"n": 1}, index=False))
    engine, thread = store.engine, store._sweeper._thread
    gc.disable()  # a sweep may hold it just when garbage is collected: it goes without that
    try:
        del store
        assert thread is not None and soon(lambda: not thread.is_alive())
    finally:
        gc.enable()
    run_sync(engine.close())


def test_a_sweep_that_fails_is_logged_and_the_next_one_goes_on(dsn, caplog, monkeypatch):
    with PgHippocampusStore(dsn, ttl=BY_ITSELF) as store:
        sweep, failures = store.engine.sweep_expired, iter([StorageUnavailable("away"), OSError()])

        async def fails_first(*_: Any, limit: int) -> int:
            for failure in failures:
                raise failure
            return await sweep(limit=limit)

        monkeypatch.setattr(store.engine, "sweep_expired", fails_first)
        with caplog.at_level(logging.ERROR, "hippocampus"):
            store.put(HERE, "k", {"n": 1}, index=False)
            assert soon(lambda: rows(dsn) == 0)
    assert 2 == len(caplog.records) and "away" in caplog.text


def test_a_forked_child_sweeps_with_a_thread_of_its_own(dsn):
    with PgHippocampusStore(dsn, ttl=BY_ITSELF) as store:
        store.put(HERE, "k", {"n": 1}, index=False)
        child = os.fork()
        if child == 0:
            was_running = store._sweeper.running
            store.put(HERE, "child", {"n": 1}, index=False)
            os._exit(0 if not was_running and store._sweeper.running else 1)
        assert 0 == os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert store._sweeper.running


def test_a_time_to_live_begins_when_the_item_is_written(dsn, clock):
    def embed(texts: list[str]) -> list[list[float]]:
        clock.forward(minutes=2)
        return [[1.0, 2.0] for _ in texts]

    engine = open_memory(dsn, clock=clock, embedder=embed)
    store = PgHippocampusStore(engine=engine, ttl=LIVING)
    try:
        store.put(HERE, "k", {"text": "tea"}, ttl=1)
        clock.forward(minutes=0.9)
        assert store.get(HERE, "k", refresh_ttl=False) is not None
        clock.forward(minutes=0.2)
        assert store.get(HERE, "k") is None
    finally:
        run_sync(engine.close())


@pytest.mark.parametrize(("none_is_default", "lives"), [(False, True), (True, False)])
def test_none_is_for_ever_or_the_default_as_the_store_is_told(dsn, clock, none_is_default, lives):
    engine = open_memory(dsn, clock=clock)
    ttl: Any = {**LIVING, "default_ttl": 1}
    store = PgHippocampusStore(engine=engine, ttl=ttl, none_is_default_ttl=none_is_default)
    store.put(HERE, "sync", {"n": 1}, index=False, ttl=None)
    run_sync(store.aput(HERE, "async", {"n": 1}, index=False, ttl=None))
    store.put(HERE, "longer", {"n": 1}, index=False, ttl=60)
    store.put(("app", "ann", "hippocampus-instructions"), "tone", {"n": 1}, index=False, ttl=None)
    clock.forward(minutes=2)
    assert [lives, lives] == [store.get(HERE, key) is not None for key in ("sync", "async")]
    assert store.get(HERE, "longer") is not None
    assert store.get(("app", "ann", "hippocampus-instructions"), "tone") is not None
    run_sync(engine.close())


def test_a_time_to_live_is_refused_in_minutes(ours):
    for ttl, told in ((-1, "-1 minutes"), (0, "0 minutes"), (1e9, "1e+09 m")):
        with pytest.raises(InvalidInput, match=f"'k'.*got {re.escape(told)}"):
            ours.put(HERE, "k", {"n": 1}, ttl=ttl)
