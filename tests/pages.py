"""Runs the code blocks of a page of documentation as a reader would run them.

A block begins with a fence and a language. An HTML comment in the line before says more of it:

    <!-- not run: REASON -->    the block is not run
    <!-- file: NAME -->         the block is saved in the folder of the page, and not run by itself
    <!-- background: PORT -->   the commands go on; the next block runs when the port answers

`python`: a whole program, run alone on a database of its own; a `text` block follows with what it
prints. `sh`: commands, run in order in the folder of the page, on the database of the page; if a
`text` block follows, they print it. `console`: a session, `$ command` with what it prints. `sql`:
statements, on the database of the page. `json`, `toml` and `yaml` are parsed. In what is printed,
`...` stands for anything.
"""

from __future__ import annotations

import ast
import doctest
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from textwrap import dedent

import psycopg
import yaml
from warm_python import run_warm, warm_program

ROOT = Path(__file__).parents[1]
PLACES = ("README*.md", "examples/**/*.md", "docs/**/*.md")
PAGES = sorted(page for place in PLACES for page in ROOT.glob(place))
BLOCK = re.compile(
    r"^(?:[ ]*<!--[ ]*(?P<mark>[\w ]+?)(?::[ ]*(?P<value>.*?))?[ ]*-->\n(?:[ ]*\n)*)?"
    r"(?P<indent>[ ]*)(?P<fence>```+)(?P<language>[\w+-]*)[^\n]*\n(?P<text>.*?)"
    r"^(?P=indent)(?P=fence)[ ]*$",
    re.M | re.S,
)
COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", re.M)
MARKS = {None, "not run", "file", "background"}
PROGRAMS = ("python", "sh", "console", "sql")
PARSERS: dict[str, Callable[[str], object]] = {
    "json": json.loads, "toml": tomllib.loads, "yaml": yaml.safe_load,
}  # fmt: skip
SHOWN = {"text", "diff", "dockerfile", "ini", "promql", "http"}
"""Languages of blocks that show something; they are neither run nor parsed."""
PATIENCE = 300
"""Seconds until a block that does not end is stopped."""


@dataclass(frozen=True)
class Block:
    """A code block of a page.

    Attributes:
        language: What stands after the fence.
        text: The lines of the block.
        mark, value: What the comment before it says.
        shown: The `text` block directly after it, or None.
        line: The line of the page in which it begins.
    """

    language: str
    text: str
    mark: str | None
    value: str
    shown: str | None
    line: int

    @property
    def runs(self) -> bool:
        return self.language in PROGRAMS and self.mark in (None, "background")


def blocks_of(page: Path) -> list[Block]:
    """Return the code blocks of a page, in order."""
    text = page.read_text("utf-8")
    found = list(BLOCK.finditer(text))
    blocks = []
    for number, one in enumerate(found):
        after = found[number + 1] if number + 1 < len(found) else None
        follows = after and after["language"] == "text" and not after["mark"]
        if follows and text[one.end() : after.start()].strip():  # type: ignore[union-attr]
            follows = None
        shown = dedent(after["text"]) if after and follows else None
        line = 1 + text[: one.start("fence")].count("\n")
        given = (one["language"], dedent(one["text"]), one["mark"], one["value"] or "")
        blocks.append(Block(*given, shown, line))
    return blocks


def check_output(wanted: str, printed: str) -> None:
    """Fail if a program printed something else; `...` stands for anything."""
    printed = "".join(f"{line.rstrip()}\n" for line in printed.splitlines())
    wanted = "".join(f"{line.rstrip()}\n" for line in wanted.splitlines())
    flags = doctest.ELLIPSIS | doctest.DONT_ACCEPT_BLANKLINE
    if not doctest.OutputChecker().check_output(wanted, printed, flags):
        assert printed == wanted


@dataclass
class PageRun:
    """A run of the blocks of one page, in a folder of its own.

    Attributes:
        folder: Where the page's files are made and its commands run.
        language: What its readers read, `en` or `zh`.
        lend: Makes a database that is dropped with the run.
    """

    folder: Path
    language: str
    lend: Callable[[], Iterator[str]]
    _stack: ExitStack = field(default_factory=ExitStack)

    @cached_property
    def dsn(self) -> str:
        """The database of the page."""
        return self._database()

    def __enter__(self) -> PageRun:
        tools = self.folder.parent / "tools"
        tools.mkdir()
        self.folder.mkdir()
        warm_program(tools / "python")
        warm_program(tools / "hippocampus", "-m", "shared_core.cli.main")
        for name in ("adk", "uvicorn"):
            warm_program(tools / name, str(Path(sys.executable).with_name(name)))
        return self

    def __exit__(self, *raised: object) -> None:
        self._stack.close()

    def run(self, block: Block) -> None:
        """Run a block, and compare what it prints with what the page shows."""
        getattr(self, f"_run_{block.language}")(block)

    def copy_example(self, page: Path) -> None:
        """Copy the files beside a page of the examples, which its commands run."""
        if page.is_relative_to(ROOT / "examples"):
            skipped = shutil.ignore_patterns("__pycache__")
            shutil.copytree(page.parent, self.folder, ignore=skipped, dirs_exist_ok=True)

    def save(self, block: Block) -> None:
        """Save a block as the file that its mark names."""
        file = self.folder / block.value
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(block.text, "utf-8")

    def _run_python(self, block: Block) -> None:
        folder = self.folder.parent / f"line-{block.line}"
        folder.mkdir()
        environment = self._environment(self._database())
        ran = run_warm(["-c", block.text], cwd=folder, env=environment, timeout=PATIENCE)
        assert (0, "") == (ran.returncode, ran.stderr), f"line {block.line}"
        assert ran.stdout.strip(), "the program prints nothing"
        assert block.shown is not None, f"the page does not show what it prints:\n{ran.stdout}"
        check_output(block.shown, ran.stdout)

    def _database(self) -> str:
        databases = self.lend()
        self._stack.callback(next, databases, None)
        return next(databases)

    def _run_sh(self, block: Block) -> None:
        printed = self._shell(block.text, until=int(block.value) if block.mark else None)
        if block.shown is not None and not block.mark:
            check_output(block.shown, printed)

    def _run_console(self, block: Block) -> None:
        commands = COMMAND.findall(block.text)
        assert commands, "a console block needs lines that begin with $"
        for command, shown in commands:
            check_output(shown, self._shell(command))

    def _run_sql(self, block: Block) -> None:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute("SET search_path TO hippocampus, public")
            connection.execute(block.text.encode())

    def _shell(self, commands: str, *, until: int | None = None) -> str:
        """Run commands, or start them and wait for a port; return what they printed."""
        output = self.folder.parent / f"output-{time.monotonic_ns()}"
        with output.open("wb") as file:
            shell = subprocess.Popen(
                ["bash", "-euo", "pipefail", "-c", commands],
                cwd=self.folder, env=self._environment(self.dsn), stdin=subprocess.DEVNULL,
                stdout=file, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        if until is not None:
            self._stack.callback(_end, shell)
            _wait_for(until, shell, output)
            return ""
        try:
            code = shell.wait(PATIENCE)
        finally:
            _end(shell)
        printed = output.read_text("utf-8")
        assert code == 0, f"{commands}\nended with {code}:\n{printed}"
        return printed

    def _environment(self, dsn: str) -> dict[str, str]:
        """Return the environment of a reader without keys and without a network."""
        kept = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
        proxies = {f"{kind}_proxy": "http://127.0.0.1:1" for kind in ("http", "https", "all")}
        home = self.folder.parent / "home"
        tools = f"{self.folder.parent / 'tools'}{os.pathsep}{kept['PATH']}"
        return kept | proxies | {
            "no_proxy": "127.0.0.1,localhost", "HIPPOCAMPUS_URI": dsn,
            "HIPPOCAMPUS_HOME": str(home), "HOME": str(self.folder), "PATH": tools,
            "HIPPOCAMPUS_LANG": self.language, "LC_ALL": "C.UTF-8", "COLUMNS": "80",
        }  # fmt: skip


def _wait_for(port: int, shell: subprocess.Popen[bytes], output: Path) -> None:
    """Wait until a server of the page answers."""
    begun = time.monotonic()
    while True:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        assert shell.poll() is None, output.read_text("utf-8")
        assert time.monotonic() < begun + PATIENCE, output.read_text("utf-8")
        time.sleep(0.1)


def _end(shell: subprocess.Popen[bytes]) -> None:
    """End commands of a page, and what they started."""
    for kind in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(shell.pid, kind)
        with suppress(subprocess.TimeoutExpired):
            shell.wait(30)


def has_programs_of_its_own(page: Path) -> bool:
    """Return whether no other page runs the same, words apart. README's translation counts too."""
    source = page.with_name(page.name.replace(".zh.md", ".md"))
    return source in (page, ROOT / "README.md") or _without_words(page) != _without_words(source)


def _without_words(page: Path) -> list[object]:
    return [
        re.sub(r"Constant\(value='.*?'\)", "", ast.dump(ast.parse(block.text)))
        if block.language == "python"
        else re.findall(r"^[$] (\S+ \S+)", block.text, re.M) or len(block.text.splitlines())
        for block in blocks_of(page)
        if block.runs
    ]


def language_of(page: Path) -> str:
    """Return the language that the readers of a page have chosen, `en` or `zh`."""
    return "zh" if page.stem.endswith(".zh") else "en"


def is_port_free(port: int) -> bool:
    """Return whether nothing on this machine answers there."""
    with socket.socket() as asked:
        return asked.connect_ex(("127.0.0.1", port)) != 0
