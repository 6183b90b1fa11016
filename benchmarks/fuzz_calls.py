"""Random calls of the Python API for benchmarks.fuzz.

A call may return, or raise one of: an error of this project; an error that Google ADK or LangGraph
defines for the case; TypeError or ValueError from a `raise` statement of this project's own code.
Everything else is a raw internal error: an exception from inside a driver, the standard library or
a package, and one that the interpreter raised in our code (AttributeError, KeyError, ...).
"""

from __future__ import annotations

import asyncio
import dis
import inspect
import random
import time
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final

from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from langgraph.store.base import InvalidNamespaceError

from adk_memory import OpenMemoryService, PgSessionService
from benchmarks.odd_values import USUAL, adk_event, entry, odd, usual_or_odd
from langgraph_store import PgHippocampusStore
from shared_core import MemoryEngine
from shared_core.errors import BatchError, MemoryCoreError

PACKAGES: Final = ("shared_core", "adk_memory", "langgraph_store")
OF_FRAMEWORKS: Final = (
    AlreadyExistsError, InvalidNamespaceError, SessionNotFoundError, StaleSessionError,
)  # fmt: skip
VERBS: Final = ("recall", "slice", "facts", "runs", "erasures", "accesses")
"""Services that are called themselves."""
SERVICES: Final[dict[str, tuple[str, ...]]] = {
    "facts": ("restore", "retract", "state"),
    "graph": (
        "add", "entities", "history", "merge_aliases", "neighbourhood", "paths", "restore",
        "retract", "unmerge_aliases",
    ),
    "instructions": ("delete", "history", "list", "read", "rollback", "write"),
    "jobs": ("ask", "cancel", "list", "request", "retry", "run", "stats"),
    "profiles": ("of", "shown", "undo"),
    "retention": (
        "cleanup", "curve", "forget_faded", "list_faded", "pin", "policy", "revive", "set_policy",
        "stats", "unknown_keys", "unpin",
    ),
    "tokens": ("create", "list", "revoke", "verify"),
}  # fmt: skip
LEFT_OUT: Final = frozenset({
    "close", "aclose", "open", "setup", "dsn", "reembed", "flush", "warm_up", "engine",
    "from_conn_string", "start_ttl_sweeper", "stop_ttl_sweeper",
})  # fmt: skip
"""Methods that open, close or end background work, or take a model."""
LONGEST_S: Final = 120.0


@dataclass(slots=True)
class Outcomes:
    """How calls ended. raw: the first call of each raw error, by its place."""

    counts: Counter[str] = field(default_factory=Counter)
    raw: dict[str, str] = field(default_factory=dict)
    raw_count: int = 0
    slowest_s: float = 0.0
    slowest: str = ""


class Caller:
    """Calls random methods of the faces of one memory with random arguments."""

    def __init__(self, memory: MemoryEngine, seed: int) -> None:
        self._seed = seed
        self._targets = dict(self._found(memory))
        self.outcomes = Outcomes()

    @property
    def methods(self) -> int:
        """The number of methods that are called."""
        return len(self._targets)

    def _found(self, memory: MemoryEngine) -> list[tuple[str, Callable[..., Any]]]:
        faces = (memory, OpenMemoryService(engine=memory), PgHippocampusStore(engine=memory),
                 PgSessionService(engine=memory))  # fmt: skip
        found = [
            (f"{type(face).__name__}.{name}", getattr(face, name))
            for face in faces
            for name in dir(type(face))
            if not name.startswith("_") and name not in LEFT_OUT and inspect.isroutine(
                inspect.getattr_static(type(face), name)
            )
        ]  # fmt: skip
        found += [(f"memory.{name}", getattr(memory, name).__call__) for name in VERBS]
        found += [
            (f"memory.{service}.{name}", getattr(getattr(memory, service), name))
            for service, names in SERVICES.items()
            for name in names
        ]
        return found

    async def call(self, number: int) -> None:
        """Do the call with a number; the same seed and number make the same arguments."""
        chance = random.Random(f"{self._seed} {number}")
        name = chance.choice(sorted(self._targets))
        given, options = arguments_of(name, self._targets[name], chance)
        begun = time.process_time()
        try:
            async with asyncio.timeout(LONGEST_S):
                await _awaited(self._targets[name](*given, **options))
            self.outcomes.counts["returned"] += 1
        except Exception as error:  # noqa: BLE001  any error is looked at
            self._judge(name, error, f"{number} {name} {shown((given, options))}")
        spent = time.process_time() - begun
        if spent > self.outcomes.slowest_s:
            self.outcomes.slowest_s = spent
            self.outcomes.slowest = f"{number} {name} {shown((given, options))}"[:300]

    def _judge(self, name: str, error: Exception, call: str) -> None:
        place = raw_place(error)
        if place is None:
            self.outcomes.counts[type(error).__name__] += 1
            return
        self.outcomes.raw_count += 1
        trace = "".join(traceback.format_exception(error)[-6:])
        self.outcomes.raw.setdefault(f"{type(error).__name__} in {place}", f"{call}\n{trace}")


def arguments_of(
    name: str, method: Callable[..., Any], chance: random.Random
) -> tuple[list[Any], dict[str, Any]]:
    """Return arguments that fit the signature of a method."""
    given, options = list[Any](), dict[str, Any]()
    for parameter in inspect.signature(method).parameters.values():
        required = parameter.default is inspect.Parameter.empty
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            continue
        if not required and chance.random() < 0.6:
            continue
        value = usual_or_odd(_maker(name, parameter.name), chance)
        if parameter.kind is parameter.POSITIONAL_ONLY:
            given.append(value)
        else:
            options[parameter.name] = value
    return given, options


def _maker(name: str, parameter: str) -> Callable[[random.Random], Any]:
    if name == "OpenMemoryService.add_memory" and parameter == "memories":
        return lambda chance: [entry(chance)]
    if name == "OpenMemoryService.add_events_to_memory" and parameter == "events":
        return lambda chance: [adk_event(chance)]
    if name == "PgSessionService.append_event" and parameter == "event":
        return adk_event
    if name.endswith("state_fact") and parameter == "value":
        return USUAL["query"]
    return USUAL.get(parameter, odd)


async def _awaited(result: Any) -> None:
    if inspect.isasyncgen(result):
        async with aclosing(result) as items:
            async for _ in items:
                pass
    elif isinstance(result, Awaitable):
        await result


def shown(value: object) -> str:
    """Return the representation of arguments, which may have none."""
    try:
        return f"{value!r:.600}"
    except Exception as error:  # noqa: BLE001  a part of it may refuse
        return f"(arguments without a representation: {type(error).__name__})"


def raw_place(error: BaseException) -> str | None:
    """Return where a raw internal error was raised, or None for an error that is allowed."""
    if isinstance(error, BatchError):
        return next(filter(None, map(raw_place, error.exceptions)), None)
    if isinstance(error, (MemoryCoreError, *OF_FRAMEWORKS)):
        return None if str(error).strip() else f"{type(error).__name__} without a message"
    last = _last(error.__traceback__)
    if last is None:
        return "nowhere"
    frame = last.tb_frame
    module = frame.f_globals.get("__name__", "")
    if isinstance(error, TypeError | ValueError) and module.split(".")[0] in PACKAGES:
        operation = dis.opname[frame.f_code.co_code[last.tb_lasti]]
        if operation == "RAISE_VARARGS" and type(error) in (TypeError, ValueError):
            return None
    ours = _last_of_ours(error.__traceback__)
    return f"{module}:{last.tb_lineno}" + (f" from {ours}" if ours else "")


def _last(trace: TracebackType | None) -> TracebackType | None:
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace


def _last_of_ours(trace: TracebackType | None) -> str:
    found = ""
    while trace is not None:
        module = trace.tb_frame.f_globals.get("__name__", "")
        if module.split(".")[0] in PACKAGES:
            found = f"{module}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found
