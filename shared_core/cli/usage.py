"""Errors of usage, in the language of the user, with the nearest name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any, Final

import typer
from rich.text import Text

from shared_core.cli.layout import print_all
from shared_core.core.locale import spoken_language, t

UsageError: Final[type[Exception]] = typer.BadParameter.__bases__[0]
"""The error of a command line that is not understood. Typer does not export it."""

MEANT: Final = {
    "add": "remember", "save": "remember", "store": "remember", "put": "remember",
    "ask": "recall", "search": "recall", "find": "recall", "query": "recall", "get": "recall",
    "list": "timeline", "ls": "timeline", "history": "timeline", "memories": "timeline",
    "delete": "forget", "remove": "forget", "rm": "forget", "purge": "erase",
    "init": "adk init", "start": "demo", "quickstart": "demo", "tutorial": "demo", "try": "demo",
    "inspect": "ui", "web": "ui", "browser": "ui", "dashboard": "ui", "server": "serve",
    "check": "doctor", "status": "doctor", "health": "doctor", "upgrade": "migrate",
    "backup": "export", "dump": "export", "load": "import", "undo": "runs", "fact": "facts",
    "user": "token", "consolidate": "worker", "queue": "jobs",
}  # fmt: skip
"""The commands that people mean by names of other tools."""

MESSAGES: Final = (
    (r"Input should be a valid integer.*", "需要整数"),
    (r"Input should be a valid number.*", "需要数字"),
    (r"Input should be greater than or equal to (.+)", "必须大于或等于 {0}"),
    (r"Input should be less than or equal to (.+)", "必须小于或等于 {0}"),
    (r"Input should be greater than (.+)", "必须大于 {0}"),
    (r"Input should be less than (.+)", "必须小于 {0}"),
    (r"(.+) is not in the range (.+?)\.?", "{0} 不在允许的范围 {1} 内"),
    (r"(.+) is not a valid integer(?: range)?\.?", "需要整数，收到的是 {0}"),
    (r"(.+) is not a valid (?:float|number)(?: range)?\.?", "需要数字，收到的是 {0}"),
    (r"(.+) is not one of (.+?)\.?", "{0} 不在可选值之中：{1}"),
    (r"(?i:file|path|directory) (.+) does not exist\.?", "{0} 不存在"),
    (r"(?i:file|path) (.+) is a directory\.?", "{0} 是文件夹"),
    (r"Option (.+) requires an argument\.?", "选项 {0} 需要一个值"),
    (r"Option (.+) does not take a value\.?", "选项 {0} 不接受值"),
    (r"Got unexpected extra argument\S* \((.+)\)", "多出的参数：{0}"),
    (r"Missing command\.?", "缺少命令"),
)
"""Messages of Typer and their Chinese. Others stay English."""


@contextmanager
def reporting_usage() -> Iterator[None]:
    """Report an error of usage, or that the user said no, and exit as Typer does."""
    try:
        yield
    except UsageError as error:
        _report(error)
        raise SystemExit(2) from error
    except typer.Abort as error:
        print_all([Text(t("Aborted.", "已取消。"), style="red")], err=True)
        raise SystemExit(1) from error


def unknown_command(name: str, known: Iterable[str]) -> str:
    """Return the message about an unknown command, with the nearest ones."""
    known = list(known)
    near = get_close_matches(name.lower(), known, n=2)
    if not near and MEANT.get(name.lower(), "").partition(" ")[0] in known:
        near = [MEANT[name.lower()]]
    return t(f"No such command {name!r}.", f"没有命令 {name!r}。") + did_you_mean(near)


def did_you_mean(near: Iterable[str]) -> str:
    """Return the question whether one of these names is meant; "" without names."""
    names = [repr(name) for name in near]
    if not names:
        return ""
    return t(f" Did you mean {' or '.join(names)}?", f"你要的是不是 {' 或 '.join(names)}？")


def _report(error: Any) -> None:
    if type(error).__name__ == "NoArgsIsHelpError":
        typer.echo(error.message)
        return
    lines = [Text(t("Error: ", "错误：") + _message(error), style="red")]
    if error.ctx is not None:
        from shared_core.cli.help import path_of, usage

        path = path_of(error.ctx)
        lines.insert(0, Text(usage(error.ctx.command, path)))
        command = f"{path} --help"
        lines.append(Text(t(f"Try: {command}", f"查看帮助：{command}"), style="dim"))
    print_all(lines, err=True)


def _message(error: Any) -> str:
    """Return what is wrong, with the nearest option if one is unknown."""
    name = type(error).__name__
    if name == "NoSuchOption":
        return _no_such_option(error.option_name, error.ctx.command.params)
    parameter = getattr(error, "param", None)
    if parameter is None:
        return _translated(error.format_message())
    shown = parameter.opts[0] if parameter.opts[0].startswith("-") else parameter.metavar
    shown = shown or parameter.name.upper()
    if name == "MissingParameter":
        return t(f"{shown} is missing.", f"缺少 {shown}。")
    return t(
        f"{shown} has a wrong value: {error.message}",
        f"{shown} 的值不对：{_translated(error.message)}",
    )


def _no_such_option(given: str, parameters: Iterable[Any]) -> str:
    """Return that an option is unknown, and the argument or the nearest options that are meant."""
    none = t(f"No such option: {given}.", f"没有选项 {given}。")
    word, known = given.lstrip("-"), list(parameters)
    for one in known:
        shown = one.metavar or one.name.upper()
        if not one.opts[0].startswith("-") and shown.lower() == word.lower():
            return none + t(
                f" {shown} is an argument: write it without {given}.",
                f"{shown} 是参数：直接写出来，前面不加 {given}。",
            )
    # Without their dashes, which would make any two options alike.
    names = {option.lstrip("-"): option for one in known for option in one.opts}
    return none + did_you_mean(names[name] for name in get_close_matches(word, names, n=2))


def _translated(message: str) -> str:
    message = message.removeprefix("Value error, ")
    if spoken_language() == "zh":
        for pattern, chinese in MESSAGES:
            if found := re.fullmatch(pattern, message):
                return f"{chinese.format(*found.groups())}。"
    return message
