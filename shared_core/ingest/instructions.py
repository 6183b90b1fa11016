"""Procedural memory: instructions that an agent may rewrite, and that can be taken back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shared_core.core.domain import JsonValue, Scope
from shared_core.core.json_text import to_json
from shared_core.core.namespaces import check_label, instructions_namespace, scope_path
from shared_core.errors import InvalidInput, NotFound
from shared_core.ingest.items import draft
from shared_core.lifecycle import Handle
from shared_core.ports.items import Instruction, WriteItem
from shared_core.ports.storage import Storage

MAX_VERSIONS = 1_000


class Instructions:
    """Instructions by key, each with all its versions: the newest counts.

    The newest version is the item that a store finds by the same key in the namespace
    (app, user, "instructions"), and a put there is a write here. For what holds for all users of
    an application take a user of its own, e.g. Scope("my_app", "everyone").
    """

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    async def write(self, scope: Scope, key: str, value: Mapping[str, JsonValue]) -> Instruction:
        """Make a new version; what the newest says already makes none. Return the newest."""
        scope_path(scope)
        address = (instructions_namespace(scope), key)
        new = draft(WriteItem(address=address, value=value), self._handle.clock())
        storage = await self._handle.storage()
        vectors = await self._handle.embedding.rows(
            [(address, field, text) for field, text in new.texts.items()]
        )
        return await storage.instructions.put_instruction(new.row, vectors)

    async def read(self, scope: Scope, key: str) -> Instruction | None:
        """Return the newest version; None if there is none."""
        storage = await self._ready(scope, key)
        newest = await storage.instructions.instruction_versions(scope, key, 1)
        return newest[0] if newest else None

    async def history(self, scope: Scope, key: str, *, limit: int = 100) -> Sequence[Instruction]:
        """Return the versions, newest first."""
        if not 0 < limit <= MAX_VERSIONS:
            raise InvalidInput(f"limit must be between 1 and {MAX_VERSIONS:,}, got {limit}")
        storage = await self._ready(scope, key)
        return await storage.instructions.instruction_versions(scope, key, limit)

    async def rollback(self, scope: Scope, key: str, version: int | None = None) -> Instruction:
        """Make a new version that says what an earlier one said, and return it.

        version: the number of that one. Left out, it is the one before what holds now, and a second
        rollback goes one further back: a version that says what an earlier one said takes back all
        that came between. Reaches the last 1,000 versions. Raises NotFound if there is no such
        version, or no instruction.
        """
        storage = await self._ready(scope, key)
        known = await storage.instructions.instruction_versions(scope, key, MAX_VERSIONS)
        if not known:
            raise NotFound(
                f"no instruction {key!r} of user {scope.user!r} in {scope.app!r}: there is none to"
                " roll back before the first is written"
            )
        if version is None:
            steps = _steps(known)
            if len(steps) == 1:
                raise NotFound(
                    f"instruction {key!r} says what version {steps[0].version} said, and there is"
                    " nothing before it: name the version to go to"
                )
            return await self.write(scope, key, steps[-2].value)
        for earlier in known:
            if earlier.version == version:
                return await self.write(scope, key, earlier.value)
        raise NotFound(
            f"instruction {key!r} has no version {version}: there are versions"
            f" {known[-1].version} to {known[0].version}"
        )

    async def list(
        self, scope: Scope, *, limit: int = 100, offset: int = 0
    ) -> Sequence[Instruction]:
        """Return the newest version of each, the one that changed last first."""
        if limit < 0 or offset < 0:
            raise InvalidInput(f"limit and offset must be from 0, got {limit} and {offset}")
        scope_path(scope)
        storage = await self._handle.storage()
        return await storage.instructions.newest_instructions(scope, limit, offset)

    async def delete(self, scope: Scope, key: str) -> int:
        """Delete an instruction with all its versions; return how many went."""
        storage = await self._ready(scope, key)
        return await storage.instructions.drop_instruction(scope, key)

    async def _ready(self, scope: Scope, key: str) -> Storage:
        scope_path(scope)
        check_label(key, "the key of an instruction")
        return await self._handle.storage()


def _steps(newest_first: Sequence[Instruction]) -> list[Instruction]:
    """Return the versions that led to what holds now, without what was taken back, oldest first."""
    steps: dict[str, Instruction] = {}
    for one in reversed(newest_first):
        said = to_json(one.value)
        while said in steps:
            steps.popitem()
        steps[said] = one
    return list(steps.values())
