"""benchmarks.peers measures what is installed, and names the extra that installs the rest."""

from __future__ import annotations

import json
import subprocess
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree

import pytest
from warm_python import warm_python

ROOT = Path(__file__).parents[2]
OURS = {"engine", "adk", "store", "store_hybrid"}
MODULES = {
    "postgres_store": "langgraph",
    "in_memory_store": "langgraph",
    "langmem": "langmem",
    "mem0": "mem0",
}
TEXTS = [
    ("Ann", "I adopted a grey cat called Momo."),
    ("Bob", "Lovely! I bought a red bicycle."),
    ("Ann", "My sister lives in Lisbon and bakes bread."),
]
QUESTIONS = [
    {"question": "What is the cat of Ann called?", "category": "single", "evidence": ["t0"]},
    {"question": "Which colour is the bicycle of Bob?", "category": "single", "evidence": ["t1"]},
    {"question": "Who is Zed?", "category": "adversarial", "evidence": ["t2"]},
]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    turns = [
        {"id": f"t{n}", "session": 1, "date": "2024-05-01", "speaker": who, "text": text}
        for n, (who, text) in enumerate(TEXTS)
    ]
    file = tmp_path / "small.json"
    told = {"dataset": "small", "conversations": [{"turns": turns, "questions": QUESTIONS}]}
    file.write_text(json.dumps(told), encoding="utf-8")
    return file


def measured(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [*warm_python(), "-m", "benchmarks.peers", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)


def test_it_measures_what_is_installed_and_says_how_to_install_the_rest(
    data: Path, tmp_path: Path
) -> None:
    plot = tmp_path / "peers.svg"
    done = measured("--data", str(data), "--plot", str(plot), "--json")
    report = json.loads(done.stdout.splitlines()[-1])
    missing = {name for name, module in MODULES.items() if find_spec(module) is None}
    assert OURS | MODULES.keys() - missing == report["figures"].keys()
    for name in missing:
        line = (
            f"{name} is skipped: {MODULES[name]} is not installed, run"
            " pip install 'pg-hippocampus[peers]'"
        )
        assert line in done.stderr.splitlines()
    assert (3, 2) == (report["environment"]["turns"], report["environment"]["questions"])
    for figures in report["figures"].values():
        assert 1.0 == figures["recall_at_10"]
        assert 0 < figures["add_p50_ms"] <= figures["add_p95_ms"]
        assert 0 < figures["ask_p50_ms"] <= figures["ask_p95_ms"]
    assert ElementTree.parse(plot).getroot().tag.endswith("svg")


def test_the_memory_of_a_process_is_measured_beside_that_of_the_model(data: Path) -> None:
    done = measured("--data", str(data), "--contenders", "engine", "--memory", "--json")
    figures = json.loads(done.stdout.splitlines()[-1])["figures"]
    assert {"engine", "model"} == figures.keys()
    if Path("/proc/self/statm").exists():
        assert 0 < min(one["process_mb"] for one in figures.values())


def test_a_conversation_that_is_not_there_is_refused_in_one_line(data: Path) -> None:
    done = measured("--data", str(data), "--conversation", "1")
    assert 2 == done.returncode
    assert "--conversation must be between 0 and 0, got 1" in done.stderr.splitlines()[-1]
