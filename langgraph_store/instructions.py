"""Reads and writes versioned instructions: a graph's own prompt as memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from langgraph_store.labels import to_labels
from langgraph_store.reflection import HasEngine
from shared_core import Scope, run_sync
from shared_core.core import JsonValue, instructions_namespace as core_namespace, scope_path
from shared_core.ports import Instruction


def instructions_namespace(app: str, user_id: str) -> tuple[str, ...]:
    """Return the namespace of a user's instructions.

    For ids without dots it is (app, user, "hippocampus-instructions").

    Raises:
        InvalidInput: for ids that cannot be stored.
    """
    scope = Scope(app, user_id)
    scope_path(scope)
    return to_labels(core_namespace(scope))


def put_instruction(
    store: HasEngine, app: str, user_id: str, key: str, value: Mapping[str, JsonValue]
) -> Instruction:
    """Store a new version of an instruction, unless it equals the newest one."""
    return run_sync(store.engine.instructions.write(Scope(app, user_id), key, value))


def get_instruction(store: HasEngine, app: str, user_id: str, key: str) -> Instruction | None:
    """Return the newest version of an instruction, or None."""
    return run_sync(store.engine.instructions.read(Scope(app, user_id), key))


def instruction_history(
    store: HasEngine, app: str, user_id: str, key: str, *, limit: int = 100
) -> Sequence[Instruction]:
    """Return the versions of an instruction, newest first."""
    return run_sync(store.engine.instructions.history(Scope(app, user_id), key, limit=limit))


def rollback_instruction(
    store: HasEngine, app: str, user_id: str, key: str, version: int | None = None
) -> Instruction:
    """Store a new version that equals an earlier one: the given version, or the one before.

    Without a version, a second call goes one further back. Async code uses
    store.engine.instructions with Scope(app, user_id).

    Raises:
        NotFound: for an unknown version or instruction.
    """
    return run_sync(store.engine.instructions.rollback(Scope(app, user_id), key, version))
