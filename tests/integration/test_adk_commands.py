"""`adk api_server` as a process: what names the memory, and its end."""

import shutil
import signal
import subprocess
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest
from adk_processes import ADK, environment, new_session, remembered, say, server
from embedded_users import until_unused
from practised import practised  # noqa: F401
from psycopg.conninfo import conninfo_to_dict
from warm_python import warm_python

from shared_core.storage.postgres.connection.embedded import describe

pytestmark = [pytest.mark.tail, pytest.mark.usefixtures("practised")]

PARROT = "My parrot is called Rio."
WHICH = "What is my parrot called?"


@pytest.fixture
def agents(tmp_path):
    """A copy of the agents folder: ADK writes into it."""
    skipped, ours = shutil.ignore_patterns("__pycache__", ".adk"), Path(__file__).parent
    return shutil.copytree(ours / "adk_agents", tmp_path / "agents", ignore=skipped)


@pytest.mark.parametrize("kept", ["services.yaml", "services.py"])
def test_the_api_server_remembers_a_patched_session(kept, agents, dsn, tmp_path):
    for name in {"services.yaml", "services.py"} - {kept}:
        (agents / name).unlink()
    parts, by_environment = conninfo_to_dict(dsn), kept == "services.yaml"
    database = quote(parts.pop("dbname"), safe="")
    uri = f"hippocampus+postgresql:///{database}?{urlencode(parts)}&top_k=5"
    uri = "hippocampus://" if by_environment else uri
    env = environment(dsn if by_environment else None, tmp_path)
    options = (f"--memory_service_uri={uri}", f"--session_service_uri={uri}")
    with server("api_server", agents, *options, env=env) as client:
        assert ["assistant"] == client.get("/list-apps").json()
        session_id = new_session(client)
        assert "Noted." == say(client, session_id, PARROT)
        assert "I remember nothing about that." == say(client, new_session(client), WHICH)
        for _ in range(2):
            body = {"session_id": session_id}
            patched = client.patch("/apps/assistant/users/ann/memory", json=body)
            assert 200 == patched.status_code, patched.text
        assert f"user: {PARROT}" in remembered(client, WHICH, "Rio")


def test_the_api_server_remembers_by_a_plugin_alone(agents, dsn, tmp_path):
    options = ("--session_service_uri=memory://", "--extra_plugins=adk_memory.MemoryPlugin")
    with server("api_server", agents, *options, env=environment(dsn, tmp_path)) as client:
        assert "Noted." == say(client, new_session(client), PARROT)
        assert PARROT in remembered(client, WHICH, "Rio")


def test_a_terminated_api_server_leaves_no_embedded_server(agents, tmp_path):
    home = tmp_path / "home"
    env = environment(None, tmp_path) | {"HIPPOCAMPUS_HOME": str(home)}
    options = ["--session_service_uri=memory://", "--memory_service_uri=hippocampus://"]
    with server("api_server", agents, *options, env=env, end=signal.SIGTERM) as client:
        say(client, new_session(client), WHICH)
        assert describe(home).running, (tmp_path / "api_server.log").read_text("utf-8")
    until_unused(home)
    assert not describe(home).running


def test_a_wrong_uri_is_explained_at_the_start(agents, tmp_path):
    ran = subprocess.run(
        [*warm_python(), ADK, "api_server", agents, "--port=0", "--memory_service_uri=hippocampus://?topk=3"],
        capture_output=True, text=True, timeout=60, env=environment(None, tmp_path),
    )  # fmt: skip
    assert 0 != ran.returncode
    assert "hippocampus:// has no option 'topk': take one of" in ran.stderr
    assert "Traceback" not in ran.stderr
