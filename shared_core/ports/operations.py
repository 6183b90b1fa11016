"""Operations as values, and policies that yield them: the one seam to a storage engine.

A policy is a generator function. It yields batches of operations and is sent the rows of each; what
it yields in `Last` is committed with the same message:

    def drop_versions(key: str) -> Policy[int]:
        where = (equal("instruction_key", key),)
        [rows] = yield [Select("instructions", ("version",), where)]
        yield Last([Delete("instructions", where)])
        return len(rows)

It never touches a connection, so an engine may run it again from its start after a deadlock or a
lost connection, a blocking driver runs it as well as an async one, and a test runs it on
dictionaries. The tenant stands in no operation: the engine adds it at every level.

Values of a column have one Python type on every engine: text is str, uuid is UUID, timestamptz an
aware datetime in UTC, jsonb and json what json.loads returns, text[] a list of str, boolean bool,
bytea bytes. terms is read as opaque text, which can be written to another row; a list of words is
written as the engine stores them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeAlias, TypeVar

T = TypeVar("T")
Row: TypeAlias = tuple[Any, ...]
Comparison: TypeAlias = Literal[
    "=", "<>", "<", "<=", ">", ">=", "in", "null", "not null", "prefix", "null or >"
]


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison of a column with a value, or of several columns with a tuple of values.

    All conditions of an operation hold together. Several columns: "in" and ">" alone.
    """

    columns: tuple[str, ...]
    comparison: Comparison
    value: Any = None


def equal(column: str, value: object) -> Condition:
    """The column has the value."""
    return Condition((column,), "=", value)


def compare(column: str, comparison: Comparison, value: object) -> Condition:
    """The column compares with the value in this way."""
    return Condition((column,), comparison, value)


def one_of(column: str, values: Sequence[object]) -> Condition:
    """The column has one of the values; none if there are no values."""
    return Condition((column,), "in", values)


def one_of_rows(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Condition:
    """The columns together have the values of one of the rows."""
    return Condition(tuple(columns), "in", rows)


def after(columns: Sequence[str], row: Sequence[object]) -> Condition:
    """The columns together sort behind the row: the next page."""
    return Condition(tuple(columns), ">", row)


def is_null(column: str) -> Condition:
    """The column has no value."""
    return Condition((column,), "null")


def is_not_null(column: str) -> Condition:
    """The column has a value."""
    return Condition((column,), "not null")


def begins_with(column: str, text: str) -> Condition:
    """The column begins with the text."""
    return Condition((column,), "prefix", text)


def open_after(column: str, moment: datetime) -> Condition:
    """The column, an end, has no value or a later one than the moment."""
    return Condition((column,), "null or >", moment)


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An aggregate of the selected rows, one row for each value of the plain columns selected.

    "bytes" is the sum of a text's bytes in UTF-8, 0 for no rows; "count" takes no column.
    """

    function: Literal["count", "max", "min", "sum", "bytes"]
    column: str = ""


@dataclass(frozen=True, slots=True)
class Member:
    """What stands in a JSON column under the names of a path; None if nothing does."""

    column: str
    path: tuple[str, ...]

    def of(self, value: Any) -> Any:
        """Return the member of a value of the column."""
        for name in self.path:
            if not isinstance(value, dict):
                return None
            value = value.get(name)
        return value


@dataclass(frozen=True, slots=True)
class Join:
    """Another table of the same tenant, looked up by its key for each row.

    on: pairs (column of the rows so far, column of the table). is_left: rows without a partner
    stay, with nulls.
    """

    table: str
    alias: str
    on: tuple[tuple[str, str], ...]
    is_left: bool = False


@dataclass(frozen=True, slots=True)
class Select:
    """Rows of a table (alias "t") and of tables joined to it by keys; at most three joins.

    Attributes:
        columns: "name", "alias.name", an Aggregate, or a Member of a JSON column.
        order: columns to sort by, "-name" for descending. Never a column that may be null, and of
            texts only ids and keys: engines sort others differently.
        is_distinct: equal rows once.
        above: rows of the tenant, of its application and of "/" as well; without joins.
        lock: "update" holds the rows until the transaction ends, "skip" also leaves out rows that
            others hold; without joins and aggregates.
    """

    table: str
    columns: tuple[str | Aggregate | Member, ...]
    where: tuple[Condition, ...] = ()
    joins: tuple[Join, ...] = ()
    order: tuple[str, ...] = ()
    limit: int | None = None
    is_distinct: bool = False
    above: bool = False
    lock: Literal["update", "skip"] | None = None


@dataclass(frozen=True, slots=True)
class Insert:
    """Rows to add.

    exists: what becomes of a row whose primary key exists: Conflict is raised ("error"), the stored
    row stays ("keep"), or its columns named in `update` get the new values ("update").
    """

    table: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[object]]
    exists: Literal["error", "keep", "update"] = "error"
    update: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Update:
    """The same new values for all rows that fit.

    returning: columns of the rows, as they are now.
    """

    table: str
    values: Mapping[str, object]
    where: tuple[Condition, ...]
    returning: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class UpdateEach:
    """Values of its own for each row, named by its key. rows: key columns, then the others."""

    table: str
    key: tuple[str, ...]
    columns: tuple[str, ...]
    rows: Sequence[Sequence[object]]


@dataclass(frozen=True, slots=True)
class Delete:
    """Deletes rows, and by foreign keys what hangs on them. returning: columns of the rows."""

    table: str
    where: tuple[Condition, ...]
    returning: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Verb:
    """A statement that an engine keeps for itself, as a part of a transaction.

    name, arguments and rows:
        append_turns: thread_id, rows (EventRow). The ids of the turns that are new.
        put_items: rows (MemoryRow). None.
        add_vectors: vectors (VectorRows or None). None.
        exclude_appends: no arguments. Appends of turns and inputs to the tenant wait until the
            transaction ends. None.
        enqueue: thread_id, job (NewJob), changed_at: if given, the job waits only if the thread
            changed at this moment. None.
    """

    name: str
    arguments: tuple[Any, ...]


Operation: TypeAlias = Select | Insert | Update | UpdateEach | Delete | Verb


@dataclass(frozen=True, slots=True)
class Last:
    """The last batch of a policy: it travels with COMMIT in one message.

    No rows are sent back: what a policy returns is known before the commit, so a caller whose
    answer was lost can still be told what happened.
    """

    operations: Sequence[Operation]


Batch: TypeAlias = Sequence[Operation] | Last
Policy: TypeAlias = Generator[Batch, list[list[Row]], T]
"""Later batches see what a batch wrote, and nobody else does before `Last`. A policy that ends
without `Last` writes nothing."""
PolicyFactory: TypeAlias = Callable[[], Policy[T]]
"""Makes a policy anew for each attempt."""
Lock: TypeAlias = Literal["wait", "skip", "none"]
"""How a transaction takes its tenants' locks: it waits, it raises TenantBusy, or it takes none."""


class TenantBusy(Exception):
    """Another transaction holds the lock of a tenant; raised with lock="skip" alone."""
