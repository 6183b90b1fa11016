"""The pages of the inspector about facts, the graph and profiles."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from browser import browsing, in_browser
from inspector import ANA, LIN, fill, inspecting, now, place
from playwright.sync_api import Locator, Page, expect

from shared_core import Scope, open_memory
from shared_core.ports.runs import Fact

pytest.importorskip("nicegui")

from shared_core.ui.pages.fact_picture import MOST_VALUES

pytestmark = in_browser

HOSTILE = "<img src=x onerror=\"document.title='hit'\"> {b} {{ 7 * 7 }}"


@pytest.fixture
def address(dsn: str, tmp_path: Path) -> Iterator[str]:
    now(fill(dsn))
    with inspecting(dsn, tmp_path / "ui.log") as found:
        yield found


@pytest.fixture
def page() -> Iterator[Page]:
    with browsing() as context:
        yield context.new_page()


async def facts(dsn: str, slot: str = "", scope: Scope = ANA) -> Sequence[Fact]:
    async with open_memory(dsn, worker=False) as memory:
        return await memory.facts(scope, slot, history=True)


async def profile_version(dsn: str, scope: Scope = ANA) -> int:
    async with open_memory(dsn, worker=False) as memory:
        known = await memory.profiles.of(scope).current()
        return known.version if known else 0


def act(page: Page, label: str) -> str:
    """Press the button of an action, confirm it, and return what it says it has done."""
    page.get_by_role("button", name=label, exact=True).first.click()
    asked = page.get_by_role("dialog")
    asked.get_by_role("button", name=label, exact=True).click()
    done = page.get_by_role("dialog").get_by_role("status")
    expect(done).to_be_visible()
    said = done.inner_text()
    with page.expect_navigation():
        page.get_by_role("button", name="Close", exact=True).click()
    return said


def fact_line(page: Page, value: str) -> Locator:
    return page.locator(".fact").filter(has=page.locator(".value", has_text=value)).first


def test_the_page_says_where_the_user_lives_since_when_and_who_said_so(
    address: str, page: Page
) -> None:
    page.goto(place(address, "/facts"))
    home = fact_line(page, "Edinburgh")
    expect(home).to_contain_text("● current")
    expect(home).to_contain_text("since 2026-03-0")
    expect(home).to_contain_text("user said: “I moved to Edinburgh yesterday.”")
    expect(fact_line(page, "Leeds")).to_contain_text("○ ended")
    home.get_by_role("link", name="in the thread thread-1").click()
    expect(page).to_have_url(re.compile(r"/ui/memories\?.*thread=thread-1"))

    page.goto(place(address, "/facts", slot="city"))
    known = page.get_by_role("table", name="What was known of the slot, and since when")
    expect(known.get_by_role("row").nth(1)).to_contain_text("Leeds")
    expect(page.get_by_role("img", name="Picture of both time lines")).to_be_visible()
    page.goto(place(address, "/facts", as_of="2026-03-01T12:00", status="current"))
    expect(fact_line(page, "Leeds")).to_contain_text("● current")
    expect(page.get_by_text("Edinburgh", exact=True)).to_have_count(0)


def test_a_fact_is_stated_retracted_and_restored(address: str, page: Page, dsn: str) -> None:
    page.goto(place(address, "/facts", slot="employer"))
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
    held = [one.value for one in now(facts(dsn, "employer")) if one.valid_until is None]
    assert held == ["Zenith"]


def test_a_slot_with_many_values_has_no_picture(address: str, page: Page, dsn: str) -> None:
    async def like_many() -> None:
        async with open_memory(dsn, worker=False) as memory:
            for number in range(MOST_VALUES + 1):
                await memory.state_fact(ANA, "like", f"tea {number}")

    now(like_many())
    page.goto(place(address, "/facts", slot="like", offset="9" * 5_000))
    expect(page.get_by_text("Too many values for a picture")).to_be_visible()
    expect(page.get_by_role("img", name="Picture of both time lines")).to_have_count(0)
    expect(fact_line(page, "tea 40")).to_contain_text("● current")


def test_the_graph_changes_and_is_searched(address: str, page: Page) -> None:
    page.goto(place(address, "/graph", history="1"))
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
    page.goto(place(address, "/graph", start="Pickle", goal="Northwind"))
    expect(page.get_by_text("— works at →")).to_be_visible()
    page.goto(place(address, "/graph", q="pick"))
    expect(page.get_by_role("table", name="Entities").get_by_role("row")).to_have_count(2)

    page.goto(place(address, "/graph", name="Pickle"))
    page.get_by_text("Merge or separate names").click()
    page.get_by_label("Other names").fill("Pickles, the dog")
    assert "2" in act(page, "Merge")
    page.goto(place(address, "/graph", name="the dog", depth="1"))
    expect(page.get_by_role("table", name="Edges of the graph")).to_contain_text("Pickle")
    page.get_by_text("Merge or separate names").click()
    assert "2" in act(page, "Separate")
    expect(page.get_by_role("table", name="Edges of the graph")).to_have_count(0)


def test_a_profile_is_updated_compared_and_rolled_back(address: str, page: Page, dsn: str) -> None:
    page.goto(place(address, "/profiles"))
    expect(page.get_by_text("No profile is stored here.")).to_be_visible()
    for text in ("I live in Leeds.\nassistant: Since when?", "I live in Lisbon now."):
        page.get_by_text("Update from a conversation").click()
        page.get_by_label("Conversation", exact=True).fill(text)
        act(page, "Update")
    expect(page.get_by_text("[- Leeds]")).to_be_visible()
    expect(page.get_by_text("[+ Lisbon]")).to_be_visible()
    page.get_by_role("link", name="1", exact=True).click()
    assert "Version 3" in act(page, "Roll back to version 1")
    assert now(profile_version(dsn)) == 3


def test_the_pages_are_in_chinese_and_change_nothing_in_read_only_mode(
    dsn: str, tmp_path: Path
) -> None:
    now(fill(dsn))
    with (
        inspecting(dsn, tmp_path / "ui.log", "--read-only") as address,
        browsing(locale="zh-CN") as context,
    ):
        page = context.new_page()
        page.goto(place(address, "/facts", LIN))
        expect(fact_line(page, "成都")).to_contain_text("● 当前")
        expect(page.get_by_text("陈述一条事实")).to_have_count(0)
        page.goto(place(address, "/graph", LIN))
        expect(page.get_by_role("table", name="图谱的边")).to_contain_text("住在")
        expect(page.get_by_text("添加关系")).to_have_count(0)
        page.goto(place(address, "/profiles", LIN))
        expect(page.get_by_text("还没有画像")).to_be_visible()
        expect(page.locator("summary", has_text="对话")).to_have_count(0)
