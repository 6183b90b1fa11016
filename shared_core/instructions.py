"""Procedural memory: instructions that an agent may rewrite, and that can be taken back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from shared_core.domain import JsonValue, Namespace, Scope
from shared_core.errors import InvalidInput, NotFound
from shared_core.instruction_ports import Instruction, InstructionStorage
from shared_core.item_ports import Item
from shared_core.jsontext import check_json
from shared_core.namespaces import check_label, clean_text, scope_path

INSTRUCTIONS = "instructions"
"""The third label of the namespace (app, user, "instructions")."""

TEXT_FIELDS = ("content", "instructions", "prompt", "text")
"""Where a value holds the words of an instruction; the first that holds text counts."""

MAX_VERSIONS = 1_000


def instructions_namespace(scope: Scope) -> Namespace:
    """Return the namespace in which a store finds the instructions of a scope."""
    return (scope.app, scope.user, INSTRUCTIONS)


def instructions_scope(namespace: Namespace) -> Scope | None:
    """Return whose instructions a namespace holds; None if it holds none."""
    if len(namespace) == 3 and namespace[2] == INSTRUCTIONS:
        return Scope(namespace[0], namespace[1])
    return None


def as_item(instruction: Instruction) -> Item:
    """Return a version as an item of a key-value face."""
    return Item(
        namespace=instructions_namespace(instruction.scope),
        key=instruction.key,
        value=instruction.value,
        created_at=instruction.created_at,
        updated_at=instruction.written_at,
        has_ttl=False,
    )


class Instructions:
    """Instructions by key, each with all its versions: the newest counts.

    A value is a JSON object, as in a LangGraph store. For what holds for all users of an
    application take a user of its own, e.g. Scope("my_app", "everyone").
    """

    def __init__(
        self, storage: InstructionStorage, open_memory: Callable[[], Awaitable[None]]
    ) -> None:
        self._storage = storage
        self._open = open_memory

    async def write(self, scope: Scope, key: str, value: Mapping[str, JsonValue]) -> Instruction:
        """Make a new version; what the newest says already makes none. Return the newest."""
        check_json(value, f"instruction {key!r}")
        await self._ready(scope, key)
        return await self._storage.add_instruction(scope, key, value, _words(value))

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

        Raises NotFound if there is no such version.
        """
        await self._ready(scope, key)
        known = await self._storage.instruction_versions(scope, key, MAX_VERSIONS)
        if version is None:
            version = known[0].version - 1 if known else 0
        if version not in {one.version for one in known}:
            there = f"versions {known[-1].version} to {known[0].version}" if known else "none"
            raise NotFound(f"instruction {key!r} has no version {version}: there are {there}")
        newest = await self._storage.restore_instruction(scope, key, version)
        if newest is None:
            raise NotFound(f"instruction {key!r} was deleted meanwhile")
        return newest

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


def _words(value: Mapping[str, JsonValue]) -> str:
    texts = (value.get(name) for name in TEXT_FIELDS)
    return clean_text(next((text for text in texts if isinstance(text, str)), ""))
