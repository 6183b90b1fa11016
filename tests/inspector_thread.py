"""The inspector in a thread of the process of the tests, on a real socket."""

import shutil
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import nicegui
import uvicorn

from shared_core import MemoryEngine, open_memory, run_sync
from shared_core.cli.ui import inspector_options
from shared_core.http import ServerOptions
from shared_core.ui import create_app
from shared_core.ui.guard import Doors
from shared_core.ui.pages import privacy_transfer
from shared_core.ui.view import Inspector


class UploadFolder(tempfile.TemporaryDirectory[str]):
    """The folder of an upload, deleted with its page without a warning, which is an error here."""

    @classmethod
    def _cleanup(cls, name: str, *_: object, **__: object) -> None:
        shutil.rmtree(name, ignore_errors=True)


class StillChart(nicegui.ui.echart):
    """A chart that is complete at once: a browser without a graphics card draws each frame."""

    def __init__(self, options: dict[str, Any], *args: Any, **more: Any) -> None:
        super().__init__({"animation": False, **options}, *args, **more)


class RunningInspector:
    """The inspector of this process: NiceGUI allows one. Nobody needs a token.

    It shows a memory in which each test is a user. Tests of another memory or configuration borrow
    it for a while.
    """

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.memory = open_memory(dsn, worker=False)
        self._open = ServerOptions(auth=False)
        app = create_app(self.memory, self._open, inspector_options(dsn, None, None))
        nicegui.ui.echart = StillChart  # type: ignore[misc]
        privacy_transfer.tempfile = SimpleNamespace(TemporaryDirectory=UploadFolder)
        self._shown: Inspector = nicegui.app.state.inspector
        self._server = uvicorn.Server(
            uvicorn.Config(
                app, http="h11", log_config=None, proxy_headers=False, lifespan="on",
                timeout_graceful_shutdown=1,
            )
        )  # fmt: skip
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=100)
        self.address = f"http://127.0.0.1:{self._socket.getsockname()[1]}/ui"
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],))
        self._thread.start()  # the socket keeps whoever connects before it listens

    @contextmanager
    def showing(
        self,
        memory: MemoryEngine | None = None,
        *,
        auth: bool | None = False,
        read_only: bool = False,
    ) -> Iterator[None]:
        """Show another memory, or with other options, to the requests that begin meanwhile."""
        shown = self._shown
        options = replace(shown.options, read_only=read_only)
        nicegui.app.state.inspector = replace(shown, memory=memory or self.memory, options=options)
        self._open_doors(memory or self.memory, ServerOptions(auth=auth))
        try:
            yield
        finally:
            nicegui.app.state.inspector = shown
            self._open_doors(self.memory, self._open)

    def _open_doors(self, memory: MemoryEngine, options: ServerOptions) -> None:
        vars(self._shown.doors).update(vars(Doors(memory.tokens, options)))

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()
        run_sync(self.memory.close())
