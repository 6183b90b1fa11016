"""What to say where a question finds nothing because the user or application has no memories."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final, TypeVar

from shared_core.cli.app import with_memory
from shared_core.cli.usage import did_you_mean
from shared_core.core.domain import Scope
from shared_core.core.locale import t

if TYPE_CHECKING:
    from shared_core.engine import MemoryEngine

Result = TypeVar("Result")

MOST_READ: Final = 500
"""Users that are compared with a name that is not known."""
MOST_SHOWN: Final = 5


def read_of(
    memory: MemoryEngine,
    scope: Scope,
    call: Callable[[MemoryEngine], Awaitable[Result]],
    is_empty: Callable[[Result], bool],
) -> tuple[Result, str]:
    """Return the result of a call, and if it is empty, the hint of unknown_user()."""

    async def read(opened: MemoryEngine) -> tuple[Result, str]:
        found = await call(opened)
        return found, await unknown_user(opened, scope) if is_empty(found) else ""

    return with_memory(memory, read)


async def unknown_user(memory: MemoryEngine, scope: Scope) -> str:
    """Return a hint for a user without memories: names that are known; "" for other users."""
    users = [one.scope.user for one in await memory.users(scope.app, limit=MOST_READ)]
    if scope.user in users or await memory.users(scope.app, among=[scope.user], limit=1):
        return ""
    if users:
        none = t(f" The user {scope.user!r} has no memories.", f"用户 {scope.user!r} 还没有记忆。")
        return none + (
            _near(scope.user, users) or t(" Others have: ", "有记忆的用户：") + _some(users)
        )
    known = await memory.users(limit=MOST_READ)
    if not known:
        return ""
    apps = list(dict.fromkeys(one.scope.app for one in known))
    none = t(f" No user of {scope.app!r} has memories.", f"应用 {scope.app!r} 没有任何用户的记忆。")
    return none + (_near(scope.app, apps) or t(" Others have: ", "有记忆的应用：") + _some(apps))


def _near(name: str, known: list[str]) -> str:
    by_lower = {one.casefold(): one for one in known}
    return did_you_mean(by_lower[one] for one in get_close_matches(name.casefold(), by_lower, n=2))


def _some(names: list[str]) -> str:
    more = t(", and more.", "等。") if len(names) > MOST_SHOWN else t(".", "。")
    return t(", ", "、").join(names[:MOST_SHOWN]) + more
