"""The benchmark runs at a tiny size and prints what it promises; its speed is not asserted."""

from __future__ import annotations

import json
import math
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from warm_python import warm_python

ROOT = Path(__file__).parents[2]
FIGURES = {
    "put_single_ms",
    "put_batched_per_s",
    "get_p50_ms",
    "get_p99_ms",
    "search_p50_ms",
    "search_p99_ms",
    "global_search_p50_ms",
    "recall_at_10",
    "qps",
}
FACES = {"async_search_p50_ms", "sync_search_p50_ms", "function_search_p50_ms", "sync_qps"}
RATIOS = {
    "async_search_over_sql",
    "sync_search_over_sql",
    "sync_search_over_postgres_store",
    "put_batched_over_postgres_store",
}


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [*warm_python(), "-m", "benchmarks.store", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)


def numbers(value: object) -> Iterator[float]:
    """Every number in a JSON value."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            yield from numbers(inner)
    else:
        assert isinstance(value, int | float)
        yield value


@pytest.fixture(scope="module")
def report() -> dict[str, dict[str, object]]:
    size = ("--items", "200", "--per-user", "20", "--queries", "20", "--rounds", "1")
    done = run(*size, "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, dict[str, object]] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("contender", ["ours", "postgres_store", "sql"])
def test_every_contender_has_every_figure(
    report: dict[str, dict[str, object]], contender: str
) -> None:
    assert set() == FIGURES - report[contender].keys()
    assert {"1", "4", "16"} == report[contender]["qps"].keys()  # type: ignore[attr-defined]


def test_ours_is_measured_by_each_of_its_faces(report: dict[str, dict[str, object]]) -> None:
    assert set() == FACES - report["ours"].keys()


@pytest.mark.parametrize("part", ["ours", "postgres_store", "sql", "ratios", "ranges"])
def test_every_figure_is_finite_and_above_zero(
    report: dict[str, dict[str, object]], part: str
) -> None:
    assert [] == [one for one in numbers(report[part]) if not (math.isfinite(one) and one > 0)]


def test_the_ratios_compare_ours_with_both_others(report: dict[str, dict[str, object]]) -> None:
    assert set() == RATIOS - report["ratios"].keys()


def test_ours_finds_exactly_what_brute_force_finds(report: dict[str, dict[str, object]]) -> None:
    assert 1.0 == report["ours"]["recall_at_10"]
    assert 1.0 == report["sql"]["recall_at_10"]


def test_the_report_says_where_it_was_made(report: dict[str, dict[str, object]]) -> None:
    told = report["environment"]
    assert {"date", "python", "postgres", "pgvector", "cpu_count", "load_average"} <= told.keys()
    assert 200 == told["arguments"]["items"]  # type: ignore[index]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--items", "many"], "must be a whole number, got 'many'"),
        (["--per-user", "3"], "and 1,000,000,000, got 3"),
        (["--items", "50", "--per-user", "60"], "--per-user must be at most --items 50, got 60"),
        (["--items", "50", "--per-user", "50", "--dsn", "nonsense"], "cannot be reached"),
    ],
)
def test_bad_arguments_are_refused_in_one_line(arguments: list[str], complaint: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert complaint in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("turns", [[], ["--turns"]])
def test_recall_is_measured_by_size_and_by_each_clock(turns: list[str]) -> None:
    size = ("--sizes", "20", "120", "--total", "1200")
    done = subprocess.run(
        [*warm_python(), "-m", "benchmarks.recall", *size, *turns, "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])["recall"]
    assert {"20", "120"} == found.keys()
    for clocks in found.values():
        assert clocks.pop("users") and clocks.pop("bytes_a_memory")
        assert {"cold", "warm", "statement", "service"} == clocks.keys()
        assert all(0 < times["p50_ms"] <= times["p95_ms"] for times in clocks.values())


def test_the_reflection_node_is_measured_beside_a_bare_insert() -> None:
    command = [*warm_python(), "-m", "benchmarks.reflection", "--turns", "50", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert 0 == done.returncode, done.stderr
    figures = json.loads(done.stdout)
    cases = ("sync", "async", "sql", "first", "again", "busy")
    assert {f"{case}_{part}_ms" for case in cases for part in ("p50", "p95")} == set(figures)
    assert all(0 < figure < math.inf for figure in figures.values())


def test_the_sizes_of_tenants_are_compared_and_drawn(tmp_path: Path) -> None:
    plot = tmp_path / "tenants.svg"
    line = [*warm_python(), "-m", "benchmarks.tenants", "--sizes", "10", "1000", "--dims", "32",
            "--questions", "10", "--rounds", "1", "--plot", str(plot), "--json"]  # fmt: skip
    environment = {**os.environ, "HIPPOCAMPUS_ANN_THRESHOLD": "500"}
    done = subprocess.run(
        line, cwd=ROOT, capture_output=True, text=True, timeout=300, env=environment
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert {"ours", "exact", "postgres_store"} == set(report["figures"])
    assert {"10", "1000"} == set(report["figures"]["ours"])
    assert 1 == report["figures"]["exact"]["1000"]["recall_at_10"]
    assert 2 == len(report["index_bytes"])
    assert plot.read_text("utf-8").count("<polyline") == 6


def test_recall_is_measured_beside_a_worker_that_embeds() -> None:
    command = [*warm_python(), "-m", "benchmarks.beside_work"]
    command += ["--turns", "40", "--seconds", "1", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert 0 == done.returncode, done.stderr
    figures = json.loads(done.stdout)
    assert 0 < figures["busy_p50_ms"] <= figures["busy_max_ms"]
    assert figures["busy_recalls"] > 0 < figures["alone_p50_ms"]


def conversation(number: int) -> dict[str, object]:
    """What a budget was and is, in the format of benchmarks.conversations."""
    texts = ["The budget is 500.", f"It rains in town {number}.", "We raised the budget to 620."]
    turns = [
        {"id": f"t{at}", "session": at, "date": f"2026-03-0{at + 1} 09:00", "speaker": "ann",
         "text": text}
        for at, text in enumerate(texts)
    ]  # fmt: skip
    roles = {"original_info": ["t0"], "updated_info": ["t2"]}
    question = {"question": "How much is the budget?", "category": "knowledge_update",
                "evidence": ["t0", "t2"], "evidence_roles": roles}  # fmt: skip
    return {"turns": turns, "questions": [question]}


def test_retrieval_is_measured_with_weights_that_have_not_seen_it(tmp_path: Path) -> None:
    data, features = tmp_path / "tiny.json", tmp_path / "features.npz"
    data.write_text(json.dumps({"conversations": [conversation(number) for number in range(5)]}))

    def run_module(name: str, *more: str) -> subprocess.CompletedProcess[str]:
        command = [*warm_python(), "-m", f"benchmarks.{name}", "--data", str(data), *more]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)

    done = run_module("train_ranking", "--features", str(features))
    assert 0 == done.returncode, done.stderr
    done = run_module("retrieval", "--left-out", str(features), "--json")
    assert 0 == done.returncode, done.stderr
    overall = json.loads(done.stdout)["overall"]
    assert 5 == overall["questions"] and 1.0 == overall["recall_at_5"]
    assert 1.0 == overall["knowable"] == overall["newer_above_older_knowable"]
    features.write_bytes(b"")
    done = run_module("retrieval", "--left-out", str(features))
    assert 2 == done.returncode and "features.npz" in done.stderr.splitlines()[-1]


def test_the_benchmark_of_conversations_times_the_call_and_its_parts() -> None:
    command = [*warm_python(), "-m", "benchmarks.process_memory", "--items", "20", "--per-user",
               "10", "--calls", "4"]  # fmt: skip
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, cwd=ROOT)
    assert 0 == done.returncode, done.stderr
    found = json.loads(done.stdout)
    assert (20, 2, 4) == (found["items"], found["users"], found["calls"])
    for part in ("process_memory", "hear", "embed", "recall"):
        assert 0 < found[part]["p50_ms"] <= found[part]["p95_ms"]
