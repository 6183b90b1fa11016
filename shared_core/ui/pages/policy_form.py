"""The forms that change a retention policy: a preset, the rule of one kind, or none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, get_args

from nicegui import ui

from shared_core.core.domain import MemoryKind
from shared_core.core.retention_policy import POLICIES, RetentionPolicy, Rules
from shared_core.ui.actions import action_button
from shared_core.ui.pages.memory_table import counted
from shared_core.ui.pages.policy_text import Levels, in_words, preset_name
from shared_core.ui.view import PageView
from shared_core.ui.widgets import kind_name

INHERIT: Final = "inherit"
USER: Final = "user"
APP: Final = "app"
EVERYONE: Final = "everyone"


def policy_forms(view: PageView, rules: Rules, levels: Levels) -> None:
    """Show the forms. rules: in force for the user."""
    if not view.may_write:
        return
    with ui.expansion(view.t("Change the policy", "更改策略"), icon="tune").classes("panel fold"):
        level = _level_choice(view)
        target = _Target(view, level, levels)
        with ui.element("div").classes("grid-2"):
            with ui.column():
                _preset_form(view, target)
            with ui.column():
                _kind_form(view, rules, target)


class _Target:
    """The level whose policy a form changes: the user, the application, or everyone."""

    def __init__(self, view: PageView, level: ui.select | None, levels: Levels) -> None:
        self._view, self._level, self._levels = view, level, levels

    @property
    def _name(self) -> str:
        return USER if self._level is None else str(self._level.value)

    def where(self) -> dict[str, Any]:
        """Return the arguments of set_policy() that name the level."""
        scope = self._view.user
        arguments: dict[str, dict[str, Any]] = {
            USER: {"scope": scope}, APP: {"app": scope.app}, EVERYONE: {}
        }  # fmt: skip
        return arguments[self._name]

    def own(self) -> Rules:
        """Return the policies that were set for the level when the page was built."""
        levels = self._levels
        return {USER: levels.user, APP: levels.app, EVERYONE: levels.everyone}[self._name]

    @property
    def is_one_user(self) -> bool:
        return self._name == USER

    def on_change(self, call: Callable[[], None]) -> None:
        """Call it when another level is chosen."""
        if self._level is not None:
            self._level.on_value_change(call)

    def who(self) -> str:
        view, scope = self._view, self._view.user
        return {
            USER: view.t(f"the user {scope.user}", f"用户 {scope.user}"),
            APP: view.t(f"all users of {scope.app}", f"应用 {scope.app} 的所有用户"),
            EVERYONE: view.t("everyone", "所有用户"),
        }[self._name]

    def back(self) -> str:
        """Return how to go back to what is set now."""
        view = self._view
        if not self.own():
            return view.t(
                "To go back: choose “Inherit from the level above”.", "恢复方法：选择“沿用上一级”。"
            )
        return view.t(
            f"To go back, set again what was set here: {in_words(view, self.own())}.",
            f"恢复方法：重新设置原有规则（{in_words(view, self.own())}）。",
        )

    def action(
        self,
        label: str,
        icon: str,
        what: Callable[[], str],
        policy: Callable[[], Any],
        never: Callable[[], Any] = tuple,
    ) -> None:
        """Show the button that sets a policy. what: the new policy in words."""
        view = self._view

        def will() -> str:
            first = view.t(
                f"For {self.who()}: {what()}. The time at which each memory fades is computed anew;"
                " nothing fades before the next run of forgetting.",
                f"对象：{self.who()}。新策略：{what()}。各条记忆的淡忘时间将重新计算；"
                "下一次遗忘运行之前，不会有记忆因此淡忘。",
            )
            return f"{first}\n\n{self.back()}"

        async def do() -> str:
            back = self.back()
            changed = await view.memory.retention.set_policy(
                policy(), never=never(), **self.where()
            )
            number = counted(view, changed)
            said = view.t(f"{number} with a new time to fade.", f"{number}的淡忘时间已更新。")
            return f"{said} {back}"

        action_button(view, label, icon=icon, will=will, do=do)


def _level_choice(view: PageView) -> ui.select | None:
    """Show whose policy is changed, to a visitor who may change more than one user's."""
    if view.caller.users is not None:
        return None
    choices = {
        USER: view.t(f"This user: {view.user.user}", f"该用户：{view.user.user}"),
        APP: view.t(f"All users of {view.user.app}", f"应用 {view.user.app} 的所有用户"),
    }
    if view.caller.app is None:
        choices[EVERYONE] = view.t("Everyone", "所有用户")
    return (
        ui.select(choices, label=view.t("Whose policy", "对象"), value=USER)
        .props("outlined dense")
        .classes("full")
    )


def _preset_form(view: PageView, target: _Target) -> None:
    names = {name: preset_name(view, name) for name in POLICIES}
    names[INHERIT] = view.t("Inherit from the level above", "沿用上一级")
    ui.label(view.t("A preset for all kinds", "所有类型使用预设")).classes("heading")
    ui.label(view.t(
        "It is for turns, summaries and insights, and replaces all rules set here.",
        "适用于对话、摘要和洞见，并替换此级的全部规则。",
    )).classes("quiet")  # fmt: skip
    preset = _field(ui.select(names, label=view.t("Preset", "预设"), value="default"))
    kinds = {one: kind_name(view, one) for one in get_args(MemoryKind)}
    never = _field(ui.select(
        kinds, label=view.t("Never fades", "永不淡忘的类型"), multiple=True, value=[]
    ))  # fmt: skip
    after = _field(ui.number(
        view.t("Erase after days in the last stage; empty: as the preset",
               "进入最后阶段多少天后删除；留空则按预设"), min=0,
    ))  # fmt: skip

    def policy() -> RetentionPolicy | str | None:
        if preset.value == INHERIT:
            return None
        if after.value is None:
            return str(preset.value)
        return replace(
            POLICIES[preset.value], erase_threshold=1.0, erase_after_days=float(after.value)
        )

    def kinds_kept() -> list[MemoryKind]:
        return [] if preset.value == INHERIT else list(never.value)

    def what() -> str:
        said = [names[preset.value]]
        if preset.value != INHERIT:
            if never.value:
                listed = view.t(", ", "、").join(kinds[one] for one in never.value)
                said.append(view.t(f"never fading: {listed}", f"永不淡忘：{listed}"))
            if after.value is not None:
                said.append(view.t(
                    f"erased {after.value:g} days after the last stage began, which cannot be"
                    " undone then",
                    f"进入最后阶段 {after.value:g} 天后彻底删除（删除后无法找回）",
                ))  # fmt: skip
        return view.t(", ", "，").join(said)

    target.action(view.t("Set the preset", "应用预设"), "done", what, policy, kinds_kept)


def _kind_form(view: PageView, rules: Rules, target: _Target) -> None:
    ui.label(view.t("The rule of one kind", "单个类型的规则")).classes("heading")
    ui.label(view.t(
        "The rules of other kinds stay. Other empty numbers are those of the preset “default”.",
        "其他类型的规则不变。其余留空的数字按预设“default”。",
    )).classes("quiet")  # fmt: skip
    kinds = {one: kind_name(view, one) for one in get_args(MemoryKind)}
    kind = _field(ui.select(kinds, label=view.t("Kind", "类型"), value="episodic"))
    fades = ui.switch(view.t("It fades", "会淡忘"), value=True)
    with ui.element("div").classes("row-line").bind_visibility_from(fades, "value"):
        fields = {name: _number(label, most, step) for name, label, most, step in _numbers(view)}

    def fill() -> None:
        known = rules if target.is_one_user else target.own()
        is_blank, rule = kind.value not in known, known.get(kind.value)
        fades.set_value(is_blank or rule is not None)
        for name, field in fields.items():
            field.set_value(None if is_blank else getattr(rule or RetentionPolicy(), name))

    kind.on_value_change(fill)
    target.on_change(fill)
    fill()

    def policy() -> dict[MemoryKind, RetentionPolicy | None]:
        if not fades.value:
            return {kind.value: None}
        given: dict[str, Any] = {name: field.value for name, field in fields.items()}
        optional = ("archive_threshold", "erase_threshold")
        named = {
            name: value for name, value in given.items() if value is not None or name in optional
        }
        return {kind.value: RetentionPolicy(**named)}

    def what() -> str:
        if not fades.value:
            return f"{kinds[kind.value]}: " + view.t("never fades", "永不淡忘")
        numbers = {name: getattr(policy()[kind.value], name) for name in fields}
        said = [f"{one.props['label']} {'–' if numbers[name] is None else f'{numbers[name]:g}'}"
                for name, one in fields.items()]  # fmt: skip
        return f"{kinds[kind.value]}: {view.t('; ', '；').join(said)}"

    target.action(view.t("Set the rule", "应用规则"), "done", what, policy)


def _numbers(view: PageView) -> list[tuple[str, str, float | None, float]]:
    """Return name, label, most and step of the numbers of a rule."""
    archived = view.t("Archived below; empty: never", "归档阈值；留空则从不")
    erased = view.t("Erased below; empty: never", "删除阈值；留空则从不")
    last = view.t("Days in the last stage before that", "末阶段多少天后删除")
    return [
        ("decay_rate", view.t("Decay λ a day", "每日衰减 λ"), None, 0.01),
        ("threshold", view.t("Fades below", "低于此分淡忘"), 1, 0.01),
        ("min_age_days", view.t("Not younger than (days)", "最短天数"), None, 1),
        ("archive_threshold", archived, 1, 0.01),
        ("archive_after_days", view.t("Days faded before that", "淡忘多少天后归档"), None, 1),
        ("erase_threshold", erased, 1, 0.01),
        ("erase_after_days", last, None, 1),
    ]


def _number(label: str, most: float | None, step: float) -> ui.number:
    return ui.number(label, min=0, max=most, step=step).props("outlined dense stack-label")


def _field(field: Any) -> Any:
    return field.props("outlined dense").classes("full")
