"""One inspector and one browser for all tests of this folder, in which each test is a user."""

import logging
import uuid
from typing import Any

import pytest
from browser import running_browser, visitor
from inspector import ANA, LIN, TALKS, fill, tell
from inspector_thread import RunningInspector
from playwright.sync_api import Browser, Page

from shared_core import Scope, open_memory, run_sync

NOTHING_MOVES = """addEventListener("DOMContentLoaded", () => {
    const style = document.createElement("style");
    style.textContent =
        "*, ::before, ::after { animation: none !important; transition: none !important; }";
    document.head.append(style);
})"""
LEFT = "/health"  # leaves the memory alone; about:blank would cost two more processes


@pytest.fixture(scope="session")
def inspector(postgres):
    """The inspector of this process. No test changes the users ANA and LIN of its memory."""
    lent = postgres.lend()
    running = RunningInspector(next(lent))
    run_sync(fill(running.dsn))
    yield running
    running.close()
    next(lent, None)


@pytest.fixture
def memory(inspector):
    """The memory that the inspector shows."""
    return inspector.memory


@pytest.fixture
def locked(inspector):
    """The address of an inspector that asks for a token."""
    with inspector.showing(auth=True):
        yield inspector.address


@pytest.fixture
def whole(inspector, dsn):
    """An empty memory that the inspector shows, for tests of all users or of the first token."""
    memory = open_memory(dsn, worker=False)
    with inspector.showing(memory, auth=None):
        yield memory
    run_sync(memory.close())


@pytest.fixture
def ana(inspector):
    """A user with the talk of ANA, of an application that no other test knows."""
    scope = Scope(f"helpdesk-{uuid.uuid4().hex[:12]}", ANA.user)
    run_sync(tell(inspector.memory, scope, TALKS[ANA]))
    return scope


@pytest.fixture
def lin(inspector, ana):
    """Another user of the same application, with the talk of LIN."""
    scope = Scope(ana.app, LIN.user)
    run_sync(tell(inspector.memory, scope, TALKS[LIN]))
    return scope


@pytest.fixture(scope="package")
def browser():
    """The browser of this folder. Its loop holds the thread, so no test here is a coroutine."""
    with running_browser() as found:
        yield found


def opened(browser: Browser, inspector: RunningInspector, **options: Any) -> Page:
    """Return a page in a new window, with the options of visitor(), in which nothing moves."""
    page = visitor(browser, base_url=f"{inspector.address}/", **options)
    page.add_init_script(NOTHING_MOVES)
    return page


@pytest.fixture(scope="package")
def one_page(browser, inspector):
    """The page for all tests of one visitor: a new one costs two processes."""
    return opened(browser, inspector)


@pytest.fixture(scope="package")
def one_phone(browser, inspector):
    """The page for all tests of a Chinese phone."""
    return opened(browser, inspector, locale="zh-CN", width=390, height=844, dark=True)


@pytest.fixture
def page(one_page):
    """A page of an English browser without cookies."""
    one_page.context.clear_cookies()
    yield one_page
    one_page.goto(LEFT)


@pytest.fixture
def phone(one_phone):
    """A page of a Chinese phone with a dark screen."""
    yield one_phone
    one_phone.goto(LEFT)


@pytest.fixture(autouse=True)
def no_errors(caplog):
    """Fail a test in which the inspector logged an error."""
    yield
    errors = [one for one in caplog.get_records("call") if one.levelno >= logging.ERROR]
    assert [] == [one.getMessage() for one in errors]
