"""The memory over HTTP: create_app() makes the ASGI application, serve() runs it.

Only this package knows FastAPI and uvicorn; they come with the extra [server].
"""

from __future__ import annotations

from shared_core.core.extras import from_extras

with from_extras("the HTTP server", "server"):
    from shared_core.http.app import create_app
    from shared_core.http.options import ServerOptions
    from shared_core.http.server import serve

__all__ = ["ServerOptions", "create_app", "serve"]
