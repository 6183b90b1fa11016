"""The embedded PostgreSQL ends with its last user, whatever ends that user."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

if sys.platform == "win32":
    pytest.skip("the embedded server needs POSIX", allow_module_level=True)

from embedded_users import User, notes, pid_of, servers_of, until_unused
from http_processes import command

from shared_core.settings import Settings
from shared_core.storage.postgres.connection.database import PostgresDatabase
from shared_core.storage.postgres.connection.embedded import EmbeddedPostgres, describe
from shared_core.storage.postgres.connection.server_process import SUPERVISOR_LOCK
from shared_core.storage.postgres.connection.statements import Step

ONE = Step("one", b"SELECT 1", {})
SIGNALS = [signal.SIGTERM, signal.SIGKILL, signal.SIGHUP]


@pytest.fixture(autouse=True)
def hears_of_hang_ups() -> Iterator[None]:
    """Processes inherit an ignored signal: the run itself may have been started by nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


def supervisors_of(home: Path) -> list[int]:
    """Return the pids of the living supervisors of a folder."""
    return [
        process.pid
        for process in psutil.process_iter(["cmdline", "status"])
        if str(home) in (process.info["cmdline"] or [])[-2:-1]
        and "server_process.py" in " ".join(process.info["cmdline"])
    ]


@pytest.mark.parametrize("signum", SIGNALS)
def test_the_server_ends_with_a_script_that_is_killed(
    home: Path, user_of: Callable[..., User], signum: int
) -> None:
    first, last = user_of(home), user_of(home)
    first.acquire()
    last.acquire()
    server = pid_of(home)
    first.process.send_signal(signum)
    first.process.wait()
    assert notes(last.acquire()) == ["committed"]
    assert pid_of(home) == server
    last.process.send_signal(signum)
    last.process.wait()
    until_unused(home)
    assert servers_of(home) == []
    assert not describe(home).running


@pytest.mark.parametrize("signum", SIGNALS)
def test_the_server_ends_with_a_command_that_is_killed(home: Path, signum: int) -> None:
    worker = subprocess.Popen(
        [*command(), "worker", "--uri", f"embedded://{home}"],
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    while not describe(home).running:
        assert worker.poll() is None
        time.sleep(0.05)
    worker.send_signal(signum)
    worker.wait()
    until_unused(home)
    assert servers_of(home) == []


def test_the_server_ends_with_a_user_that_is_killed_while_starting_it(
    home: Path, user_of: Callable[..., User]
) -> None:
    user = user_of(home)
    user.send("server.acquire()")
    while not servers_of(home):
        assert user.process.poll() is None
    user.kill()
    while servers_of(home):  # its supervisor may have been starting as well
        time.sleep(0.05)
    until_unused(home)


def test_a_new_user_beside_the_end_of_the_last_one_has_a_server(
    home: Path, user_of: Callable[..., User]
) -> None:
    new = EmbeddedPostgres(home)
    for _ in range(5):
        last = user_of(home)
        last.acquire()
        last.process.kill()
        assert notes(new.acquire()) == ["committed"]
        last.process.wait()
        assert notes(new.acquire()) == ["committed"]
        assert len(supervisors_of(home)) == 1
        new.release()
        new.release()
        assert servers_of(home) == []


def test_a_server_has_one_supervisor_and_leaves_no_zombie(
    home: Path, user_of: Callable[..., User]
) -> None:
    server, other = EmbeddedPostgres(home), user_of(home)
    for _ in range(2):
        server.acquire()
        other.acquire()
        (supervisor,) = supervisors_of(home)
        assert psutil.Process(supervisor).ppid() != os.getpid()
        other.ask("server.release()")
        server.release()
    until_unused(home)
    children = psutil.Process().children()
    assert [child for child in children if child.status() == psutil.STATUS_ZOMBIE] == []


def test_a_supervisor_outlives_a_signal_and_a_killed_one_is_replaced(
    home: Path, user_of: Callable[..., User]
) -> None:
    server, other = EmbeddedPostgres(home), user_of(home)
    server.acquire()
    (first,) = supervisors_of(home)
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(first, signum)
    assert supervisors_of(home) == [first]
    killed = psutil.Process(first)
    killed.kill()
    killed.wait(60)
    other.acquire()
    (second,) = supervisors_of(home)
    assert second != first
    server.release()
    other.kill()
    until_unused(home)
    assert servers_of(home) == []


def test_a_server_without_a_supervisor_runs_and_says_so(
    home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "executable", str(home / "no-python"))
    server = EmbeddedPostgres(home)
    assert notes(server.acquire()) == ["committed"]
    assert "will outlive a killed user: no supervisor" in caplog.text
    server.release()
    assert servers_of(home) == []
    assert (home / SUPERVISOR_LOCK).exists()


async def test_the_server_ends_after_a_restart_that_was_cancelled(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = PostgresDatabase(Settings(uri="embedded", home=home))
    await database.open()
    os.kill(pid_of(home), signal.SIGKILL)
    loop, cancelled, real = asyncio.get_running_loop(), threading.Event(), EmbeddedPostgres.acquire

    def cancel() -> None:
        call.cancel()
        cancelled.set()

    def acquire(embedded: EmbeddedPostgres) -> str:
        loop.call_soon_threadsafe(cancel)
        cancelled.wait()
        return real(embedded)

    monkeypatch.setattr(EmbeddedPostgres, "acquire", acquire)
    call = asyncio.create_task(database.run("/", ONE))
    await asyncio.wait([call])
    assert call.cancelled()
    await database.close()
    assert servers_of(home) == []


async def test_the_server_ends_with_a_close_that_is_cancelled(home: Path) -> None:
    database = PostgresDatabase(Settings(uri="embedded", home=home))
    await database.open()
    executor, free = ThreadPoolExecutor(1), threading.Event()
    asyncio.get_running_loop().set_default_executor(executor)
    executor.submit(free.wait)  # no other thread begins
    close = asyncio.create_task(database.close())
    for _ in range(10):
        await asyncio.sleep(0)
    close.cancel()
    await asyncio.sleep(0)
    free.set()
    await asyncio.wait([close])
    assert close.cancelled()
    assert servers_of(home) == []
