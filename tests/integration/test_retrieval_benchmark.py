"""Evidence recall is measured through the engine, beside baselines, in one JSON object."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from warm_python import warm_python

ROOT = Path(__file__).parents[2]
TURNS = [
    ("t1", 1, "2024-05-01 10:00", "Ann", "I adopted a grey cat called Momo."),
    ("t2", 1, "2024-05-01 10:01", "Bob", "Lovely! I bought a red bicycle."),
    ("t3", 2, "2024-06-01 10:00", "Ann", "我搬到北京了，住在海淀。"),
]
QUESTIONS: list[dict[str, Any]] = [
    {"question": "What is the cat of Ann called?", "category": "single", "evidence": ["t1"]},
    {"question": "她搬到哪里了？", "category": "chinese", "evidence": ["t3"]},
    {"question": "Who is Zed?", "category": "adversarial", "evidence": ["t2"]},
    {"question": "Is that answered?", "category": "single", "evidence": []},
]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    names = ("id", "session", "date", "speaker", "text")
    turns = [dict(zip(names, turn, strict=True)) for turn in TURNS]
    told = {"dataset": "small", "conversations": [{"turns": turns, "questions": QUESTIONS}]}
    (tmp_path / "data").mkdir()
    file = tmp_path / "data" / "small.json"
    file.write_text(json.dumps(told), encoding="utf-8")
    return file


def measured(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [*warm_python(), "-m", "benchmarks.retrieval", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)


def test_the_last_line_holds_every_figure_beside_those_of_a_baseline(data: Path) -> None:
    done = measured("--data", str(data.parent), "--baseline", "rrf", "--baseline", "bm25")
    report = json.loads(done.stdout.splitlines()[-1])
    assert ("linear", 3, 2) == (report["ranking"], report["turns"], report["overall"]["questions"])
    for name in ("recall_at_5", "recall_at_10", "recall_at_20", "all_gold_at_10", "mrr"):
        assert 0 < report["overall"][name] <= 1
    assert 1.0 == report["overall"]["recall_at_10"] == report["overall"]["all_gold_at_10"]
    assert {"adversarial", "chinese", "single"} == report["by_category"].keys()
    assert {"rrf", "bm25"} == report["baselines"].keys()
    assert report["ingestion_s"] > 0 and report["query_ms"]["p50"] > 0
    assert report["tokens_in_first_10"] > 0
    assert len(done.stdout.splitlines()) > 1


def test_on_request_it_prints_the_object_alone(data: Path) -> None:
    [line] = measured("--data", str(data), "--ranking", "vector", "--json").stdout.splitlines()
    assert "vector" == json.loads(line)["ranking"]


def test_what_holds_no_conversations_is_refused_in_one_line(tmp_path: Path) -> None:
    for path in (tmp_path / "nothing", tmp_path):
        done = measured("--data", str(path))
        assert done.returncode == 2 and str(path) in done.stderr.splitlines()[-1]
