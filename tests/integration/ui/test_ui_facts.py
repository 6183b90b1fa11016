"""The pages of the inspector about facts, the graph and profiles."""

import re

from browser import in_browser
from inspector import ANA, LIN, link, sent
from inspector_actions import act
from playwright.sync_api import Locator, Page, expect

from shared_core import run_sync
from shared_core.ui.pages.fact_picture import MOST_VALUES

pytestmark = in_browser

HOSTILE = "<img src=x onerror=\"document.title='hit'\"> {b} {{ 7 * 7 }}"


def fact_line(page: Page, value: str) -> Locator:
    return page.locator(".fact").filter(has=page.locator(".value", has_text=value)).first


def test_the_page_says_where_the_user_lives_since_when_and_who_said_so(page):
    page.goto(link("facts", ANA))
    home = fact_line(page, "Edinburgh")
    expect(home).to_contain_text("● current")
    expect(home).to_contain_text("since 2026-03-0")
    expect(home).to_contain_text("user said: “I moved to Edinburgh yesterday.”")
    expect(fact_line(page, "Leeds")).to_contain_text("○ ended")
    home.get_by_role("link", name="in the thread thread-1").click()
    expect(page).to_have_url(re.compile(r"/ui/memories\?.*thread=thread-1"))

    page.goto(link("facts", ANA, slot="city"))
    known = page.get_by_role("table", name="What was known of the slot, and since when")
    expect(known.get_by_role("row").nth(1)).to_contain_text("Leeds")
    expect(page.get_by_role("img", name="Picture of both time lines")).to_be_visible()
    page.goto(link("facts", ANA, as_of="2026-03-01T12:00", status="current"))
    expect(fact_line(page, "Leeds")).to_contain_text("● current")
    expect(page.get_by_text("Edinburgh", exact=True)).to_have_count(0)


def test_a_fact_is_stated_retracted_and_restored(page, ana, inspector):
    page.goto(link("facts", ana, slot="employer"))
    page.get_by_text("State a fact").click()
    page.get_by_role("button", name="State", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="State", exact=True).click()
    expect(page.get_by_role("alert").filter(has_text="value must")).to_be_visible()
    page.get_by_label("Value").fill("Zenith")
    assert "undo run" in act(page, "State")
    expect(fact_line(page, "Zenith")).to_contain_text("● current")
    expect(fact_line(page, "Northwind")).to_contain_text("○ ended")
    page.get_by_text("State a fact").click()
    page.get_by_label("Value").fill("Zenith")
    assert act(page, "State") == "It was known already: nothing changed."
    fact_line(page, "Zenith").get_by_role("link", name="details and actions").click()
    act(page, "Retract")
    expect(fact_line(page, "Zenith")).to_contain_text("○ ended")
    act(page, "Restore")
    expect(fact_line(page, "Zenith")).to_contain_text("● current")
    facts = run_sync(inspector.memory.facts(ana, "employer", history=True))
    assert ["Zenith"] == [one.value for one in facts if one.valid_until is None]


def test_a_slot_with_many_values_has_no_picture(ana, inspector):
    async def like_many() -> None:
        for number in range(MOST_VALUES + 1):
            await inspector.memory.state_fact(ana, "like", f"tea {number}")

    run_sync(like_many())
    texts = sent(f"{inspector.address}/{link('facts', ana, slot='like', offset='9' * 5_000)}")
    assert any("Too many values for a picture" in one for one in texts)
    assert not any("Picture of both time lines" in one for one in texts)
    assert "tea 40" in texts and any("● current" in one for one in texts)


def test_the_graph_changes_and_is_searched(page, ana):
    page.goto(link("graph", ana, history="1"))
    edges = page.get_by_role("table", name="Edges of the graph")
    expect(edges.get_by_role("row").filter(has_text="Leeds")).to_contain_text("○ ended")
    page.get_by_text("Add a relation").click()
    page.get_by_label("Relation").fill("knows")
    page.get_by_label("To", exact=True).first.fill(HOSTILE)
    act(page, "Add")
    row = edges.get_by_role("row").filter(has_text="onerror")
    expect(row).to_contain_text("● holds")
    row.get_by_role("link", name="details").click()
    act(page, "Retract")
    expect(edges.get_by_role("row").filter(has_text="onerror")).to_contain_text("○ ended")
    act(page, "Restore")
    expect(edges.get_by_role("row").filter(has_text="onerror")).to_contain_text("● holds")
    assert "hit" not in page.title()

    page.goto(link("graph", ana, q="pick"))
    expect(page.get_by_role("table", name="Entities").get_by_role("row")).to_have_count(2)


def test_a_path_through_the_graph_is_shown(inspector):
    path = sent(f"{inspector.address}/{link('graph', ANA, start='Pickle', goal='Northwind')}")
    assert any("— works at →" in one for one in path)


def test_names_are_merged_and_separated(page, ana):
    page.goto(link("graph", ana, name="Pickle"))
    page.get_by_text("Merge or separate names").click()
    page.get_by_label("Other names").fill("Pickles, the dog")
    assert "2" in act(page, "Merge", closes=False)
    page.goto(link("graph", ana, name="the dog", depth="1"))
    expect(page.get_by_role("table", name="Edges of the graph")).to_contain_text("Pickle")
    page.get_by_text("Merge or separate names").click()
    assert "2" in act(page, "Separate")
    expect(page.get_by_role("table", name="Edges of the graph")).to_have_count(0)


def test_a_profile_is_updated_compared_and_rolled_back(page, scope, inspector):
    page.goto(link("profiles", scope))
    expect(page.get_by_text("No profile is stored here.")).to_be_visible()
    for text in ("I live in Leeds.\nassistant: Since when?", "I live in Lisbon now."):
        page.get_by_text("Update from a conversation").click()
        page.get_by_label("Conversation", exact=True).fill(text)
        act(page, "Update")
    expect(page.get_by_text("[- Leeds]")).to_be_visible()
    expect(page.get_by_text("[+ Lisbon]")).to_be_visible()
    page.get_by_role("link", name="1", exact=True).click()
    assert "Version 3" in act(page, "Roll back to version 1")
    known = run_sync(inspector.memory.profiles.of(scope).current())
    assert known and 3 == known.version


def test_the_pages_are_in_chinese_and_change_nothing_in_read_only_mode(inspector, phone):
    with inspector.showing(read_only=True):
        phone.goto(link("facts", LIN))
        expect(fact_line(phone, "成都")).to_contain_text("● 当前")
        expect(phone.get_by_text("陈述一条事实")).to_have_count(0)
        phone.goto(link("graph", LIN))
        expect(phone.get_by_role("table", name="图谱的边")).to_contain_text("住在")
        expect(phone.get_by_text("添加关系")).to_have_count(0)
        phone.goto(link("profiles", LIN))
        expect(phone.get_by_text("还没有画像")).to_be_visible()
        expect(phone.locator("summary", has_text="对话")).to_have_count(0)
