"""Each page of the inspector in a real browser: languages, accessibility, and text that is HTML."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from browser import in_browser
from every_case import every_case
from inspector import ANA, LIN, TALKS, link, sent, tell
from inspector_actions import settled
from long_forms import LONG
from playwright.sync_api import ConsoleMessage, Page, expect

from shared_core import NewMemory, Scope, run_sync

pytestmark = [in_browser, pytest.mark.timeout(600)]

TITLES = {
    "": ("Overview", "概览"), "ask": ("Ask", "提问"), "memories": ("Memories", "记忆"),
    "facts": ("Facts", "事实"), "graph": ("Graph", "图谱"), "timeline": ("Timeline", "时间线"),
    "profiles": ("Profiles", "画像"), "forgetting": ("Forgetting", "遗忘"),
    "runs": ("Runs and jobs", "运行与任务"), "privacy": ("Privacy", "隐私"),
}  # fmt: skip
ASKED = {"ask": {"q": "Where do I live?"}}
SCRIPT = (
    '<img src=x onerror="window.ran=1"><script>window.ran=1</script><b>{{window.ran=1}}</b>**b**'
)
CONTRAST = "axe.run({runOnly: ['color-contrast']}).then(found => found.violations)"


def assert_accessible(page: Page) -> None:
    found = Axe().run(page, options={"runOnly": ["wcag2a", "wcag2aa"]})
    assert 0 == found.violations_count, f"{page.url}: {found.generate_report()}"


@pytest.fixture
def watched(page):
    """A page that must have no error, of which no script may speak."""
    faults: list[str] = []

    def note(said: ConsoleMessage) -> None:
        if said.type == "error":
            faults.append(f"{said.text} {said.location['url']}")

    listeners = {
        "pageerror": lambda error: faults.append(str(error)),
        "console": note,
        "dialog": lambda dialog: faults.append(dialog.message),
    }
    for event, listener in listeners.items():
        page.on(event, listener)
    yield page
    for event, listener in listeners.items():
        page.remove_listener(event, listener)
    page.emulate_media(color_scheme="light")
    page.set_viewport_size({"width": 1280, "height": 800})
    assert [] == faults


@pytest.fixture(scope="module")
def hostile(inspector):
    """A user whose names and turns are partly HTML."""
    scope = Scope(f"app {SCRIPT}", f"user {SCRIPT}")
    texts = [f"I live in {SCRIPT}.", f"My dog is called Rex {SCRIPT}.", *TALKS[ANA]]
    run_sync(tell(inspector.memory, scope, texts))
    odd = NewMemory(text=SCRIPT, kind="episodic", author=SCRIPT, key=SCRIPT)
    run_sync(inspector.memory.remember(scope, [odd]))
    return scope


@pytest.mark.tail
@pytest.mark.parametrize("path", TITLES)
def test_a_page_is_accessible_fits_a_dark_phone_and_makes_no_html_of_texts(path, watched, hostile):
    settled(watched, link(path, hostile, **ASKED.get(path, {})))
    expect(watched.locator("main h1")).to_have_text(TITLES[path][0])
    expect(watched.locator("html")).to_have_attribute("lang", "en")
    assert not watched.evaluate("'ran' in window")
    assert 0 == watched.locator("img[src='x']").count()
    assert_accessible(watched)
    watched.emulate_media(color_scheme="dark")
    watched.set_viewport_size({"width": 390, "height": 844})
    expect(watched.locator("body.body--dark")).to_have_count(1)
    watched.wait_for_function("document.documentElement.scrollWidth <= 390")
    assert [] == watched.evaluate(CONTRAST)


@pytest.mark.tail
@pytest.mark.parametrize(
    ("path", "asked", "shown"),
    [
        ("ask", {"q": f"live {SCRIPT}", "window": "1", "left_out": "1"}, f"I live in {SCRIPT}."),
        ("memories", {"kind": "episodic"}, f"I live in {SCRIPT}."),
        ("memories", {"thread": SCRIPT, "kind": "episodic"}, "No memory in recall fits the filter"),
        ("memory", {"key": SCRIPT}, SCRIPT), ("timeline", {"when": SCRIPT}, "last Tuesday"),
    ],
)  # fmt: skip
def test_words_of_an_address_and_texts_are_no_html(path, asked, shown, watched, hostile):
    settled(watched, link(path, hostile, **asked))
    expect(watched.get_by_text(shown).first).to_be_visible()
    if "window" in asked:
        expect(watched.get_by_text("tokens (")).to_be_visible()
    assert not watched.evaluate("'ran' in window")
    assert 0 == watched.locator("main :is(img, b)").count()


@every_case(*TITLES)
def test_the_server_titles_each_page_in_the_language_of_the_browser(path, inspector):
    for language, scope, title in zip(("en", "zh-CN"), (ANA, LIN), TITLES[path], strict=True):
        texts = sent(f"{inspector.address}/{link(path, scope, **ASKED.get(path, {}))}", language)
        assert f"{title} · pg-hippocampus" == texts[0]


@pytest.mark.parametrize("path", [*TITLES] if LONG else ["memories", "timeline", "forgetting"])
def test_a_phone_shows_pages_in_chinese_without_scrolling_sideways(path, phone):
    settled(phone, link(path, LIN, **ASKED.get(path, {})))
    expect(phone.locator("main h1")).to_have_text(TITLES[path][1])
    expect(phone.locator("html")).to_have_attribute("lang", "zh")
    if path in ("memories", "timeline"):
        expect(phone.get_by_text("我住在杭州。").first).to_be_visible()
    assert phone.evaluate("document.documentElement.scrollWidth") <= 390
    if LONG:  # the pages differ in their words alone
        assert_accessible(phone)


def test_a_phone_shows_a_memory_in_chinese_without_scrolling_sideways(phone, inspector):
    listed = run_sync(inspector.memory.list_memories(LIN))
    key = next(one.key for one in listed if one.text == "我住在杭州。")
    settled(phone, link("memory", LIN, key=key))
    expect(phone.locator("main h1")).to_contain_text("记忆")
    expect(phone.get_by_text("我住在杭州。").first).to_be_visible()
    assert phone.evaluate("document.documentElement.scrollWidth") <= 390


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
