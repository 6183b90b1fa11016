"""Converts parts of a scope to LangGraph's namespace labels and back, without loss. Pure.

LangGraph forbids "." in a label, but user ids are often e-mail addresses. So "." becomes "%2E" in a
label, and "%2E" becomes "%252E". Every other text stays unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from langgraph.store.base import InvalidNamespaceError

from shared_core.core import (
    Namespace,
    Scope,
    check_label,
    memories_namespace as core_memories_namespace,
    profile_namespace as core_profile_namespace,
    scope_path,
    shown,
)
from shared_core.errors import InvalidInput
from shared_core.profiles import Subject

_ESCAPED_DOT = re.compile(r"%((?:25)*)2E")


@lru_cache(maxsize=4096)
def to_label(part: str) -> str:
    """Return the label for a part of a scope or namespace."""
    return _ESCAPED_DOT.sub(r"%25\g<1>2E", part).replace(".", "%2E")


@lru_cache(maxsize=4096)
def from_label(label: str) -> str:
    """Return the part for a label; the inverse of to_label."""

    def unescape(match: re.Match[str]) -> str:
        return f"%{match[1][2:]}2E" if match[1] else "."

    return _ESCAPED_DOT.sub(unescape, label)


@lru_cache(maxsize=4096)
def to_labels(namespace: Namespace) -> tuple[str, ...]:
    """Return the namespace with LangGraph's labels."""
    return tuple(to_label(part) for part in namespace)


def from_labels(labels: Sequence[str]) -> Namespace:
    """Return the namespace behind LangGraph's labels."""
    return tuple(from_label(label) for label in labels)


def memories_namespace(app_name: str, user_id: str) -> tuple[str, ...]:
    """Return the namespace of a user's memories, which both frameworks share.

    For ids without dots it is (app_name, user_id, "memories").

    Raises:
        InvalidInput: for ids that cannot be stored (empty, NUL, lone surrogates).
    """
    scope = Scope(app_name, user_id)
    scope_path(scope)
    return to_labels(core_memories_namespace(scope))


def profile_namespace(
    app_name: str, user_id: str, agent_id: str, *, subject: Subject = "user"
) -> tuple[str, ...]:
    """Return the namespace that exposes a stored profile of the user or of an agent.

    Its key "profile" holds the paragraph and the events; search finds every sentence and event as
    an item. A store only reads it: engine.profiles writes it. Deleting an item removes it from the
    profile.

    Raises:
        InvalidInput: for ids that cannot be stored.
    """
    scope = Scope(app_name, user_id)
    scope_path(scope)
    return to_labels(core_profile_namespace(scope, subject, check_label(agent_id, "agent_id")))


def check_labels(labels: object, what: str) -> None:
    """Raise ValueError, naming what, unless labels is a sequence of texts.

    LangGraph itself fails on some other values, and on showing others in its error.
    """
    if isinstance(labels, tuple) and all(isinstance(label, str) for label in labels):
        return
    if isinstance(labels, str) or not isinstance(labels, Sequence):
        raise InvalidInput(f"{what} must be a tuple of labels, got {shown(labels)}")
    for label in labels:
        if not isinstance(label, str):
            raise InvalidNamespaceError(f"a label of {what} must be a string, got {shown(label)}")


def with_label_hint(error: InvalidNamespaceError) -> InvalidNamespaceError:
    """Return LangGraph's error for a label, with a hint if the label has dots."""
    if "periods" not in str(error) or "%2E" in str(error):
        return error
    return InvalidNamespaceError(
        f"{error} For an e-mail address or another id with dots take"
        " langgraph_store.memories_namespace(app, user), or write each '.' as '%2E'."
    )
