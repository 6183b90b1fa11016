"""Write, read and check the lines of an export."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

from shared_core.core.domain import Scope
from shared_core.core.json_text import to_json
from shared_core.core.namespaces import check_label, from_path, scope_path, to_path
from shared_core.core.row_text import fields_of, read_value
from shared_core.core.shown import shown
from shared_core.errors import InvalidInput, NotFound
from shared_core.ports.tables import NOW, SCHEMA_VERSION, Column, tables
from shared_core.ports.transfer import (
    RECEIPTS,
    TABLES,
    WITHOUT_USER,
    ExportedRow,
    ExportScope,
    RowBatch,
)

Values: TypeAlias = dict[str, Any]
"""A row by column, as operations write it."""

FORMAT = 2
"""Format number in the first line of an export. This version cannot read a greater one."""
DEVELOPMENT_FORMAT = 1
"""Format number of development versions. Its schema numbers are not those of releases."""

DEVELOPMENT_SCHEMA = 34
"""The last schema number of development versions; its rows have the shape of released schema 1.

Exports with these numbers stay readable: they are the way out of a database of that time.
"""

MOST_LINES = 500
MOST_CHARACTERS = 4_000_000
"""Maximum number of characters of a batch; a longer line is a batch of its own."""

LONGEST_LINE = 300_000_000
"""Maximum bytes of a line; a value of PostgreSQL has at most 268 million."""

MOST_DIGITS = 20

_BOM = "\ufeff"


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The first line. model, dimensions: of the vectors in the export, None without vectors."""

    export_scope: ExportScope
    schema_version: int = SCHEMA_VERSION
    model: str | None = None
    dimensions: int | None = None

    def as_line(self) -> str:
        """Return it as a line."""
        of = {"app": self.export_scope.app, "user": self.export_scope.user}
        vectors = {"model": self.model, "dimensions": self.dimensions} if self.model else None
        return to_json(
            {
                "hippocampus_export": FORMAT,
                "schema_version": self.schema_version,
                "of": of,
                "vectors": vectors,
            }
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class EndLine:
    """The last line. rows: number of rows before it."""

    rows: int

    def as_line(self) -> str:
        """Return it as a line."""
        return to_json({"end": True, "rows": self.rows})


def export_scope_of(scope: Scope | None, app: str | None) -> ExportScope:
    """Return the scope of an export. Raises InvalidInput unless exactly one argument is set."""
    if (scope is None) == (app is None):
        raise InvalidInput("pass either a scope, or an application with app=..., not both")
    if scope is not None:
        path = scope_path(scope)
        return ExportScope(app=scope.app, user=scope.user, path=path)
    check_label(app, "app")
    return ExportScope(app=str(app), user=None, path=to_path((str(app),)))


def row_line(row: ExportedRow) -> str:
    """Return a row as a line. Its JSON text is kept verbatim, so long numbers stay exact."""
    return f'{{"table": "{row.table}", "row": {row.text}}}'


def read_rows(batch: RowBatch, now: datetime, names: Collection[str] = ()) -> list[Values]:
    """Return the rows of a batch with columns of the table; missing ones have their defaults.

    names: the columns to read; by default all. Raises InvalidInput, naming column and value, for a
    row that does not fit its table.
    """
    table, columns = batch.table, tables()[batch.table].columns
    if unknown := [name for name in batch.columns if name not in columns]:
        raise InvalidInput(
            f"{table} has no {', '.join(map(repr, unknown))}: a newer version wrote this, upgrade"
            " with pip install -U pg-hippocampus"
        )
    missing = [columns[name] for name in columns if name not in batch.columns]
    defaults = {one.name: f'"{now}"' if one.default == NOW else one.default for one in missing}
    tokens = {name: default for name, default in defaults.items() if default is not None}
    read = [columns[name] for name in names or columns]
    return [
        {column.name: _read_column(table, column, fields) for column in read}
        for fields in ({**tokens, **fields_of(line)} for line in batch.lines)
    ]


def _read_column(table: str, column: Column, fields: Mapping[str, str]) -> Any:
    """Return the value of a column from the JSON texts of a row. Raises InvalidInput."""
    value = read_value(column.name, column.type, fields.get(column.name, "null"))
    if value is None:
        if not column.is_nullable:
            raise InvalidInput(
                f'it does not fit its table: null value in column "{column.name}" of {table}'
            )
    elif (column.choices is not None and value not in column.choices) or (
        column.low > -math.inf and not column.low <= value <= column.high
    ):
        raise InvalidInput(
            f"it does not fit its table: {column.name} {value!r:.80} of {table} violates check"
            " constraint"
        )
    return value


def opened(path: Path) -> BinaryIO:
    """Return a file of an export, to be read more than once.

    Raises:
        NotFound: it cannot be read.
        InvalidInput: it is a device, a pipe or the like.
    """
    try:
        is_whole = path.is_file() or path.is_dir() or not path.exists()
        if is_whole:
            with path.open("rb") as file:
                file.read(1)  # files such as /proc/self/mem open, and cannot be read
    except OSError as error:
        raise NotFound(f"the file {str(path)!r} cannot be read: {error.strerror}") from error
    except ValueError as error:  # NUL, or a lone surrogate
        raise NotFound(f"{str(path)!r:.80} is no name of a file: {error}") from error
    if not is_whole:
        raise InvalidInput(
            f"{str(path)!r} is a device or a pipe, and an import reads its file more than once:"
            " save the export as a file, and give that"
        )
    return path.open("rb")


def lines_of(file: BinaryIO, name: str) -> Iterator[bytes]:
    """Yield the lines of an export. Raises InvalidInput for one that would fill the memory."""
    while line := file.readline(LONGEST_LINE + 1):
        if len(line) > LONGEST_LINE:
            raise InvalidInput(
                f"{name} has a line of more than {LONGEST_LINE // 1_000_000} MB, which no export"
                " has: give the file that hippocampus export wrote"
            )
        yield line


class LineReader:
    """Reads the lines of one export in order. An error names the line and column of the fault.

    name: name of the file, for errors. receipts: ids of the erasures whose receipts it has read.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.receipts: set[str] = set()
        self._rows = 0
        self._ended = False
        self._number = 0
        self._table = 0
        self.header: Header | None = None

    def batches(self, lines: Iterable[bytes | str]) -> Iterator[RowBatch]:
        """Yield batches of rows with the same table and columns, in order.

        The header is set before the first batch. Raises InvalidInput for a faulty line, and at the
        end for a truncated export.
        """
        waiting: list[tuple[int, str]] = []
        kind: tuple[str, tuple[str, ...]] = ("", ())
        size = 0
        for line in lines:
            self._number += 1
            text = self._decoded(line).rstrip("\r\n")
            if not text.strip():
                continue
            found = self._read(text)
            if found is None:
                continue
            full = len(waiting) >= MOST_LINES or size + len(text) > MOST_CHARACTERS
            if waiting and (found != kind or full):
                yield _batch(kind, waiting)
                waiting, size = [], 0
            kind = found
            waiting.append((self._number, text))
            size += len(text)
        if self.header is None:
            raise InvalidInput(f"{self.name} is empty, not an export")
        if not self._ended:
            raise InvalidInput(
                f"{self.name} was cut off after line {self._number}: the last line with the number"
                " of rows is missing; export again"
            )
        if waiting:
            yield _batch(kind, waiting)

    def _read(self, text: str) -> tuple[str, tuple[str, ...]] | None:
        """Return table and columns of the row on a line, or None for the first and last line."""
        found = self._parsed(text)
        if self.header is None:
            self.header = self._header(found)
            return None
        if self._ended:
            raise self._bad("follows the last line of the export: two files in one?")
        if found.get("end") is True:
            if found.get("rows") != self._rows:
                raise self._bad(
                    f"counts {found.get('rows')!r} rows before it, but there are {self._rows}:"
                    " lines were lost or added; export again"
                )
            self._ended = True
            return None
        self._rows += 1
        return self._row(found)

    def _row(self, found: dict[str, Any]) -> tuple[str, tuple[str, ...]]:
        table, row = found.get("table"), found.get("row")
        if table not in TABLES:
            raise self._bad(f"names an unknown table: {table!r}")
        if not isinstance(row, dict):
            raise self._bad("holds no row: 'row' must be an object")
        place = TABLES.index(table)
        if table == RECEIPTS:  # refer to nothing; older exports hold them late
            if not all(isinstance(row.get(name), dict) for name in ("target", "counts")):
                raise self._bad("holds no receipt: 'target' and 'counts' must be objects")
            self.receipts.add(str(row.get("erasure_id")))
        elif place < self._table:
            raise self._bad(f"comes too late: {table} must come before {TABLES[self._table]}")
        self._table = max(place, self._table)
        assert self.header is not None
        path, tenant = self.header.export_scope.path, row.get("tenant_id")
        if not isinstance(tenant, str) or not tenant.startswith(path):
            raise self._bad(
                f"belongs to {tenant!r}, but the first line says that all rows belong to {path!r}"
            )
        if not _may_own(tenant, table):
            raise self._bad(f"belongs to {tenant!r}, but {table} belong to one user: /APP/USER/")
        return table, tuple(sorted(row))

    def _header(self, found: dict[str, Any]) -> Header:
        form, of, vectors = found.get("hippocampus_export"), found.get("of"), found.get("vectors")
        schema = found.get("schema_version")
        if form is None:
            raise self._bad("is not the first line of an export of hippocampus")
        known = form in (DEVELOPMENT_FORMAT, FORMAT) and type(form) is int
        newest = DEVELOPMENT_SCHEMA if form == DEVELOPMENT_FORMAT else SCHEMA_VERSION
        if not known or type(schema) is not int or schema > newest:
            raise self._bad(
                f"names format {form!r} and schema {schema!r}; this version reads up to format"
                f" {FORMAT} and schema {SCHEMA_VERSION}: pip install -U pg-hippocampus"
            )
        try:
            app, user = of["app"], of["user"]  # type: ignore[index] # anything else is refused
            scope = None if user is None else Scope(app, user)
            export_scope = export_scope_of(scope, app if scope is None else None)
            model = None if vectors is None else str(vectors["model"])
            dimensions = None if vectors is None else int(vectors["dimensions"])
        except (TypeError, KeyError, ValueError, InvalidInput) as error:
            raise self._bad(f"lacks the application, the user or the model: {error}") from error
        return Header(
            export_scope=export_scope, schema_version=schema, model=model, dimensions=dimensions
        )

    def _decoded(self, line: bytes | str) -> str:
        if isinstance(line, bytes):
            try:
                line = line.decode()
            except UnicodeDecodeError as error:
                raise self._bad("is no UTF-8", error.start + 1) from error
        if not isinstance(line, str):
            raise self._bad(f"must be a text, got {shown(line)}")
        return line.removeprefix(_BOM) if self._number == 1 else line

    def _parsed(self, text: str) -> dict[str, Any]:
        try:
            found = json.loads(text, parse_int=_number, parse_float=str, parse_constant=_refuse)
        except json.JSONDecodeError as error:
            raise self._bad(f"is no JSON: {error.msg}", error.colno) from error
        except (RecursionError, ValueError) as error:
            raise self._bad(f"cannot be read: {error}") from error
        if not isinstance(found, dict):
            raise self._bad("is not a JSON object")
        return found

    def _bad(self, what: str, column: int | None = None) -> InvalidInput:
        at = f", column {column}" if column else ""
        return InvalidInput(f"{self.name}, line {self._number}{at}: it {what}")


def _batch(kind: tuple[str, tuple[str, ...]], waiting: list[tuple[int, str]]) -> RowBatch:
    return RowBatch(
        table=kind[0],
        columns=kind[1],
        lines=[text for _, text in waiting],
        numbers=[number for number, _ in waiting],
    )


def _number(digits: str) -> int | str:
    """Return a number, or the digits of one too long for Python; PostgreSQL reads those."""
    return int(digits) if len(digits) < MOST_DIGITS else digits


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not a JSON number")


def _may_own(tenant: str, table: str) -> bool:
    """Return whether a tenant may have rows in a table: two labels, in some tables also one."""
    labels = from_path(tenant)
    if to_path(labels) != tenant or not all(labels):
        return False
    if table in WITHOUT_USER and len(labels) == 1:
        return True
    return len(labels) == 2 and (table in WITHOUT_USER or all(map(str.strip, labels)))
