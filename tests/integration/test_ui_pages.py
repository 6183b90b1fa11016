"""Each page of the inspector in a real browser: languages, accessibility, and text that is HTML."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlencode

import pytest
from axe_playwright_python.sync_playwright import Axe
from browser import browsing, in_browser
from inspector import ANA, LIN, fill, inspecting, now
from playwright.sync_api import BrowserContext, Page, expect
from postgres_databases import PostgresDatabases

from shared_core import Scope

pytestmark = [in_browser, pytest.mark.tail, pytest.mark.timeout(600)]

TITLES = {
    "": ("Overview", "概览"),
    "ask": ("Ask", "提问"),
    "memories": ("Memories", "记忆"),
    "facts": ("Facts", "事实"),
    "graph": ("Graph", "图谱"),
    "timeline": ("Timeline", "时间线"),
    "profiles": ("Profiles", "画像"),
    "forgetting": ("Forgetting", "遗忘"),
    "runs": ("Runs and jobs", "运行与任务"),
    "privacy": ("Privacy", "隐私"),
}
QUESTIONS = {"en": "Where do I live?", "zh-CN": "我住在哪里？"}
SCRIPT = '<img src=x onerror="window.ran=1"><script>window.ran=1</script>{{window.ran=1}}'
HOSTILE = Scope(f"app {SCRIPT}", f"user {SCRIPT}")


def of_user(address: str, page: str, scope: Scope, **params: str) -> str:
    return f"{address}/{page}?{urlencode({'app': scope.app, 'user': scope.user, **params})}"


def opened(context: BrowserContext, faults: list[str]) -> Page:
    page = context.new_page()
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda said: said.type == "error" and faults.append(said.text))
    page.on("dialog", lambda dialog: faults.append(dialog.message))
    return page


def settled(page: Page, url: str) -> None:
    """Open a page and wait until it has read what it shows."""
    page.goto(url)
    expect(page.locator("main h1")).to_be_visible()
    expect(page.locator("main .q-spinner, main .q-skeleton")).to_have_count(0)
    page.wait_for_load_state("networkidle")


@pytest.fixture(scope="module")
def address(postgres: PostgresDatabases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of one inspector for all tests, which write nothing."""
    databases = postgres.lend()
    dsn = next(databases)
    now(fill(dsn))
    now(fill(dsn, {HOSTILE: [f"I live in {SCRIPT}.", f"My dog is called Rex {SCRIPT}."]}))
    with inspecting(dsn, tmp_path_factory.mktemp("inspector") / "ui.log") as found:
        yield found
    next(databases, None)


@pytest.mark.parametrize("locale", QUESTIONS)
def test_each_page_speaks_the_language_of_the_browser_and_is_accessible(
    locale: str, address: str
) -> None:
    scope = ANA if locale == "en" else LIN
    faults: list[str] = []
    with browsing(locale=locale) as context:
        page = opened(context, faults)
        for path, titles in TITLES.items():
            question = {"q": QUESTIONS[locale]} if path == "ask" else {}
            settled(page, of_user(address, path, scope, **question))
            expect(page.locator("main h1")).to_have_text(titles[locale != "en"])
            expect(page.locator("html")).to_have_attribute("lang", locale[:2])
            found = Axe().run(page, options={"runOnly": ["wcag2a", "wcag2aa"]})
            assert 0 == found.violations_count, f"/{path}: {found.generate_report()}"
    assert [] == faults


def test_each_page_fits_a_phone_and_a_dark_screen(address: str) -> None:
    faults: list[str] = []
    with browsing(width=390, height=844, dark=True) as context:
        page = opened(context, faults)
        for path in TITLES:
            question = {"q": QUESTIONS["en"]} if path == "ask" else {}
            settled(page, of_user(address, path, ANA, **question))
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= 390, f"/{path} is {wide} pixels wide"
            contrast = Axe().run(page, options={"runOnly": ["color-contrast"]})
            assert 0 == contrast.violations_count, f"/{path}: {contrast.generate_report()}"
    assert [] == faults


def test_no_text_of_a_memory_becomes_html(address: str) -> None:
    faults: list[str] = []
    with browsing() as context:
        page = opened(context, faults)
        for path in [*TITLES, "memories", "timeline"]:
            params = {"q": "Where do I live?"} if path == "ask" else {}
            settled(page, of_user(address, path, HOSTILE, **params))
            assert not page.evaluate("'ran' in window"), path
            assert 0 == page.locator("img[src='x']").count(), path
        settled(page, of_user(address, "memories", HOSTILE))
        expect(page.get_by_text(f"I live in {SCRIPT}.").first).to_be_visible()
        page.get_by_role("link", name="I live in").first.click()
        expect(page.get_by_text(SCRIPT).first).to_be_visible()
        assert not page.evaluate("'ran' in window")
    assert [] == faults


def test_language_and_dark_mode_are_switched_in_place_and_kept(address: str) -> None:
    with browsing() as context:
        page = context.new_page()
        settled(page, of_user(address, "facts", ANA))
        page.get_by_role("button", name="中文").click()
        expect(page.locator("main h1")).to_have_text("事实")
        page.get_by_role("button", name="浅色或深色").click()
        expect(page.locator("body.body--dark")).to_have_count(1)
        page.get_by_role("button", name="用户：").click()  # the server sends the page new parts
        expect(page.get_by_text("看谁的记忆？")).to_be_visible()
        expect(page.locator("body.body--dark")).to_have_count(1)
        page.keyboard.press("Escape")
        settled(page, of_user(address, "memories", ANA))
        expect(page.locator("main h1")).to_have_text("记忆")
        expect(page.locator("body.body--dark")).to_have_count(1)


def test_the_keyboard_reaches_the_question_and_asks_it(address: str) -> None:
    with browsing() as context:
        page = context.new_page()
        settled(page, of_user(address, "ask", ANA))
        page.keyboard.type("Where do I live?")  # the field has the focus
        page.keyboard.press("Enter")
        expect(page.get_by_text("I moved to Edinburgh yesterday.").first).to_be_visible()
        assert "q=Where" in page.url
