"""A headless Chromium, driven by Playwright."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

PATIENCE_MS = 60_000
"""Milliseconds until a page that does not show what is awaited has failed."""
expect.set_options(timeout=PATIENCE_MS)


def chromium() -> str | None:
    """Return the path of a Chromium: HIPPOCAMPUS_TEST_CHROMIUM, or one on the PATH; or None."""
    names = (os.environ.get("HIPPOCAMPUS_TEST_CHROMIUM"), "chromium", "chromium-browser",
             "google-chrome")  # fmt: skip
    return next((path for name in names if name and (path := shutil.which(name))), None)


in_browser = pytest.mark.skipif(
    chromium() is None, reason="there is no Chromium (apt-get install chromium)"
)
"""Skips a test where there is no browser."""


@contextmanager
def running_browser() -> Iterator[Browser]:
    """Yield a browser. Its event loop holds the thread: no coroutine can run in it meanwhile."""
    with sync_playwright() as playwright:
        # Also as root, in a small /dev/shm; more renderers cost more than they save.
        options = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu",
                   "--renderer-process-limit=1", "--disable-software-rasterizer",
                   "--disable-extensions", "--animation-duration-scale=0"]  # fmt: skip
        browser = playwright.chromium.launch(executable_path=chromium(), args=options)
        yield browser
        browser.close()


def visitor(
    browser: Browser,
    *,
    locale: str = "en",
    width: int = 1280,
    height: int = 800,
    dark: bool = False,
    **options: Any,
) -> Page:
    """Return a page in a window without cookies. Its context closes the window."""
    context = browser.new_context(
        locale=locale, viewport={"width": width, "height": height},
        color_scheme="dark" if dark else "light", reduced_motion="reduce", **options,
    )  # fmt: skip
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    # A full screen has no tab that turns while a page loads: half of what the browser costs.
    window = context.new_cdp_session(page)
    found = {"windowId": window.send("Browser.getWindowForTarget")["windowId"]}
    window.send("Browser.setWindowBounds", {**found, "bounds": {"windowState": "fullscreen"}})
    return page
