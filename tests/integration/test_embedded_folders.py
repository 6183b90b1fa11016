"""The embedded PostgreSQL in odd folders, as other OS users, and where it has to refuse."""

import os
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import psutil
import psycopg
import pytest

if sys.platform == "win32":
    pytest.skip("the embedded server needs POSIX", allow_module_level=True)

from embedded_users import copied_clusters, error_of, lent, notes, pid_of, servers_of

from shared_core.storage import _server_account as server_account
from shared_core.storage.postgres.connection import embedded_server
from shared_core.storage.postgres.connection.embedded import EmbeddedPostgres, describe

pytestmark = pytest.mark.tail
__all__ = ["copied_clusters"]
NOBODY = 65534
NAMELESS = 12345
"""An OS user that is not in the user database, as in a container."""
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to be another OS user")


@pytest.mark.parametrize("name", ["x" * 120, "a,b", 'it\'s $HOME `id` "q" \\n', "记忆 é"])
def test_any_folder_name_works(prepared, empty_home, name):
    with lent(prepared, empty_home / name) as home:
        server = EmbeddedPostgres(home)
        assert notes(server.acquire()) == ["committed"]
        sockets = describe(home).socket_directory
        assert (sockets == home / "postgres-18") is (name == "记忆 é")
        assert stat.S_IMODE(sockets.stat().st_mode) == 0o700
        assert len(str(sockets / ".s.PGSQL.5432").encode()) <= 100
        server.release()
        assert not (sockets / ".s.PGSQL.5432").exists()


def test_a_socket_directory_of_someone_else_is_refused(prepared, empty_home):
    with lent(prepared, empty_home / "a,b") as home:
        (server := EmbeddedPostgres(home)).acquire()
        sockets = describe(home).socket_directory
        server.release()
        sockets.symlink_to(empty_home)
        assert f"{sockets} belongs to another OS user" in error_of(home)
        sockets.unlink()


def modes_of(*folders: Path) -> list[int]:
    return [stat.S_IMODE(folder.stat().st_mode) for folder in folders]


@needs_root
def test_root_opens_the_folder_of_the_memory_alone(prepared, empty_home):
    with lent(prepared, empty_home / "way" / "home") as home:
        home.chmod(0o700)
        home.parent.chmod(0o711)
        (server := EmbeddedPostgres(home)).acquire()
        server.release()
        assert modes_of(home.parent, home) == [0o711, 0o701]
        assert (home / "postgres-18").owner() == "pgserver"


@needs_root
@pytest.mark.usefixtures("copied_clusters")
@pytest.mark.parametrize("place", ["below/a folder", ""])
def test_root_is_asked_to_open_what_is_not_the_memorys(empty_home, place):
    (private := empty_home / "private").mkdir(mode=0o700)
    (diary := private / "diary.txt").touch()
    message = error_of(private / place)
    assert [diary] == list(private.iterdir())
    assert f"the OS user pgserver, which may not pass {private};" in message
    assert f"run chmod o+x {private}, or give the memory a folder" in message
    assert modes_of(private) == [0o700]
    private.chmod(0o701)
    (server := EmbeddedPostgres(private / place)).acquire()
    server.release()
    assert modes_of(private) == [0o701]


@needs_root
def test_root_writes_to_no_folder_of_another_user(empty_home):
    secret, home = empty_home / "secret", empty_home / "home"
    secret.write_text("of root")
    home.mkdir()
    home.chmod(0o711)
    (home / "users.lock").symlink_to(secret)
    os.chown(home, NOBODY, NOBODY)
    assert "belongs to the OS user nobody" in error_of(home)
    os.chown(home, 0, 0)
    home.chmod(0o777)
    assert f"other OS users may write to it; run chmod go-w {home}" in error_of(home)
    assert secret.read_text() == "of root"


@needs_root
def test_a_memory_of_root_is_opened_where_its_user_is_missing(prepared, empty_home, monkeypatch):
    """As in a new container on an old volume."""
    known = server_account.known_account
    answers = iter([None, None, None])
    with lent(prepared, empty_home / "home") as home:
        monkeypatch.setattr(server_account, "known_account", lambda: next(answers, known()))
        monkeypatch.setattr(embedded_server, "known_account", lambda: next(answers, known()))
        server = EmbeddedPostgres(home)
        psycopg.connect(server.acquire()).close()
        server.release()


@needs_root
def test_no_os_user_is_made_for_a_folder_that_is_refused(empty_home, monkeypatch):
    monkeypatch.setattr(server_account, "SERVER_USER", "no-such-user")
    (program := empty_home / "useradd").write_text(f"#!/bin/sh\ntouch '{empty_home}/made'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{empty_home}:{os.environ['PATH']}")
    (private := empty_home / "private").mkdir(mode=0o700)
    assert f"no-such-user, which may not pass {private};" in error_of(private / "below")
    assert [] == list(private.iterdir())
    assert not (empty_home / "made").exists()
    assert "useradd did not create it" in error_of(empty_home / "below")
    assert (empty_home / "made").exists()


@needs_root
@pytest.mark.usefixtures("copied_clusters")
def test_closed_programs_are_copied_and_stay_closed(empty_home, monkeypatch):
    installed = embedded_server.find_binaries(empty_home).parent
    package, closed = installed.parent, empty_home / "closed"
    closed.mkdir(mode=0o700)
    for name in (f"{package.name}/{installed.name}", f"{package.name}.libs"):
        if (package.parent / name).exists():
            shutil.copytree(package.parent / name, closed / name, symlinks=True)
    copy = closed / package.name / installed.name
    monkeypatch.setattr(embedded_server, "find_binaries", lambda home: copy / "bin")
    (empty_home / "home" / "programs-postgres-1").mkdir(parents=True)
    server = EmbeddedPostgres(empty_home / "home")
    for _ in range(2):
        psycopg.connect(server.acquire()).close()
        server.release()
    assert modes_of(closed) == [0o700]
    (programs,) = (empty_home / "home").glob("programs-*")
    assert (programs / package.name / installed.name / "bin" / "postgres").exists()


@needs_root
def test_another_os_user_can_neither_connect_nor_start(home, user_of):
    (server := EmbeddedPostgres(home)).acquire()
    other = user_of(home, NOBODY)
    assert "Permission denied" in other.ask("connect()")
    (home / "postgres-18").chmod(0o755)
    assert "Permission denied" in other.ask("connect()")  # the socket itself is closed as well
    (home / "postgres-18").chmod(0o700)
    assert "belongs to the OS user root" in other.ask("server.acquire()")
    server.release()


@needs_root
def test_an_ordinary_user_runs_it_as_itself(empty_home, user_of):
    os.chown(empty_home, NOBODY, NOBODY)
    empty_home.chmod(0o700)
    one, another = user_of(empty_home, NOBODY), user_of(empty_home, NOBODY)
    one.send("server.acquire()")
    another.send("server.acquire()")
    assert one.answer() == another.answer()
    assert psutil.Process(pid_of(empty_home)).uids().effective == NOBODY
    assert stat.S_IMODE(empty_home.stat().st_mode) == 0o700
    assert "belongs to the OS user nobody" in error_of(empty_home)
    os.kill(pid_of(empty_home), signal.SIGKILL)
    one.acquire()
    one.kill()
    assert describe(empty_home).running
    another.close()
    assert servers_of(empty_home) == []


@needs_root
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere every OS user has a name")
def test_a_user_without_a_name_runs_it_too(empty_home, user_of):
    os.chown(empty_home, NAMELESS, NAMELESS)
    (user := user_of(empty_home, NAMELESS)).acquire()
    assert psutil.Process(pid_of(empty_home)).uids().effective == NAMELESS
    assert user.ask("connect()") == "None"
    user.close()
    assert servers_of(empty_home) == []
    assert list(empty_home.glob("postgres-18?*")) == []
    assert "belongs to the OS user 12345" in error_of(empty_home)


@needs_root
def test_an_ordinary_user_learns_that_a_folder_is_not_its_own(empty_home, user_of):
    empty_home.chmod(0o755)
    answer = user_of(empty_home, NOBODY).ask("server.acquire()")
    assert "belongs to the OS user root" in answer and "HIPPOCAMPUS_HOME" in answer
    answer = user_of(empty_home / "new", NOBODY).ask("server.acquire()")
    assert f"Permission denied: {empty_home / 'new'}" in answer and "HIPPOCAMPUS_HOME" in answer


def test_a_folder_that_cannot_be_made_is_named(empty_home):
    (empty_home / "file").write_text("in the way")
    assert "File exists" in error_of(empty_home / "file")
    assert "Not a directory" in error_of(empty_home / "file" / "below")
    if Path("/proc/self").exists():
        assert "cannot be used" in error_of(Path("/proc/hippocampus"))


def test_files_of_another_version_are_left_alone(empty_home):
    (cluster := empty_home / "postgres-17").mkdir()
    (cluster / "PG_VERSION").write_text("17\n")
    assert "postgres-17 was made by PostgreSQL 17" in error_of(empty_home)
    cluster = cluster.rename(empty_home / "postgres-18")
    if account := server_account.find_account(empty_home):
        assert "belongs to the OS user root" in error_of(empty_home)
        os.chown(cluster, account.pw_uid, account.pw_gid)
    assert "postgres-18 was made by PostgreSQL 17" in error_of(empty_home)
    (cluster / "PG_VERSION").rename(cluster / "mine.txt")
    assert "not a PostgreSQL database" in error_of(empty_home)
    assert list(empty_home.rglob("*.*")) == [cluster / "mine.txt"]


@needs_root
def test_a_missing_os_user_that_cannot_be_made_is_named(empty_home, monkeypatch):
    monkeypatch.setattr(server_account, "SERVER_USER", "no-such-user")
    monkeypatch.setattr(server_account, "ADMIN_PATH", "")
    monkeypatch.setenv("PATH", str(empty_home))
    assert "OS user no-such-user" in error_of(empty_home)


def test_a_server_that_cannot_start_says_why(home):
    configuration = home / "postgres-18" / "postgresql.conf"
    before = configuration.read_text()
    configuration.write_text(before + "shared_buffers = 'much'\n")
    message = error_of(home)
    configuration.write_text(before)
    assert "shared_buffers" in message and str(home / "postgres.log") in message
    assert "shared_buffers" in EmbeddedPostgres(home).log_tail()
    assert describe(home).users == []


@needs_root
@pytest.mark.parametrize("is_checked", [True, False])
def test_a_full_disk_is_named(empty_home, monkeypatch, is_checked):
    """Without the check before it, initdb meets the end of the disk."""
    if not is_checked:
        monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=2**40))
    mount = ["mount", "-t", "tmpfs", "-o", "size=20m,mode=755", "none", empty_home]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("needs the right to mount a small file system")
    try:
        assert "the disk is full; free 128 MB" in error_of(empty_home)
    finally:
        # Lazy: the supervisor may still be ending.
        subprocess.run(["umount", "--lazy", empty_home], check=True)
