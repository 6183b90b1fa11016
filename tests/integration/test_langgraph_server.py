"""make_store, as LangGraph's servers call it: from many threads and loops, options by variables."""

import asyncio
import inspect
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
from langgraph.store.base import BaseStore

import langgraph_store
from langgraph_store import make_store
from shared_core import InvalidInput

HERE = ("server", "alice")


@pytest.fixture(autouse=True)
def _database(dsn, monkeypatch):
    monkeypatch.setenv("HIPPOCAMPUS_URI", dsn)


async def test_a_server_can_load_it_by_its_path():
    """A server loads "FILE.py:NAME" and takes a store, a context manager, or what makes one."""
    file = Path(inspect.getfile(langgraph_store)).with_name("server.py")
    spec = spec_from_file_location("user_store_module", file)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    made = module.make_store()
    assert isinstance(made, AbstractAsyncContextManager)
    async with made as store:
        assert isinstance(store, BaseStore)
        await store.aput(HERE, "k", {"text": "tea"})
        [item] = await store.asearch(HERE, query="tea", filter={"$and": [{"text": "tea"}]})
        assert item.dict()["value"] == {"text": "tea"}


async def test_threads_and_loops_share_one_store_until_the_last_has_left():
    opened: list[Any] = []

    async def serve(name: str) -> None:
        async with make_store() as store:
            opened.append(store)
            await asyncio.gather(*(store.aput(HERE, f"{name}{n}", {"n": n}) for n in range(20)))
            assert (await store.aget(HERE, f"{name}0")) is not None

    async with make_store() as outer:
        with ThreadPoolExecutor(4) as threads:
            jobs = [threads.submit(asyncio.run, serve(name)) for name in "abcd"]
            await asyncio.gather(*map(asyncio.wrap_future, jobs))
        assert {id(outer)} == {id(store) for store in opened}
        assert 80 == len(await outer.asearch(HERE, limit=100))
    async with make_store() as later:
        assert later is not outer and 80 == len(await later.asearch(HERE, limit=100))


async def test_variables_are_options(monkeypatch):
    for name, value in {"SCHEMA": "other", "DEFAULT_TTL_MINUTES": "2.5", "SEARCH": "hybrid",
                        "SWEEP_INTERVAL_MINUTES": "7", "INDEX_FIELDS": "text, tags[*]",
                        "EMBEDDER": "use", "POOL_SIZE": "3"}.items():  # fmt: skip
        monkeypatch.setenv(f"HIPPOCAMPUS_{name}", value)
    async with make_store() as store:
        ttl = {"omit_expired": True, "default_ttl": 2.5, "sweep_interval_minutes": 7.0}
        assert ttl == store.ttl_config
        assert ("hybrid", {"text", "tags[*]"}) == (store._search, set(store._fields or ()))
        assert "other" == (await store.engine.report()).schema


async def test_what_a_request_leaves_out_takes_the_default_time_to_live(monkeypatch):
    """A server hands put() None for a ttl that its client did not give."""
    monkeypatch.setenv("HIPPOCAMPUS_DEFAULT_TTL_MINUTES", "0.0005")
    async with make_store() as store:
        await store.aput(HERE, "left out", {"n": 1}, index=None, ttl=None)
        await store.aput(HERE, "given", {"n": 1}, ttl=60)
        await asyncio.sleep(0.05)
        assert ["given"] == [item.key for item in await store.asearch(HERE)]


@pytest.mark.parametrize(("name", "value"), [
    ("DEFAULT_TTL_MINUTES", "soon"), ("SEARCH", "magic"), ("POOL_SIZE", "0x"), ("EMBEDDER", "?"),
    ("SWEEP_INTERVAL_MINUTES", "0"),
])  # fmt: skip
async def test_a_variable_that_makes_no_sense_is_an_error(name, value, monkeypatch):
    monkeypatch.setenv(f"HIPPOCAMPUS_{name}", value)
    with pytest.raises((InvalidInput, ValueError)):
        async with make_store():
            pass
