"""Procedural memory: instructions that an agent may rewrite, and that can be taken back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from shared_core.domain import JsonValue, Scope
from shared_core.embedding import Embedding
from shared_core.errors import InvalidInput, NotFound
from shared_core.instruction_ports import Instruction
from shared_core.item_drafts import draft
from shared_core.item_ops import WriteItem
from shared_core.namespaces import check_label, instructions_namespace, scope_path
from shared_core.ports import Clock, Storage

MAX_VERSIONS = 1_000


class Instructions:
    """Instructions by key, each with all its versions: the newest counts.

    The newest version is the item that a store finds by the same key in the namespace
    (app, user, "instructions"), and a put there is a write here. For what holds for all users of
    an application take a user of its own, e.g. Scope("my_app", "everyone").
    """

    def __init__(
        self,
        storage: Storage,
        embedding: Embedding,
        clock: Clock,
        open_memory: Callable[[], Awaitable[None]],
    ) -> None:
        self._storage = storage
        self._embedding = embedding
        self._clock = clock
        self._open = open_memory

    async def write(self, scope: Scope, key: str, value: Mapping[str, JsonValue]) -> Instruction:
        """Make a new version; what the newest says already makes none. Return the newest."""
        scope_path(scope)
        address = (instructions_namespace(scope), key)
        new = draft(WriteItem(address=address, value=value), self._clock())
        await self._open()
        vectors = await self._embedding.rows(
            [(address, field, text) for field, text in new.texts.items()]
        )
        return await self._storage.put_instruction(new.row, vectors)

    async def read(self, scope: Scope, key: str) -> Instruction | None:
        """Return the newest version; None if there is none."""
        await self._ready(scope, key)
        newest = await self._storage.instruction_versions(scope, key, 1)
        return newest[0] if newest else None

    async def history(self, scope: Scope, key: str, *, limit: int = 100) -> Sequence[Instruction]:
        """Return the versions, newest first."""
        if not 0 < limit <= MAX_VERSIONS:
            raise InvalidInput(f"limit must be from 1 to {MAX_VERSIONS}, not {limit}")
        await self._ready(scope, key)
        return await self._storage.instruction_versions(scope, key, limit)

    async def rollback(self, scope: Scope, key: str, version: int | None = None) -> Instruction:
        """Make a new version that says what an earlier one said, by default the one before.

        Reaches the last 1,000 versions. Raises NotFound if there is no such version.
        """
        await self._ready(scope, key)
        known = await self._storage.instruction_versions(scope, key, MAX_VERSIONS)
        if version is None:
            version = known[0].version - 1 if known else 0
        for earlier in known:
            if earlier.version == version:
                return await self.write(scope, key, earlier.value)
        there = f"versions {known[-1].version} to {known[0].version}" if known else "none"
        raise NotFound(f"instruction {key!r} has no version {version}: there are {there}")

    async def list(
        self, scope: Scope, *, limit: int = 100, offset: int = 0
    ) -> Sequence[Instruction]:
        """Return the newest version of each, the one that changed last first."""
        if limit < 0 or offset < 0:
            raise InvalidInput("limit and offset must not be negative")
        scope_path(scope)
        await self._open()
        return await self._storage.newest_instructions(scope, limit, offset)

    async def delete(self, scope: Scope, key: str) -> int:
        """Delete an instruction with all its versions; return how many went."""
        await self._ready(scope, key)
        return await self._storage.drop_instruction(scope, key)

    async def _ready(self, scope: Scope, key: str) -> None:
        scope_path(scope)
        check_label(key, "the key of an instruction")
        await self._open()
