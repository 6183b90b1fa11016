"""What pages keep and send before and beside a login: unopened pages, malformed messages."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

from nicegui import Client, core
from socketio.exceptions import ConnectionRefusedError as Refused

from shared_core.core.failure_reason import reason

log = logging.getLogger("hippocampus.ui")

MESSAGES: Final = ("connect", "handshake", "event", "javascript_response", "ack", "log")
"""What a page sends to the UI library. The end of a connection is no message of a page."""
MOST_UNOPENED: Final = 50
"""Pages of one token that wait for their browser. Each takes about 0.3 MB, for up to 70 s."""


class UnopenedPages:
    """The pages that were sent and whose browser has not connected yet, by the token."""

    def __init__(self) -> None:
        self._waiting: dict[str | None, dict[str, Client]] = {}

    def add(self, token_id: str | None, page: Client) -> None:
        """Add a page; beyond MOST_UNOPENED, end the oldest of its token."""
        waiting = self._waiting.setdefault(token_id, {})
        waiting[page.id] = page
        for ends in (page.on_connect, page.on_delete):
            ends(lambda: self._remove(token_id, page.id))
        while len(waiting) > MOST_UNOPENED:
            oldest = next(iter(waiting.values()))
            self._remove(token_id, oldest.id)
            oldest.delete()

    def _remove(self, token_id: str | None, page_id: str) -> None:
        waiting = self._waiting.get(token_id, {})
        waiting.pop(page_id, None)
        if not waiting:
            self._waiting.pop(token_id, None)


def drop_malformed_messages() -> None:
    """Let a malformed message of a page be one line of the log.

    The UI library and its socket server would write a traceback for each.
    """
    handlers = core.sio.handlers["/"]
    for message in MESSAGES:
        handlers[message] = _dropping(message, handlers[message])
    logging.getLogger("engineio.server").addFilter(_in_one_line)


def _dropping(message: str, handle: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    async def call(*arguments: Any) -> Any:
        try:
            answer = handle(*arguments)
            return await answer if inspect.isawaitable(answer) else answer
        except Refused:
            raise
        except Exception as error:  # noqa: BLE001 # failures of a page's own code end before here
            log.warning("a malformed message %r of a page is dropped: %s", message, reason(error))

    return call


def _in_one_line(record: logging.LogRecord) -> bool:
    """Return whether the socket server may log a record. It logs what it cannot read itself."""
    if not record.exc_info or record.exc_info[1] is None:
        return True
    log.warning("a malformed packet of a page is dropped: %s", reason(record.exc_info[1]))
    return False
