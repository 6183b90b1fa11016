"""Run the application on uvicorn until a signal stops it."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

from shared_core.core.event_loops import freeze_loaded, handling_end_signals
from shared_core.engine import MemoryEngine
from shared_core.errors import InvalidInput
from shared_core.http.app import create_app
from shared_core.http.logs import log_as_json
from shared_core.http.options import ServerOptions

log = logging.getLogger("hippocampus.http")

BACKLOG = 2048
MAX_HEAD = 65_536
"""Maximum size of the first line and the headers of a request in bytes."""


def serve(memory: MemoryEngine, options: ServerOptions) -> int:
    """Serve a memory over HTTP until SIGTERM or Ctrl-C, close it, and return the exit code.

    Raises InvalidInput if the address cannot be used.
    """
    return run(memory, options, create_app(memory, options))


def run(
    memory: MemoryEngine,
    options: ServerOptions,
    app: ASGIApp,
    listens: Callable[[str], None] = lambda address: None,
) -> int:
    """Serve an application over a memory as serve() does.

    listens: called with the address, "http://127.0.0.1:8420", once it can be reached.

    Running requests have options.grace_s to finish; a second signal ends them immediately.
    Raises InvalidInput if the address cannot be used.
    """
    log_as_json()
    listening = _listen(options)
    config = uvicorn.Config(
        app,
        http="h11",  # it limits the head of a request, httptools does not
        h11_max_incomplete_event_size=MAX_HEAD,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="on",
        timeout_graceful_shutdown=max(1, round(options.grace_s)),
        timeout_keep_alive=75,
    )
    server = _Server(config)
    with listening, asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
        return runner.run(_run(server, memory, listening, listens))


async def _run(
    server: _Server, memory: MemoryEngine, listening: socket.socket, listens: Callable[[str], None]
) -> int:
    with handling_end_signals(lambda number: server.handle_exit(number, None)):
        return await _serve(server, memory, listening, listens)


async def _serve(
    server: _Server, memory: MemoryEngine, listening: socket.socket, listens: Callable[[str], None]
) -> int:
    async with memory:
        freeze_loaded()
        host, port = listening.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        log.info("listening on http://%s:%d", shown, port)
        listens(f"http://{shown}:{port}")
        await server.serve(sockets=[listening])
        log.info("stopped")
    return 0 if server.started else 1


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers, which would end the process by the signal again."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _listen(options: ServerOptions) -> socket.socket:
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    try:
        return socket.create_server((options.host, options.port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise InvalidInput(
            f"cannot listen on {options.host}:{options.port} ({error.strerror}): choose another"
            " --port (0 for a free one) or --host"
        ) from error
