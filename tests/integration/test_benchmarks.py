"""Benchmarks run at tiny sizes and print what they promise; their speed is not asserted."""

import asyncio
import json
import math
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from benchmark_runs import copied_clusters, refused, run
from long_forms import LONG
from psycopg.conninfo import conninfo_to_dict
from warm_python import warm_python

from benchmarks import growth, lost_answers, peers, process_memory, recall, retention, slices
from shared_core import Scope, open_memory

__all__ = ["copied_clusters", "refused", "run"]
pytestmark = pytest.mark.tail
ROOT = Path(__file__).parents[2]


def in_new_process(name: str, *arguments: str) -> tuple[Any, list[str]]:
    """Run a benchmark in a process of its own; return the object of its last line, and stderr."""
    command = [*warm_python(), "-m", f"benchmarks.{name}", *arguments, "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert 0 == done.returncode, done.stderr
    return json.loads(done.stdout.splitlines()[-1]), done.stderr.splitlines()


@pytest.fixture
def in_threads(monkeypatch):
    """Let benchmarks measure in a thread what they measure in a new process."""
    for module in (growth, peers):
        monkeypatch.setattr(
            module, "ProcessPoolExecutor", lambda count, mp_context: ThreadPoolExecutor(count)
        )


@pytest.fixture
def few_calls(monkeypatch):
    """Let benchmarks measure a few calls, whatever they would measure."""
    percentile = slices._percentile_ms
    monkeypatch.setattr(
        slices, "_percentile_ms", lambda call, calls, percent: percentile(call, 5, percent)
    )
    for name, few in (("THREAD", 5), ("REPEATS", 3), ("HISTORY", 5)):
        monkeypatch.setattr(f"benchmarks.reflection.{name}", few)
    for module, name, few in (
        (recall, "CALLS", 4), (recall, "WARM_UP", 1), (process_memory, "WARM_UP", 2),
        (retention, "ACCESS_CALLS", 3),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, few)


def numbers(value: object) -> Iterator[float]:
    """Yield every number in a JSON value."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            yield from numbers(inner)
    else:
        assert isinstance(value, int | float)
        yield value


FIGURES = {
    "put_single_ms", "put_batched_per_s", "get_p50_ms", "get_p99_ms", "search_p50_ms",
    "search_p99_ms", "global_search_p50_ms", "recall_at_10", "qps",
}  # fmt: skip
FACES = {"async_search_p50_ms", "sync_search_p50_ms", "function_search_p50_ms", "sync_qps"}
RATIOS = {
    "async_search_over_sql", "sync_search_over_sql", "sync_search_over_postgres_store",
    "put_batched_over_postgres_store",
}  # fmt: skip


def test_our_store_is_measured_by_each_of_its_faces_beside_two_others(run, server):
    """Ours finds exactly what brute force finds."""
    size = ("--items", 100, "--per-user", 20, "--queries", 8, "--rounds", 1)
    report = run("store", *size, "--dsn", server)
    for contender in ("ours", "postgres_store", "sql"):
        assert set() == FIGURES - report[contender].keys()
        assert {"1", "4", "16"} == report[contender]["qps"].keys()
    assert set() == FACES - report["ours"].keys()
    assert set() == RATIOS - report["ratios"].keys()
    for part in ("ours", "postgres_store", "sql", "ratios", "ranges"):
        assert [] == [one for one in numbers(report[part]) if not 0 < one < math.inf]
    assert 1.0 == report["ours"]["recall_at_10"] == report["sql"]["recall_at_10"]
    told = report["environment"]
    assert {"date", "python", "postgres", "pgvector", "cpu_count", "load_average"} <= told.keys()
    assert 100 == told["arguments"]["items"]


GROWTH = ("--per-user", 20, "--users", 3, "--calls", 4, "--dimensions", 8, "--sizes")


@pytest.mark.parametrize(("name", "arguments", "complaint"), [
    ("store", ["--items", "many"], "must be a whole number, got 'many'"),
    ("store", ["--per-user", 3], "and 1,000,000,000, got 3"),
    ("store", ["--items", 50, "--per-user", 60], "--per-user must be at most --items 50, got"),
    ("store", ["--items", 50, "--per-user", 50, "--dsn", "nonsense"], "cannot be reached"),
    ("growth", [*GROWTH, 100, 110], "multiples of --per-user 20, got [100, 110]"),
    ("growth", [*GROWTH, 100, 200, "--large", 100], "the last rise of --sizes, 100, got 100"),
    ("growth", [*GROWTH, 100, "--calls", 0], "must be at least 1"),
])  # fmt: skip
def test_bad_arguments_are_refused_in_one_line(refused, name, arguments, complaint):
    assert complaint in refused(name, *arguments)


@pytest.mark.parametrize("turns", [[], ["--turns"]])
def test_recall_is_measured_by_size_and_by_each_clock(run, few_calls, turns):
    found = run("recall", "--sizes", 20, 120, "--total", 150, *turns)["recall"]
    assert {"20", "120"} == found.keys()
    for clocks in found.values():
        assert clocks.pop("users") and clocks.pop("bytes_a_memory")
        assert {"cold", "warm", "statement", "service"} == clocks.keys()
        assert all(0 < times["p50_ms"] <= times["p95_ms"] for times in clocks.values())


def test_the_reflection_node_is_measured_beside_a_bare_insert(run, few_calls):
    figures = run("reflection", "--turns", 5)
    cases = ("sync", "async", "sql", "first", "again", "busy")
    assert {f"{case}_{part}_ms" for case in cases for part in ("p50", "p95")} == set(figures)
    assert all(0 < figure < math.inf for figure in figures.values())


def test_the_sizes_of_tenants_are_compared_and_drawn(run, server, tmp_path, monkeypatch):
    plot = tmp_path / "tenants.svg"
    monkeypatch.setenv("HIPPOCAMPUS_ANN_THRESHOLD", "200")
    size = ("--sizes", 10, 300, "--dims", 32, "--questions", 10, "--rounds", 1)
    report = run("tenants", *size, "--dsn", server, "--plot", plot)
    assert {"ours", "exact", "postgres_store"} == set(report["figures"])
    assert {"10", "300"} == set(report["figures"]["ours"])
    assert 1 == report["figures"]["exact"]["300"]["recall_at_10"]
    assert 2 == len(report["index_bytes"])
    assert plot.read_text("utf-8").count("<polyline") == 6


def test_recall_is_measured_beside_a_worker_that_embeds(run):
    figures = run("beside_work", "--turns", 10, "--seconds", 0.2)
    assert 0 < figures["busy_p50_ms"] <= figures["busy_max_ms"]
    assert figures["busy_recalls"] > 0 < figures["alone_p50_ms"]


def test_the_benchmark_of_conversations_times_the_call_and_its_parts(run, few_calls):
    found = run("process_memory", "--items", 20, "--per-user", 10, "--calls", 4)
    assert (20, 2, 4) == (found["items"], found["users"], found["calls"])
    for part in ("process_memory", "hear", "embed", "recall"):
        assert 0 < found[part]["p50_ms"] <= found[part]["p95_ms"]


async def test_slices_and_windows_are_measured_of_what_is_loaded(server, few_calls):
    report = await slices.measure(1_000, 500, server)
    assert (1_000, 500) == (report["items"], report["user_items"])
    names = ("slice_p50_ms", "slice_p99_ms", "slice_by_words_p99_ms", "buckets_p50_ms")
    figures = [report[name] for name in (*names, "context_p50_ms")]
    assert all(isinstance(one, float) and one > 0 for one in figures)
    assert report["environment"]


async def test_what_slices_are_measured_of_is_a_memory_like_any_other(dsn):
    scope = Scope("bench", "u0")
    async with open_memory(dsn, embedder=slices.NoEmbedding(), worker=False) as memory:
        await memory.recall(scope, "hello")
        slices.load(dsn, scope, 450)
        window = await memory.context_window(scope, "t0", "What about the bees?", max_tokens=8000)
        assert window.budget_used > 0.95 and len(window.section("history")) > 150
        month = await memory.slice(scope, "last month", asked_at=slices.NEWEST, bucket="day")
        assert 31 == len(month.buckets) and sum(one.count for one in month.buckets) > 20
        found = await memory.recall(scope, "bees", limit=3)
        assert any("bees" in hit.memory.text for hit in found)


SECONDS = {"cleanup_s", "bare_delete_s", "demote_s", "archive_s", "erase_s", "stats_s", "load_s"}


def test_forgetting_is_measured_and_nothing_was_written_beside(run, server, few_calls):
    size = ("--items", 1_000, "--per-user", 100, "--rounds", 1, "--dims", 8)
    report = run("retention", *size, "--dsn", server)
    assert {"slice_p99_ms", "context_p50_ms"} <= report.keys()
    assert all(report[name] > 0 for name in SECONDS | {"record_access_ms", "cleanup_over_delete"})
    assert (0, 10) == (report["rows_written_outside"], report["forgotten"])


def test_one_database_is_measured_at_each_size(run, in_threads):
    report = run("growth", *GROWTH, 40, 100, "--large", 40)
    assert {"40", "100"} == report["sizes"].keys()
    for figures in (*report["sizes"].values(), report["large"]):
        assert all(0 < figures[one]["p50_ms"] <= figures[one]["p99_ms"] for one in growth.CLOCKS)
        assert 3 == len(figures["rss_mb"]) and figures["index_mb"] > 0
    assert {"postgres", "load_average"} <= report["environment"].keys()


def test_the_turns_of_users_are_written_in_turn():
    slots = growth.slots_of(40, 6, 2)
    large = [slot for slot in slots if slot[1] == growth.LARGE]
    assert ["u40-0", "u40-1", "u40-3", "u40-4"] == [one[1] for one in slots if one not in large]
    assert [(2, 0, 2), (5, 1, 2)] == [(place, part, parts) for place, _, part, parts, _ in large]


def test_what_growth_loads_is_a_memory_like_any_other(tmp_path, copied_clusters):
    chosen = growth.Choice(tmp_path, per_user=150, users=1, calls=1, dimensions=8)
    asyncio.run(growth._declare(chosen))
    growth._load(chosen, growth.slots_of(0, 5, 2))
    asyncio.run(turns_are_remembered(tmp_path))


async def turns_are_remembered(home: Path) -> None:
    """A user has as many memories as turns, in conversations, and recall finds them."""
    async with open_memory(home, embedder=growth.HalfRandomVectors(8), worker=False) as memory:
        for user, count in (("u0-0", 150), (growth.LARGE, 300)):
            scope = Scope(growth.APP, user)
            kept = await memory.list_memories(scope, limit=1_000)
            assert count == len(kept) == len({one.text for one in kept})
            assert 5 == len(await memory.recall(scope, kept[0].text, limit=5))
            window = await memory.context_window(scope, "c1", "w1", max_tokens=8_000)
            assert 40 < len(window.section("history"))


OURS = {"engine", "adk", "store", "store_hybrid"}
MODULES = {
    "postgres_store": "langgraph", "in_memory_store": "langgraph", "langmem": "langmem",
    "mem0": "mem0",
}  # fmt: skip
SLOW = {"langmem", "mem0"}
"""They are imported for seconds."""
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
def data(tmp_path):
    turns = [
        {"id": f"t{n}", "session": 1, "date": "2024-05-01", "speaker": who, "text": text}
        for n, (who, text) in enumerate(TEXTS)
    ]
    file = tmp_path / "small.json"
    told = {"dataset": "small", "conversations": [{"turns": turns, "questions": QUESTIONS}]}
    file.write_text(json.dumps(told), encoding="utf-8")
    return str(file)


def test_peers_that_are_installed_are_measured_and_the_extra_of_the_rest_is_named(data, tmp_path):
    """In a new process: the peers warn when they are imported."""
    plot = tmp_path / "peers.svg"
    missing = {name for name, module in MODULES.items() if find_spec(module) is None}
    asked = OURS | MODULES.keys() - (set() if LONG else SLOW - missing)
    given = ("--data", data, "--plot", str(plot), "--contenders", *sorted(asked))
    report, told = in_new_process("peers", *given)
    assert asked - missing == report["figures"].keys()
    for name in missing:
        install = "pip install 'pg-hippocampus[peers]'"
        assert f"{name} is skipped: {MODULES[name]} is not installed, run {install}" in told
    assert (3, 2) == (report["environment"]["turns"], report["environment"]["questions"])
    for figures in report["figures"].values():
        assert 1.0 == figures["recall_at_10"]
        assert 0 < figures["add_p50_ms"] <= figures["add_p95_ms"]
        assert 0 < figures["ask_p50_ms"] <= figures["ask_p95_ms"]
    assert ElementTree.parse(plot).getroot().tag.endswith("svg")


@pytest.mark.parametrize("source", ["--data", "--chats"])
def test_the_share_of_answers_within_a_number_of_tokens_is_measured(run, data, tmp_path, source):
    plot, chat = tmp_path / "tokens.svg", tmp_path / "chat.json"
    turns = ["u: I adopted a grey cat called Momo.", "a: How sweet!", "u: I bought a bicycle."]
    chat.write_text(json.dumps({"conversations": [
        {"language": "en", "user": "ann", "sessions": [{"date": "2024-05-01", "turns": turns}],
         "questions": [{"text": "What is my cat called?", "answer": ["Momo"]}]}
    ]}))  # fmt: skip
    file = data if source == "--data" else str(chat)
    given = (source, file, "--contenders", "engine", "in_memory_store", "--plot", str(plot))
    figures = run("peer_tokens", *given)["figures"]
    assert {"engine", "in_memory_store"} == figures.keys()
    for shares in figures.values():
        assert sorted(shares.values()) == [*shares.values()] and 1.0 == shares["answered_at_100"]
    assert ElementTree.parse(plot).getroot().tag.endswith("svg")


def test_the_memory_of_a_process_is_measured_beside_that_of_the_model(run, data, in_threads):
    figures = run("peers", "--data", data, "--contenders", "engine", "--memory")["figures"]
    assert {"engine", "model"} == figures.keys()
    if Path("/proc/self/statm").exists():
        assert 0 < min(one["process_mb"] for one in figures.values())


def test_a_conversation_that_is_not_there_is_refused_in_one_line(refused, data):
    said = refused("peers", "--data", data, "--conversation", 1)
    assert "--conversation must be between 0 and 0, got 1" in said


def test_a_few_kills_lose_and_double_nothing():
    size = ("--kills", "6", "--clients", "3", "--server-every", "3", "--cut-every", "3")
    report, _ = in_new_process("kills", *size)
    assert report["kills"] >= 6 and report["killed clients"] > 0
    assert set(report["found"].values()) == {0}


@pytest.mark.parametrize("engine", ["postgres", "seekdb"])
async def test_no_cut_loses_doubles_or_misleads(request, monkeypatch, engine):
    """Each call that writes is cut once; on SeekDB the first ones."""
    lent = [request.getfixturevalue(engine).lend() for _ in range(2)]
    plain, cut = map(next, lent)
    if engine == "postgres":
        names = [str(conninfo_to_dict(dsn)["dbname"]) for dsn in (plain, cut)]
        server = lost_answers.on_postgres(plain)
    else:
        names = [dsn.partition("?database=")[2] for dsn in (plain, cut)]
        server = lost_answers.on_seekdb(Path(plain.removeprefix("seekdb://").partition("?")[0]))
    cuts = 30
    if engine == "seekdb" and not LONG:
        cuts, calls = 12, lost_answers.CALLS[:14]
        monkeypatch.setattr(lost_answers, "CALLS", calls)
    every = 1 if LONG else 4
    found = await lost_answers.compared(*server, (names[0], names[1]), cuts, seed=20, every=every)
    assert ([], cuts) == (found.found, found.counts["cuts"])
    for one in lent:
        next(one, None)
