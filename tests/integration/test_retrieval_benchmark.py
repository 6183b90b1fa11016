"""Benchmarks of answers run at tiny sizes: evidence recall, chats, and text as people type it."""

import json
from collections import Counter, defaultdict
from typing import Any

import pytest
from benchmark_runs import copied_clusters, refused, run
from every_case import every_case

from benchmarks import typed
from benchmarks.assistant import measure
from benchmarks.chats import OWN
from shared_core.extraction import RuleExtractor

__all__ = ["copied_clusters", "refused", "run"]
pytestmark = pytest.mark.tail
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


def conversation(turns: list[tuple[Any, ...]], questions: list[dict[str, Any]]) -> dict[str, Any]:
    names = ("id", "session", "date", "speaker", "text")
    told = [dict(zip(names, turn, strict=True)) for turn in turns]
    return {"turns": told, "questions": questions}


@pytest.fixture
def data(tmp_path):
    told = {"dataset": "small", "conversations": [conversation(TURNS, QUESTIONS)]}
    (tmp_path / "data").mkdir()
    file = tmp_path / "data" / "small.json"
    file.write_text(json.dumps(told), encoding="utf-8")
    return file


def test_the_last_line_holds_every_figure_beside_those_of_a_baseline(run, data):
    baselines = ("--baseline", "rrf", "--baseline", "bm25")
    report = run("retrieval", "--data", data.parent, *baselines, as_json=False)
    assert ("linear", 3, 2) == (report["ranking"], report["turns"], report["overall"]["questions"])
    for name in ("recall_at_5", "recall_at_10", "recall_at_20", "all_gold_at_10", "mrr"):
        assert 0 < report["overall"][name] <= 1
    assert 1.0 == report["overall"]["recall_at_10"] == report["overall"]["all_gold_at_10"]
    assert {"adversarial", "chinese", "single"} == report["by_category"].keys()
    assert {"rrf", "bm25"} == report["baselines"].keys()
    assert report["ingestion_s"] > 0 and report["query_ms"]["p50"] > 0
    assert report["tokens_in_first_10"] > 0


def test_on_request_it_prints_the_object_alone(run, data):
    assert "vector" == run("retrieval", "--data", data, "--ranking", "vector")["ranking"]


def test_what_holds_no_conversations_is_refused_in_one_line(refused, tmp_path):
    for path in (tmp_path / "nothing", tmp_path):
        assert str(path) in refused("retrieval", "--data", path)


def changed_budget(number: int) -> dict[str, Any]:
    """What a budget was and is, in the format of benchmarks.conversations."""
    texts = ["The budget is 500.", f"It rains in town {number}.", "We raised the budget to 620."]
    turns = [(f"t{n}", n, f"2026-03-0{n + 1} 09:00", "ann", text) for n, text in enumerate(texts)]
    roles = {"original_info": ["t0"], "updated_info": ["t2"]}
    question = {"question": "How much is the budget?", "category": "knowledge_update",
                "evidence": ["t0", "t2"], "evidence_roles": roles}  # fmt: skip
    return conversation([*turns], [question])


def test_retrieval_is_measured_with_weights_that_have_not_seen_it(run, refused, tmp_path):
    data, features = tmp_path / "tiny.json", tmp_path / "features.npz"
    data.write_text(json.dumps({"conversations": [changed_budget(n) for n in range(5)]}))
    run("train_ranking", "--data", data, "--features", features, as_json=None)
    given = ("retrieval", "--data", data, "--left-out", features)
    overall = run(*given)["overall"]
    assert 5 == overall["questions"] and 1.0 == overall["recall_at_5"]
    assert 1.0 == overall["knowable"] == overall["newer_above_older_knowable"]
    features.write_bytes(b"")
    assert "features.npz" in refused(*given)


@pytest.mark.usefixtures("copied_clusters")
async def test_short_chats_are_answered_as_of_now():
    """What is true now stands first, in English and Chinese."""
    found = await measure("linear", "use", [OWN], verbose=False)
    assert {"en", "zh"} == found.keys()
    for figures in found.values():
        assert figures["answered_at_1"] >= 0.75
        assert figures["answered_at_3"] >= 0.88
        assert figures["current_first"] >= 0.8


MESSAGES = [
    {"lang": "en", "text": "I live in Leeds and I like tea.", "facts": [
        {"subject": "user", "predicate": "lives", "value": ["leeds|Bath"], "required": True},
        {"subject": "user", "predicate": "pet", "value": ["dog"], "required": True}]},
    {"lang": "en", "text": "I live in Oslo.", "facts": []},
    {"lang": "en", "text": "What time is it?", "facts": []},
]  # fmt: skip
HELD = [
    {"subject": "user", "slot words": "lives in", "value": "Leeds"},
    {"subject": "user", "slot words": "works at", "value": "Tarn"},
]
LINES = [
    {"lang": "en", "text": "I no longer work for Tarn", "held": HELD, "ends": [1]},
    {"lang": "en", "text": "I moved to Bath", "held": HELD, "ends": [1]},
    {"lang": "en", "text": "we left Leeds at noon", "held": HELD, "ends": []},
]


@pytest.fixture
def loaded(monkeypatch):
    data: dict[str, list[Any]] = {"utterances": MESSAGES, "traps": LINES}
    monkeypatch.setattr(typed, "_loaded", lambda name, _: data[name])


@pytest.mark.usefixtures("loaded")
def test_found_labelled_and_loud_and_ends_and_false_ends_are_counted():
    figures: typed.Figures = defaultdict(Counter)
    told = list(typed.read_messages(RuleExtractor(reader=False), figures))
    assert figures["en"] == {
        "required": 2, "found": 1, "drafts": 3, "labelled": 1, "silent": 2, "loud": 1,
    }  # fmt: skip
    assert ["missed [['dog']]" in one for one in told] == [True, False]
    figures: typed.Figures = defaultdict(Counter)
    told = list(typed.read_lines(RuleExtractor(reader=False), figures))
    assert figures["en"] == {
        "ends": 2, "traps": 1, "ended": 1, "doubted": 0, "ended_falsely": 1,
    }  # fmt: skip
    assert len(told) == 1


@every_case(
    (["I live in Bath.", "I live in Leeds."], 1, 0),
    (["I live in Leeds.", "I live in Bath."], 0, 1), (["I moved from Leeds to Bath."], 1, 0),
    (["I live in Leeds."], 0, 1), (["I row."], 0, 0),
)  # fmt: skip
def test_a_stale_answer_above_the_current_one_is_counted(texts, first, stale_above):
    tally: Counter[str] = Counter()
    question = {"q": "Where do I live?", "expect": ["Bath"], "stale": ["Leeds"]}
    typed._count_answer(tally, question, texts)
    assert (tally["first"], tally["stale_above"]) == (first, stale_above)
