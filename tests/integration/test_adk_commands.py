"""`adk api_server`, `adk web` and `adk run` as processes, with the agents of the examples."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from pathlib import Path
from urllib.parse import quote, urlencode

import httpx
import pytest
from adk_processes import ADK, environment, new_session, say, server
from embedded_users import until_unused
from psycopg.conninfo import conninfo_to_dict
from warm_python import warm_python

from shared_core.storage.postgres.connection.embedded import describe

PARROT = "My parrot is called Rio."
WHICH = "What is my parrot called?"


@pytest.fixture
def agents(tmp_path: Path) -> Path:
    """A copy of the agents folder: ADK writes into it."""
    skipped = shutil.ignore_patterns("__pycache__", ".adk")
    return Path(
        shutil.copytree(Path(__file__).with_name("adk_agents"), tmp_path / "agents", ignore=skipped)
    )


def uri_of(dsn: str) -> str:
    """Return a DSN as a URI for ADK's command line."""
    parts = {k: str(v) for k, v in conninfo_to_dict(dsn).items()}
    database = quote(parts.pop("dbname"), safe="")
    return f"hippocampus+postgresql:///{database}?{urlencode(parts)}&top_k=5"


def recalled(client: httpx.Client, app: str) -> str:
    """Return the answer of a new session, as soon as it is one from memory."""
    answer = ""
    for _ in range(50):
        answer = say(client, app, new_session(client, app), WHICH)
        if "Rio" in answer:
            break
        time.sleep(0.2)
    return answer


@pytest.mark.parametrize("kept", ["services.yaml", "services.py"])
def test_the_api_server_remembers_a_patched_session(
    kept: str, agents: Path, dsn: str, tmp_path: Path
) -> None:
    for name in {"services.yaml", "services.py"} - {kept}:
        (agents / name).unlink()
    by_environment = kept == "services.yaml"
    uri = "hippocampus://" if by_environment else uri_of(dsn)
    env = environment(dsn if by_environment else None, tmp_path)
    options = (f"--memory_service_uri={uri}", f"--session_service_uri={uri}")
    with server("api_server", agents, *options, env=env) as client:
        assert ["assistant", "assistant_with_plugin"] == client.get("/list-apps").json()
        session_id = new_session(client, "assistant")
        assert "Noted." == say(client, "assistant", session_id, PARROT)
        answer = say(client, "assistant", new_session(client, "assistant"), WHICH)
        assert "I remember nothing about that." == answer
        for _ in range(2):
            patched = client.patch(
                "/apps/assistant/users/ann/memory", json={"session_id": session_id}
            )
            assert 200 == patched.status_code, patched.text
        assert f"user: {PARROT}" in recalled(client, "assistant")


def test_the_api_server_remembers_by_a_plugin_alone(agents: Path, dsn: str, tmp_path: Path) -> None:
    options = ("--session_service_uri=memory://", "--extra_plugins=adk_memory.MemoryPlugin")
    with server("api_server", agents, *options, env=environment(dsn, tmp_path)) as client:
        first = new_session(client, "assistant")
        assert "Noted." == say(client, "assistant", first, PARROT)
        assert PARROT in recalled(client, "assistant")


def test_a_terminated_api_server_leaves_no_embedded_server(agents: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    env = environment(None, tmp_path) | {"HIPPOCAMPUS_HOME": str(home)}
    options = ["--session_service_uri=memory://", "--memory_service_uri=hippocampus://"]
    with server("api_server", agents, *options, env=env, end=signal.SIGTERM) as client:
        say(client, "assistant", new_session(client, "assistant"), WHICH)
        assert describe(home).running
    until_unused(home)
    assert not describe(home).running


def test_adk_web_serves_its_page_and_the_same_memory(
    agents: Path, dsn: str, tmp_path: Path
) -> None:
    options = ("--memory_service_uri=hippocampus://", "--session_service_uri=hippocampus://")
    with server("web", agents, *options, env=environment(dsn, tmp_path)) as client:
        page = client.get("/", follow_redirects=True)
        assert 200 == page.status_code and "<html" in page.text
        app = "assistant_with_plugin"
        assert "Noted." == say(client, app, new_session(client, app), PARROT)
        assert PARROT in recalled(client, app)


def test_adk_run_remembers_from_one_process_to_the_next(
    agents: Path, dsn: str, tmp_path: Path
) -> None:
    answers = []
    for said in (PARROT, WHICH):
        ran = subprocess.run(
            [*warm_python(), ADK, "run", agents / "assistant_with_plugin",
             "--memory_service_uri=hippocampus://", "--session_service_uri=hippocampus://"],
            input=f"{said}\nexit\n", capture_output=True, text=True, timeout=60,
            env=environment(dsn, tmp_path),
        )  # fmt: skip
        assert 0 == ran.returncode, ran.stderr
        answers.append(ran.stdout)
    assert "[assistant]: Noted." in answers[0]
    assert PARROT in answers[1]


def test_a_wrong_uri_is_explained_at_the_start(agents: Path, tmp_path: Path) -> None:
    ran = subprocess.run(
        [ADK, "api_server", agents, "--port=0", "--memory_service_uri=hippocampus://?topk=3"],
        capture_output=True, text=True, timeout=60, env=environment(None, tmp_path),
    )  # fmt: skip
    assert 0 != ran.returncode
    assert "hippocampus:// has no option 'topk': take one of" in ran.stderr
    assert "Traceback" not in ran.stderr
