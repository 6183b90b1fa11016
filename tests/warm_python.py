"""Runs Python programs in forks of a process that has already imported the frameworks.

A cold interpreter spends seconds on importing Google ADK, LangGraph and the embedding model. A fork
has these modules. Everything else is as in a new process: files, environment, folder, arguments,
`__main__`, and a normal exit. Tests of the start itself use sys.executable.
"""

from __future__ import annotations

import atexit
import functools
import gc
import importlib
import json
import os
import random
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from types import CodeType
from typing import Any, NoReturn

MODULES = (
    "google.adk.agents",
    "google.adk.apps",
    "google.adk.models.base_llm",
    "google.adk.runners",
    "google.adk.sessions",
    "google.adk.tools.load_memory_tool",
    "google.adk.tools.preload_memory_tool",
    "langgraph.checkpoint.postgres.aio",
    "langgraph.graph.message",
    "langgraph.graph.state",
    "mcp.server",
    "adk_memory.memory_service",
    "adk_memory.plugin",
    "langgraph_store.reflection",
    "langgraph_store.store",
    "shared_core.cli.main",
    "shared_core.mcp.server",
    "shared_core.open",
    "shared_core.storage.oceanbase.storage",
    "shared_core.storage.postgres.storage",
)
"""The modules to import once. Packages of others that are not installed are skipped."""
OURS = ("shared_core", "adk_memory", "langgraph_store")
LENGTH = struct.Struct("!I")


def warm_python() -> list[str]:
    """Return the start of a command line, for use in place of [sys.executable]."""
    if not hasattr(os, "pidfd_open"):
        return [sys.executable]
    return [sys.executable, "-I", "-S", __file__, "client", _started(os.getpid())]


@functools.cache
def _started(pid: int) -> str:
    """Start the process that forks, once a process of the test run; return its address."""
    folder = tempfile.mkdtemp(prefix="warm-")
    address = str(Path(folder, "socket"))
    root = str(Path(__file__).parents[1])
    environment = os.environ | {"PYTHONPATH": root, "PYTHONWARNINGS": ""}
    complaints = Path(folder, "stderr")
    with complaints.open("wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, __file__, "server", address],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, env=environment,
            start_new_session=True,
        )  # fmt: skip
    assert process.stdin and process.stdout
    atexit.register(process.wait)
    atexit.register(process.stdin.close)  # that ends it
    assert b"ready\n" == process.stdout.readline(), complaints.read_text("utf-8")
    assert "" == complaints.read_text("utf-8"), "an import printed something"
    return address


def _client(address: str, arguments: list[str]) -> int:
    """Run a program in a fork with this process's standard files; return its exit code."""
    job = {"arguments": arguments, "folder": str(Path.cwd()), "environment": dict(os.environ)}
    request = json.dumps(job).encode()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        socket.send_fds(connection, [LENGTH.pack(len(request))], [0, 1, 2])
        connection.sendall(request)
        pid = _number(connection)
        for name in (signal.SIGINT, signal.SIGTERM):
            signal.signal(name, lambda number, _: os.kill(pid, number))
        for standard in (0, 1):  # so that only the program holds the ends of its pipes
            os.close(standard)
        return _number(connection)


def _number(connection: socket.socket) -> int:
    received = b""
    while len(received) < LENGTH.size:
        part = connection.recv(LENGTH.size - len(received))
        if not part:
            raise SystemExit("the warm interpreter is gone")
        received += part
    return LENGTH.unpack(received)[0]


def _serve(address: str) -> CodeType | tuple[str, str] | None:
    """Fork for each request. Returns the job in a fork, and None at the end of the server."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(address)
    listening.listen()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    running: dict[int, tuple[int, int, socket.socket]] = {}  # by pidfd
    while True:
        connections = {client.fileno(): pidfd for pidfd, (_, _, client) in running.items()}
        ready, _, _ = select.select([0, listening, *running, *connections], [], [])
        for one in ready:
            if one == 0:
                for pid, _, _ in running.values():
                    os.kill(pid, signal.SIGKILL)
                return None
            if one is listening:
                client, _ = listening.accept()
                job, pid = _fork(client)
                if pid == 0:
                    listening.close()
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


def _fork(client: socket.socket) -> tuple[Any, int]:
    head, files, _, _ = socket.recv_fds(client, LENGTH.size, 3)
    (length,) = LENGTH.unpack(head)
    request = b""
    while len(request) < length:
        request += client.recv(length - len(request))
    pid = os.fork()
    if pid:
        for file in files:
            os.close(file)
        return None, pid
    client.close()
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    return _become(json.loads(request)), 0


def _become(request: dict[str, Any]) -> CodeType | tuple[str, str]:
    """Make this fork like a new process with these arguments; return its job."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    tempfile.tempdir = None
    random.seed()
    kind, *rest = request["arguments"]
    if kind == "-m":
        sys.path[0] = str(Path.cwd())
        sys.argv = ["-m", *rest[1:]]
        sys.modules.pop(rest[0], None)  # it runs as __main__, not as the imported module
        return "module", rest[0]
    if kind == "-c":
        sys.path[0] = ""
        sys.argv = ["-c", *rest[1:]]
        return compile(rest[0], "<string>", "exec")
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
    from shared_core.models.embedders import E5Embedder

    E5Embedder()._loaded()


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
    if sys.argv[1] == "client":
        sys.exit(_client(sys.argv[2], sys.argv[3:]))
    _load()
    gc.freeze()  # so that a fork does not copy unchanged objects
    job = _serve(sys.argv[2])
    if job is None:
        sys.exit()
    try:
        _run(job)
    except SystemExit as ended:
        _end(ended.code)
    except BaseException:  # noqa: BLE001  an interpreter prints any exception that ends it
        sys.excepthook(*sys.exc_info())
        _end(130 if sys.exc_info()[0] is KeyboardInterrupt else 1)
    _end(0)
