"""The base of all parts of OceanBaseStorage: database, clock, strength."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar

from shared_core.core.retention_policy import Strength
from shared_core.ports.storage import Clock
from shared_core.storage.oceanbase.connection.database import OceanBaseDatabase
from shared_core.storage.oceanbase.connection.transactions import Transaction

S = TypeVar("S", bound="OceanBasePart")
T = TypeVar("T")
P = ParamSpec("P")


class OceanBasePart:
    """A part of the storage port; storage.OceanBaseStorage composes all parts."""

    def __init__(
        self, database: OceanBaseDatabase, clock: Clock, strength: Strength | None = None
    ) -> None:
        self._database = database
        self._clock = clock
        self._strength = strength


def reading(
    method: Callable[Concatenate[S, Transaction, P], T],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """Run a method as one transaction that reads a snapshot (database.read)."""

    async def call(part: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await part._database.read(lambda tx: method(part, tx, *args, **kwargs))

    return call


def writing(
    method: Callable[Concatenate[S, Transaction, P], T],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """Run a method as one transaction that writes (database.write); it may run more than once."""

    async def call(part: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await part._database.write(lambda tx: method(part, tx, *args, **kwargs))

    return call
