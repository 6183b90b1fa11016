"""Converts namespaces to text paths, and finds the tenant that owns a path. Pure.

A namespace is a tuple of labels. In the database it is one text: "/" + label + "/" + ... + "/",
each label with "%" and "/" escaped. A prefix of whole labels is therefore a prefix of the text:
("foo",) is "/foo/", which is no prefix of "/foobar/".

The tenant of a namespace is the path of its first two labels. For agent memory these are the
application and the user, so a tenant is exactly a Scope.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from shared_core.core.domain import Namespace, Scope
from shared_core.core.shown import shown
from shared_core.errors import InvalidInput

MEMORIES = "memories"
"""Third label of the namespace of a scope's memories, which both frameworks share."""

INSTRUCTIONS = "hippocampus-instructions"
"""Third label of the namespace of a scope's instructions; each put there adds a version."""

PROFILE = "hippocampus-profile"
"""Third label of the namespaces that expose profiles."""

ROOT = "/"
"""The path of the empty namespace: everything."""

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_AFTER_SLASH = chr(ord("/") + 1)


def check_label(label: object, what: str) -> str:
    """Return label unchanged; what names it in errors, e.g. "user_id".

    Raises InvalidInput unless it is a non-empty str without NUL and lone surrogates.
    """
    if not isinstance(label, str):
        raise InvalidInput(f"{what} must be a string, got {type(label).__name__}: {shown(label)}")
    if not label:
        raise InvalidInput(f"{what} must not be empty")
    if _UNSTORABLE.search(label):
        raise InvalidInput(
            f"{what} holds a NUL byte or a lone surrogate, which cannot be stored: {shown(label)}"
        )
    return label


def storable(text: str) -> bool:
    """Return whether PostgreSQL can store text: no NUL, no lone surrogate."""
    try:
        text.encode()  # a tenth of the time of an expression, and none for plain ASCII
    except UnicodeEncodeError:
        return False
    return "\0" not in text


def clean_text(text: str) -> str:
    """Return text with U+FFFD for every NUL and lone surrogate; PostgreSQL stores neither."""
    return text if storable(text) else _UNSTORABLE.sub("\ufffd", text)


def to_path(labels: Sequence[str]) -> str:
    """Return the text path of a namespace; "/" for the empty one."""
    return ROOT + "".join(f"{_escape(label)}/" for label in labels)


@lru_cache(maxsize=4096)
def from_path(path: str) -> Namespace:
    """Return the labels of a text path; the inverse of to_path."""
    return tuple(_unescape(part) for part in path[1:-1].split("/")) if path != ROOT else ()


def path_end(path: str) -> str:
    """Return the least text above every path that starts with path, in byte order."""
    return path[:-1] + _AFTER_SLASH


def tenant_of(labels: Sequence[str]) -> str:
    """Return the tenant that owns a namespace: the path of its first two labels."""
    return to_path(labels[:2])


def rest_of(labels: Sequence[str]) -> str:
    """Return the path of a namespace below its tenant: of all labels after the second."""
    return to_path(labels[2:])


def check_scope(scope: Scope) -> None:
    """Raise InvalidInput unless scope is a Scope; scope_path() checks its parts."""
    if not isinstance(scope, Scope):
        raise InvalidInput(f"scope must be a Scope(app, user), got {shown(scope)}")


def scope_path(scope: Scope) -> str:
    """Return the tenant of a scope. Raises InvalidInput for parts that cannot be stored."""
    check_scope(scope)
    for label, what, field in ((scope.app, "app_name", "app"), (scope.user, "user_id", "user")):
        try:
            check_label(label, what)
        except InvalidInput as error:
            raise InvalidInput(f"{error} (Scope.{field})") from None
        if not label.strip():
            raise InvalidInput(f"{what} must not be blank, got {shown(label)} (Scope.{field})")
    return to_path((scope.app, scope.user))


def path_of(scope: Scope | None, app: str | None) -> str:
    """Return the path of a user, of an application (scope None), or of all (both None)."""
    if scope is not None:
        return scope_path(scope)
    return to_path(() if app is None else (check_label(app, "app"),))


def summary_key(thread_id: str) -> str:
    """Return the key of the one current summary of a thread."""
    return f"summary/{thread_id}"


def memories_namespace(scope: Scope) -> Namespace:
    """Return the namespace of the memories of a scope, which both frameworks share."""
    return (scope.app, scope.user, MEMORIES)


def instructions_namespace(scope: Scope) -> Namespace:
    """Return the namespace of the instructions of a scope."""
    return (scope.app, scope.user, INSTRUCTIONS)


def instructions_scope(namespace: Sequence[str]) -> Scope | None:
    """Return the scope whose instructions a namespace holds, or None."""
    if len(namespace) == 3 and namespace[2] == INSTRUCTIONS:
        return Scope(namespace[0], namespace[1])
    return None


def profile_namespace(scope: Scope, subject: str, agent_id: str) -> Namespace:
    """Return the namespace that exposes one profile; subject is "user" or "agent"."""
    return (scope.app, scope.user, PROFILE, subject, agent_id)


def shows_profile(namespace: Sequence[str]) -> bool:
    """Return whether a namespace exposes a profile."""
    return len(namespace) == 5 and namespace[2] == PROFILE and namespace[3] in ("user", "agent")


def common_prefix(namespaces: Iterable[Sequence[str]]) -> Namespace:
    """Return the longest common prefix of labels."""
    shared: tuple[str, ...] | None = None
    for labels in namespaces:
        if shared is None:
            shared = tuple(labels)
        while shared != tuple(labels[: len(shared)]):
            shared = shared[:-1]
    return shared or ()


def _escape(label: str) -> str:
    if not isinstance(label, str) or _UNSTORABLE.search(label):
        check_label(label, "a label of a namespace")
    return label.replace("%", "%25").replace("/", "%2F")


def _unescape(part: str) -> str:
    return part.replace("%2F", "/").replace("%25", "%")
