"""What the parts of the command `hippocampus` share: the application, options, the console."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text
from typer.core import TyperGroup

from shared_core.core.domain import AsOf
from shared_core.core.timestamps import moment_of
from shared_core.errors import InvalidInput, MemoryCoreError
from shared_core.settings import redacted

if TYPE_CHECKING:
    from shared_core.engine import MemoryEngine

WIDTH = 100
"""Columns when the output is no terminal."""

LONGEST_WORD = 20
"""Characters of a word that a table does not break, however narrow the terminal."""

MARKS = {"ok": ("✓", "green"), "note": ("-", "yellow"), "problem": ("✗", "red")}


class Malformed(InvalidInput):
    """A value on the command line has not the form of what it should be."""


class Commands(TyperGroup):
    """Commands whose expected errors become one line and the exit code 1; 2 for Malformed."""

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
    typer.Option(help="DSN, embedded:///folder or seekdb:///folder. [default: HIPPOCAMPUS_URI]"),
]
Schema = Annotated[
    str | None, typer.Option(help="Schema that holds the tables. [default: HIPPOCAMPUS_SCHEMA]")
]
Embedder = Annotated[str | None, typer.Option(help="use (the default), e5 or google:MODEL.")]
Llm = Annotated[
    str | None,
    typer.Option(
        envvar="HIPPOCAMPUS_LLM",
        help="What reads turns instead of rules: adk:MODEL or langchain:PROVIDER:MODEL.",
    ),
]
App = Annotated[str, typer.Argument(help="The application, ADK's app_name.")]
User = Annotated[str, typer.Argument(help="The user of the application, ADK's user_id.")]


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


class DemoLanguage(StrEnum):
    """Which conversations the demo plays."""

    ENGLISH = "en"
    CHINESE = "zh"
    BOTH = "both"


@contextmanager
def malformed() -> Iterator[None]:
    """Raise Malformed where the form of a value is refused."""
    try:
        yield
    except InvalidInput as error:
        raise Malformed(str(error)) from error


class DemoEngine(StrEnum):
    """On which engine the demo runs."""

    POSTGRES = "postgres"
    SEEKDB = "seekdb"


def date_option(text: str | None, option: str) -> datetime | None:
    """Return the moment that an option names, None for none. Raises Malformed for what is none."""
    if text is None:
        return None
    with malformed():
        return moment_of(text, option)


def as_of_options(
    valid: str | None, known: str | None, valid_option: str = "--as-of"
) -> AsOf | None:
    """Return the moments that valid_option and --known name; None if neither is given."""
    if valid is None and known is None:
        return None
    return AsOf(valid=date_option(valid, valid_option), known=date_option(known, "--known"))


def open_memory(
    uri: str | None,
    *,
    schema: str | None = None,
    embedder: str | None = None,
    llm: object = None,
    worker: bool = True,
    track_access: bool = True,
    create: bool = True,
) -> MemoryEngine:
    """Do what shared_core.open_memory does; who opens one imports the engine, and nobody else."""
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


def tell(told: str, facts: Mapping[str, object], as_json: bool) -> None:
    """Print what was done: in words, or as one line of JSON."""
    typer.echo(json.dumps(facts, ensure_ascii=False) if as_json else told)


def console(*, stderr: bool = False) -> Console:
    """Return a terminal, or what stands for one with WIDTH columns."""
    screen = Console(stderr=stderr, highlight=False)
    if not screen.is_terminal:
        screen.width = WIDTH
    return screen


def word_table(
    names: Sequence[str], rows: Sequence[Sequence[str]], *, dim: Sequence[bool] = ()
) -> Table:
    """Return a table that wraps between words, not in them. dim: which rows are dimmed."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for place, name in enumerate(names):
        words = [name, *(word for row in rows for word in row[place].split())]
        least = min(LONGEST_WORD, max(cell_len(word) for word in words))
        table.add_column(name, overflow="fold", min_width=least)
    for row, is_dim in zip(rows, dim or [False] * len(rows), strict=True):
        table.add_row(*map(Text, row), style="dim" if is_dim else "")
    return table
