"""What the core asks of a storage for instructions; ports.Storage joins it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from shared_core.core.domain import JsonValue, Scope
from shared_core.ports.items import MemoryRow, VectorRows


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """One version of an instruction. created_at: of its first version; written_at: of this one."""

    scope: Scope
    key: str
    version: int
    value: Mapping[str, JsonValue]
    written_at: datetime
    created_at: datetime


class InstructionStorage(Protocol):
    """Instructions with all their versions. Every method is one transaction and one round trip."""

    async def instruction_versions(
        self, scope: Scope, key: str, limit: int
    ) -> Sequence[Instruction]:
        """Return versions, the newest first."""
        ...

    async def newest_instructions(
        self, scope: Scope, limit: int, offset: int
    ) -> Sequence[Instruction]:
        """Return the newest version of every instruction, the last that changed first."""
        ...

    async def drop_instruction(self, scope: Scope, key: str) -> int:
        """Delete an instruction, its item included; return how many versions went."""
        ...

    async def put_instruction(self, row: MemoryRow, vectors: VectorRows | None) -> Instruction:
        """Write one instruction as put_memories() does, and return its newest version."""
        ...
