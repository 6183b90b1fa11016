"""engine.instructions: instructions that an agent may rewrite, with versions and rollback."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from shared_core.core.domain import JsonValue, Scope
from shared_core.core.json_text import to_json
from shared_core.core.namespaces import check_label, instructions_namespace, scope_path
from shared_core.core.validation import whole_number
from shared_core.errors import NotFound
from shared_core.ingest.items import draft
from shared_core.lifecycle import Handle
from shared_core.policies.items import (
    drop_instruction,
    newest_instructions,
    put_instruction,
    select_versions,
    versions_of,
)
from shared_core.ports.items import Instruction, WriteItem
from shared_core.ports.storage import Storage

MOST_LISTED = 1_000_000
MAX_VERSIONS = 1_000


class Instructions:
    """Instructions by key, each with all its versions; the newest applies.

    A store shows the newest version as the item of that key in the namespace
    (app, user, "instructions"); a put there adds a version. For instructions of all users, take an
    extra user, e.g. Scope("my_app", "everyone").
    """

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    async def write(self, scope: Scope, key: str, value: Mapping[str, JsonValue]) -> Instruction:
        """Add a version unless the newest has this value; return the newest."""
        scope_path(scope)
        address = (instructions_namespace(scope), key)
        item = draft(WriteItem(address=address, value=value), self._handle.clock())
        storage = await self._handle.storage()
        vectors = await self._handle.embedding.rows(
            [(address, field, text) for field, text in item.texts.items()]
        )
        putting = partial(put_instruction, scope, item.row, vectors)
        return await storage.transact(scope_path(scope), putting)

    async def read(self, scope: Scope, key: str) -> Instruction | None:
        """Return the newest version, or None."""
        storage = await self._ready(scope, key)
        newest = await _versions(storage, scope, key, 1)
        return newest[0] if newest else None

    async def history(self, scope: Scope, key: str, *, limit: int = 100) -> Sequence[Instruction]:
        """Return the versions, newest first."""
        whole_number(limit, "limit", 1, MAX_VERSIONS)
        storage = await self._ready(scope, key)
        return await _versions(storage, scope, key, limit)

    async def rollback(self, scope: Scope, key: str, version: int | None = None) -> Instruction:
        """Add a version with the value of an earlier one, and return it.

        Args:
            version: the number of the earlier one, among the last 1,000. By default the value
                before the current one; a second rollback goes one value further back, because a
                version that repeats an earlier value undoes all versions between.

        Raises:
            NotFound: for an unknown version or instruction.
        """
        storage = await self._ready(scope, key)
        known = await _versions(storage, scope, key, MAX_VERSIONS)
        if not known:
            raise NotFound(
                f"there is no instruction {key!r} of user {scope.user!r} in {scope.app!r}: write it"
                " first"
            )
        if version is None:
            steps = _steps(known)
            if len(steps) == 1:
                raise NotFound(
                    f"instruction {key!r} has the value of version {steps[0].version}, and no"
                    " earlier one: give the version to roll back to"
                )
            return await self.write(scope, key, steps[-2].value)
        for earlier in known:
            if earlier.version == version:
                return await self.write(scope, key, earlier.value)
        raise NotFound(
            f"instruction {key!r} has no version {version}: its versions are"
            f" {known[-1].version} to {known[0].version}"
        )

    async def list(
        self, scope: Scope, *, limit: int = 100, offset: int = 0
    ) -> Sequence[Instruction]:
        """Return the newest version of each instruction, latest change first."""
        whole_number(limit, "limit", 0, MOST_LISTED)
        whole_number(offset, "offset", 0, MOST_LISTED)
        scope_path(scope)
        storage = await self._handle.storage()
        reading = partial(newest_instructions, scope, limit, offset)
        return await storage.query(scope_path(scope), reading)

    async def delete(self, scope: Scope, key: str) -> int:
        """Delete an instruction with all its versions; return their number."""
        storage = await self._ready(scope, key)
        dropping = partial(drop_instruction, scope, key, self._handle.clock())
        return await storage.transact(scope_path(scope), dropping)

    async def _ready(self, scope: Scope, key: str) -> Storage:
        scope_path(scope)
        check_label(key, "the key of an instruction")
        return await self._handle.storage()


async def _versions(storage: Storage, scope: Scope, key: str, limit: int) -> Sequence[Instruction]:
    rows, first = await storage.read(scope_path(scope), select_versions(key, limit))
    return versions_of(scope, rows, first)


def _steps(newest_first: Sequence[Instruction]) -> list[Instruction]:
    """Return the versions that led to the current value, oldest first, without undone ones."""
    steps: dict[str, Instruction] = {}
    for one in reversed(newest_first):
        value = to_json(one.value)
        while value in steps:
            steps.popitem()
        steps[value] = one
    return list(steps.values())
