"""A lock on a file ends with its process: no fork keeps it, and no fork gives it up."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from shared_core.storage._file_locks import close_lock, keep_in_forks, lock, locked, open_lock
from shared_core.storage.postgres.connection.embedded import _write_users
from shared_core.storage.postgres.connection.server_process import stop_if_unused

if sys.platform == "win32":
    pytest.skip("no server is embedded on Windows", allow_module_level=True)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "test.lock"


def is_free(path: Path) -> bool:
    try:
        with locked(path, wait=False):
            return True
    except BlockingIOError:
        return False


@contextmanager
def forked(first: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Let a fork, after its first action, live until the end of the block."""
    (done, tell), (wait, end) = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(end)
            first()
            os.write(tell, b"1")
            os.read(wait, 1)
        finally:
            os._exit(0)
    os.close(wait)
    assert os.read(done, 1) == b"1"
    try:
        yield
    finally:
        os.close(end)
        os.waitpid(pid, 0)
        os.close(done)
        os.close(tell)


def test_a_lock_is_taken_once_or_shared_and_a_fork_neither_keeps_nor_gives_up_its_parents(path):
    with locked(path):
        assert not is_free(path)
    with locked(path, shared=True), locked(path, shared=True, wait=False):
        assert not is_free(path)
    assert is_free(path)
    with locked(path):
        fork = forked()
        fork.__enter__()
    assert is_free(path)
    fork.__exit__(None, None, None)
    begun, tell = os.pipe()
    wait, end = os.pipe()
    parent = os.fork()
    if parent == 0:
        lock(open_lock(path))
        if os.fork() == 0:
            os.close(end)
            os.write(tell, b"1")
            os.read(wait, 1)
        os._exit(0)
    assert os.read(begun, 1) == b"1"
    os.waitpid(parent, 0)
    assert is_free(path)
    for descriptor in (end, wait, begun, tell):
        os.close(descriptor)
    descriptor = open_lock(path)
    lock(descriptor)
    with forked(lambda: close_lock(descriptor)):
        assert not is_free(path)
    assert not is_free(path)
    close_lock(descriptor)
    assert is_free(path)
    close_lock(descriptor)
    descriptor = open_lock(path)
    lock(descriptor)
    keep_in_forks(descriptor)
    with forked():
        os.close(descriptor)
        assert not is_free(path)
    assert is_free(path)


def test_one_who_leaves_makes_no_file_in_a_folder_that_is_being_deleted(tmp_path):
    with pytest.raises(FileNotFoundError), locked(tmp_path / "start.lock", create=False):
        raise AssertionError("there is nothing to lock")
    with pytest.raises(FileNotFoundError):
        stop_if_unused(tmp_path, tmp_path / "postgres")
    _write_users(tmp_path, {1})
    assert list(tmp_path.iterdir()) == []
