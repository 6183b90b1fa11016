"""The documented values of retention, when a memory has faded, and its curve."""

import math
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from uuid import UUID

import pytest
from every_case import every_case

from shared_core.core import decay
from shared_core.core.domain import MemoryId
from shared_core.core.retention_policy import POLICIES, RetentionPolicy
from shared_core.errors import CapabilityMissing, InvalidInput
from shared_core.ports.retention import Kept, RetentionRow
from shared_core.retention.statistics import curve_of, draw, lines, stats_of

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@every_case((0.4, 1), (0.55, 3), (0.7, 5), (0.82, 7), (1.0, 10))
def test_importance_gives_the_initial_strength(strength, importance):
    assert pytest.approx(strength) == decay.initial_strength(importance)


@every_case((0, 0.0), (5, 3.0), (40, 12.5), (10**9, 100.0))
def test_the_documented_function_is_the_one_of_initial_strength_a_fifth(accesses, days):
    documented = min(1.0, math.exp(-0.1 * days) * (1 + math.log(1 + accesses)) / 5)
    score = decay.retention_score(initial=decay.UNWEIGHTED_INITIAL, days=days, accesses=accesses)
    assert pytest.approx(documented, abs=1e-12) == score


SCORES = {
    "full arousal halves the decay": (
        {"days": 20, "arousal": 1.0}, pytest.approx(decay.retention_score(initial=0.7, days=10))),
    "an access in the future counts as one just now": ({"days": -0.001}, 0.7),
    "no score is above one": ({"initial": 1.0, "days": 0, "accesses": 10**9}, 1.0),
    "without decay nothing fades": ({"days": 1e9, "decay_rate": 0.0}, 0.7),
}  # fmt: skip


@pytest.mark.parametrize("case", SCORES)
def test_a_score_tells_what_is_left(case):
    given, score = SCORES[case]
    assert score == decay.retention_score(**{"initial": 0.7, **given})


@every_case((13.8629, 1), (19.4591, 5), (23.0259, 10))
def test_a_memory_nobody_reads_fades_by_its_importance(days, importance):
    faded = decay.forget_at(initial=decay.initial_strength(importance), last_used_at=NOON)
    assert faded is not None
    assert pytest.approx(days, abs=1e-4) == decay.days_between(NOON, faded)


WEEK = NOON + timedelta(days=7)
FORGOTTEN = {
    "a young memory is kept however weak": ({"initial": 0.05}, WEEK),
    "the minimum age counts from when it was made":
        ({"initial": 0.05, "created_at": NOON - timedelta(days=30)}, NOON),
    "a threshold of zero never forgets": ({"policy": RetentionPolicy(threshold=0)}, None),
    "without decay it is never": ({"policy": RetentionPolicy(decay_rate=0)}, None),
    "what lies past the calendar is never": ({"policy": RetentionPolicy(decay_rate=1e-9)}, None),
    "a threshold of one forgets at the minimum age":
        ({"initial": 1.0, "policy": RetentionPolicy(threshold=1)}, WEEK),
    "a huge decay forgets at the minimum age":
        ({"initial": 1.0, "policy": RetentionPolicy(decay_rate=1e300)}, WEEK),
}  # fmt: skip


@pytest.mark.parametrize("case", FORGOTTEN)
def test_a_memory_is_forgotten_then(case):
    given, at = FORGOTTEN[case]
    assert at == decay.forget_at(**{"initial": 0.7, "last_used_at": NOON, **given})


@every_case(
    lambda: decay.initial_strength(0), lambda: decay.initial_strength(math.nan),
    lambda: decay.retention_score(initial=1.1, days=0),
    lambda: decay.retention_score(initial=0.5, days=math.nan),
    lambda: decay.retention_score(initial=0.5, days=math.inf),
    lambda: decay.retention_score(initial=0.5, days=0, accesses=-1),
    lambda: decay.retention_score(initial=0.5, days=0, accesses=True),
    lambda: decay.retention_score(initial=0.5, days=0, arousal=1.5),
    lambda: decay.retention_score(initial=0.5, days=0, decay_rate=-0.1),
    lambda: decay.retention_score(initial=0.5, days=0, decay_rate=math.inf),
    lambda: RetentionPolicy(threshold=1.5), lambda: RetentionPolicy(decay_rate=math.nan),
    lambda: RetentionPolicy(min_age_days=-1),
    lambda: decay.forget_at(initial=0.5, last_used_at=NOON.replace(tzinfo=None)),
    lambda: decay.days_between(NOON, NOON.replace(tzinfo=None)),
)  # fmt: skip
def test_values_that_mean_nothing_are_refused(attempt):
    with pytest.raises(InvalidInput):
        attempt()


DAY = timedelta(days=1)
POLICY = RetentionPolicy(erase_threshold=0.01)
FRESH = Kept(
    memory_id=MemoryId(UUID(int=7)), namespace=("app", "ann", "memories"), key="k",
    kind="episodic", text="I sail.", stage="kept", staged_at=None, pinned=False, strength=0.7,
    importance=5.0, arousal=0.0, access_count=0, last_accessed_at=None, used_at=NOON,
    created_at=NOON, forget_at=NOON + 19.46 * DAY, rule=POLICY,
)  # fmt: skip
READ = replace(FRESH, access_count=3, last_accessed_at=NOON + 10 * DAY, used_at=NOON + 10 * DAY)


def test_a_curve_is_known_told_stage_by_stage_and_drawn_for_a_terminal_also_by_a_late_clock():
    curve = curve_of(FRESH, NOON, days_ahead=None, points=10)
    assert ["demoted", "archived", "erased"] == [fate for _, fate in curve.stages]
    assert [19.46, 49.46, 139.46] == [round((at - NOON) / DAY, 2) for at, _ in curve.stages]
    assert curve.points[-1].at > curve.stages[0][0]
    rule = replace(POLICY, archive_threshold=None)
    demoted = replace(FRESH, stage="demoted", staged_at=NOON, rule=rule)
    assert ["erased"] == [
        fate for _, fate in curve_of(demoted, NOON, days_ahead=1, points=2).stages
    ]
    for never in ({"pinned": True}, {"rule": None}):
        kept = replace(FRESH, forget_at=None, **never)
        assert [] == curve_of(kept, NOON, days_ahead=1, points=2).stages
    curve = curve_of(FRESH, NOON + 5 * DAY, days_ahead=10, points=16)
    assert (NOON, NOON + 15 * DAY) == (curve.points[0].at, curve.points[-1].at)
    assert {"known"} == {point.sure for point in curve.points}
    assert all(after.score < before.score for before, after in pairwise(curve.points))
    assert pytest.approx(decay.retention_score(initial=0.7, days=5)) == curve.score
    curve = curve_of(READ, NOON + 12 * DAY, days_ahead=3, points=16)
    sure = {point.at: point.sure for point in curve.points}
    assert "at least" == sure[NOON + 9 * DAY]
    assert "known" == sure[NOON + 10 * DAY] == sure[NOON + 15 * DAY]
    [at_read] = [point.score for point in curve.points if point.at == READ.used_at]
    assert 1.0 == at_read
    drawn = lines(curve_of(READ, NOON + 12 * DAY, days_ahead=20, points=50))
    assert {78} >= {len(line) for line in drawn[:-1]}
    assert all(mark in "".join(drawn) for mark in "█░▒─")
    assert "2026-03-01" in drawn[-1] and "now" in drawn[-1] and "2026-04-02" in drawn[-1]
    curve = curve_of(READ, NOON - DAY, days_ahead=0, points=5)
    assert [0.7] == sorted({point.score for point in curve.points})
    assert lines(curve)


@every_case((-1, 10), (1e9, 10), (float("nan"), 10), (1, 1), (1, 10**9))
def test_what_cannot_be_drawn_is_refused(days_ahead, points):
    with pytest.raises(InvalidInput, match="must be between"):
        curve_of(FRESH, NOON, days_ahead=days_ahead, points=points)


@pytest.mark.tail
@every_case((".png", b"\x89PNG"), (".svg", b"<?xml"))
def test_it_is_drawn_to_a_file(suffix, head, tmp_path):
    pytest.importorskip("matplotlib")
    curve = curve_of(READ, NOON + 12 * DAY, days_ahead=None, points=50)
    path = draw(curve, tmp_path / f"curve{suffix}")
    assert head == path.read_bytes()[: len(head)]


def test_no_other_file_and_nothing_without_matplotlib(tmp_path, monkeypatch):
    curve = curve_of(FRESH, NOON, days_ahead=1, points=5)
    with pytest.raises(InvalidInput, match=r"[.]png or [.]svg file, got 'curve[.]gif'"):
        draw(curve, tmp_path / "curve.gif")
    for name in ("matplotlib.backends", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(CapabilityMissing, match=r"pg-hippocampus\[plot\]"):
        draw(curve, tmp_path / "curve.png")


def test_statistics_add_up_and_the_documented_settings_have_names():
    rows = [
        RetentionRow("episodic", True, "kept", 9, 2, 1.9, 1),
        RetentionRow("episodic", True, "demoted", 0, 3, 0.2, 0),
        RetentionRow("semantic", False, "kept", 5, 5, 2.7, 0),
    ]
    stats = stats_of(NOON, rows, {7.0: {"demoted": 1, "archived": 2, "erased": 0}})
    assert (2, 5, 3) == (stats.high, stats.medium, stats.low)
    assert {"kept": 2, "demoted": 3, "archived": 0} == stats.kinds["episodic"].stages
    assert pytest.approx(0.42) == stats.kinds["episodic"].average_score
    assert (10, 5, 1) == (stats.total.count, stats.total.fades, stats.total.pinned)
    assert {"7": {"demoted": 1, "archived": 2, "erased": 0}} == stats.to_dict()["ahead"]
    assert stats_of(NOON, [], {}).total.average_score is None
    assert {
        "default": (0.1, 0.1, 7),
        "high-interaction": (0.15, 0.15, 7),
        "low-interaction": (0.05, 0.05, 7),
        "sensitive": (0.3, 0.2, 7),
        "knowledge": (0.02, 0.02, 7),
    } == {key: (one.decay_rate, one.threshold, one.min_age_days) for key, one in POLICIES.items()}
