"""The pages of the inspector that ask and that show how the memory is: in a browser."""

import re
import uuid

from browser import in_browser
from inspector import ANA, LIN, TALKS, link, tell
from inspector_actions import choose
from playwright.sync_api import expect
from turns import said

from shared_core import Scope, run_sync

pytestmark = in_browser
OTHER = Scope("elsewhere", "bob")


def test_a_question_is_answered_without_a_reload_and_its_address_can_be_shared(page):
    page.goto(link("ask", ANA))
    field = page.get_by_label("Question")
    expect(field).to_be_focused()
    page.evaluate("window.isTheSame = true")
    field.fill("Where do I work now?")
    field.press("Enter")
    first = page.locator(".hit").first
    expect(first).to_contain_text("Northwind")
    expect(first.locator("mark").first).to_contain_text("work")
    assert page.evaluate("window.isTheSame")
    assert "q=Where+do+I+work+now%3F" in page.url
    summary = first.locator("summary")
    expect(first.locator(".numbers")).to_be_hidden()
    summary.click()
    expect(first.locator(".numbers")).to_contain_text("similar meaning")
    expect(first.locator(".numbers")).to_contain_text("turn-3")
    answer = first.locator(".text").inner_text()
    page.reload()
    expect(page.locator(".hit .text").first).to_have_text(answer)


def test_looking_at_a_memory_is_no_use_of_it(page, ana, inspector):
    page.goto(link("ask", ana, q="Where do I work now?", left_out="1", window="1"))
    expect(page.get_by_text("tokens (")).to_be_visible()
    expect(page.get_by_text("Not searched at all")).to_be_visible()
    memory = inspector.memory
    listed = run_sync(memory.list_memories(ana))
    found = run_sync(memory.accesses(ana, [one.memory_id for one in listed]))
    assert not any(one.access_count for one in found.values())


def test_it_says_why_a_memory_was_left_out_options_ask_again_and_the_window_shows_costs(page):
    page.goto(link("ask", ANA, q="Where do I work now?", limit="1"))
    expect(page.locator("[role=status]")).to_contain_text("1 memory in")
    page.get_by_text("What was left out, and why").click()
    reasons = page.get_by_text("Left out:")
    expect(reasons.first).to_have_text("Left out: further down (place 2) than the limit of 1.")
    assert "left_out=1" in page.url
    page.goto(link("ask", ANA, q="Where do I work now?", floor="0.99", left_out="1"))
    expect(reasons.first).to_contain_text("below the floor")
    page.goto(link("ask", ANA, q="dog", kinds="summary", left_out="1"))
    expect(page.get_by_text("was not asked for").first).to_be_visible()
    page.goto(link("ask", ANA, q="Where do I live?"))
    page.get_by_text("Options").click()
    page.get_by_label("As of: what held then").fill("2026-02-01")
    expect(page).to_have_url(re.compile("as_of=2026-02-01"))
    expect(page.get_by_text("No memory answers this.")).to_be_visible()
    page.goto(link("ask", ANA, q="Where do I live?", as_of="2026-03-01T12:00"))
    expect(page.locator(".hit .text").first).to_contain_text("Leeds")
    expect(page.get_by_label("As of: what held then")).to_have_value("2026-03-01T12:00")
    expect(page.get_by_text("Edinburgh")).to_have_count(0)
    page.goto(link("ask", ANA, q="Where do I live?", limit="many"))
    expect(page.get_by_role("alert")).to_contain_text("limit must be a number")
    page.goto(link("ask", ANA, q="Where do I work now?"))
    page.get_by_text("What a model would read").click()
    expect(page.get_by_text("of 2,000 tokens")).to_be_visible()
    expect(page.locator(".window-line").first).to_contain_text("f1")
    expect(page.get_by_text("the question comes last")).to_be_visible()
    choose(page, page.get_by_label("Conversation that is answered"), "thread-1")
    expect(page.get_by_text("one of the last turns of the thread").first).to_be_visible()
    page.get_by_label("Budget in tokens").fill("100")
    expect(page.get_by_text("of 100 tokens")).to_be_visible()
    expect(page.get_by_text("no room is left in the budget").first).to_be_visible()
    assert "thread=thread-1" in page.url and "budget=100" in page.url


def test_a_chinese_page_marks_chinese_words(phone):
    phone.goto(link("ask", LIN, q="我的猫叫什么？"))
    expect(phone.locator(".hit .text", has_text="团团").first.locator("mark").first).to_be_visible()
    expect(phone.locator("[role=status]")).to_contain_text("条记忆")
    assert phone.evaluate("document.documentElement.scrollWidth") <= 390


def test_the_overview_counts_the_whole_memory_or_one_user(whole, page):
    for one, texts in TALKS.items():
        run_sync(tell(whole, one, texts))
    run_sync(whole.append_events(OTHER, "thread-b", [said("b1", "I like tea.")]))
    page.goto(link(""))
    expect(page.locator(".tile", has_text="Users")).to_contain_text("3")
    expect(page.locator(".tile", has_text="Users")).to_contain_text("in 2 applications")
    expect(page.get_by_text("by when they occurred")).to_be_visible()
    expect(page.locator(".growth canvas")).to_be_visible()
    expect(page.locator(".about")).to_contain_text("Embedder")
    page.get_by_role("button", name="Examine").click()
    expect(page.locator(".finding", has_text="embedder").first).to_be_visible()
    page.get_by_role("link", name=f"{OTHER.app} / {OTHER.user}").click()
    expect(page.get_by_label("Question")).to_be_focused()
    page.goto(link("", OTHER, by="month"))
    expect(page.locator(".tile", has_text="Memories in recall")).to_contain_text("1")
    expect(page.locator(".counts").first).to_contain_text("turn")
    expect(page.get_by_role("link", name="by month")).to_have_attribute("aria-current", "true")


def test_a_token_opens_its_application_or_users_alone(inspector, ana, lin, page):
    memory, elsewhere = inspector.memory, Scope("elsewhere", f"bob {uuid.uuid4().hex}")
    run_sync(memory.append_events(elsewhere, "thread-b", [said("b1", "I like tea.")]))
    with inspector.showing(auth=True):
        for users, shown in ((None, "2"), ([ana.user], "1")):
            page.context.clear_cookies()
            page.goto(link(""))
            secret = run_sync(memory.tokens.create(ana.app, users=users)).text
            page.locator("input[name=token]").fill(secret)
            page.locator("input[name=token]").press("Enter")
            expect(page.locator(".tile", has_text="Users")).to_contain_text(shown)
            expect(page.locator(".about")).to_contain_text("Embedder")
            expect(page.locator(".about")).not_to_contain_text("Role")
            expect(page.locator(".counts").first).to_contain_text("turn")
            expect(page.get_by_text(elsewhere.user)).to_have_count(0)
            expect(page.get_by_role("button", name="Examine")).to_have_count(0)
