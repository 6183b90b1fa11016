"""Each page of the inspector in a real browser: languages, accessibility, and text that is HTML."""

import uuid

import pytest
from axe_playwright_python.sync_playwright import Axe
from browser import in_browser
from inspector import ANA, LIN, link, tell
from long_forms import LONG
from playwright.sync_api import Page, expect

from shared_core import Scope, run_sync

pytestmark = [in_browser, pytest.mark.timeout(600)]

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


def ask(path: str, locale: str = "en") -> dict[str, str]:
    """Return the question of the page that asks; nothing for other pages."""
    return {"q": QUESTIONS[locale]} if path == "ask" else {}


def settled(page: Page, url: str) -> None:
    """Open a page and wait until it has read what it shows."""
    page.goto(url)
    expect(page.locator("main h1")).to_be_visible()
    expect(page.locator("main .q-spinner, main .q-skeleton")).to_have_count(0)
    page.wait_for_load_state("networkidle")


@pytest.fixture
def watched(window):
    """Opens a page that must have no error, of which no script may speak."""
    faults: list[str] = []

    def opened(**options: object) -> Page:
        page = window(**options).new_page()
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda said: said.type == "error" and faults.append(said.text))
        page.on("dialog", lambda dialog: faults.append(dialog.message))
        return page

    yield opened
    assert [] == faults


@pytest.mark.tail
@pytest.mark.parametrize("locale", QUESTIONS)
def test_each_page_speaks_the_language_of_the_browser_and_is_accessible(locale, watched):
    scope = ANA if locale == "en" else LIN
    page = watched(locale=locale)
    for path, titles in TITLES.items():
        settled(page, link(path, scope, **ask(path, locale)))
        expect(page.locator("main h1")).to_have_text(titles[locale != "en"])
        expect(page.locator("html")).to_have_attribute("lang", locale[:2])
        if locale == "en" or LONG:  # the pages differ in their words alone
            found = Axe().run(page, options={"runOnly": ["wcag2a", "wcag2aa"]})
            assert 0 == found.violations_count, f"/{path}: {found.generate_report()}"


@pytest.mark.tail
def test_each_page_fits_a_phone_and_a_dark_screen(watched):
    page = watched(width=390, height=844, dark=True)
    for path in TITLES:
        settled(page, link(path, ANA, **ask(path)))
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= 390, f"/{path} is {wide} pixels wide"
        contrast = Axe().run(page, options={"runOnly": ["color-contrast"]})
        assert 0 == contrast.violations_count, f"/{path}: {contrast.generate_report()}"


@pytest.mark.tail
def test_no_text_of_a_memory_becomes_html(watched, inspector):
    hostile = Scope(f"app {uuid.uuid4().hex} {SCRIPT}", f"user {SCRIPT}")
    texts = [f"I live in {SCRIPT}.", f"My dog is called Rex {SCRIPT}."]
    run_sync(tell(inspector.memory, hostile, texts))
    page = watched()
    for path in [*(path for path in TITLES if path != "memories"), "memories"]:
        settled(page, link(path, hostile, **ask(path)))
        assert not page.evaluate("'ran' in window"), path
        assert 0 == page.locator("img[src='x']").count(), path
    expect(page.get_by_text(f"I live in {SCRIPT}.").first).to_be_visible()
    page.get_by_role("link", name="I live in").first.click()
    expect(page.get_by_text(SCRIPT).first).to_be_visible()
    assert not page.evaluate("'ran' in window")


def test_language_and_dark_mode_are_switched_in_place_and_kept(page):
    settled(page, link("facts", ANA))
    page.get_by_role("button", name="中文").click()
    expect(page.locator("main h1")).to_have_text("事实")
    page.get_by_role("button", name="浅色或深色").click()
    expect(page.locator("body.body--dark")).to_have_count(1)
    page.get_by_role("button", name="用户：").click()  # the server sends the page new parts
    expect(page.get_by_text("看谁的记忆？")).to_be_visible()
    expect(page.locator("body.body--dark")).to_have_count(1)
    page.keyboard.press("Escape")
    settled(page, link("memories", ANA))
    expect(page.locator("main h1")).to_have_text("记忆")
    expect(page.locator("body.body--dark")).to_have_count(1)


def test_the_keyboard_reaches_the_question_and_asks_it(page):
    settled(page, link("ask", ANA))
    page.keyboard.type("Where do I live?")  # the field has the focus
    page.keyboard.press("Enter")
    expect(page.get_by_text("I moved to Edinburgh yesterday.").first).to_be_visible()
    assert "q=Where" in page.url
