"""Registers URI schemes for ADK's command line: `register()` in services.py, or YAML factories.

    adk web agents --memory_service_uri=hippocampus:// --session_service_uri=hippocampus://

Services with the same URI share one MemoryEngine, so one connection pool. It stays open until the
process ends, because ADK closes no memory service. An embedded server stops with its last user.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from adk_memory.memory_service import OpenMemoryService
from adk_memory.session_service import PgSessionService
from adk_memory.uri import (
    ENGINE_OPTIONS,
    SCHEME,
    SERVER_SCHEME,
    SESSION_OPTIONS,
    engine_arguments,
    parse_uri,
)
from shared_core import MemoryEngine, open_memory

if TYPE_CHECKING:
    from google.adk.cli.service_registry import ServiceRegistry

SCHEMES = (SCHEME, SERVER_SCHEME)

_engines: dict[tuple[object, ...], MemoryEngine] = {}
_lock = threading.Lock()


def register(registry: ServiceRegistry | None = None) -> None:
    """Register the schemes hippocampus and hippocampus+postgresql, for memories and sessions.

    Args:
        registry: by default ADK's own, which `adk web`, `adk api_server` and `adk run` use.
    """
    if registry is None:
        # Imported here: it loads ADK's command line, which a program with a Runner does not need.
        from google.adk.cli.service_registry import get_service_registry

        registry = get_service_registry()
    for scheme in SCHEMES:
        registry.register_memory_service(scheme, make_memory_service)
        registry.register_session_service(scheme, make_session_service)


def make_memory_service(uri: str, **_: object) -> OpenMemoryService:
    """Return a memory service for a URI; other arguments of ADK (agents_dir) are ignored.

    Raises InvalidInput for an unknown URI or option.
    """
    engine, options = _resolve(uri)
    own = {name: value for name, value in options.items() if name not in SESSION_OPTIONS}
    return OpenMemoryService(engine=engine, **own)


def make_session_service(uri: str, **_: object) -> PgSessionService:
    """Return a session service for a URI, on the same memory as its memory service.

    Options of the memory service are ignored, so both may have the same URI.
    """
    engine, options = _resolve(uri)
    own = {name: value for name, value in options.items() if name in SESSION_OPTIONS}
    return PgSessionService(engine=engine, **own)


async def close_shared() -> None:
    """Close every memory that the factories opened; services reopen theirs at the next use."""
    with _lock:
        engines = list(_engines.values())
        _engines.clear()
    for engine in engines:
        await engine.close()


def _resolve(uri: str) -> tuple[MemoryEngine, dict[str, Any]]:
    """Return the shared memory of a URI, and the options of the service."""
    address, options = parse_uri(uri)
    key = (address, *sorted((k, v) for k, v in options.items() if k in ENGINE_OPTIONS))
    with _lock:
        if key not in _engines:
            _engines[key] = open_memory(address, **engine_arguments(options))
        return _engines[key], {k: v for k, v in options.items() if k not in ENGINE_OPTIONS}
