"""Dockerfile and compose.yaml, read by the linters of Docker. Nothing is built, no engine runs."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from shared_core.http import ServerOptions

ROOT = Path(__file__).parents[2]
PASSWORDS = ("POSTGRES_PASSWORD", "OWNER_PASSWORD", "SERVER_PASSWORD")


def program(name: str) -> str:
    """Return the path of a program that a development package brings."""
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed: its package has no release for this machine")
    return found


def compose(
    *options: str, passwords: tuple[str, ...] = PASSWORDS
) -> subprocess.CompletedProcess[str]:
    """Return what Docker Compose says about the file, with these passwords set."""
    line = [program("docker-compose"), "--env-file", "/dev/null", "config", *options]
    given = {"PATH": "", **{name: f"the {name}" for name in passwords}}
    return subprocess.run(line, cwd=ROOT, capture_output=True, text=True, env=given)


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    """The services as Docker Compose reads them."""
    read = compose("--format", "json")
    assert 0 == read.returncode, read.stderr
    found: dict[str, Any] = json.loads(read.stdout)["services"]
    return found


def test_the_linter_finds_nothing_in_the_dockerfile() -> None:
    line = [program("hadolint"), "--failure-threshold", "style", str(ROOT / "Dockerfile")]
    found = subprocess.run(line, capture_output=True, text=True)
    assert (0, "") == (found.returncode, found.stdout + found.stderr)


def test_the_image_runs_without_root() -> None:
    users = re.findall(r"^USER (\S+)$", (ROOT / "Dockerfile").read_text("utf-8"), re.M)
    assert ["10001:10001"] == users


@pytest.mark.parametrize("missing", PASSWORDS)
def test_compose_starts_nothing_without_each_password(missing: str) -> None:
    refused = compose("--quiet", passwords=tuple(name for name in PASSWORDS if name != missing))
    assert 0 != refused.returncode and f"set {missing} in .env" in refused.stderr


def test_each_password_reaches_those_who_need_it_alone(services: dict[str, Any]) -> None:
    holders = {
        name: {service for service, one in services.items() if f"the {name}" in json.dumps(one)}
        for name in PASSWORDS
    }
    owners = {"database", "migrate", "worker"}
    assert [{"database"}, owners, {"database", "server"}] == [*holders.values()]


def test_services_wait_for_what_they_need_and_have_time_to_end(services: dict[str, Any]) -> None:
    waits = {
        name: {other: how["condition"] for other, how in one.get("depends_on", {}).items()}
        for name, one in services.items()
    }
    migrated = {"migrate": "service_completed_successfully"}
    assert {
        "database": {},
        "migrate": {"database": "service_healthy"},
        "server": migrated,
        "worker": migrated,
    } == waits
    for name in ("database", "server", "worker"):
        assert "unless-stopped" == services[name]["restart"]
    seconds = int(services["server"]["stop_grace_period"].removesuffix("s"))
    assert seconds > ServerOptions().grace_s


def test_one_service_builds_the_image_of_all(services: dict[str, Any]) -> None:
    ours = {name: one for name, one in services.items() if "pg-hippocampus" == one["image"]}
    assert {"migrate", "server", "worker"} == set(ours)
    assert ["migrate"] == [name for name, one in ours.items() if "build" in one]


def test_services_of_the_image_have_no_rights_to_lose(services: dict[str, Any]) -> None:
    for name in ("migrate", "server", "worker"):
        one = services[name]
        assert one["read_only"] and ["ALL"] == one["cap_drop"], name
        assert ["no-new-privileges:true"] == one["security_opt"], name
    [port] = services["server"]["ports"]
    assert ("127.0.0.1", "8420") == (port["host_ip"], port["published"])
