"""Runs Python programs in forks of a process that has already imported the frameworks.

A cold interpreter spends seconds on importing Google ADK, LangGraph and the embedding model, and on
compiling the rules. A fork has them. Everything else is as in a new process: files, environment,
folder, arguments, `__main__`, and a normal exit. Tests of the start itself use sys.executable.

One such process serves all workers of a test run, and ends with it.
"""

import atexit
import ctypes
import fcntl
import functools
import gc
import importlib
import logging
import marshal
import os
import random
import re
import runpy
import select
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, NoReturn

MODULES = (
    "google.adk.agents", "google.adk.apps", "google.adk.models.base_llm", "google.adk.runners",
    "google.adk.sessions", "google.adk.tools.load_memory_tool",
    "google.adk.tools.preload_memory_tool", "langgraph.checkpoint.postgres.aio",
    "langgraph.graph.message", "langgraph.graph.state", "mcp.server", "adk_memory.memory_service",
    "adk_memory.plugin", "langgraph_store.reflection", "langgraph_store.store",
    "shared_core.cli.main", "shared_core.mcp.server", "shared_core.open",
    "shared_core.storage.oceanbase.storage", "shared_core.storage.postgres.storage",
)  # fmt: skip
"""The modules to import once. Packages of others that are not installed are skipped."""
OURS = ("shared_core", "adk_memory", "langgraph_store")
LENGTH = struct.Struct("!I")
CLIENT = Path(__file__).with_name("warm_client.py")
PRACTISE = "--practise"
"""Asks the process itself, not a fork, to do once what programs do on a database."""
FINALIZE = "--finalize"
"""Lets a fork end as an interpreter does."""
MADV_COLLAPSE = 25
"""Advice to Linux 6.1 and later; an older one refuses it, and forks as slowly as ever."""
FORKS = hasattr(os, "pidfd_open")
"""Whether this system can do it; elsewhere each program starts cold."""


def warm_python(*, finalizes: bool = False) -> list[str]:
    """Return the start of a command line, for use in place of [sys.executable].

    finalizes: the interpreter ends with all that it does at its end, for tests of the end.
    """
    if not FORKS:
        return [sys.executable]
    options = [FINALIZE] if finalizes else []
    return [sys.executable, "-I", "-S", str(CLIENT), _started(os.getpid()), *options]


def warm_program(file: Path, *arguments: str) -> Path:
    """Write a program that runs warm_python() with these arguments before its own; return it.

    Without arguments it stands for the interpreter, and starts a cold one for other options.
    """
    lines = ["#!/bin/sh", f'exec {shlex.join([*warm_python(), *arguments])} "$@"', ""]
    if not arguments:
        lines.insert(1, f'case "$1" in -[!cm]*) exec {shlex.quote(sys.executable)} "$@";; esac')
    file.write_text("\n".join(lines))
    file.chmod(0o755)
    return file


def run_warm(
    arguments: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout: float
) -> subprocess.CompletedProcess[str]:
    """Run a program in a fork without an interpreter of its own in between."""
    if not FORKS:
        return subprocess.run(
            [sys.executable, *arguments], cwd=cwd, env=env, timeout=timeout, text=True,
            capture_output=True, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    with (
        Path(os.devnull).open("rb") as given,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as errors,
        socket.socket(socket.AF_UNIX) as connection,
    ):
        connection.settimeout(timeout)
        connection.connect(_started(os.getpid()))
        files = [given.fileno(), out.fileno(), errors.fileno()]
        request = marshal.dumps((list(arguments), str(cwd), dict(env)))
        socket.send_fds(connection, [LENGTH.pack(len(request))], files)
        connection.sendall(request)
        _, code = _number(connection), _number(connection)
        for file in (out, errors):
            file.seek(0)
        printed = [file.read().decode() for file in (out, errors)]
    return subprocess.CompletedProcess(arguments, code, *printed)


def practise(dsn: str) -> None:
    """Let the process do once what programs do, on an empty database that is then of no use."""
    if FORKS:
        done = run_warm([PRACTISE, dsn], cwd=Path.cwd(), env={}, timeout=300)
        assert 0 == done.returncode, done.stderr


@functools.cache
def _started(pid: int) -> str:
    """Return the address of the process that forks, started if no other worker has done so."""
    owner = os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else pid
    folder = Path(tempfile.gettempdir(), f"warm-{owner}")
    folder.mkdir(mode=0o700, exist_ok=True)
    address = folder / "socket"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _answers(address):
            _start(address, owner)
    return str(address)


def _answers(address: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as asked, suppress(OSError):
        asked.connect(str(address))
        return True
    address.unlink(missing_ok=True)
    return False


def _start(address: Path, owner: int) -> None:
    """Start the process, which ends when its owner does; return when it can fork."""
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1]), "PYTHONWARNINGS": ""}
    complaints = address.with_name("stderr")
    with complaints.open("wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, __file__, str(address), str(owner)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, env=environment,
            start_new_session=True,
        )  # fmt: skip
    assert process.stdout
    with process.stdout:
        ready = process.stdout.readline()
    process.returncode = 0  # it outlives this worker, and nobody waits for it
    assert b"ready\n" == ready, complaints.read_text("utf-8")
    assert "" == complaints.read_text("utf-8"), "an import printed something"


def _number(connection: socket.socket) -> int:
    received = b""
    while len(received) < LENGTH.size:
        part = connection.recv(LENGTH.size - len(received))
        assert part, "the warm interpreter is gone"
        received += part
    return int(LENGTH.unpack(received)[0])


def _serve(address: str, owner: int) -> CodeType | tuple[str, str] | None:
    """Fork for each request. Returns the job in a fork, and None when the owner has ended."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(address)
    listening.listen()
    living = os.pidfd_open(owner)
    os.write(1, b"ready\n")
    with Path(os.devnull).open("wb") as nothing:
        os.dup2(nothing.fileno(), 1)
    running: dict[int, tuple[int, int, socket.socket]] = {}  # by pidfd
    while True:
        connections = {client.fileno(): pidfd for pidfd, (_, _, client) in running.items()}
        ready, _, _ = select.select([living, listening, *running, *connections], [], [])
        for one in ready:
            if one == living:
                for pid, _, _ in running.values():
                    os.kill(pid, signal.SIGKILL)
                return None
            if one is listening:
                client, _ = listening.accept()
                job, pid = _fork(client)
                if pid is None:
                    continue
                if pid == 0:
                    listening.close()
                    os.close(living)
                    for pidfd, (_, _, other) in running.items():
                        other.close()
                        os.close(pidfd)
                    return job
                client.sendall(LENGTH.pack(pid))
                running[os.pidfd_open(pid)] = (pid, 0, client)
            elif one in running:
                pid, _, client = running.pop(one)
                os.close(one)
                code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                with suppress(OSError):  # the client may have been killed
                    client.sendall(LENGTH.pack(code & 0xFF if code >= 0 else 128 - code))
                client.close()
                break  # the descriptors of this round may have been reused
            elif one in connections and connections[one] in running:
                os.kill(running[connections[one]][0], signal.SIGKILL)  # the client was killed
                running[connections[one]][2].close()
                pidfd = connections[one]
                pid = running.pop(pidfd)[0]
                os.waitpid(pid, 0)
                os.close(pidfd)
                break


def _fork(client: socket.socket) -> tuple[Any, int | None]:
    """Return the job and 0 in the fork, its pid in the server, and None if there is none."""
    head, files, _, _ = socket.recv_fds(client, LENGTH.size, 3)
    if not head:  # somebody asked whether the server is there
        client.close()
        return None, None
    (length,) = LENGTH.unpack(head)
    request = b""
    while len(request) < length:
        request += client.recv(length - len(request))
    arguments, folder, environment = marshal.loads(request)
    if arguments[:1] == [PRACTISE]:
        with _standard_files(files):
            code = _practise(arguments[1])
        client.sendall(LENGTH.pack(os.getpid()) + LENGTH.pack(code))
        client.close()
        return None, None
    pid = os.fork()
    if pid:
        for file in files:
            os.close(file)
        return None, pid
    client.close()
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    return _become(arguments, folder, environment), 0


@contextmanager
def _standard_files(files: Sequence[int]) -> Iterator[None]:
    """Take these files as the standard ones in the block, then close them."""
    kept = [os.dup(number) for number in range(3)]
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, file in enumerate(kept):
            os.dup2(file, number)
            os.close(file)


def _practise(dsn: str) -> int:
    if "warm_practice" in sys.modules:
        return 0
    logs = logging.root.level, logging.root.handlers[:]
    try:
        from warm_practice import practise_all

        practise_all(dsn)
    except BaseException:  # noqa: BLE001  the test that asked shows it
        traceback.print_exc()
        return 1
    logging.root.level, logging.root.handlers[:] = logs
    for module in list(sys.modules.values()):  # what warned once warns a fork again
        if isinstance(module, ModuleType):
            vars(module).pop("__warningregistry__", None)
    gc.collect()
    gc.freeze()
    _use_huge_pages()
    return 0


def _use_huge_pages() -> None:
    """Put what is loaded into huge pages: a fork copies and drops the table of its pages."""
    maps, madvise = Path("/proc/self/maps").read_text(), ctypes.CDLL(None).madvise
    for place in re.findall(r"^(\S+)-(\S+) rw-p \S+ \S+ 0\b", maps, re.MULTILINE):
        begin, end = (int(one, 16) for one in place)
        madvise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), MADV_COLLAPSE)


def _become(
    arguments: list[str], folder: str, environment: dict[str, str]
) -> CodeType | tuple[str, str]:
    """Make this fork like a new process with these arguments; return its job."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None
    random.seed()
    if arguments[:1] == [FINALIZE]:
        arguments.pop(0)
        global _end
        _end = sys.exit
    kind, *rest = arguments or ["-"]
    if kind == "-m":
        sys.path[0] = str(Path.cwd())
        sys.argv = ["-m", *rest[1:]]
        sys.modules.pop(rest[0], None)  # it runs as __main__, not as the imported module
        return "module", rest[0]
    if kind == "-c":
        sys.path[0] = ""
        sys.argv = ["-c", *rest[1:]]
        return compile(rest[0], "<string>", "exec")
    if kind == "-":
        sys.path[0] = ""
        sys.argv = ["-", *rest]
        return compile(sys.stdin.read(), "<stdin>", "exec")
    sys.path[0] = str(Path(kind).resolve().parent)
    sys.argv = [kind, *rest]
    return "path", kind


def _load() -> None:
    for name in MODULES:
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            if (error.name or "").split(".")[0] in OURS:
                raise
    import typer.main

    from shared_core.models.embedders import E5Embedder

    E5Embedder()._loaded()
    if hasattr(typer.main, "_get_params_name_from_function"):
        read = functools.cache(typer.main._get_params_name_from_function)

        def read_once(command: Any) -> tuple[list[Any], Any]:
            """Read the signature of a command: most of the 80 ms that the tree of them takes."""
            parameters, name = read(command)
            return list(parameters), name

        typer.main._get_params_name_from_function = read_once
        signature = functools.cache(typer.main.get_params_from_function)
        typer.main.get_params_from_function = signature  # each callback reads it once more


def _run(job: CodeType | tuple[str, str]) -> None:
    if isinstance(job, CodeType):
        exec(job, {"__name__": "__main__", "__builtins__": __builtins__})
    elif job[0] == "module":
        runpy.run_module(job[1], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(job[1], run_name="__main__")


def _end(code: object) -> NoReturn:
    """End this fork like an interpreter, but leave the imported modules to the system."""
    if code is not None and not isinstance(code, int):
        sys.stderr.write(f"{code}\n")
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit((code or 0) & 0xFF)


if __name__ == "__main__":
    _load()
    gc.freeze()  # so that a fork does not copy unchanged objects
    job = _serve(sys.argv[1], int(sys.argv[2]))
    if job is None:
        shutil.rmtree(Path(sys.argv[1]).parent, ignore_errors=True)
        sys.exit()
    try:
        _run(job)
    except SystemExit as ended:
        _end(ended.code)
    except BaseException:  # noqa: BLE001  an interpreter prints any exception that ends it
        sys.excepthook(*sys.exc_info())
        _end(130 if sys.exc_info()[0] is KeyboardInterrupt else 1)
    _end(0)
