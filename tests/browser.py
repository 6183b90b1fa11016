"""A headless Chromium, driven by Playwright."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import BrowserContext, expect, sync_playwright

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
def browsing(
    *, locale: str = "en", width: int = 1280, height: int = 800, dark: bool = False
) -> Iterator[BrowserContext]:
    """Yield a browser without cookies; context.new_page() opens a page in it."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium(),
            args=["--no-sandbox", "--disable-dev-shm-usage"],  # also as root, in a small /dev/shm
        )
        context = browser.new_context(
            locale=locale, viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
        )  # fmt: skip
        context.set_default_timeout(PATIENCE_MS)
        yield context
        browser.close()
