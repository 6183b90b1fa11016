"""Retention policies in words, with their source, their stages, and their curves for a chart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, get_args

from shared_core.core.decay import days_between, initial_strength, next_stage_at, retention_score
from shared_core.core.domain import MemoryKind
from shared_core.core.retention_policy import POLICIES, Fate, RetentionPolicy, Rules, Stage
from shared_core.retention.cleanup import Fading
from shared_core.ui.view import PageView
from shared_core.ui.widgets import kind_name

FATE_COLOURS: Final[Mapping[Fate, str]] = {
    "demoted": "#E69F00", "archived": "#CC79A7", "erased": "#D55E00",
}  # fmt: skip
START: Final = datetime(2000, 1, 1, tzinfo=UTC)
POINTS: Final = 120
MOST_DAYS: Final = 3650.0


def stage_name(view: PageView, stage: Stage) -> str:
    """Return the word for a stage."""
    return {
        "kept": view.t("in recall", "可检索"),
        "demoted": view.t("faded", "已淡忘"),
        "archived": view.t("archived", "已归档"),
    }[stage]


def fate_name(view: PageView, fate: Fate) -> str:
    """Return the words for what happens to a memory."""
    return {
        "demoted": view.t("fades out of recall", "淡忘（退出检索）"),
        "archived": view.t("is archived", "归档"),
        "erased": view.t("is erased", "彻底删除"),
    }[fate]


def policy_name(view: PageView, rule: RetentionPolicy | None) -> str:
    """Return the name of a preset, or that a rule is none of them."""
    if rule is None:
        return view.t("never fades", "永不淡忘")
    found = next((name for name, known in POLICIES.items() if known == rule), None)
    return preset_name(view, found) if found else view.t("own rule", "自定义")


def preset_name(view: PageView, name: str) -> str:
    """Return the name of a preset, with its Chinese word on a Chinese page."""
    words = {
        "default": "默认", "high-interaction": "高频互动", "low-interaction": "低频互动",
        "sensitive": "敏感信息", "knowledge": "知识",
    }  # fmt: skip
    return view.t(name, f"{words.get(name, name)}（{name}）")


def stage_rule(view: PageView, threshold: float | None, days: float) -> str:
    """Return when memories leave a later stage."""
    if threshold is None:
        return view.t("never", "从不")
    if threshold == 1:
        return view.t(f"{days:g} days later", f"{days:g} 天后")
    return view.t(f"{days:g} days later, if below {threshold:g}",
                  f"{days:g} 天后，且得分低于 {threshold:g}")  # fmt: skip


def in_words(view: PageView, rules: Rules) -> str:
    """Return rules on one line, e.g. "turn: default, fact: never fades"."""
    said = [
        f"{kind_name(view, kind)}: {_exactly(view, rules[kind])}"
        for kind in get_args(MemoryKind)
        if kind in rules
    ]
    return view.t(", ", "，").join(said) or view.t("nothing", "无")


def _exactly(view: PageView, rule: RetentionPolicy | None) -> str:
    """Return the name of a preset, or the numbers of a rule that is none."""
    name = policy_name(view, rule)
    if rule is None or rule in POLICIES.values():
        return name
    later = [
        f"{view.t('never', '从不') if threshold is None else f'{threshold:g}'} / {days:g}"
        for threshold, days in (
            (rule.archive_threshold, rule.archive_after_days),
            (rule.erase_threshold, rule.erase_after_days),
        )
    ]
    numbers = [
        f"λ {rule.decay_rate:g}",
        view.t("fades ", "淡忘 ") + f"{rule.threshold:g} / {rule.min_age_days:g}",
        view.t("archived ", "归档 ") + later[0],
        view.t("erased ", "删除 ") + later[1],
    ]
    return f"{name} ({'; '.join(numbers)})"


@dataclass(frozen=True, slots=True)
class Levels:
    """The policies set for a user, for the application, and for all."""

    user: Rules
    app: Rules
    everyone: Rules

    def source(self, view: PageView, kind: MemoryKind) -> str:
        """Return where the policy of a kind comes from."""
        if kind in self.user:
            return view.t("set for this user", "为该用户设置")
        if kind in self.app:
            return view.t(f"set for the application {view.user.app}", f"来自应用 {view.user.app}")
        if kind in self.everyone:
            return view.t("set for everyone", "来自全局设置")
        return view.t("built in", "内置默认")


async def levels_of(view: PageView) -> Levels:
    """Read the policies of each level."""
    retention = view.memory.retention
    return Levels(
        await retention.own_policy(view.user),
        await retention.own_policy(app=view.user.app),
        await retention.own_policy(),
    )


@dataclass(frozen=True, slots=True)
class Fade:
    """A rule, the kinds that it is for, and its curve for one importance, from day 0."""

    kinds: Sequence[MemoryKind]
    rule: RetentionPolicy
    stages: Sequence[tuple[float, Fate]]
    strength: float

    def score(self, days: float) -> float:
        return retention_score(initial=self.strength, days=days, decay_rate=self.rule.decay_rate)

    def points(self, until: float) -> list[list[float]]:
        """Return pairs of day and score."""
        days = [until * number / (POINTS - 1) for number in range(POINTS)]
        return [[round(day, 2), round(self.score(day), 4)] for day in days]


def fades_of(rules: Rules, importance: float) -> list[Fade]:
    """Return one curve for each rule that is in force; kinds with one rule share it."""
    found: dict[RetentionPolicy, list[MemoryKind]] = {}
    for kind in get_args(MemoryKind):
        if (rule := rules.get(kind)) is not None:
            found.setdefault(rule, []).append(kind)
    strength = initial_strength(importance)
    return [Fade(kinds, rule, _stages(rule, strength), strength) for rule, kinds in found.items()]


def horizon(fades: Sequence[Fade]) -> float:
    """Return the number of days that shows the curves and their stages."""
    ends = [day for one in fades for day, _ in one.stages]
    return min(max([30.0, *(1.15 * day for day in ends)]), MOST_DAYS)


def _stages(rule: RetentionPolicy, strength: float) -> list[tuple[float, Fate]]:
    """Return the days after which an unread memory meets each fate."""
    found: list[tuple[float, Fate]] = []
    stage: Stage | None = "kept"
    since = START
    while stage is not None:
        at = next_stage_at(stage, initial=strength, last_used_at=START, since=since, policy=rule)
        if at is None:
            break
        fate: Fate = "demoted" if stage == "kept" else (
            "archived" if stage == "demoted" and rule.archive_threshold is not None else "erased"
        )  # fmt: skip
        found.append((days_between(START, at), fate))
        stage, since = {"demoted": "demoted", "archived": "archived", "erased": None}[fate], at
    return found


def fade_in_words(view: PageView, fade: Fade) -> str:
    """Return what a curve shows, e.g. "turn, summary: fades out of recall after 19.5 days"."""
    kinds = view.t(", ", "、").join(kind_name(view, kind) for kind in fade.kinds)
    stages = [
        view.t(f"{fate_name(view, fate)} after {day:.1f} days",
               f"{day:.1f} 天后{fate_name(view, fate)}")
        for day, fate in fade.stages
    ]  # fmt: skip
    if not stages:
        return view.t(f"{kinds}: never fades.", f"{kinds}：不会淡忘。")
    if fade.stages[-1][1] != "erased":
        stages.append(view.t("is never erased", "不会彻底删除"))
    said = view.t(", ", "，").join(stages)
    return view.t(f"{kinds}: {said}.", f"{kinds}：{said}。")


def why_due(view: PageView, one: Fading, now: datetime) -> str:
    """Return why a memory is due to leave its stage."""
    kept = one.kept
    rule = kept.rule or RetentionPolicy()
    threshold = {
        "demoted": rule.threshold, "archived": rule.archive_threshold,
        "erased": rule.erase_threshold,
    }[one.fate]  # fmt: skip
    days = max(days_between(kept.used_at, now), 0.0)
    used = view.t("read", "读取") if kept.last_accessed_at else view.t("written", "写入")
    reads = kept.access_count
    return view.t(
        f"score {one.score:.3g}, below {threshold:g}; last {used} {days:.1f} days ago,"
        f" {reads} read{'' if reads == 1 else 's'}, importance {kept.importance:g}",
        f"得分 {one.score:.3g}，低于 {threshold:g}；{days:.1f} 天前{used}，读取 {reads} 次，"
        f"重要性 {kept.importance:g}",
    )
