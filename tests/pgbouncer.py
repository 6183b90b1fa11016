"""A PgBouncer before the tests' server, run as the OS user of that server."""

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

PORT = 6432  # a part of the name of its socket: it does not listen on TCP
TRACKS = (1, 21)
"""The first version that can keep prepared statements."""


@contextmanager
def pgbouncer(
    dsn: str, *, prepared: int = 0, sessions: int = 5, **settings: str | int
) -> Iterator[str]:
    """Yield the DSN of the same database behind a pooler with this many sessions.

    prepared: how many statements of a client it keeps; 0 for none, as before version 1.21.
    settings: of pgbouncer.ini; pool_mode is "transaction" without them. Skips the test where no fit
    PgBouncer is installed; HIPPOCAMPUS_TEST_PGBOUNCER names another one.
    """
    program, version = _program()
    if prepared and version < TRACKS:
        pytest.skip(f"PgBouncer {version[0]}.{version[1]} keeps no prepared statements")
    server = Path(str(conninfo_to_dict(dsn)["host"]))
    folder = Path(tempfile.mkdtemp(prefix="bouncer-"))
    owner = server.stat()
    lines = [
        "[databases]", f"* = host={server} port={conninfo_to_dict(dsn)['port']} user=postgres",
        "[pgbouncer]", "listen_addr =", f"listen_port = {PORT}", f"unix_socket_dir = {folder}",
        "auth_type = any", f"default_pool_size = {sessions}",
        *(f"{name} = {value}" for name, value in ({"pool_mode": "transaction"} | settings).items()),
    ]  # fmt: skip
    if version >= TRACKS:
        lines.append(f"max_prepared_statements = {prepared}")
    (folder / "pgbouncer.ini").write_text("\n".join(lines))
    os.chown(folder, owner.st_uid, owner.st_gid)
    (folder / "pgbouncer.ini").chmod(0o644)
    with (folder / "log").open("wb") as log:
        command = [program, folder / "pgbouncer.ini"]
        process = subprocess.Popen(command, stdout=log, stderr=log, **_as(owner))
    pooled = make_conninfo(dsn, host=str(folder), port=PORT)
    try:
        _wait(process, pooled, folder / "log")
        yield pooled
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(folder)


def _as(owner: os.stat_result) -> dict[str, Any]:
    """Return the options of a process of this OS user: PgBouncer refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    return {"user": owner.st_uid, "group": owner.st_gid, "extra_groups": []}


def _program() -> tuple[str, tuple[int, int]]:
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"
    program = os.environ.get("HIPPOCAMPUS_TEST_PGBOUNCER") or shutil.which("pgbouncer", path=path)
    if program is None:
        pytest.skip("no PgBouncer is installed (Debian: apt-get install pgbouncer)")
    told = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
    found = re.search(r"(\d+)\.(\d+)", told)
    assert found, told
    return program, (int(found[1]), int(found[2]))


def _wait(process: subprocess.Popen[bytes], dsn: str, log: Path) -> None:
    while process.poll() is None:
        try:
            psycopg.connect(dsn, connect_timeout=5).close()
            return
        except psycopg.OperationalError:
            time.sleep(0.02)
    raise AssertionError(log.read_text())
