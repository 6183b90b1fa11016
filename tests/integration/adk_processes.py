"""ADK's commands as processes."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from warm_python import warm_python

ADK = Path(sys.executable).with_name("adk")
ROOT = Path(__file__).parents[2]


def environment(dsn: str | None, tmp_path: Path) -> dict[str, str]:
    """No key, no network, no trace of the user; HIPPOCAMPUS_URI names the memory."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("GOOGLE_", "GEMINI_"))}
    kept |= {"PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path), "HOME": str(tmp_path)}
    kept |= {f"{kind}_proxy": "http://127.0.0.1:1" for kind in ("http", "https")}
    return kept | ({"HIPPOCAMPUS_URI": dsn} if dsn else {})


@contextmanager
def server(
    command: str, folder: Path, *options: str, env: dict[str, str], end: int = signal.SIGINT
) -> Iterator[httpx.Client]:
    """A client of a running server; the server and what it started are gone afterwards."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = folder.parent / f"{command}.log"
    with log.open("wb") as written:
        process = subprocess.Popen(
            [*warm_python(), ADK, command, folder, f"--port={port}", "--host=127.0.0.1", *options],
            stdout=written, stderr=subprocess.STDOUT, env=env, start_new_session=True,
        )  # fmt: skip
    try:
        at = f"http://127.0.0.1:{port}"
        with httpx.Client(base_url=at, timeout=100, trust_env=False) as client:
            while True:
                assert process.poll() is None, log.read_text("utf-8")
                try:
                    client.get("/list-apps")
                    break
                except httpx.TransportError:
                    time.sleep(0.1)
            yield client
    finally:
        process.send_signal(end)
        try:
            process.wait(60)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    assert "Traceback" not in log.read_text("utf-8"), log.read_text("utf-8")


def new_session(client: httpx.Client, user: str = "ann") -> str:
    made = client.post(f"/apps/assistant/users/{user}/sessions", json={})
    assert 200 == made.status_code, made.text
    return str(made.json()["id"])


def say(client: httpx.Client, session_id: str, text: str, user: str = "ann") -> str:
    """Return what the agent answers."""
    body = {
        "appName": "assistant", "userId": user, "sessionId": session_id,
        "newMessage": {"role": "user", "parts": [{"text": text}]},
    }  # fmt: skip
    ran = client.post("/run", json=body)
    assert 200 == ran.status_code, ran.text
    return str(ran.json()[-1]["content"]["parts"][0]["text"])


def remembered(client: httpx.Client, question: str, answer: str, user: str = "ann") -> str:
    """Ask in new sessions until the agent answers so: facts and vectors follow the answer."""
    while answer not in (told := say(client, new_session(client, user), question, user)):
        time.sleep(0.2)
    return told
