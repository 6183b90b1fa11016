"""A process that ends without closing its memory: the job in work goes back, nothing hangs."""

import subprocess

import psycopg
import pytest
from practised import practised  # noqa: F401
from warm_python import warm_python

from shared_core.storage.postgres.connection.embedded import describe

pytestmark = pytest.mark.usefixtures("practised")

REFLECTING = """
import sys, threading, time
from langgraph_store import DurableReflectionExecutor, PgHippocampusStore

begun = threading.Event()

class Slow:
    def invoke(self, input, config=None):
        begun.set()
        time.sleep(600)

index = {"embed": lambda texts: [[1.0, 2.0]] * len(texts), "dims": 2}
store = PgHippocampusStore(sys.argv[1], index=index)
executor = DurableReflectionExecutor(store, app="app", reflector=Slow())
config = {"configurable": {"thread_id": "t", "user_id": "ann"}}
"""
SUBMITTED = """
executor.submit({"messages": [("user", "Hello.")]}, config)
begun.wait()
"""
EMBEDDING = """
import asyncio, sys, threading, time
from shared_core import Scope, open_memory, run_sync
from tests.turns import said

begun = threading.Event()

async def embed(texts):
    begun.set()
    while True:
        await asyncio.to_thread(time.sleep, 0.1)

memory = open_memory(sys.argv[1], embedder=embed)
turn = said("e1", "I live in Lisbon.")
run_sync(memory.append_events(Scope("app", "ann"), "t", [turn], later=True))
begun.wait()
"""
FORKED = """
import os, warnings
warnings.filterwarnings("ignore", "This process", DeprecationWarning)  # of Python 3.12
store.put(("a", "b"), "key", {"text": "by the parent"})
child = os.fork()
if child:
    _, status = os.waitpid(child, 0)
    assert 0 == status, status
    assert store.get(("a", "b"), "key") is not None
    sys.exit(0)
"""
CLOSED = """
store.put(("a", "b"), "key", {"text": "x"})
store.close()
"""


def run(script: str, uri: str) -> str:
    done = subprocess.run(
        [*warm_python(finalizes=True), "-c", script, uri], capture_output=True, text=True
    )
    assert 0 == done.returncode, done.stderr
    return done.stderr


@pytest.mark.parametrize(
    "script",
    [
        REFLECTING + SUBMITTED, REFLECTING + SUBMITTED + "\nsys.exit(0)",
        REFLECTING + FORKED + SUBMITTED, REFLECTING + CLOSED + SUBMITTED, EMBEDDING,
    ],
    ids=["reflector", "sys.exit", "in a fork", "closed before", "embedder"],
)  # fmt: skip
def test_the_job_in_work_goes_back_to_the_queue(dsn, script):
    assert "" == run(script, dsn)
    with psycopg.connect(dsn) as superuser:
        query = "SELECT status, lease_until FROM hippocampus.consolidation_jobs"
        assert [("pending", None)] == superuser.execute(query).fetchall()
        others = (
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'hippocampus'"
            " AND datname = current_database()"
        )
        assert [(0,)] == superuser.execute(others).fetchall()


def test_an_embedded_server_is_left_too(tmp_path):
    home = tmp_path / "home"
    assert "" == run(REFLECTING + SUBMITTED, f"embedded://{home}")
    assert not describe(home).running
