"""The buttons of the inspector that change a memory, as a visitor presses them."""

from contextlib import suppress

from playwright.sync_api import Locator, Page, TimeoutError, expect


def settled(page: Page, url: str) -> None:
    """Open a page and wait until it has read what it shows."""
    page.goto(url)
    expect(page.locator("main h1")).to_be_visible()
    expect(page.locator("main .q-spinner, main .q-skeleton")).to_have_count(0)


def ask(page: Page, label: str) -> str:
    """Press the first button of an action, and return what it says it will do."""
    page.get_by_role("button", name=label, exact=True).first.click()
    cancel = page.get_by_role("button", name="Cancel", exact=True)
    dialog = page.get_by_role("dialog").filter(has=cancel)  # not one that is just closing
    expect(dialog.get_by_role("button", name="Cancel", exact=True)).to_be_visible()
    return dialog.inner_text()


def confirm(page: Page, label: str, *, typed: str = "", closes: bool = True) -> str:
    """Confirm an action, close its answer, and return it. typed: what it wants to be typed."""
    dialog = page.get_by_role("dialog")
    yes = dialog.get_by_role("button", name=label, exact=True)
    if typed:
        expect(yes).to_be_disabled()
        dialog.get_by_role("textbox").fill(typed)
    yes.click()
    done = dialog.get_by_role("status")
    expect(done).to_be_visible()
    said = done.inner_text()
    if closes:
        close(page)
    return said


def act(page: Page, label: str, **confirming: object) -> str:
    """Press the button of an action and confirm it, as confirm() does."""
    ask(page, label)
    return confirm(page, label, **confirming)  # type: ignore[arg-type]


def close(page: Page) -> None:
    """Close the answer of an action, which loads the page again."""
    with page.expect_navigation():
        page.get_by_role("button", name="Close", exact=True).click()


def choose(page: Page, box: Locator, option: str) -> None:
    """Choose an option; a list that closes because the page still changes is opened again."""
    wanted = page.get_by_role("option", name=option)
    while not wanted.is_visible():
        box.click()
        with suppress(TimeoutError):
            wanted.wait_for(timeout=5_000)
    wanted.click()


def select(page: Page, text: str) -> None:
    """Select a memory of a table by its text."""
    page.get_by_role("checkbox", name=f"Select: {text}").click()
