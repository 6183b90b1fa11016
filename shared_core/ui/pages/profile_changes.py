"""What changed between two versions of a profile, in words that were added and removed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Final, Literal

from nicegui import ui

from shared_core.profiles.repository import ProfileDiff
from shared_core.ui.view import PageView

Sign = Literal["", "+", "-"]
WORD: Final = re.compile(r"[\u3400-\u9fff]|[^\W\u3400-\u9fff]+|\s+|[^\w\s]")
"""A word of a language with spaces, a Chinese character, a run of spaces, or a sign."""
CSS: Final = """
.changes { line-height: 1.9; overflow-wrap: anywhere; white-space: pre-wrap; }
.changes > * { display: inline; margin: 0 .1rem; }
.added { background: color-mix(in srgb, #009E73 24%, transparent); font-weight: 600;
  border-bottom: 2px solid #009E73; }
.removed { background: color-mix(in srgb, #D55E00 20%, transparent);
  border-bottom: 2px dotted #D55E00; }
"""


def word_changes(old: str, new: str) -> Iterator[tuple[Sign, str]]:
    """Yield the parts of two texts in order: kept (""), removed ("-") and added ("+")."""
    before, after = WORD.findall(old), WORD.findall(new)
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    for kind, first, last, begin, end in matcher.get_opcodes():
        if kind == "equal":
            yield "", "".join(before[first:last])
            continue
        if first < last:
            yield "-", "".join(before[first:last])
        if begin < end:
            yield "+", "".join(after[begin:end])


def show_words(view: PageView, old: str, new: str) -> None:
    """Show two texts as one, with marks for what was removed and added."""
    with ui.element("div").classes("changes"):
        for sign, text in word_changes(old, new):
            _part(view, sign, f"[{sign} {text.strip()}]" if sign else text)


def show_lists(view: PageView, title: str, removed: Sequence[str], added: Sequence[str]) -> None:
    """Show the removed and added texts of a list, a line each; nothing if there is none."""
    if not removed and not added:
        return
    ui.label(title).classes("heading")
    signed: list[tuple[Sign, str]] = [("-", text) for text in removed]
    signed += [("+", text) for text in added]
    for sign, text in signed:
        with ui.element("div").classes("changes"):
            _part(view, sign, f"{sign} {text}")


def _part(view: PageView, sign: Sign, text: str) -> None:
    label = ui.label(text)
    if sign == "+":
        label.classes("added").props["title"] = view.t("added", "新增")
    elif sign == "-":
        label.classes("removed").props["title"] = view.t("removed", "删除")


def is_empty(diff: ProfileDiff) -> bool:
    """Return whether two versions have the same content."""
    return not any(
        (diff.added, diff.removed, diff.added_events, diff.removed_events, diff.added_findings,
         diff.removed_findings)
    )  # fmt: skip
