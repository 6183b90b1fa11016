"""engine.memory: one memory with its provenance, its retention, and what was derived from it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from uuid import UUID

from shared_core.core.domain import JsonValue, Memory, Scope
from shared_core.core.namespaces import scope_path
from shared_core.core.retention_policy import Stage
from shared_core.errors import NotFound
from shared_core.knowledge.facts import Facts, redacted_turns
from shared_core.lifecycle import Handle
from shared_core.policies.derivation import derivation
from shared_core.ports.runs import CitedTurn, Fact
from shared_core.recall.access_log import AccessLog
from shared_core.retention.service import Retention


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryDetail:
    """A memory and everything that is known about it.

    Attributes:
        memory: the memory; the text of an archived one is that of the archive.
        turns: its provenance, in the order it was said. A turn that was forgotten, set aside or
            has expired has no text.
        fact: the fact that it states, with the reasons why it is held; None if it is no fact.
        models: names of the embedding models that have a vector of it, sorted.
        stage: "kept", "demoted" or "archived".
        is_pinned: whether it never fades.
        score: its retention score now, 0 to 1. One that never fades scores as if it were new.
        leaves_stage_at: when it leaves its stage if nobody reads it; None for never.
        access_count: how often recall() and search() returned it.
        last_accessed_at: when they last did; None for never.
        bases: the memories that a reflection was drawn from, newest first.
        derived: memories drawn from it, newest first, ended ones too. Of a turn: all memories with
            the turn among their sources.
    """

    memory: Memory
    turns: tuple[CitedTurn, ...]
    fact: Fact | None
    models: tuple[str, ...]
    stage: Stage
    is_pinned: bool
    score: float
    leaves_stage_at: datetime | None
    access_count: int
    last_accessed_at: datetime | None
    bases: tuple[Memory, ...]
    derived: tuple[Memory, ...]

    @property
    def is_current(self) -> bool:
        """Whether nothing has taken its place or ended it."""
        return self.memory.superseded_at is None

    def to_dict(self) -> dict[str, JsonValue]:
        """Return a JSON object; times in ISO 8601."""
        return {
            **self.memory.to_dict(),
            "created_at": self.memory.created_at.isoformat(),
            "updated_at": self.memory.updated_at.isoformat(),
            "expires_at": _iso(self.memory.expires_at),
            "superseded_at": _iso(self.memory.superseded_at),
            "is_current": self.is_current,
            "value": self.memory.value,
            "turns": [one.to_dict() for one in self.turns],
            "fact": None if self.fact is None else self.fact.to_dict(),
            "models": list(self.models),
            "stage": self.stage,
            "is_pinned": self.is_pinned,
            "score": self.score,
            "leaves_stage_at": _iso(self.leaves_stage_at),
            "access_count": self.access_count,
            "last_accessed_at": _iso(self.last_accessed_at),
            "bases": [one.to_dict() for one in self.bases],
            "derived": [one.to_dict() for one in self.derived],
        }


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


class MemoryDetails:
    """Single memories. Call it to read one: engine.memory(scope, key)."""

    def __init__(
        self, handle: Handle, retention: Retention, facts: Facts, accesses: AccessLog
    ) -> None:
        self._handle = handle
        self._retention = retention
        self._facts = facts
        self._accesses = accesses

    async def __call__(self, scope: Scope, key: str | UUID) -> MemoryDetail:
        """Return a memory with its provenance, its retention and its relatives.

        This is the documented verb `engine.memory(...)`. Reading it is not counted as an access.

        Args:
            scope: application and user.
            key: the key or the memory id, of a current, ended or faded memory.

        Raises:
            NotFound: there is no such memory, or it has expired.
        """
        scope_path(scope)
        await self._accesses.flush()
        curve = await self._retention.curve(scope, key, points=2)
        kept, tenant = curve.kept, scope_path(scope)
        storage = await self._handle.storage()
        read = partial(derivation, scope, kept.memory_id, curve.now)
        found = await storage.query(tenant, read)
        if found is None:
            raise NotFound(f"the memory {key!r} of {scope} is gone or has expired")
        return MemoryDetail(
            memory=replace(found.memory, text=kept.text),
            turns=redacted_turns(found.turns, self._handle.sanitizer),
            fact=await self._facts.explained(scope, kept.memory_id),
            models=found.models,
            stage=kept.stage,
            is_pinned=kept.pinned,
            score=curve.score,
            leaves_stage_at=kept.forget_at,
            access_count=kept.access_count,
            last_accessed_at=kept.last_accessed_at,
            bases=found.bases,
            derived=found.derived,
        )
