"""The help of all commands: its groups, examples and languages, for a terminal and as a page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from shared_core.cli.app import CHINESE, Command, app, both
from shared_core.cli.layout import wrapped
from shared_core.core.locale import Language, in_language, speaking, spoken_language, t

GROUPS: Final[Mapping[str, Mapping[str, str]]] = {
    both("Start here", "从这里开始"): {
        "demo": "hippocampus demo --language zh",
        "doctor": "hippocampus doctor --json",
        "adk": "",
        "adk init": "hippocampus adk init my_agents",
        "ui": "hippocampus ui --read-only",
    },
    both("Ask", "查询"): {
        "recall": "hippocampus recall my_app ana 'Where do I live?' --explain",
        "timeline": "hippocampus timeline my_app ana 'last Tuesday' --by day",
        "facts": "hippocampus facts my_app ana employer --history",
        "graph": "hippocampus graph my_app ana Mia --depth 1",
        "profile": "",
        "profile show": "hippocampus profile show my_app ana",
        "profile update": "hippocampus profile update my_app ana < talk.txt",
        "profile versions": "hippocampus profile versions my_app ana --json",
        "profile diff": "hippocampus profile diff my_app ana 1 2",
        "profile rollback": "hippocampus profile rollback my_app ana 1",
        "context": "hippocampus context my_app ana session-1 'Where do I live?' --explain",
        "extract": "hippocampus extract --conversation < turns.txt",
    },
    both("Keep and forget", "保留与遗忘"): {
        "remember": "hippocampus remember my_app ana 'Ana plays the cello.'",
        "state": "hippocampus state my_app ana employer Zenith --since 2026-05-01",
        "retract": "hippocampus retract my_app ana 0198f2c4 --at 2026-05-01",
        "restore": "hippocampus restore my_app ana 0198f2c4",
        "forget": "hippocampus forget my_app ana cello",
        "pin": "hippocampus pin my_app ana cello",
        "unpin": "hippocampus unpin my_app ana cello",
        "faded": "hippocampus faded my_app ana --limit 50",
        "recover": "hippocampus recover my_app ana cello",
        "curve": "hippocampus curve my_app ana cello --days 90",
        "policy": "hippocampus policy sensitive --app my_app --user ana",
    },
    both("People and their data", "用户与数据"): {
        "export": "hippocampus export my_app ana --out ana.jsonl",
        "erase": "hippocampus erase my_app ana --yes --json",
        "erasures": "hippocampus erasures --app my_app",
        "token": "",
        "token create": "hippocampus token create --app my_app --user ana --expires 30d",
        "token list": "hippocampus token list --app my_app",
        "token revoke": "hippocampus token revoke 0123456789abcdef",
    },
    both("Run", "运行"): {
        "serve": "hippocampus serve --port 8420",
        "mcp": "hippocampus mcp --app my_app --user ana",
        "worker": "hippocampus worker --once",
        "jobs": "hippocampus jobs --status failed",
        "runs": "hippocampus runs my_app ana --undo 0198f2c4",
        "cleanup": "hippocampus cleanup --app my_app --dry-run",
    },
    both("Operate", "运维"): {
        "migrate": "hippocampus migrate --uri postgresql://user@host/db",
        "stats": "hippocampus stats --app my_app",
        "index": "hippocampus index --dry-run",
        "reembed": "hippocampus reembed --embedder use",
        "import": "hippocampus import ana.jsonl --uri postgresql://user@host/db",
        "copy": "hippocampus copy --from embedded --to seekdb:///data/memory",
    },
}
"""The example of every command, by the group that lists it. Groups of commands have none."""

EXAMPLES: Final = {
    name: example for group in GROUPS.values() for name, example in group.items() if example
}
_PLACES: Final = [name for group in GROUPS.values() for name in group]

COMMAND: Final = "hippocampus"
NARROW: Final = 26
"""Columns of the longest name that stands beside its help, and not above it."""
WIDEST: Final = 100
"""Columns of the help on a wide terminal."""
PIPED: Final = 80
"""Columns of the help that does not go to a terminal."""

BETWEEN_CHINESE: Final = re.compile(r"(?<=[\u2e80-\uffef]) (?=[\u2e80-\uffef])")

OF_TYPER: Final[Mapping[str, tuple[str, str]]] = {
    "help": ("Show this help.", "显示本帮助。"),
    "install_completion": ("Install completion for your shell.", "为你的 shell 安装命令补全。"),
    "show_completion": ("Print the completion for your shell.", "打印 shell 的命令补全脚本。"),
}
"""The help of the options that Typer adds, by their names."""


@dataclass(frozen=True, slots=True)
class Section:
    """A heading, and the names below it with their help."""

    title: str
    rows: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandHelp:
    """The help of a command in one language. example: empty for a group of commands."""

    usage: str
    paragraphs: Sequence[str]
    sections: Sequence[Section]
    example: str


def arrange_help(commands: typer.Typer, above: str = "") -> None:
    """Order the commands of a group, and give each its place in the help."""
    named = {
        above + (one.name or getattr(one.callback, "__name__", "").replace("_", "-")): one
        for one in commands.registered_commands
    }
    commands.registered_commands = [named[name] for name in sorted(named, key=_PLACES.index)]
    for name, command in named.items():
        command.cls = Command
        command.rich_help_panel = _group_of(name)
    for below in commands.registered_groups:
        if below.typer_instance is not None:
            below.rich_help_panel = _group_of(f"{above}{below.name}")
            arrange_help(below.typer_instance, f"{above}{below.name} ")


def _group_of(name: str) -> str:
    return next(title for title, commands in GROUPS.items() if name in commands)


def path_of(ctx: Any) -> str:
    """Return what one types to call the command of a context, whatever the program is named."""
    names: list[str] = []
    while ctx.parent is not None:
        names.insert(0, ctx.info_name)
        ctx = ctx.parent
    return " ".join([COMMAND, *names])


def described(command: Any, path: str, language: Language) -> CommandHelp:
    """Return the help of a command in a language. path: what one types to call it."""
    with speaking(language):
        paragraphs = [joined(one) for one in _said(command.help or "").split("\n\n")]
        if path == COMMAND:
            paragraphs.append(
                t("New here? Type: hippocampus demo", "第一次使用？请输入：hippocampus demo")
            )
        return CommandHelp(
            usage=usage(command, path),
            paragraphs=paragraphs,
            sections=[*_sections(command)],
            example=EXAMPLES.get(path.removeprefix(COMMAND).strip(), ""),
        )


def joined(text: str) -> str:
    """Return the lines of a text as one line, without spaces between Chinese characters."""
    return BETWEEN_CHINESE.sub("", " ".join(text.split()))


def usage(command: Any, path: str) -> str:
    """Return the line that shows the form of a command."""
    words = [path, *(_argument(one) for one in command.params if not _is_option(one))]
    if hasattr(command, "commands"):
        words.append(t("COMMAND", "命令"))
    return t("Usage: ", "用法：") + " ".join([*words, t("[OPTIONS]", "[选项]")])


def _sections(command: Any) -> Iterator[Section]:
    """Yield the commands by group, or the arguments, and then the options of a command."""
    listed: dict[str, list[tuple[str, str]]] = {}
    below = getattr(command, "commands", {})
    for name in sorted(below, key=lambda name: _PLACES.index(name) if name in _PLACES else 0):
        one = below[name]
        first = _said(one.help or "").split("\n\n")[0]
        listed.setdefault(one.rich_help_panel, []).append((name, joined(first)))
    if len(listed) == 1:
        yield Section(t("Commands", "命令"), *listed.values())
    else:
        yield from (Section(_said(title), listed[title]) for title in GROUPS if title in listed)
    arguments = [one for one in command.params if not _is_option(one)]
    if arguments:
        yield Section(t("Arguments", "参数"), [(_name(one), _help(one)) for one in arguments])
    options = [one for one in command.params if _is_option(one)]
    rows = [(_option(one), _help(one)) for one in options if not one.hidden]
    yield Section(t("Options", "选项"), [*rows, ("--help", t(*OF_TYPER["help"]))])


def _is_option(parameter: Any) -> bool:
    return bool(parameter.param_type_name == "option")


def _argument(parameter: Any) -> str:
    name = _name(parameter) + ("..." if parameter.nargs != 1 else "")
    return name if parameter.required else f"[{name}]"


def _name(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name.upper())


def _option(parameter: Any) -> str:
    names = " / ".join([*parameter.opts, *parameter.secondary_opts])
    if parameter.is_flag:
        return names
    return f"{names} {parameter.metavar or parameter.opts[0].strip('-').replace('-', '_').upper()}"


def _help(parameter: Any) -> str:
    """Return the help of an argument or option, with its variable and its default."""
    if parameter.name in OF_TYPER:
        return t(*OF_TYPER[parameter.name])
    notes = []
    if getattr(parameter, "envvar", None):
        notes.append(t(f"variable: {parameter.envvar}", f"环境变量：{parameter.envvar}"))
    if default := _default(parameter):
        notes.append(t(f"default: {default}", f"默认：{default}"))
    if parameter.required and _is_option(parameter):
        notes.append(t("required", "必填"))
    return " ".join([_said(parameter.help or ""), *([f"[{'; '.join(notes)}]"] if notes else [])])


def _default(parameter: Any) -> str:
    if isinstance(parameter.show_default, str):
        return f"({_said(parameter.show_default)})"
    default = parameter.default
    if isinstance(default, bool):
        names = parameter.opts if default else parameter.secondary_opts
        return str(names[0]) if parameter.secondary_opts else ""
    return "" if default in (None, "") or parameter.required else str(
        getattr(default, "value", default)
    )  # fmt: skip


def _said(english: str) -> str:
    """Return a help text in the language of the user."""
    return in_language(spoken_language(), english, CHINESE.get(english, english))


def help_text(command: Any, path: str) -> str:
    """Return the help of a command for the terminal, in the language of the user."""
    screen = Console(highlight=False)
    width = min(screen.width, WIDEST) if screen.is_terminal else PIPED
    screen.width = WIDEST
    with screen.capture() as shown:
        for line in _lines(described(command, path, spoken_language()), width):
            screen.print(line, soft_wrap=True)
    return shown.get()


def _lines(help: CommandHelp, width: int) -> Iterator[Text]:
    yield from wrapped(Text(help.usage), width)
    for paragraph in help.paragraphs:
        yield Text()
        yield from wrapped(Text(paragraph), width)
    for section in help.sections:
        yield Text()
        yield Text(section.title, style="bold")
        yield from _rows(section.rows, width)
    if help.example:
        yield Text()
        yield from wrapped(Text(t("Example: ", "示例：") + help.example), width)


def _rows(rows: Iterable[tuple[str, str]], width: int) -> Iterator[Text]:
    """Yield names with their help beside them, or below a long name."""
    beside = max((cell_len(name) for name, _ in rows if cell_len(name) <= NARROW), default=0)
    indent = " " * (beside + 4)
    for name, help in rows:
        head = Text.assemble("  ", (name, "cyan"))
        lines = wrapped(Text(help), width - len(indent))
        if cell_len(name) <= beside:
            yield head.append(indent[head.cell_len :]).append_text(lines[0])
            lines = lines[1:]
        else:
            yield head
        yield from (Text(indent).append_text(line) for line in lines)


def reference_page(language: str) -> str:
    """Return the reference of all commands as Markdown.

    Args:
        language: "en" or "zh".

    Returns:
        One section for each group, and in it one for each command, with its form, its help, its
        arguments and options, and an example.
    """
    from shared_core.cli import main  # noqa: F401 # it registers all commands

    known: Language = "zh" if language == "zh" else "en"
    commands = dict(commands_of(typer.main.get_command(app)))
    with speaking(known):
        parts = []
        for title, names in GROUPS.items():
            parts.append(f"## {_said(title)}")
            parts += [_markdown(commands[name], f"{COMMAND} {name}", known) for name in names]
    return "\n\n".join(parts) + "\n"


def commands_of(group: Any, above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each command and group below a group, by what one types after the program."""
    for name, command in group.commands.items():
        yield f"{above}{name}", command
        if hasattr(command, "commands"):
            yield from commands_of(command, f"{above}{name} ")


def _markdown(command: Any, path: str, language: Language) -> str:
    help = described(command, path, language)
    shown = [f"### `{path}`", *help.paragraphs, f"```text\n{help.usage}\n```"]
    for section in help.sections:
        rows = [(name, text) for name, text in section.rows if name != "--help"]
        if rows:
            head = f"| {section.title} | |\n|---|---|"
            shown.append("\n".join([head, *(f"| `{_cell(n)}` | {_cell(h)} |" for n, h in rows)]))
    if help.example:
        shown.append(f"{t('Example:', '示例：')}\n\n```sh\n{help.example}\n```")
    return "\n\n".join(shown)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
