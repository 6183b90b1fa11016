"""The image and the compose file without Docker: the steps of the Dockerfile in a plain folder, and
the commands of the services on a PostgreSQL with the roles of docker/roles.sql."""

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import sysconfig
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
import yaml
from embedded_users import empty_folder, until_unused
from http_processes import command as program
from long_forms import LONG
from postgres_admin import column, execute, rows
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from shared_core import Scope, open_memory
from shared_core.storage.postgres.connection.embedded import EmbeddedPostgres
from shared_core.storage.postgres.connection.embedded_server import find_binaries

pytestmark = pytest.mark.tail

ROOT = Path(__file__).parents[2]
NAMELESS = 12_345
ANA = Scope("app", "ana")
OFFLINE = {
    "PYTHONPATH": sysconfig.get_path("purelib"),  # what is installed here need not be downloaded
    "PIP_NO_INDEX": "1",
    "PIP_NO_BUILD_ISOLATION": "0",  # pip reads it as "no isolation"
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
}


@dataclass(frozen=True)
class Image:
    """The instructions of the Dockerfile, whose paths are below a folder."""

    folder: Path
    port: int

    def instructions(self, name: str) -> list[str]:
        """Return the values of the instructions with this name, with paths and port replaced."""
        text = (ROOT / "Dockerfile").read_text("utf-8")
        found = re.findall(rf"^{name} (.*)$", text, re.M)
        assert found, name
        moved = (re.sub(r"/(opt/hippocampus|data)\b", rf"{self.folder}/\1", one) for one in found)
        return [one.replace("8420", str(self.port)) for one in moved]

    def words(self, name: str) -> list[str]:
        """Return the command of the only instruction with this name."""
        [value] = self.instructions(name)
        words: list[str] = json.loads(value[value.index("[") :])
        return words

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a container, without HOME."""
        [line] = self.instructions("ENV")
        given = dict(one.split("=", 1) for one in shlex.split(line))
        given["PATH"] = given["PATH"].replace("$PATH", os.defpath)
        return {"PYTHONPATH": OFFLINE["PYTHONPATH"], **given}

    def start(self, *command: str) -> subprocess.Popen[str]:
        """Start a command as an OS user without a name who may write to the volume alone."""
        return subprocess.Popen(
            [*as_nobody(), *command], env=self.environment, text=True,
            cwd=self.instructions("WORKDIR")[-1],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def run(self, *command: str) -> tuple[int, str, str]:
        """Return the exit code, the output and the errors of a command."""
        process = self.start(*command)
        out, errors = process.communicate(timeout=100)
        return process.returncode, out, errors


def as_nobody() -> list[str]:
    """Return the start of a command line that drops the rights of root; nothing for others.

    One right stays, to read everything, because the interpreter may lie in a closed folder.
    """
    if os.geteuid() != 0:
        return []
    program = shutil.which("setpriv")
    if program is None:
        pytest.skip("setpriv is not installed")
    return [
        program, f"--reuid={NAMELESS}", "--regid=0", "--clear-groups", "--no-new-privs",
        "--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search",
        "--bounding-set=-all,+dac_read_search",
    ]  # fmt: skip


def contents(folder: Path) -> dict[Path, int]:
    """Return the files below a folder and when each was written."""
    return {path: path.lstat().st_mtime_ns for path in folder.rglob("*")}


def sent_to_docker(folder: Path) -> Path:
    """Return a copy of what .dockerignore lets into the build."""
    (source := folder / "src").mkdir()
    ignored = shutil.ignore_patterns("__pycache__")
    for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines():
        name = line.removeprefix("!")
        if name == line:
            continue
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, source)
    return source


@pytest.fixture
def image():
    """The image, whose RUN instructions were run in a folder."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with empty_folder() as folder:
        image = Image(folder, port)
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        (folder / "opt").mkdir()
        source = sent_to_docker(folder)
        for step in image.instructions("RUN"):
            run = subprocess.run(
                ["sh", "-euc", step], cwd=source, env={**os.environ, **OFFLINE, "PATH": path},
                capture_output=True, text=True,
            )  # fmt: skip
            assert 0 == run.returncode, run.stdout + run.stderr
        yield image


def until_healthy(image: Image, server: subprocess.Popen[str]) -> None:
    """Return when the health check of the image succeeds."""
    with socket.socket() as asked:
        while asked.connect_ex(("127.0.0.1", image.port)) != 0:  # each check is a new interpreter
            assert server.poll() is None, server.communicate()
            time.sleep(0.02)
    while image.run(*image.words("HEALTHCHECK"))[0] != 0:
        assert server.poll() is None, server.communicate()
        time.sleep(0.1)


@pytest.mark.skipif(not LONG, reason="builds what a release holds: every night")
def test_the_image_serves_as_any_user_and_writes_to_its_volume_alone(image):
    installed = contents(image.folder / "opt")
    entry = image.words("ENTRYPOINT")
    serve = [*entry, *image.words("CMD"), "--port", str(image.port)]
    url = f"http://127.0.0.1:{image.port}"
    memory = {"user_id": "ana", "memories": [{"text": "Ana sails.", "key": "sails"}]}
    server = image.start(*serve)
    try:
        until_healthy(image, server)
        assert 401 == httpx.post(f"{url}/remember", json=memory, timeout=60).status_code
        code, token, errors = image.run(*entry, "token", "create", "--app", "my_app")
        assert 0 == code, errors
        headers = {"Authorization": f"Bearer {token.strip()}"}
        stored = httpx.post(f"{url}/remember", json=memory, headers=headers, timeout=60)
        assert 200 == stored.status_code, stored.text
        server.terminate()
        _, log = server.communicate(timeout=100)
        assert 0 == server.returncode, log
        assert 1 == image.run(*image.words("HEALTHCHECK"))[0]
        server = image.start(*serve)  # a new container on the same volume
        until_healthy(image, server)
        found = httpx.get(f"{url}/memories?user_id=ana", headers=headers, timeout=60)
        assert ["Ana sails."] == [one["text"] for one in found.json()["memories"]]
    finally:
        server.terminate()
        server.communicate(timeout=100)
    until_unused(image.folder / "data" / "memory")
    assert installed == contents(image.folder / "opt")
    assert ["memory"] == [path.name for path in (image.folder / "data").iterdir()]


PASSWORDS = {"OWNER_PASSWORD": "it's one", "SERVER_PASSWORD": "another"}


@pytest.fixture
def database():
    """The DSN of a new database, as an administrator; its server asks all others for passwords."""
    with empty_folder() as folder:
        embedded = EmbeddedPostgres(folder)
        dsn = embedded.acquire()
        psql = find_binaries(folder) / "psql"
        if not psql.exists():
            embedded.release()
            pytest.skip("the embedded PostgreSQL brings no psql")
        execute(dsn, "CREATE DATABASE memory")
        dsn = make_conninfo(dsn, dbname="memory")
        made = subprocess.run(
            [psql, dsn, "--no-psqlrc", "--file", ROOT / "docker" / "roles.sql"],
            env={**os.environ, **PASSWORDS}, capture_output=True, text=True,
        )  # fmt: skip
        assert 0 == made.returncode, made.stderr
        rules = "local all postgres trust\nlocal all all scram-sha-256\n"
        (embedded.data_directory / "pg_hba.conf").write_text(rules)
        execute(dsn, "SELECT pg_reload_conf()")
        yield dsn
        embedded.release()


def service(name: str) -> dict[str, Any]:
    services: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))
    found: dict[str, Any] = services["services"][name]
    return found


def as_service(name: str, dsn: str) -> str:
    """Return the DSN of a service; the server of the test stands in for its host."""
    environment = service(name)["environment"]
    uri = conninfo_to_dict(environment["HIPPOCAMPUS_URI"])
    assert ("database", "memory") == (uri["host"], uri["dbname"])
    [variable] = re.findall(r"^\$\{(\w+):\?", environment["PGPASSWORD"])
    return make_conninfo(dsn, user=uri["user"], password=PASSWORDS[variable])


def hippocampus(dsn: str, *command: str) -> subprocess.CompletedProcess[str]:
    line = [*program(), *command, "--uri", dsn]
    return subprocess.run(line, capture_output=True, text=True, timeout=100)


async def test_each_service_of_compose_may_do_its_work_and_no_more(database, monkeypatch):
    monkeypatch.setenv("HIPPOCAMPUS_ANN_THRESHOLD", "1")
    owner, server = as_service("worker", database), as_service("server", database)
    early = hippocampus(server, "recall", "app", "ana", "sails")
    assert 1 == early.returncode and "may not set up schema" in early.stderr
    migrated = hippocampus(as_service("migrate", database), *service("migrate")["command"])
    assert 0 == migrated.returncode, migrated.stderr
    async with open_memory(server, worker=False) as memory:
        assert "hippocampus_app" == (await memory.report()).role
        await memory.remember(ANA, "Ana sails.")
        await memory.remember(ANA, "Ana keeps bees.")
        assert 2 == len(await memory.recall(ANA, "sails"))
    worked = hippocampus(owner, *service("worker")["command"], "--once")
    assert 0 == worked.returncode, worked.stderr
    refused = hippocampus(server, "index")
    assert 1 == refused.returncode and "as the owner of that table" in refused.stderr
    assert "gets an index" in hippocampus(owner, "index").stdout
    columns = "rolname, rolsuper, rolbypassrls, rolcreaterole, rolpassword LIKE 'SCRAM%'"
    roles = "FROM pg_authid WHERE rolname LIKE 'memory%' ORDER BY 1"
    attributes = rows(database, f"SELECT {columns} {roles}")
    rights = (False, False, False, True)
    assert [("memory_owner", *rights), ("memory_server", *rights)] == attributes
    for user in (owner, server):
        seen = column(user, "SELECT count(*) FROM hippocampus.memories")
        assert [0] == seen  # without a scope nobody sees a row
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        execute(server, "DROP TABLE hippocampus.memories")
    assert 0 == hippocampus(server, "erase", "app", "ana", "--yes").returncode
    assert "loses its index" in hippocampus(owner, "index").stdout  # as the worker does each hour
