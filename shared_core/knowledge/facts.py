"""The verbs of MemoryEngine that read facts, as of any moment, and correct them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from shared_core.core.domain import AsOf, Scope
from shared_core.core.timestamps import check_as_of
from shared_core.errors import InvalidInput
from shared_core.knowledge import corrections
from shared_core.knowledge.stated import Stating
from shared_core.nlp.slots import near_slot, near_slot_message, slot_name
from shared_core.ports.runs import Fact
from shared_core.ports.storage import Clock, Storage


class FactVerbs:
    """Facts of a scope: which held when, and ends of them."""

    _storage: Storage
    _clock: Clock
    _stating: Stating

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
        as_of: those that held at a moment, as they were known at a moment. Of a slot nobody knows
        there are none; one that is a known slot but for a letter, and has none, is refused by name.
        """
        check_as_of(as_of)
        if not isinstance(slot, str):
            raise InvalidInput(f"slot must be a text, e.g. 'employer', not {slot!r}")
        await self.open()
        name = slot_name(slot)
        found = await self._storage.list_facts(scope, slot=name, history=history, as_of=as_of)
        if (
            name
            and not found
            and near_slot(name)
            and not await self._storage.list_facts(scope, slot=name, history=True)
        ):
            raise InvalidInput(near_slot_message(slot, name))
        return found

    async def state_fact(
        self,
        scope: Scope,
        slot: str,
        value: str,
        *,
        subject: str | None = None,
        valid_from: datetime | None = None,
    ) -> Fact:
        """State a fact as key and value, as if the user had said it; return it as it stands.

        slot: e.g. "employer", what it may be called as well ("company", "公司"), or one of your
        own, which holds one value at a time. Of a slot with one value another one ends, as of
        valid_from; of one with several ("like") all stay; what is known already is returned as it
        is. subject: whom it is about, None for the user. valid_from: since when it holds, aware;
        now if left out. What is followed by something that began later lasts until then. A run of
        its own, which undo_run takes back. Raises InvalidInput for what is no slot, value or
        moment, and for a slot that is a known one but for a letter, which it names.
        """
        await self.open()
        return await self._stating.state(scope, slot, value, subject=subject, valid_from=valid_from)

    async def retract(
        self, scope: Scope, key: Fact | UUID | str, *, at: datetime | None = None
    ) -> Fact:
        """End a fact, given itself or by its key or memory id, as of a moment; it stays as history.

        at: aware, not before it began and not in the future; now if left out. A run of its own,
        which undo_run takes back. Raises NotFound, Conflict if it has ended already, InvalidInput
        for another moment or what is no fact.
        """
        await self.open()
        return await corrections.retract(self._storage, self._clock, scope, key, at)

    async def restore(self, scope: Scope, key: Fact | UUID | str) -> Fact:
        """Let a fact that ended hold again, whatever ended it, with what ended with it.

        Raises NotFound, InvalidInput for what is no fact, Conflict if it holds, or while a fact or
        an edge is current that cannot hold beside it, and names that one.
        """
        await self.open()
        return await corrections.restore(self._storage, scope, key)
