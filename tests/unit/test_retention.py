"""The documented values of retention, when a memory has faded, and its curve."""

import math
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from uuid import UUID

import pytest
from every_case import every_case

from shared_core.core.decay import (
    UNWEIGHTED_INITIAL,
    days_between,
    forget_at,
    initial_strength,
    retention_score,
)
from shared_core.core.domain import MemoryId
from shared_core.core.retention_policy import POLICIES, RetentionPolicy
from shared_core.errors import CapabilityMissing, InvalidInput
from shared_core.ports.retention import Kept, RetentionRow
from shared_core.retention.statistics import curve_of, draw, lines, stats_of

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@every_case((0.4, 1), (0.55, 3), (0.7, 5), (0.82, 7), (1.0, 10))
def test_importance_gives_the_initial_strength(strength, importance):
    assert pytest.approx(strength) == initial_strength(importance)


@every_case((0, 0.0), (5, 3.0), (40, 12.5), (10**9, 100.0))
def test_the_documented_function_is_the_one_of_initial_strength_a_fifth(accesses, days):
    documented = min(1.0, math.exp(-0.1 * days) * (1 + math.log(1 + accesses)) / 5)
    score = retention_score(initial=UNWEIGHTED_INITIAL, days=days, accesses=accesses)
    assert pytest.approx(documented, abs=1e-12) == score


def test_full_arousal_halves_the_decay():
    calm = retention_score(initial=0.7, days=10)
    assert pytest.approx(calm) == retention_score(initial=0.7, days=20, arousal=1.0)


def test_an_access_in_the_future_counts_as_one_just_now():
    assert 0.7 == retention_score(initial=0.7, days=-0.001)


def test_no_score_is_above_one():
    assert 1.0 == retention_score(initial=1.0, days=0, accesses=10**9)


def test_without_decay_nothing_fades():
    assert 0.7 == retention_score(initial=0.7, days=1e9, decay_rate=0.0)


@every_case((13.8629, 1), (19.4591, 5), (23.0259, 10))
def test_a_memory_nobody_reads_fades_by_its_importance(days, importance):
    faded = forget_at(initial=initial_strength(importance), last_used_at=NOON)
    assert faded is not None
    assert pytest.approx(days, abs=1e-4) == days_between(NOON, faded)


def test_a_young_memory_is_kept_however_weak():
    assert NOON + timedelta(days=7) == forget_at(initial=0.05, last_used_at=NOON)


def test_the_minimum_age_counts_from_when_it_was_made():
    made_at = NOON - timedelta(days=30)
    assert NOON == forget_at(initial=0.05, last_used_at=NOON, created_at=made_at)


@every_case(RetentionPolicy(threshold=0), RetentionPolicy(decay_rate=0))
def test_some_policies_never_forget(policy):
    assert forget_at(initial=0.7, last_used_at=NOON, policy=policy) is None


def test_what_lies_past_the_calendar_is_never():
    slow = RetentionPolicy(decay_rate=1e-9)
    assert forget_at(initial=0.7, last_used_at=NOON, policy=slow) is None


def test_a_threshold_of_one_forgets_at_the_minimum_age():
    strict = RetentionPolicy(threshold=1)
    assert NOON + timedelta(days=7) == forget_at(initial=1.0, last_used_at=NOON, policy=strict)


def test_a_huge_decay_forgets_at_the_minimum_age():
    fast = RetentionPolicy(decay_rate=1e300)
    assert NOON + timedelta(days=7) == forget_at(initial=1.0, last_used_at=NOON, policy=fast)


def test_the_documented_settings_have_names():
    assert {
        "default": (0.1, 0.1, 7),
        "high-interaction": (0.15, 0.15, 7),
        "low-interaction": (0.05, 0.05, 7),
        "sensitive": (0.3, 0.2, 7),
        "knowledge": (0.02, 0.02, 7),
    } == {
        name: (policy.decay_rate, policy.threshold, policy.min_age_days)
        for name, policy in POLICIES.items()
    }


@every_case(
    lambda: initial_strength(0),
    lambda: initial_strength(math.nan),
    lambda: retention_score(initial=1.1, days=0),
    lambda: retention_score(initial=0.5, days=math.nan),
    lambda: retention_score(initial=0.5, days=math.inf),
    lambda: retention_score(initial=0.5, days=0, accesses=-1),
    lambda: retention_score(initial=0.5, days=0, accesses=True),
    lambda: retention_score(initial=0.5, days=0, arousal=1.5),
    lambda: retention_score(initial=0.5, days=0, decay_rate=-0.1),
    lambda: retention_score(initial=0.5, days=0, decay_rate=math.inf),
    lambda: RetentionPolicy(threshold=1.5),
    lambda: RetentionPolicy(decay_rate=math.nan),
    lambda: RetentionPolicy(min_age_days=-1),
    lambda: forget_at(initial=0.5, last_used_at=NOON.replace(tzinfo=None)),
    lambda: days_between(NOON, NOON.replace(tzinfo=None)),
)
def test_values_that_mean_nothing_are_refused(attempt):
    with pytest.raises(InvalidInput):
        attempt()


BORN = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
POLICY = RetentionPolicy(erase_threshold=0.01)
FRESH = Kept(
    memory_id=MemoryId(UUID(int=7)), namespace=("app", "ann", "memories"), key="k",
    kind="episodic", text="I sail.", stage="kept", staged_at=None, pinned=False, strength=0.7,
    importance=5.0, arousal=0.0, access_count=0, last_accessed_at=None, used_at=BORN,
    created_at=BORN, forget_at=BORN + 19.46 * DAY, rule=POLICY,
)  # fmt: skip
READ = replace(FRESH, access_count=3, last_accessed_at=BORN + 10 * DAY, used_at=BORN + 10 * DAY)


def test_an_unread_memory_is_known_from_its_birth():
    curve = curve_of(FRESH, BORN + 5 * DAY, days_ahead=10, points=16)
    assert (BORN, BORN + 15 * DAY) == (curve.points[0].at, curve.points[-1].at)
    assert {"known"} == {point.sure for point in curve.points}
    assert all(after.score < before.score for before, after in pairwise(curve.points))
    assert pytest.approx(retention_score(initial=0.7, days=5)) == curve.score


def test_before_the_last_read_it_is_only_known_what_it_was_at_least():
    curve = curve_of(READ, BORN + 12 * DAY, days_ahead=3, points=16)
    sure = {point.at: point.sure for point in curve.points}
    assert "at least" == sure[BORN + 9 * DAY]
    assert "known" == sure[BORN + 10 * DAY] == sure[BORN + 15 * DAY]
    [at_read] = [point.score for point in curve.points if point.at == READ.used_at]
    assert 1.0 == at_read


def test_what_comes_is_told_stage_by_stage():
    curve = curve_of(FRESH, BORN, days_ahead=None, points=10)
    assert ["demoted", "archived", "erased"] == [fate for _, fate in curve.stages]
    assert [19.46, 49.46, 139.46] == [round((at - BORN) / DAY, 2) for at, _ in curve.stages]
    assert curve.points[-1].at > curve.stages[0][0]
    rule = replace(POLICY, archive_threshold=None)
    demoted = replace(FRESH, stage="demoted", staged_at=BORN, rule=rule)
    assert ["erased"] == [
        fate for _, fate in curve_of(demoted, BORN, days_ahead=1, points=2).stages
    ]
    for never in (
        replace(FRESH, pinned=True, forget_at=None),
        replace(FRESH, rule=None, forget_at=None),
    ):
        assert [] == curve_of(never, BORN, days_ahead=1, points=2).stages


@every_case((-1, 10), (1e9, 10), (float("nan"), 10), (1, 1), (1, 10**9))
def test_what_cannot_be_drawn_is_refused(days_ahead, points):
    with pytest.raises(InvalidInput, match="must be between"):
        curve_of(FRESH, BORN, days_ahead=days_ahead, points=points)


def test_a_clock_that_is_behind_makes_a_curve_too():
    curve = curve_of(READ, BORN - DAY, days_ahead=0, points=5)
    assert [0.7] == sorted({point.score for point in curve.points})
    assert lines(curve)


def test_it_is_drawn_in_lines_for_a_terminal():
    drawn = lines(curve_of(READ, BORN + 12 * DAY, days_ahead=20, points=50))
    assert {78} >= {len(line) for line in drawn[:-1]}
    assert all(mark in "".join(drawn) for mark in "█░▒─")
    assert "2026-03-01" in drawn[-1] and "now" in drawn[-1] and "2026-04-02" in drawn[-1]


@pytest.mark.tail
@every_case((".png", b"\x89PNG"), (".svg", b"<?xml"))
def test_it_is_drawn_to_a_file(suffix, head, tmp_path):
    pytest.importorskip("matplotlib")
    curve = curve_of(READ, BORN + 12 * DAY, days_ahead=None, points=50)
    path = draw(curve, tmp_path / f"curve{suffix}")
    assert head == path.read_bytes()[: len(head)]


def test_no_other_file_and_nothing_without_matplotlib(tmp_path, monkeypatch):
    curve = curve_of(FRESH, BORN, days_ahead=1, points=5)
    with pytest.raises(InvalidInput, match=r"[.]png or [.]svg file, got 'curve[.]gif'"):
        draw(curve, tmp_path / "curve.gif")
    for name in ("matplotlib.backends", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(CapabilityMissing, match=r"pg-hippocampus\[plot\]"):
        draw(curve, tmp_path / "curve.png")


def test_statistics_add_up():
    rows = [
        RetentionRow("episodic", True, "kept", 9, 2, 1.9, 1),
        RetentionRow("episodic", True, "demoted", 0, 3, 0.2, 0),
        RetentionRow("semantic", False, "kept", 5, 5, 2.7, 0),
    ]
    stats = stats_of(BORN, rows, {7.0: {"demoted": 1, "archived": 2, "erased": 0}})
    assert (2, 5, 3) == (stats.high, stats.medium, stats.low)
    assert {"kept": 2, "demoted": 3, "archived": 0} == stats.kinds["episodic"].stages
    assert pytest.approx(0.42) == stats.kinds["episodic"].average_score
    assert (10, 5, 1) == (stats.total.count, stats.total.fades, stats.total.pinned)
    assert {"7": {"demoted": 1, "archived": 2, "erased": 0}} == stats.to_dict()["ahead"]
    assert stats_of(BORN, [], {}).total.average_score is None
