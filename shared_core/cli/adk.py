"""The command that makes the agents of `adk web`, `adk run` and `adk api_server` remember."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final

import typer

from shared_core.cli import app as cli
from shared_core.cli.app import both
from shared_core.core.locale import speaking, t
from shared_core.core.shown import shown
from shared_core.errors import InvalidInput

agents = cli.group(
    "adk", both("Make agents of Google ADK remember.", "让 Google ADK 的智能体拥有记忆。")
)

URI: Final = "--memory_service_uri=hippocampus://"

SERVICES: Final = '''"""Tells ADK's commands what hippocampus:// means."""

from adk_memory import register

register()
'''

APP: Final = '''"""Makes this agent remember: ADK loads `app` instead of `root_agent`."""

from google.adk.apps import App

from adk_memory import MemoryPlugin

from .agent import root_agent

app = App(name="{name}", root_agent=root_agent, plugins=[MemoryPlugin()])
'''

APP_OF_YAML: Final = '''"""Makes this agent remember: ADK loads `app` instead of root_agent.yaml."""

from pathlib import Path

from google.adk.agents import config_agent_utils
from google.adk.apps import App

from adk_memory import MemoryPlugin

root_agent = config_agent_utils.from_config(str(Path(__file__).with_name("root_agent.yaml")))
app = App(name="{name}", root_agent=root_agent, plugins=[MemoryPlugin()])
'''

AGENT: Final = '''"""Gemini where GOOGLE_API_KEY is set, else a model that quotes its memory."""

import os

from google.adk.agents import LlmAgent

from adk_memory import OfflineModel

root_agent = LlmAgent(
    name="assistant",
    model="gemini-3.5-flash" if os.environ.get("GOOGLE_API_KEY") else OfflineModel(),
    instruction="Answer in the language of the user, from your memory where it helps.",
)
'''

OWN_APP: Final = re.compile(r"^app\s*(?::[^=\n]+)?=", re.MULTILINE)
"""An App that the agent's module makes itself."""
APP_NAME: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9_]*")
"""Names that both ADK's loader and its App take."""
SAMPLE: Final = "assistant"


@agents.command()
@cli.chinese(
    """写入让文件夹中的 ADK 智能体拥有记忆的文件，并打印要运行的命令。

    每个智能体在它的 __init__.py 中成为带插件的 App。services.py 让 ADK 的命令认识
    hippocampus://。没有智能体的文件夹会得到一个无需密钥的智能体。覆盖内容不同的文件之前会先询问。
    """
)
def init(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER",
            help=both(
                "Folder of agents, or of one agent; created if missing.",
                "存放智能体的文件夹，或一个智能体的文件夹；没有则新建。",
            ),
        ),
    ],
    yes: Annotated[
        bool,
        typer.Option("--yes", help=both("Overwrite files without asking.", "直接覆盖，不再询问。")),
    ] = False,
    as_json: cli.AsJson = False,
) -> None:
    """Write what makes ADK's agents in a folder remember.

    It prints the commands to run. Each agent becomes an App with the plugin, in its __init__.py.
    services.py teaches ADK's commands hippocampus://. A folder without an agent gets one, which
    works without a key. Asks before it overwrites a file that says something else.
    """
    if folder.exists() and not folder.is_dir():
        raise InvalidInput(
            t(
                f"{shown(str(folder))} is no folder: name the folder of your agents",
                f"{shown(str(folder))} 不是文件夹：请给出存放智能体的文件夹",
            )
        )
    with speaking("en" if as_json else None):
        _write(folder, yes=yes, as_json=as_json)


def _write(folder: Path, *, yes: bool, as_json: bool) -> None:
    files, notes = planned(folder)
    for path in files:
        _check_no_link(folder, path)
    chosen = [path for path, text in files.items() if _may_write(path, text, yes=yes)]
    for path in chosen:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(files[path], "utf-8")
    notes += [
        t(
            f"{path} stays as it is: without the change its agent may not remember",
            f"{path} 保持原样：不改动的话，它的智能体可能没有记忆",
        )
        for path, text in files.items()
        if path not in chosen and path.read_text("utf-8") != text
    ]
    commands = [f"adk {verb} {_quoted(folder)} {URI}" for verb in ("web", "api_server")]
    commands += [f"adk run {_quoted(agent)} {URI}" for agent in agents_in(folder)]
    if as_json:
        cli.print_json({"written": [*map(str, chosen)], "notes": notes, "commands": commands})
        return
    for path in chosen:
        cli.say(t(f"wrote {path}", f"已写入 {path}"))
    for note in notes:
        cli.say(t(f"note: {note}", f"注意：{note}"))
    cli.say("\n" + t("Run one of:", "运行其中之一："))
    for command in commands:
        cli.print_all([cli.Typed(command)])


def _quoted(folder: Path) -> str:
    """Return a folder as one word of a shell, which is no option either."""
    return shlex.quote(f"./{folder}" if str(folder).startswith("-") else str(folder))


def _check_no_link(folder: Path, path: Path) -> None:
    """Raise InvalidInput if a file of the folder would be written through a symbolic link."""
    below = path.relative_to(folder).parts
    for count in range(1, len(below) + 1):
        part = folder.joinpath(*below[:count])
        if part.is_symlink():
            raise InvalidInput(
                t(
                    f"{shown(str(part))} is a symbolic link, and init writes through none: run it"
                    " on the folder that the link leads to, or replace the link by a copy",
                    f"{shown(str(part))} 是符号链接，init 不会经由链接写入：请对链接指向的文件夹"
                    "运行，或把链接换成副本",
                )
            )


def planned(folder: Path) -> tuple[Mapping[Path, str], list[str]]:
    """Return the files that a folder of agents needs, with their texts, and notes on the rest."""
    files, notes = dict[Path, str](), list[str]()
    found = agents_in(folder)
    if not found:
        files[folder / SAMPLE / "agent.py"] = AGENT
        found = [folder / SAMPLE]
    for agent in found:
        name = agent.resolve().name
        code = "\n".join(_read(agent / part) for part in ("agent.py", "__init__.py"))
        if "MemoryPlugin" in code:
            pass
        elif OWN_APP.search(code):
            notes.append(
                t(
                    f"{agent} has an App: add MemoryPlugin() of adk_memory to its plugins",
                    f"{agent} 已有 App：请把 adk_memory 的 MemoryPlugin() 加入它的插件",
                )
            )
        elif not APP_NAME.fullmatch(name):
            notes.append(
                t(
                    f"{agent} cannot be an App: rename it to letters, digits and underscores",
                    f"{agent} 不能成为 App：请改名，只用字母、数字和下划线",
                )
            )
        else:
            has_code = (agent / "agent.py").exists() or agent / "agent.py" in files
            files[agent / "__init__.py"] = (APP if has_code else APP_OF_YAML).format(name=name)
    for services in dict.fromkeys((folder / "services.py", *(a / "services.py" for a in found))):
        if "adk_memory" not in _read(services):
            files[services] = SERVICES
    return files, notes


def _may_write(path: Path, text: str, *, yes: bool) -> bool:
    """Return whether to write a file; asks if that changes one.

    Raises Malformed where nobody can be asked.
    """
    if not path.exists():
        return True
    if path.read_text("utf-8") == text:
        return False
    if yes:
        return True
    if not _can_ask():
        raise cli.Malformed(
            t(
                f"{path} exists: add --yes to overwrite it where nobody can confirm",
                f"{path} 已存在：在无人确认的地方请加上 --yes 来覆盖",
            )
        )
    return cli.confirmed(t(f"{path} exists. Overwrite it?", f"{path} 已存在。要覆盖吗？"))


def _can_ask() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


def agents_in(folder: Path) -> list[Path]:
    """Return the folder if it is that of one agent, else the folders of agents in it."""
    if _is_agent(folder):
        return [folder]
    return sorted(one for one in folder.glob("[!._]*") if _is_agent(one))


def _is_agent(folder: Path) -> bool:
    return (folder / "agent.py").is_file() or (folder / "root_agent.yaml").is_file()


def _read(path: Path) -> str:
    return path.read_text("utf-8") if path.is_file() else ""
