"""Shared parts of the command `hippocampus`: the application, its options and its output."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, time, timedelta
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich.text import Text
from typer.core import TyperCommand, TyperGroup

from shared_core.cli.layout import (
    Grid as Grid,
    Typed as Typed,
    confirmed as confirmed,
    console as console,
    print_all as print_all,
    say as say,
)
from shared_core.cli.progress import opening, progress_bar as progress_bar
from shared_core.core.domain import AsOf, Scope
from shared_core.core.locale import t
from shared_core.core.shown import shown
from shared_core.core.timestamps import moment_of
from shared_core.errors import InvalidInput, MemoryCoreError
from shared_core.settings import redacted

if TYPE_CHECKING:
    from shared_core.engine import MemoryEngine

Result = TypeVar("Result")
Function = TypeVar("Function", bound=Callable[..., Any])

CHINESE: dict[str, str] = {}
"""The Chinese help texts by the English ones."""


class Malformed(InvalidInput):
    """A value on the command line has the wrong form."""


def both(english: str, chinese: str) -> str:
    """Return an English help text, and register the Chinese one that stands in its place."""
    CHINESE[english] = chinese
    return english


def chinese(text: str) -> Callable[[Function], Function]:
    """Register the Chinese help of a command. Its docstring is the English help."""

    def register(command: Function) -> Function:
        both(inspect.cleandoc(command.__doc__ or ""), inspect.cleandoc(text))
        return command

    return register


class Command(TyperCommand):
    """A command with help in the language of the user."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help of the command in the language of the user."""
        from shared_core.cli.help import help_text, path_of

        formatter.write(help_text(self, path_of(ctx)))


class Commands(TyperGroup):
    """Commands that report an expected error in one line; exit code 2 for Malformed, else 1."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help of the group in the language of the user."""
        from shared_core.cli.help import help_text, path_of

        formatter.write(help_text(self, path_of(ctx)))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that is named, or fail with the name of the nearest one."""
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            from shared_core.cli.usage import unknown_command

            if not ctx.resilient_parsing:
                ctx.fail(unknown_command(args[0], self.commands))
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:  # click's context, which newer typers carry inside
        """Run the named command, and report an expected error."""
        try:
            return super().invoke(ctx)
        except MemoryCoreError as error:
            line = " ".join(redacted(str(error)).split())
            print_all([Text(t("Error: ", "错误：") + line, style="red")], err=True)
            raise typer.Exit(2 if isinstance(error, Malformed) else 1) from error

    def main(  # type: ignore[override] # its other arguments pass as they are
        self, args: Any = None, *, standalone_mode: bool = True, **options: Any
    ) -> Any:
        """Run the command line. Errors of usage are reported in the language of the user."""
        if not standalone_mode:
            return super().main(args, standalone_mode=False, **options)
        from shared_core.cli.usage import reporting_usage

        with reporting_usage(), _reporting_full_output():
            code = super().main(args, standalone_mode=False, **options)
        raise SystemExit(code or 0)


@contextmanager
def _reporting_full_output() -> Iterator[None]:
    """Report that standard output takes no more, and exit with code 1."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        if _takes_output():
            raise
        # Otherwise Python flushes the rest at its exit, fails again, and exits with code 120.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        line = t(
            f"Error: standard output cannot be written: {error.strerror}. Write to a device that"
            " has room.",
            f"错误：无法写入 标准输出：{error.strerror}。请写到有空间的设备。",
        )
        print_all([Text(line, style="red")], err=True)
        raise SystemExit(1) from error


def _takes_output() -> bool:
    try:
        os.write(sys.stdout.fileno(), b"\n")
    except OSError:
        return False
    return True


app = typer.Typer(
    cls=Commands,
    help=both(
        "Long-term memory for AI agents, shared by Google ADK and LangGraph.",
        "AI 智能体的长期记忆，Google ADK 与 LangGraph 共用。",
    ),
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # its tracebacks show local variables, passwords included
)


def group(name: str, help: str) -> typer.Typer:
    """Add a group of commands to the application and return it. help: as both() returns it."""
    commands = typer.Typer(cls=Commands, help=help, no_args_is_help=True)
    app.add_typer(commands, name=name)
    return commands


Uri = Annotated[
    str | None,
    typer.Option(
        help=both(
            "Database: a PostgreSQL DSN, embedded:///folder or seekdb:///folder.",
            "数据库：PostgreSQL 的 DSN、embedded:///文件夹 或 seekdb:///文件夹。",
        ),
        show_default="HIPPOCAMPUS_URI",
    ),
]
Schema = Annotated[
    str | None,
    typer.Option(
        help=both("Schema that holds the tables.", "存放数据表的模式（schema）。"),
        show_default="HIPPOCAMPUS_SCHEMA",
    ),
]
Embedder = Annotated[
    str | None,
    typer.Option(
        help=both(
            "Embedding model: e5, use or google:MODEL.", "嵌入模型：e5、use 或 google:MODEL。"
        ),
        show_default=both("that of the database", "数据库所用的模型"),
    ),
]
Llm = Annotated[
    str | None,
    typer.Option(
        envvar="HIPPOCAMPUS_LLM",
        help=both(
            "Language model that reads turns instead of the rules: adk:MODEL or"
            " langchain:PROVIDER:MODEL.",
            "代替规则阅读对话的语言模型：adk:MODEL 或 langchain:PROVIDER:MODEL。",
        ),
    ),
]
App = Annotated[
    str,
    typer.Argument(
        metavar="APP", help=both("Application, ADK's app_name.", "应用，即 ADK 的 app_name。")
    ),
]
User = Annotated[
    str,
    typer.Argument(
        metavar="USER",
        help=both("User of the application, ADK's user_id.", "应用的用户，即 ADK 的 user_id。"),
    ),
]
OnlyApp = Annotated[
    str | None,
    typer.Option(
        "--app",
        help=both("Only this application.", "只限这个应用。"),
        show_default=both("all applications", "所有应用"),
    ),
]
OnlyUser = Annotated[
    str | None,
    typer.Option(
        help=both("Only this user of --app.", "只限 --app 的这个用户。"),
        show_default=both("all users", "所有用户"),
    ),
]
AsOfDate = Annotated[
    str | None,
    typer.Option(
        "--as-of",
        metavar="DATE",
        help=both(
            'Show what was true then, e.g. 2024-05-01 or "last Tuesday".',
            "显示当时成立的内容，如 2024-05-01 或 上周三。",
        ),
    ),
]
KnownDate = Annotated[
    str | None,
    typer.Option(
        metavar="DATE",
        help=both("Show what the memory believed then.", "显示记忆在当时所认为的内容。"),
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help=both("Print JSON.", "以 JSON 输出。"))]


@contextmanager
def malformed() -> Iterator[None]:
    """Turn InvalidInput into Malformed: the value has the wrong form."""
    try:
        yield
    except InvalidInput as error:
        raise Malformed(str(error)) from error


def date_option(text: str | None, option: str) -> datetime | None:
    """Return the moment that an option names, or None. Raises Malformed for any other text.

    A day in words is its midnight in UTC, as a date is.
    """
    if text is None:
        return None
    try:
        return moment_of(text, option)
    except InvalidInput as error:
        if (named := _day_in_words(text)) is not None:
            return named
        got = shown(text)
        raise Malformed(
            t(
                f'{option} must be a day like 2024-05-01 or "last Tuesday", or a moment like'
                f" 2024-05-01T09:30+02:00, got {got}",
                f"{option} 必须是 2024-05-01、上周三 这样的一天，或 2024-05-01T09:30+08:00 这样的"
                f"时刻，收到的是 {got}",
            )
        ) from error


def _day_in_words(text: str) -> datetime | None:
    """Return the midnight in UTC of the one day that words name here and now, or None."""
    from shared_core.recall.time_slices import named

    now = datetime.now().astimezone()
    try:
        begin, end = named(text, now, "the date")
    except InvalidInput:
        return None
    first, last = begin.replace(tzinfo=UTC), end.replace(tzinfo=UTC)
    if first.time() != time.min or last - first != timedelta(days=1):
        return None
    # East of Greenwich today begins before it does in UTC.
    return min(first, now.astimezone(UTC)) if begin <= now else first


def as_of_options(
    valid: str | None, known: str | None, valid_option: str = "--as-of"
) -> AsOf | None:
    """Return the moments in valid_option and --known, or None if neither is given."""
    if valid is None and known is None:
        return None
    return AsOf(valid=date_option(valid, valid_option), known=date_option(known, "--known"))


def scope_options(app_name: str | None, user: str | None) -> tuple[Scope | None, str | None]:
    """Return (scope, None) for --app with --user, else (None, application or None for all)."""
    if user is None:
        return None, app_name
    if app_name is None:
        raise InvalidInput(
            t(
                "--user needs --app: a user belongs to one application",
                "--user 要和 --app 一起用：用户属于某一个应用",
            )
        )
    return Scope(app_name, user), None


def open_memory(
    uri: str | None,
    *,
    schema: str | None = None,
    embedder: object = None,
    llm: object = None,
    worker: bool = True,
    track_access: bool = True,
    create: bool = True,
) -> MemoryEngine:
    """Call shared_core.open_memory; only a command that opens a memory imports the engine."""
    from shared_core import open as opening

    return opening.open_memory(
        uri,
        schema=schema,
        embedder=embedder,
        llm=llm,
        worker=worker,
        track_access=track_access,
        create=create,
    )


def ready_model(llm: str | None) -> object:
    """Return the language model that --llm names, or None. Raises InvalidInput if it cannot run."""
    if llm is None:
        return None
    from shared_core.models.language_model import ready_language_model

    return ready_language_model(llm)


def with_memory(memory: MemoryEngine, call: Callable[[MemoryEngine], Awaitable[Result]]) -> Result:
    """Open a memory, return the result of the call, and close the memory."""

    async def run() -> Result:
        with opening() as opened:
            async with memory:
                opened()
                return await call(memory)

    return asyncio.run(run())


def iso(moment: datetime | None) -> str | None:
    """Return a moment in ISO 8601, or None."""
    return moment.isoformat() if moment else None


def day(moment: datetime | None) -> str:
    """Return the day of a moment, or an empty text for None."""
    return f"{moment:%Y-%m-%d}" if moment else ""


def print_json(value: object, *, indent: int | None = None) -> None:
    """Print a value as JSON, on one line unless indent is given."""
    typer.echo(json.dumps(value, ensure_ascii=False, indent=indent))


def report(text: str, values: Mapping[str, object], as_json: bool) -> None:
    """Print what a command did: as text, or as one line of JSON."""
    if as_json:
        print_json(values)
    else:
        say(text)
