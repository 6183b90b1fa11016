"""The pages of the inspector about memories, their times, and how they fade."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import UUID

from browser import in_browser
from every_case import every_case
from inspector import ANA, TALKS, link, sent
from inspector_actions import act, ask, choose, confirm, select, settled
from playwright.sync_api import expect
from turns import START

from shared_core import Memory, MemoryEngine, NewMemory, RetentionPolicy, Scope, run_sync

pytestmark = in_browser

AT_ONCE = RetentionPolicy(decay_rate=50.0, threshold=1.0, min_age_days=0.0)
"""A policy that fades everything at the next run."""


def memories(memory: MemoryEngine, scope: Scope, **filters: Any) -> Sequence[Memory]:
    return run_sync(memory.list_memories(scope, **filters))


def pinned(memory: MemoryEngine, scope: Scope, key: str) -> bool:
    return run_sync(memory.retention.curve(scope, key)).kept.pinned


def key_of(memory: MemoryEngine, scope: Scope, text: str) -> str:
    return next(one.key for one in memories(memory, scope) if one.text == text)


def test_filters_are_in_the_address(page):
    page.goto(link("memories", ANA))
    rows = page.locator(".memories tbody tr")
    expect(page.get_by_text("Select memories to change them.")).to_be_visible()
    everything = rows.count()
    page.get_by_label("Text contains").fill("pickle")
    page.get_by_role("button", name="Filter").click()
    page.wait_for_url("**q=pickle**")
    expect(rows.filter(has_text="User's dog is called Pickle.")).to_have_count(1)
    assert 1 < rows.count() < everything
    for text in rows.all_inner_texts():
        assert "pickle" in text.lower()


def test_the_address_filters_memories(inspector):
    def texts(**filters: str) -> list[str]:
        return sent(f"{inspector.address}/{link('memories', ANA, **filters)}")

    of_a_day = texts(kind="episodic", begin="2026-03-02", end="2026-03-02")
    assert {"My dog is called Pickle."} == {*of_a_day} & {*TALKS[ANA]}
    none = texts(kind="episodic", thread="no-such")
    assert any("No memory in recall fits the filter" in one for one in none)
    wrong = texts(kind="opinion")
    assert "alert" in wrong and "Text contains" in wrong
    assert any("opinion" in one and "episodic" in one for one in wrong)


def test_many_memories_come_page_by_page(page, scope, memory):
    times = [START + timedelta(minutes=number) for number in range(102)]
    new = [NewMemory(text=f"Note {n}.", occurred_at=at) for n, at in enumerate(times)]
    run_sync(memory.remember(scope, new))
    page.goto(link("memories", scope, q="Note"))
    rows = page.locator(".memories tbody tr")
    expect(page.get_by_text("1–50 / 102")).to_be_visible()
    expect(rows.first).to_contain_text("Note 101.")
    page.get_by_role("link", name="older →").click()
    page.get_by_role("link", name="older →").click()
    expect(page.get_by_text("101–102 / 102")).to_be_visible()
    expect(rows).to_have_count(2)
    query = parse_qs(urlsplit(page.url).query)
    assert (["100"], ["Note"]) == (query["offset"], query["q"])


def test_selected_memories_are_pinned_and_forgotten(page, ana, memory):
    turn = "My dog is called Pickle."
    key = key_of(memory, ana, turn)
    page.goto(link("memories", ana, kind="episodic"))
    expect(page.get_by_role("button", name="Pin", exact=True)).to_be_disabled()
    select(page, turn)
    assert "1 memory pinned. Unpin lets them fade again" in act(page, "Pin")
    assert pinned(memory, ana, key)
    select(page, turn)
    assert "1 memory no longer pinned" in act(page, "Unpin")
    assert not pinned(memory, ana, key)
    select(page, turn)
    will = ask(page, "Forget")
    assert "fact: User's dog is called Pickle." in will and "summary:" in will
    assert "What was derived from them alone goes too" in will
    assert "cannot be undone" in will and f"hippocampus export {ana.app} ana" in will
    confirm(page, "Forget")
    expect(page.get_by_text(turn)).to_have_count(0)
    assert [] == [one for one in memories(memory, ana) if "Pickle" in one.text]


def test_a_text_is_remembered(page, ana, memory):
    settled(page, link("memories", ana))
    page.get_by_text("Remember something").click()
    page.get_by_label("Text", exact=True).fill("The spare key is with Mr. Novak.")
    assert "The spare key" in ask(page, "Remember")
    said = confirm(page, "Remember")
    assert key_of(memory, ana, "The spare key is with Mr. Novak.") in said
    expect(page.locator(".memories")).to_contain_text("The spare key is with Mr. Novak.")


def test_what_is_about_a_name_goes_and_can_come_back(page, ana, memory):
    before = {one.text for one in memories(memory, ana) if one.kind != "summary"}
    settled(page, link("memories", ana))
    page.get_by_text("Forget what is about a name").click()
    page.get_by_label("A name or a thing").fill("Pickle")
    said = act(page, "Forget what is about it")
    left = {one.text for one in memories(memory, ana)}
    assert "Pickle" not in " ".join(left)
    run = said.split("undo the run ")[1].split(" ")[0]
    assert f"hippocampus runs {ana.app} ana --undo {UUID(run)}" in said
    run_sync(memory.undo_run(ana, run))
    assert before <= {one.text for one in memories(memory, ana)}


def test_the_page_of_a_fact_says_why_it_is_held(page, memory):
    page.goto(link("memory", ANA, key=key_of(memory, ANA, "User lives in Edinburgh.")))
    main = page.locator("main .content")
    expect(main).to_contain_text("I moved to Edinburgh yesterday.")
    expect(main).to_contain_text("User lives in Leeds.")
    expect(main).to_contain_text("never fades")
    page.get_by_role("link", name="I moved to Edinburgh yesterday.").click()
    expect(page.get_by_text("Learned from this turn")).to_be_visible()
    page.get_by_role("link", name="User lives in Edinburgh.").click()
    page.get_by_role("link", name="User lives in Leeds.").click()
    expect(page.get_by_text("ended", exact=True)).to_be_visible()
    page.get_by_role("link", name="what took its place").click()
    expect(page.get_by_text("User lives in Edinburgh.").first).to_be_visible()


def test_the_page_of_a_turn_changes_it(page, ana, memory):
    key = key_of(memory, ana, "I work at Northwind now.")
    page.goto(link("memory", ana, key=key))
    expect(page.get_by_text("fades out of recall").first).to_be_visible()
    act(page, "Pin")
    expect(page.get_by_text("It is pinned, so it never fades.")).to_be_visible()
    act(page, "Unpin")
    will = ask(page, "Forget")
    assert "User works at Northwind." in will
    confirm(page, "Forget")
    expect(page.get_by_text(f"There is no memory with the key {key}")).to_be_visible()


def test_the_timeline_zooms_also_by_a_click_on_a_bar_and_reads_words(page):
    page.goto(link("timeline", ANA))
    expect(page.get_by_text("2026-03-01 00:00 → 2026-03-05 00:00")).to_be_visible()
    turn = page.locator(".pair").filter(has_text="My dog is called Pickle.").first
    expect(turn).to_contain_text("User's dog is called Pickle.")
    page.get_by_text("The same as a table").click()
    page.get_by_role("table").get_by_role("link").first.click()
    page.wait_for_url("**begin=**")
    page.get_by_role("link", name="Zoom out").click()
    expect(page.locator("h2").first).to_contain_text("2026-0")
    page.get_by_role("link", name="All of time").click()
    page.get_by_label("A time, in words").fill("2026-03-02")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_text("2026-03-02 00:00 → 2026-03-03 00:00")).to_be_visible()
    expect(page.get_by_text("1 turn, ")).to_be_visible()
    page.goto(link("timeline", ANA, unit="day"))
    chart = page.locator(".chart canvas").first
    expect(chart).to_be_visible()
    page.wait_for_function(BARS_ARE_DRAWN)
    box = chart.bounding_box()
    assert box
    # Four days: the middle of the first one, at the foot of its bar.
    page.mouse.click(box["x"] + 44 + (box["width"] - 56) / 8, box["y"] + box["height"] - 40)
    page.wait_for_url("**begin=2026-03-01**")
    expect(page.get_by_text("2026-03-01 00:00 → 2026-03-02 00:00")).to_be_visible()


@every_case(("blue", "alert", "last Tuesday"), ("2020-05-01", "", "No memories in this range."))
def test_the_timeline_says_which_words_it_reads_and_names_empty_ranges(when, role, text, inspector):
    texts = sent(f"{inspector.address}/{link('timeline', ANA, when=when)}")
    assert any(text in one for one in texts)
    assert not role or role in texts


BARS_ARE_DRAWN = """() => {
    const chart = getElement(document.querySelector(".chart")).chart;
    return chart?.getModel() && chart.getZr().animation.isFinished();
}"""


def test_a_policy_is_set_and_taken_back(page, ana):
    settled(page, link("forgetting", ana))
    expect(page.get_by_text("built in").first).to_be_visible()
    page.get_by_text("Change the policy").click()
    choose(page, page.get_by_role("combobox", name="Preset"), "sensitive")
    assert "choose “Inherit from the level above”" in ask(page, "Set the preset")
    confirm(page, "Set the preset")
    expect(page.get_by_text("set for this user")).to_have_count(3)
    page.get_by_text("Change the policy").click()
    page.get_by_role("switch", name="It fades").click()
    act(page, "Set the rule")
    turn = page.get_by_role("row").filter(has=page.get_by_role("cell", name="turn", exact=True))
    expect(turn.filter(has_text="never fades")).to_have_count(1)
    page.get_by_text("Change the policy").click()
    choose(page, page.get_by_role("combobox", name="Preset"), "Inherit")
    assert "turn: never fades, summary: sensitive" in act(page, "Set the preset")
    expect(page.get_by_text("set for this user")).to_have_count(0)


def test_what_faded_can_be_brought_back(page, ana, memory):
    run_sync(memory.retention.set_policy({"episodic": AT_ONCE}, ana))
    page.goto(link("forgetting", ana))
    due = page.get_by_role("table", name="Memories that are due")
    expect(due.get_by_role("row")).to_have_count(1 + 4)
    expect(due).to_contain_text("score")
    assert "all of it can be brought back" in ask(page, "Run forgetting now")
    assert "4 faded out of recall" in confirm(page, "Run forgetting now")
    assert [] == memories(memory, ana, kinds=["episodic"])
    select(page, "My dog is called Pickle.")
    assert "1 memory back in recall" in act(page, "Bring back")
    assert 1 == len(memories(memory, ana, kinds=["episodic"]))
