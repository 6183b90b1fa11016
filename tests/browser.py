"""A page in a headless Chromium, driven by its own protocol: the one that developer tools speak."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from websockets.sync.client import ClientConnection, connect

PATIENCE_S = 60.0
"""Seconds until a page that does not show what is awaited has failed."""


def chromium() -> str | None:
    """Return the path of a Chromium: HIPPOCAMPUS_TEST_CHROMIUM, or one on the PATH; or None."""
    names = (os.environ.get("HIPPOCAMPUS_TEST_CHROMIUM"), "chromium", "chromium-browser",
             "google-chrome")  # fmt: skip
    return next((path for name in names if name and (path := shutil.which(name))), None)


class Page:
    """The one page of a browser."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._sent = 0

    def call(self, method: str, **parameters: Any) -> Any:
        """Return the result of a method of the protocol."""
        self._sent += 1
        message = {"id": self._sent, "method": method, "params": parameters}
        self._socket.send(json.dumps(message))
        while True:
            answer = json.loads(self._socket.recv(timeout=PATIENCE_S))
            if answer.get("id") == self._sent:
                assert "error" not in answer, answer
                return answer["result"]

    def go(self, url: str) -> None:
        """Open a URL."""
        self.call("Page.navigate", url=url)

    def evaluate(self, script: str) -> Any:
        """Return the value of an expression of JavaScript in the page."""
        done = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        return done["result"].get("value")

    def text(self) -> str:
        """Return the text that the page shows."""
        return str(self.evaluate("document.body ? document.body.innerText : ''"))

    def holds_soon(self, script: str, within_s: float = 2.0) -> bool:
        """Tell whether an expression becomes true within some seconds."""
        end = time.monotonic() + within_s
        while not (holds := bool(self.evaluate(script))) and time.monotonic() < end:
            time.sleep(0.1)
        return holds

    def wait_for(self, script: str) -> None:
        """Wait until an expression is true. Fails with the text of the page."""
        assert self.holds_soon(script, PATIENCE_S), f"{script} stays false: {self.text()}"

    def insert(self, text: str) -> None:
        """Type a text where the cursor is."""
        self.call("Input.insertText", text=text)

    def press_enter(self) -> None:
        """Press Enter."""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", text="\r",
                      windowsVirtualKeyCode=13)  # fmt: skip


@contextmanager
def page(binary: str, profile: Path) -> Iterator[Page]:
    """Open a browser with an empty profile; it is gone afterwards."""
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
               "--disable-dev-shm-usage", "--no-proxy-server", "--remote-debugging-port=0",
               f"--user-data-dir={profile}", "--window-size=1400,900"]  # fmt: skip
    with (profile.parent / "chromium.log").open("wb") as log:
        process = subprocess.Popen(
            [binary, *options, "about:blank"], stdout=log, stderr=subprocess.STDOUT
        )
    try:
        with connect(_socket_of(process, profile), max_size=None, proxy=None) as socket:
            yield Page(socket)
    finally:
        process.terminate()
        process.wait(15)


def _socket_of(process: subprocess.Popen[bytes], profile: Path) -> str:
    """Return the address of the page, as soon as the browser has written its port."""
    port = profile / "DevToolsActivePort"
    end = time.monotonic() + PATIENCE_S
    while not (port.exists() and port.read_text()):
        assert process.poll() is None, (profile.parent / "chromium.log").read_text("utf-8")
        assert time.monotonic() < end, "Chromium opens no port"
        time.sleep(0.1)
    number = port.read_text().splitlines()[0]
    with httpx.Client(trust_env=False) as client:
        targets = client.get(f"http://127.0.0.1:{number}/json").json()
    return next(str(one["webSocketDebuggerUrl"]) for one in targets if one["type"] == "page")
