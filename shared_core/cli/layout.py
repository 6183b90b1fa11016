"""Lay out lines and tables: no line is wider than the terminal, and a pipe gets them unbroken.

A wide character, such as a Chinese one, counts two columns. Ids and keys are never cut: a table
that cannot keep them whole is printed as one block of lines for each row.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

UNBROKEN: Final = 1_000_000
"""Columns of an output that is no terminal."""
LONGEST_WORD: Final = 40
"""Columns of a word that a table never breaks, however narrow the terminal. A UUID has 36."""
PROSE: Final = 16
"""Columns that a column of longer texts keeps at least."""
GAP: Final = "  "
RULE: Final = 100
"""Columns of the longest line below headings."""

_WIDE: Final = r"\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uff60"
_NOT_FIRST: Final = "，。；：、！？）》」』”’…,.;:!?)]}'\""
"""Characters that begin no line."""
_PIECES: Final = re.compile(rf"[^\S\n]+|[{_WIDE}]|[^\s{_WIDE}]+")
"""The spaces, wide characters and words of a line."""
_COMMANDS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Control characters, except tab and newline, and overrides of the direction of writing."""

Cell: TypeAlias = str | Text


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """A table without a frame. Columns without a name are allowed.

    Attributes:
        names: The headings.
        rows: The cells.
        right: Positions of the columns that are aligned to the right.
        dim: For each row, whether it is printed dimmed; empty for none.
    """

    names: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    right: frozenset[int] = frozenset()
    dim: Sequence[bool] = ()

    def lines(self, width: int) -> Iterator[Text]:
        """Yield the lines of the table, at most width columns each."""
        rows = [[_text(cell) for cell in row] for row in self.rows]
        widths = self._widths(rows, width)
        if widths is None:
            yield from self._blocks(rows, width)
            return
        yield _joined([Text(name, "bold") for name in self.names], widths, self.right)
        yield Text("─" * min(sum(widths) + len(GAP) * (len(widths) - 1), RULE), "dim")
        for row, dimmed in zip(rows, self._dim(), strict=True):
            cells = [wrapped(cell, width) for cell, width in zip(row, widths, strict=True)]
            for number in range(max(len(cell) for cell in cells)):
                parts = [cell[number] if number < len(cell) else Text() for cell in cells]
                line = _joined(parts, widths, self.right)
                if dimmed:
                    line.stylize("dim")
                yield line

    def _dim(self) -> Sequence[bool]:
        return self.dim or [False] * len(self.rows)

    def _widths(self, rows: Sequence[Sequence[Text]], width: int) -> list[int] | None:
        """Return the columns of each column, or None if words would have to be broken."""
        room = width - len(GAP) * (len(self.names) - 1)
        full, least = [], []
        for place, name in enumerate(self.names):
            texts = [name, *(row[place].plain for row in rows)]
            full.append(max(cell_len(line) for text in texts for line in text.split("\n")))
            longest = max((cell_len(w) for text in texts for w in _words(text)), default=0)
            least.append(min(full[-1], max(min(longest, LONGEST_WORD), PROSE)))
        if sum(least) > room:
            return None
        widths = list(least)
        while sum(widths) < room and (open_ := [i for i, w in enumerate(widths) if w < full[i]]):
            share = max((room - sum(widths)) // len(open_), 1)
            for place in open_[: room - sum(widths)]:
                widths[place] = min(widths[place] + share, full[place])
        return widths

    def _blocks(self, rows: Sequence[Sequence[Text]], width: int) -> Iterator[Text]:
        """Yield each row as lines of one heading and its value each, and an empty line between."""
        indent = max(map(cell_len, self.names))
        for number, (row, dimmed) in enumerate(zip(rows, self._dim(), strict=True)):
            if number:
                yield Text()
            for name, cell in zip(self.names, row, strict=True):
                for place, line in enumerate(wrapped(cell, width - indent - len(GAP))):
                    if cell.plain:
                        head = name if place == 0 else ""
                        space = " " * (indent - cell_len(head))
                        line = Text.assemble((head, "bold"), space + GAP, line)
                        if dimmed:
                            line.stylize("dim")
                        yield line


@dataclass(frozen=True, slots=True)
class Typed:
    """A command to copy. A narrow terminal gets it on several lines, with a backslash at the end.

    Attributes:
        command: The command as a shell reads it.
    """

    command: str

    def lines(self, width: int) -> Iterator[Text]:
        """Yield the lines, at most width columns each unless one argument is wider."""
        line = ""
        for word in re.findall(r"(?:'[^']*'|[^\s'])+", self.command):
            if line and cell_len(f"{line} {word} \\") > width:
                yield Text(f"{line} \\")
                line = f"    {word}"
            else:
                line = f"{line} {word}" if line else f"  {word}"
        yield Text(line)


Piece: TypeAlias = str | Text | Grid | Typed


def console(*, stderr: bool = False) -> Console:
    """Return the terminal, or a console of UNBROKEN columns if the output is redirected."""
    screen = Console(stderr=stderr, highlight=False)
    if not screen.is_terminal:
        screen.width = UNBROKEN
    return screen


def print_all(pieces: Iterable[Piece], *, err: bool = False) -> None:
    """Print texts and tables, wrapped to the terminal if there is one."""
    print_on(console(stderr=err), pieces)


def print_on(screen: Console, pieces: Iterable[Piece]) -> None:
    """Print texts and tables on a console, wrapped to its width."""
    for piece in pieces:
        for line in lines_of(piece, screen.width):
            screen.print(line, soft_wrap=True)


def say(text: str, *, err: bool = False) -> None:
    """Print a text, wrapped to the terminal if there is one."""
    print_all([text], err=err)


def lines_of(piece: Piece, width: int) -> Iterable[Text]:
    """Return the lines of a text or table, at most width columns each."""
    if isinstance(piece, Grid | Typed):
        return piece.lines(width)
    return wrapped(_text(piece), width)


def wrapped(text: Text, width: int) -> Sequence[Text]:
    """Return a text as lines of at most width columns. A line keeps its indentation.

    Characters that command a terminal are replaced: a memory may hold any.
    """
    lines = []
    if _COMMANDS.search(text.plain):
        text = text.copy()
        text.plain = _COMMANDS.sub("\N{REPLACEMENT CHARACTER}", text.plain)
    for line in text.split("\n", allow_blank=True):
        indent = len(line.plain) - len(line.plain.lstrip(" "))
        indent = indent if indent < width // 2 else 0
        first, *others = line.divide(_breaks(line.plain, width, indent)) or [line]
        lines.append(first)
        for other in others:
            skipped = len(other.plain) - len(other.plain.lstrip(" "))
            lines.append(Text(" " * indent).append_text(other[skipped:]))
    for line in lines:
        line.rstrip()
    return lines


def _breaks(line: str, width: int, indent: int) -> list[int]:
    """Return where to break a line, by its offset."""
    if cell_len(line) <= width:
        return []
    breaks: list[int] = []
    used, at = 0, 0
    for piece in _units(line):
        cells = cell_len(piece)
        if used + cells > width and not piece.isspace():
            if used > indent:
                breaks.append(at)
                used = indent
            for place, character in enumerate(piece):  # a word that is longer than a line
                if used + cell_len(character) > width:
                    breaks.append(at + place)
                    used = indent
                used += cell_len(character)
        else:
            used = indent if piece.isspace() and breaks and breaks[-1] == at else used + cells
        at += len(piece)
    return breaks


def _units(line: str) -> Iterator[str]:
    """Yield what a line must not be broken in: spaces, words, wide characters with what follows."""
    unit = ""
    for piece in _PIECES.findall(line):
        if unit and not unit.isspace() and piece[0] in _NOT_FIRST:
            unit += piece
            continue
        if unit:
            yield unit
        unit = piece
    if unit:
        yield unit


def _words(text: str) -> Iterator[str]:
    return (unit for line in text.split("\n") for unit in _units(line))


def _joined(parts: Sequence[Text], widths: Sequence[int], right: frozenset[int]) -> Text:
    line = Text()
    for place, (part, width) in enumerate(zip(parts, widths, strict=True)):
        space = " " * (width - cell_len(part.plain))
        if place:
            line.append(GAP)
        line = line.append(space).append_text(part) if place in right else (
            line.append_text(part).append(space)
        )  # fmt: skip
    line.rstrip()
    return line


def _text(cell: Cell) -> Text:
    return cell if isinstance(cell, Text) else Text(cell)


def confirmed(question: str) -> bool:
    """Ask on the terminal, and return whether the answer is yes."""
    answer = typer.prompt(f"{question} [y/N]", default="", show_default=False, err=True)
    return str(answer).strip().lower() in ("y", "yes", "是", "好", "确定")
