"""Finds the scope and the thread of a graph's run. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import tzinfo
from typing import Any, TypeAlias

from langchain_core.runnables import RunnableConfig
from langgraph.config import get_config
from langgraph.runtime import Runtime, get_runtime

from shared_core import InvalidInput, Scope
from shared_core.core import ambient_zone

IdSource: TypeAlias = str | Callable[[RunnableConfig, Any], str]
"""An id, or a function that returns it from the config and the context of a run."""

USER_KEYS = ("langgraph_user_id", "user_id")
"""Keys of the user's id in a config or a context, in order of preference."""

ZONE_KEY = "timezone"
"""Key of the user's time zone there, e.g. "Australia/Sydney"."""


@dataclass(frozen=True, slots=True)
class RunIdentity:
    """The sources of the application, the user and the thread of a run.

    user_id: by default the user signed in at the Agent Server, else USER_KEYS in
    config["configurable"], else in the context. thread_id: by default that of
    config["configurable"].
    """

    app: IdSource
    user_id: IdSource | None = None
    thread_id: IdSource | None = None

    def scope(self, config: RunnableConfig, runtime: Runtime[Any] | None = None) -> Scope:
        """Return the scope of a run. Raises InvalidInput without a user."""
        runtime = runtime or _runtime()
        context = runtime.context if runtime else None
        user = _given(self.user_id, config, context) or _signed_in(runtime)
        for place in (config.get("configurable"), context):
            user = user or next((found for key in USER_KEYS if (found := _field(place, key))), "")
        if not user:
            raise InvalidInput(
                "a run needs a user_id: run the graph with config={'configurable': {'user_id':"
                " ...}} or a context that has a user_id, or give user_id=..."
            )
        return Scope(_given(self.app, config, context), user)

    def thread(self, config: RunnableConfig, runtime: Runtime[Any] | None = None) -> str:
        """Return the thread of a run. Raises InvalidInput without one."""
        runtime = runtime or _runtime()
        thread = _given(self.thread_id, config, runtime.context if runtime else None)
        thread = thread or _field(config.get("configurable"), "thread_id")
        if not thread:
            raise InvalidInput(
                "a run needs a thread_id: run the graph with config={'configurable': {'thread_id':"
                " ...}}, or give thread_id=..."
            )
        return thread

    def zone(self, config: RunnableConfig, runtime: Runtime[Any] | None = None) -> tzinfo | None:
        """Return the time zone of the user, or None for that of the memory.

        It is ZONE_KEY of config["configurable"], else of the context.
        """
        runtime = runtime or _runtime()
        context = runtime.context if runtime else None
        named = _field(config.get("configurable"), ZONE_KEY) or _field(context, ZONE_KEY)
        return ambient_zone(named, ZONE_KEY)


def current_config(config: RunnableConfig | None = None) -> RunnableConfig:
    """Return the given config, else the config of the current run, else an empty one.

    A given config without "configurable" is ignored, because only the run's has LangGraph's keys.
    """
    if not (config and config.get("configurable")):
        with suppress(RuntimeError):
            return get_config()
    return config or {}


def graph_below(config: RunnableConfig) -> str:
    """Return the place of the running graph below the one that was run; "" for that itself."""
    place = str((config.get("configurable") or {}).get("checkpoint_ns") or "")
    return place.rpartition("|")[0]


def _runtime() -> Runtime[Any] | None:
    try:
        return get_runtime()
    except (RuntimeError, KeyError):  # not in a run of a graph
        return None


def _given(source: IdSource | None, config: RunnableConfig, context: object) -> str:
    found = source(config, context) if callable(source) else source
    return str(found) if found else ""


def _signed_in(runtime: Runtime[Any] | None) -> str:
    server = getattr(runtime, "server_info", None)
    return _field(getattr(server, "user", None), "identity")


def _field(place: object, name: str) -> str:
    found = place.get(name) if isinstance(place, Mapping) else getattr(place, name, None)
    return "" if found is None else str(found)
