"""The embedded PostgreSQL shared by real processes: who starts it, who stops it, who crashes."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import psycopg
import pytest

if sys.platform == "win32":
    pytest.skip("the embedded server needs POSIX", allow_module_level=True)

from embedded_users import User, empty_folder, notes, pid_of, servers_of

from shared_core.storage._server_account import find_account
from shared_core.storage.postgres.connection.embedded import EmbeddedPostgres, describe


@pytest.fixture
def server(home: Path) -> Iterator[EmbeddedPostgres]:
    server = EmbeddedPostgres(home)
    yield server
    for _ in range(9):
        server.release()


@pytest.fixture
def stranger() -> Iterator[int]:
    """A living process of the OS user that runs the server, but not the server."""
    account = find_account(Path())
    with subprocess.Popen(["sleep", "60"], user=account.pw_uid if account else None) as process:
        yield process.pid
        process.kill()


def test_the_constructor_touches_nothing(empty_home: Path) -> None:
    server = EmbeddedPostgres(empty_home / "new")
    server.release()
    assert server.data_directory == empty_home / "new" / "postgres-18"
    assert server.log_tail() == ""
    assert describe(empty_home / "new").running is False
    assert list(empty_home.iterdir()) == []


def test_the_first_use_creates_a_durable_private_database(empty_home: Path) -> None:
    home = empty_home / "two" / "levels"
    server = EmbeddedPostgres(home)
    expected = {
        "data_directory": str(home / "postgres-18"),
        "listen_addresses": "",
        "fsync": "on",
        "synchronous_commit": "on",
        "full_page_writes": "on",
        "max_connections": "300",
        "server_encoding": "UTF8",
        "lc_messages": "C",
    }
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


def test_data_survives_and_starting_again_recovers_nothing(server: EmbeddedPostgres) -> None:
    assert notes(server.acquire()) == ["committed"]
    assert "recovery" not in server.log_tail()


def test_describe_sees_the_server_and_its_users(
    server: EmbeddedPostgres, home: Path, user_of: Callable[..., User]
) -> None:
    assert describe(home).initialised
    assert not describe(home).running
    server.acquire()
    other = user_of(home)
    other.acquire()
    status = describe(home)
    assert status.running
    assert status.pid in servers_of(home)
    assert status.socket_directory == home / "postgres-18"
    assert status.size_bytes > 10_000_000
    assert status.users == sorted([os.getpid(), other.process.pid])
    other.kill()
    assert describe(home).users == [os.getpid()]
    server.release()
    assert not describe(home).running


def test_every_acquire_of_a_process_needs_its_release(server: EmbeddedPostgres, home: Path) -> None:
    twin = EmbeddedPostgres(home / ".." / home.name)
    assert server.acquire() == server.acquire() == twin.acquire()
    for _ in range(3):
        twin.release()
    server.release()
    assert servers_of(home) != []
    server.release()
    assert servers_of(home) == []
    server.release()
    assert notes(server.acquire()) == ["committed"]


def test_threads_share_one_membership(server: EmbeddedPostgres, home: Path) -> None:
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


def test_four_processes_make_one_server_and_the_last_stops_it(
    empty_home: Path, user_of: Callable[..., User]
) -> None:
    four = [user_of(empty_home) for _ in range(4)]
    for user in four:
        user.send("server.acquire()")
    assert len({user.answer() for user in four}) == 1
    log = (empty_home / "postgres.log").read_text()
    assert log.count("starting PostgreSQL") == 1
    assert list(empty_home.glob("postgres-18?*")) == []
    first = pid_of(empty_home)
    four[0].ask("server.release()")
    four[1].close()
    four[2].kill()
    assert pid_of(empty_home) == first
    four[3].close()
    assert servers_of(empty_home) == []


def test_a_killed_user_does_not_keep_the_server_up(
    server: EmbeddedPostgres, home: Path, user_of: Callable[..., User]
) -> None:
    killed = user_of(home)
    killed.acquire()
    killed.kill()
    server.acquire()
    server.release()
    assert servers_of(home) == []


def test_a_fork_neither_stops_nor_holds_the_server_of_its_parent(
    server: EmbeddedPostgres, home: Path, user_of: Callable[..., User]
) -> None:
    parent = user_of(home)
    parent.acquire()
    assert parent.ask("os.waitpid(fork(0), 0)[1]") == "0"
    assert describe(home).running
    child = int(parent.ask("fork(600)"))
    parent.process.kill()
    parent.process.wait()
    server.acquire()
    server.release()
    assert servers_of(home) == []
    os.kill(child, signal.SIGKILL)


def test_ctrl_c_in_the_terminal_of_one_user_spares_the_server(
    server: EmbeddedPostgres, home: Path, user_of: Callable[..., User]
) -> None:
    starter = user_of(home)
    starter.acquire()
    server.acquire()
    first = pid_of(home)
    os.killpg(starter.process.pid, signal.SIGINT)
    assert "KeyboardInterrupt" in starter.close()
    assert pid_of(home) == first
    server.release()
    assert servers_of(home) == []


def test_a_killed_server_comes_back_with_everything_committed(
    server: EmbeddedPostgres, home: Path, user_of: Callable[..., User]
) -> None:
    other = user_of(home)
    other.acquire()
    for acquire in (server.acquire, other.acquire):
        victim = pid_of(home)
        os.kill(victim, signal.SIGKILL)
        assert notes(acquire()) == ["committed"]
        assert pid_of(home) != victim


def test_a_start_waits_for_the_sessions_of_a_killed_server(
    server: EmbeddedPostgres, home: Path, user_of: Callable[..., User]
) -> None:
    busy = user_of(home)
    busy.acquire()
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
def test_a_lock_file_with_the_number_of_another_process_is_stale(
    server: EmbeddedPostgres, home: Path, stranger: int, name: str
) -> None:
    cluster = home / "postgres-18"
    (cluster / name).write_text(f"{stranger}\n{cluster}\n17\n5432\n{cluster}\n\n 1 2\nready\n")
    assert not describe(home).running
    assert notes(server.acquire()) == ["committed"]
    server.release()
    assert psutil.pid_exists(stranger)


@pytest.mark.parametrize("text", ["", "12", "what?\n", "99999999999999999999\n"])
def test_a_broken_pid_file_does_not_matter(server: EmbeddedPostgres, home: Path, text: str) -> None:
    (home / "postgres-18" / "postmaster.pid").write_text(text)
    assert notes(server.acquire()) == ["committed"]


def test_a_copied_folder_gets_its_own_server(server: EmbeddedPostgres, home: Path) -> None:
    server.acquire()
    with empty_folder() as copy:
        subprocess.run(["cp", "-Rp", home / "postgres-18", copy], check=True)
        twin = EmbeddedPostgres(copy)
        assert notes(twin.acquire()) == ["committed"]
        assert pid_of(copy) != pid_of(home)
        twin.release()


def test_a_socket_that_was_cleaned_away_comes_back(server: EmbeddedPostgres, home: Path) -> None:
    server.acquire()
    (home / "postgres-18" / ".s.PGSQL.5432").unlink()
    assert notes(server.acquire()) == ["committed"]


def test_a_deleted_folder_takes_its_server_along(empty_home: Path) -> None:
    home = empty_home / "deleted"
    server = EmbeddedPostgres(home)
    server.acquire()
    shutil.rmtree(home)
    server.release()
    assert servers_of(home) == []


def test_a_folder_that_was_deleted_and_made_again_gets_one_new_server(
    empty_home: Path, user_of: Callable[..., User]
) -> None:
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


def test_a_kill_inside_initdb_leaves_nothing_behind(
    empty_home: Path, user_of: Callable[..., User]
) -> None:
    user = user_of(empty_home)
    user.send("server.acquire()")
    deadline = time.monotonic() + 10
    while not list(empty_home.glob("postgres-18.partial-*/base/1")):
        assert time.monotonic() < deadline
        time.sleep(0.001)
    user.kill()
    assert not describe(empty_home).initialised
    server = EmbeddedPostgres(empty_home)
    for _ in range(2):
        psycopg.connect(server.acquire()).close()
        server.release()
    assert list(empty_home.glob("postgres-18.partial-*")) == []


def test_settings_for_other_servers_are_ignored(
    server: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"PGPORT": "6000", "PGHOST": "/x", "PGDATA": "/x", "LC_ALL": "xx"}.items():
        monkeypatch.setenv(name, value)
    assert notes(server.acquire()) == ["committed"]


def test_a_long_log_is_moved_aside(server: EmbeddedPostgres, home: Path) -> None:
    log = home / "postgres.log"
    log.write_text("old\n" * 3_000_000)
    server.acquire()
    assert log.stat().st_size < 100_000
    assert (home / "postgres.log.1").stat().st_size == 12_000_000
    assert len(server.log_tail(2).splitlines()) == 2
