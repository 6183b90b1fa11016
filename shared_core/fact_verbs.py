"""The verbs of MemoryEngine that read facts, as of any moment, and correct them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from shared_core import corrections
from shared_core.domain import AsOf, Scope
from shared_core.errors import InvalidInput
from shared_core.moments import check_as_of
from shared_core.ports import Clock, Storage
from shared_core.run_ports import Fact
from shared_core.slots import slot_name


class FactVerbs:
    """Facts of a scope: which held when, and ends of them."""

    _storage: Storage
    _clock: Clock

    async def open(self) -> None:
        raise NotImplementedError

    async def facts(
        self,
        scope: Scope,
        slot: str = "",
        *,
        history: bool = False,
        as_of: AsOf | None = None,
    ) -> Sequence[Fact]:
        """Return the facts that hold now; with history, those that ended as well.

        slot: only its values, e.g. "employer", or what a model may call it ("company", "公司").
        as_of: those that held at a moment, as they were known at a moment.
        """
        check_as_of(as_of)
        if not isinstance(slot, str):
            raise InvalidInput(f"slot must be a text, e.g. 'employer', not {slot!r}")
        await self.open()
        return await self._storage.list_facts(
            scope, slot=slot_name(slot), history=history, as_of=as_of
        )

    async def retract(self, scope: Scope, key: str, *, at: datetime | None = None) -> Fact:
        """End a fact, named by its key or memory id, as of a moment; it stays as history.

        at: aware, not before it began and not in the future; now if left out. A run of its own,
        which undo_run takes back. Raises NotFound, Conflict if it has ended already, InvalidInput
        for another moment or what is no fact.
        """
        await self.open()
        return await corrections.retract(self._storage, self._clock, scope, key, at)

    async def restore(self, scope: Scope, key: str) -> Fact:
        """Let a fact that ended hold again, whatever ended it, with what ended with it.

        Raises NotFound, InvalidInput for what is no fact, Conflict if it holds, or while a fact is
        current that cannot hold beside it, and names that one.
        """
        await self.open()
        return await corrections.restore(self._storage, scope, key)
