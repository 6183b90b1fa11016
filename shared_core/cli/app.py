"""Shared parts of the command `hippocampus`: the application, its options and its output."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich import box
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text
from typer.core import TyperGroup

from shared_core.core.domain import AsOf, Scope
from shared_core.core.timestamps import moment_of
from shared_core.errors import InvalidInput, MemoryCoreError
from shared_core.settings import redacted

if TYPE_CHECKING:
    from rich.progress import Progress

    from shared_core.engine import MemoryEngine

Result = TypeVar("Result")

WIDTH = 100
"""Columns of the output when it does not go to a terminal."""

WIDE = 120
"""Columns of a table that explains scores. A narrower terminal folds it."""

LONGEST_WORD = 20
"""Characters of a word that a table never breaks, however narrow the terminal."""


class Malformed(InvalidInput):
    """A value on the command line has the wrong form."""


class Commands(TyperGroup):
    """Commands that report an expected error in one line; exit code 2 for Malformed, else 1."""

    def invoke(self, ctx: Any) -> Any:  # click's context, which newer typers carry inside
        try:
            return super().invoke(ctx)
        except MemoryCoreError as error:
            line = " ".join(redacted(str(error)).split())
            console(stderr=True).print(Text(f"Error: {line}", style="red"), soft_wrap=True)
            raise typer.Exit(2 if isinstance(error, Malformed) else 1) from error


app = typer.Typer(
    cls=Commands,
    help="Long-term memory for AI agents, shared by Google ADK and LangGraph.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # its tracebacks show local variables, passwords included
)

Uri = Annotated[
    str | None,
    typer.Option(
        help="Database: a PostgreSQL DSN, embedded:///folder or seekdb:///folder.",
        show_default="HIPPOCAMPUS_URI",
    ),
]
Schema = Annotated[
    str | None,
    typer.Option(help="Schema that holds the tables.", show_default="HIPPOCAMPUS_SCHEMA"),
]
Embedder = Annotated[
    str | None,
    typer.Option(
        help="Embedding model: e5, use or google:MODEL.", show_default="that of the database"
    ),
]
Llm = Annotated[
    str | None,
    typer.Option(
        envvar="HIPPOCAMPUS_LLM",
        help="Language model that reads turns instead of the rules: adk:MODEL or"
        " langchain:PROVIDER:MODEL.",
    ),
]
App = Annotated[str, typer.Argument(help="Application, ADK's app_name.")]
User = Annotated[str, typer.Argument(help="User of the application, ADK's user_id.")]
OnlyApp = Annotated[
    str | None,
    typer.Option("--app", help="Only this application.", show_default="all applications"),
]
OnlyUser = Annotated[
    str | None, typer.Option(help="Only this user of --app.", show_default="all users")
]
AsOfDate = Annotated[
    str | None,
    typer.Option("--as-of", metavar="DATE", help="Show what was true then, e.g. 2024-05-01."),
]
KnownDate = Annotated[
    str | None, typer.Option(metavar="DATE", help="Show what the memory believed then.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@contextmanager
def malformed() -> Iterator[None]:
    """Turn InvalidInput into Malformed: the value has the wrong form."""
    try:
        yield
    except InvalidInput as error:
        raise Malformed(str(error)) from error


def date_option(text: str | None, option: str) -> datetime | None:
    """Return the moment that an option names, or None. Raises Malformed for any other text."""
    if text is None:
        return None
    with malformed():
        return moment_of(text, option)


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
        raise InvalidInput("--user needs --app: a user belongs to one application")
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
        async with memory:
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
        typer.echo(text)


def console(*, stderr: bool = False) -> Console:
    """Return the terminal, or a console of WIDTH columns if the output is redirected."""
    screen = Console(stderr=stderr, highlight=False)
    if not screen.is_terminal:
        screen.width = WIDTH
    return screen


def print_all(pieces: Iterable[RenderableType], *, width: int = 0) -> None:
    """Print each piece on the console. A text is wrapped only by a terminal.

    width: minimum number of columns.
    """
    screen = console()
    screen.width = max(screen.width, width)
    for piece in pieces:
        screen.print(piece, soft_wrap=isinstance(piece, Text) and not screen.is_terminal)


def progress_bar(screen: Console) -> Progress:
    """Return a progress bar of items done out of all; it is shown on a terminal alone."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=screen,
        disable=not screen.is_terminal,
    )


def plain_table(*names: str, **options: Any) -> Table:
    """Return a frameless table with folding cells. options: those of rich's Table."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, **options)
    for name in names:
        table.add_column(name, overflow="fold")
    return table


def word_table(
    names: Sequence[str], rows: Sequence[Sequence[str]], *, dim: Sequence[bool] = ()
) -> Table:
    """Return a table that wraps between words, not inside them. dim: the rows to print dimmed."""
    table = plain_table(padding=(0, 1, 0, 0))
    for place, name in enumerate(names):
        words = [name, *(word for row in rows for word in row[place].split())]
        least = min(LONGEST_WORD, max(cell_len(word) for word in words))
        table.add_column(name, overflow="fold", min_width=least)
    for row, is_dim in zip(rows, dim or [False] * len(rows), strict=True):
        table.add_row(*map(Text, row), style="dim" if is_dim else "")
    return table
