"""The embedded PostgreSQL of real processes: who starts it, who crashes, and with whom it ends."""

import asyncio
import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import psycopg
import pytest
from embedded_users import copied_clusters, empty_folder, notes, pid_of, servers_of, until_unused
from http_processes import command

from shared_core.settings import Settings
from shared_core.storage._server_account import find_account
from shared_core.storage.postgres.connection.database import PostgresDatabase
from shared_core.storage.postgres.connection.embedded import EmbeddedPostgres, describe
from shared_core.storage.postgres.connection.server_process import SUPERVISOR_LOCK
from shared_core.storage.postgres.connection.statements import Step

if sys.platform == "win32":
    pytest.skip("the embedded server needs POSIX", allow_module_level=True)


@pytest.fixture
def server(home):
    server = EmbeddedPostgres(home)
    yield server
    for _ in range(9):
        server.release()


@pytest.fixture
def stranger():
    """A living process of the OS user that runs the server, but not the server."""
    account = find_account(Path())
    with subprocess.Popen(["sleep", "60"], user=account.pw_uid if account else None) as process:
        yield process.pid
        process.kill()


pytestmark = pytest.mark.tail
__all__ = ["copied_clusters"]


def test_the_constructor_touches_nothing(empty_home):
    server = EmbeddedPostgres(empty_home / "new")
    server.release()
    assert server.data_directory == empty_home / "new" / "postgres-18"
    assert server.log_tail() == ""
    assert describe(empty_home / "new").running is False
    assert list(empty_home.iterdir()) == []


def test_the_first_use_creates_a_durable_private_database(empty_home):
    home = empty_home / "two" / "levels"
    server = EmbeddedPostgres(home)
    expected = {
        "data_directory": str(home / "postgres-18"), "listen_addresses": "", "fsync": "on",
        "synchronous_commit": "on", "full_page_writes": "on", "max_connections": "300",
        "server_encoding": "UTF8", "lc_messages": "C",
    }  # fmt: skip
    with psycopg.connect(server.acquire()) as session:
        found = {name: session.execute(f"SHOW {name}").fetchone() for name in expected}
        assert found == {name: (value,) for name, value in expected.items()}
        assert session.info.dbname == "hippocampus"
        query = "SELECT count(*) FROM pg_available_extensions WHERE name = 'vector'"
        assert session.execute(query).fetchone() == (1,)
        words = session.execute("SELECT to_tsvector('simple', 'ÀB，naïve—test')").fetchone()
        assert words == ("'naïve':2 'test':3 'àb':1",)
    assert "ready to accept connections" in server.log_tail()
    server.release()
    assert stat.S_IMODE((home / "postgres-18").stat().st_mode) == 0o700
    assert servers_of(home) == []


def test_data_survives_and_no_recovery_and_no_setting_of_another_server_counts(server, monkeypatch):
    for name, value in {"PGPORT": "6000", "PGHOST": "/x", "PGDATA": "/x", "LC_ALL": "xx"}.items():
        monkeypatch.setenv(name, value)
    assert notes(server.acquire()) == ["committed"]
    assert "recovery" not in server.log_tail()


def test_describe_sees_the_server_and_its_users(server, home, user_of):
    assert describe(home).initialised
    assert not describe(home).running
    server.acquire()
    (other := user_of(home)).acquire()
    status = describe(home)
    assert status.running
    assert status.pid in servers_of(home)
    assert status.socket_directory == home / "postgres-18"
    assert status.size_bytes > 10_000_000
    assert status.users == sorted([os.getpid(), other.pid])
    other.kill()
    assert describe(home).users == [os.getpid()]
    server.release()
    assert not describe(home).running


def test_every_acquire_of_a_process_needs_its_release_and_threads_share_it(server, home):
    twin = EmbeddedPostgres(home / ".." / home.name)
    assert server.acquire() == server.acquire() == twin.acquire()
    for _ in range(3):
        twin.release()
    server.release()
    assert servers_of(home) != []
    server.release()
    assert servers_of(home) == []
    server.release()
    answers: list[str] = []
    threads = [threading.Thread(target=lambda: answers.append(server.acquire())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 8 and len(set(answers)) == 1
    for _ in answers:
        assert describe(home).running
        server.release()
    assert servers_of(home) == []
    assert notes(server.acquire()) == ["committed"]


def test_four_processes_make_one_server_and_the_last_stops_it(empty_home, user_of):
    four = [user_of(empty_home) for _ in range(4)]
    for user in four:
        user.send("server.acquire()")
    assert len({user.answer() for user in four}) == 1
    assert (empty_home / "postgres.log").read_text().count("starting PostgreSQL") == 1
    assert list(empty_home.glob("postgres-18?*")) == []
    first = pid_of(empty_home)
    four[0].ask("server.release()")
    four[1].close()
    four[2].kill()
    assert pid_of(empty_home) == first
    four[3].close()
    assert servers_of(empty_home) == []


def test_a_killed_user_does_not_keep_the_server_up(server, home, user_of):
    (killed := user_of(home)).acquire()
    killed.kill()
    server.acquire()
    server.release()
    assert servers_of(home) == []


def test_a_fork_neither_stops_nor_holds_the_server_of_its_parent(server, home, user_of):
    (parent := user_of(home)).acquire()
    assert parent.ask("os.waitpid(fork(0), 0)[1]") == "0"
    assert describe(home).running
    child = int(parent.ask("fork(600)"))
    parent.kill()
    server.acquire()
    server.release()
    assert servers_of(home) == []
    os.kill(child, signal.SIGKILL)


def test_ctrl_c_in_the_terminal_of_one_user_spares_the_server(server, home, user_of):
    (starter := user_of(home)).acquire()
    server.acquire()
    first = pid_of(home)
    os.killpg(starter.pid, signal.SIGINT)
    assert "KeyboardInterrupt" in starter.close()
    assert pid_of(home) == first
    server.release()
    assert servers_of(home) == []


def test_a_killed_server_comes_back_with_everything_committed(server, home, user_of):
    (other := user_of(home)).acquire()
    for acquire in (server.acquire, other.acquire):
        victim = pid_of(home)
        os.kill(victim, signal.SIGKILL)
        assert notes(acquire()) == ["committed"]
        assert pid_of(home) != victim


def test_a_start_waits_for_the_sessions_of_a_killed_server(server, home, user_of):
    (busy := user_of(home)).acquire()
    busy.send("work()")
    with psycopg.connect(server.acquire()) as session:
        query = "SELECT FROM pg_stat_activity WHERE query LIKE 'SET%' AND state = 'active'"
        while not session.execute(query).rowcount:
            session.rollback()
    os.kill(pid_of(home), signal.SIGKILL)
    assert notes(server.acquire()) == ["committed"]
    busy.answer()
    assert "pre-existing shared memory block" in (home / "postgres.log").read_text()


@pytest.mark.parametrize("name", ["postmaster.pid", ".s.PGSQL.5432.lock"])
def test_a_lock_file_with_the_number_of_another_process_is_stale(server, home, stranger, name):
    cluster = home / "postgres-18"
    (cluster / name).write_text(f"{stranger}\n{cluster}\n17\n5432\n{cluster}\n\n 1 2\nready\n")
    assert not describe(home).running
    assert notes(server.acquire()) == ["committed"]
    server.release()
    assert psutil.pid_exists(stranger)


@pytest.mark.parametrize("text", ["", "12", "what?\n", "99999999999999999999\n"])
def test_a_broken_pid_file_does_not_matter(server, home, text):
    (home / "postgres-18" / "postmaster.pid").write_text(text)
    assert notes(server.acquire()) == ["committed"]


def test_a_copied_folder_has_its_own_server_and_a_socket_that_was_removed_returns(server, home):
    server.acquire()
    with empty_folder() as copy:
        subprocess.run(["cp", "-Rp", home / "postgres-18", copy], check=True)
        twin = EmbeddedPostgres(copy)
        assert notes(twin.acquire()) == ["committed"]
        assert pid_of(copy) != pid_of(home)
        twin.release()
    (home / "postgres-18" / ".s.PGSQL.5432").unlink()
    assert notes(server.acquire()) == ["committed"]


@pytest.mark.usefixtures("copied_clusters")
def test_a_deleted_folder_takes_its_server_along(empty_home):
    home = empty_home / "deleted"
    (server := EmbeddedPostgres(home)).acquire()
    shutil.rmtree(home)
    server.release()
    assert servers_of(home) == []


@pytest.mark.usefixtures("copied_clusters")
def test_a_folder_that_was_deleted_and_made_again_gets_one_new_server(empty_home, user_of):
    server, other = EmbeddedPostgres(empty_home / "again"), user_of(empty_home / "again")
    server.acquire()
    old = servers_of(empty_home)
    shutil.rmtree(empty_home / "again")
    other.acquire()
    server.release()
    assert servers_of(empty_home) == [pid_of(empty_home / "again")] != old
    server.acquire()
    other.close()
    assert describe(empty_home / "again").users == [os.getpid()]
    server.release()


def test_a_kill_inside_initdb_leaves_nothing_behind(empty_home, user_of):
    """Its initdb goes on. Its supervisor is there: else the next would wait for it."""
    (user := user_of(empty_home)).send("die_in_initdb()")
    user.process.wait()
    assert not describe(empty_home).initialised
    server = EmbeddedPostgres(empty_home)
    for _ in range(2):
        psycopg.connect(server.acquire()).close()
        server.release()
    assert list(empty_home.glob("postgres-18.partial-*")) == []


def test_a_long_log_is_moved_aside(server, home):
    (log := home / "postgres.log").write_text("old\n" * 3_000_000)
    server.acquire()
    assert log.stat().st_size < 100_000
    assert (home / "postgres.log.1").stat().st_size == 12_000_000
    assert len(server.log_tail(2).splitlines()) == 2


SIGNALS = [signal.SIGTERM, signal.SIGKILL, signal.SIGHUP]


@pytest.fixture(autouse=True)
def hears_of_hang_ups():
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
def test_the_server_ends_with_a_script_that_is_killed(home, user_of, signum):
    first, last = user_of(home), user_of(home)
    first.acquire()
    last.acquire()
    server = pid_of(home)
    first.kill(signum)
    assert notes(last.acquire()) == ["committed"]
    assert pid_of(home) == server
    last.kill(signum)
    until_unused(home)
    assert servers_of(home) == []
    assert not describe(home).running


@pytest.mark.parametrize("signum", SIGNALS)
def test_the_server_ends_with_a_command_that_is_killed(home, signum):
    line = [*command(), "worker", "--uri", f"embedded://{home}"]
    worker = subprocess.Popen(line, stderr=subprocess.DEVNULL, start_new_session=True)
    while not describe(home).running:
        assert worker.poll() is None
        time.sleep(0.05)
    worker.send_signal(signum)
    worker.wait()
    while servers_of(home):  # its supervisor may have begun only now
        time.sleep(0.05)


def test_the_server_ends_with_a_user_that_is_killed_while_starting_it(home, user_of):
    (user := user_of(home)).send("server.acquire()")
    while not servers_of(home):
        assert user.process.poll() is None
    user.kill()
    while servers_of(home):  # its supervisor may have been starting as well
        time.sleep(0.05)
    until_unused(home)


def test_a_new_user_beside_the_end_of_the_last_one_has_a_server(home, user_of):
    new = EmbeddedPostgres(home)
    for _ in range(5):
        (last := user_of(home)).acquire()
        os.kill(last.pid, signal.SIGKILL)
        assert notes(new.acquire()) == ["committed"]
        last.process.wait()
        assert notes(new.acquire()) == ["committed"]
        assert len(supervisors_of(home)) == 1
        new.release()
        new.release()
        assert servers_of(home) == []


def test_a_server_has_one_supervisor_and_leaves_no_zombie(home, user_of):
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


def test_a_supervisor_outlives_a_signal_and_a_killed_one_is_replaced(home, user_of):
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


def test_a_server_without_a_supervisor_runs_and_says_so(home, monkeypatch, caplog):
    monkeypatch.setattr(sys, "executable", str(home / "no-python"))
    server = EmbeddedPostgres(home)
    assert notes(server.acquire()) == ["committed"]
    assert "will outlive a killed user: no supervisor" in caplog.text
    server.release()
    assert servers_of(home) == []
    assert (home / SUPERVISOR_LOCK).exists()


async def test_the_server_ends_after_a_restart_that_was_cancelled(home, monkeypatch):
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
    call = asyncio.create_task(database.run("/", Step("one", b"SELECT 1", {})))
    await asyncio.wait([call])
    assert call.cancelled()
    await database.close()
    assert servers_of(home) == []


async def test_the_server_ends_with_a_close_that_is_cancelled(home):
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
