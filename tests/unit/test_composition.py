"""Which of the memories found a model is shown."""

from datetime import UTC, datetime, timedelta

from every_case import every_case

from shared_core.context.assembler import memory_block
from shared_core.context.composition import (
    ShownMemory,
    asks_nothing,
    composed,
    left_out,
    memory_label,
)
from shared_core.context.worth import Worth, hardly_answer, outdated_lines
from shared_core.nlp.uncertainty import uncertain


def said(text: str, turn: str, **parts: float) -> ShownMemory:
    return ShownMemory("", text, "episodic", (turn,), parts=parts)


def fact(text: str, *turns: str, **parts: float) -> ShownMemory:
    return ShownMemory("", text, "semantic", turns, parts=parts)


def statement(text: str, *turns: str, **parts: float) -> ShownMemory:
    return ShownMemory("", text, "statement", turns, parts=parts)


def summary(text: str, *turns: str, **parts: float) -> ShownMemory:
    return ShownMemory("", text, "summary", turns, parts=parts)


MOVED = said("I moved to Lisbon.", "1")
PIE = "Try a mushroom, leek and cheddar pie with a lid."
LIVES = fact("User lives in Lisbon.", "1")


@every_case(
    # A turn that tells no more than its fact; one that does.
    ("Where do I live?", [MOVED, LIVES], [LIVES]),
    ("Where do I live?", [LIVES, MOVED], [LIVES]),
    ("我住在哪里？", [said("我搬到苏州了", "1"), fact("用户住在苏州。", "1")], [1]),
    ("Where do I live?",
     [said("I moved to Lisbon, near the old tram depot, with my sister Jo.", "1"), LIVES], [0, 1]),
    ("When do I see the dentist?", [said("dentist on thursday", "1"), fact("dentist", "1")], [0]),
    # What is asked is in the turn alone.
    ("谁帮我记账？", [said("我弟弟阿泽帮我记账", "1"), fact("用户的兄弟叫阿泽。", "1")], [0, 1]),
    ("我弟弟叫什么？", [said("我弟弟阿泽帮我记账", "1"), fact("用户的兄弟叫阿泽。", "1")], [1]),
    ("Whom do I see?", [said("dentist on thursday", "1"), fact("dentist", "1")], [1]),
    # A summary of what is told, and one of what no other line tells.
    ("Where do I live?", [LIVES, summary("They talk about Lisbon and trams.", "1", "2")], [0]),
    ("Where do I live?", [LIVES, summary("They talk about old trams.", "3", "4")], [0, 1]),
    ("Where do I live?", [summary("They talk about old trams.", "3", ended=0.5)], []),
    # A statement of several turns: not beside one of them, nor with facts that tell all of it.
    ("Lisbon?", [statement("The user moved to Lisbon.", "1", "2"), MOVED], [1]),
    ("Lisbon?", [statement("The user lives in Lisbon.", "1", "2"), LIVES], [1]),
    (
        "Lisbon?",
        [statement("In May the user rode the yellow trams of Lisbon with a brass band.", "1"),
         LIVES],
        [0, 1],
    ),
    # What has ended, which a question about the past still asks for.
    ("Where do I live?", [said("I live in Porto.", "1", ended=1.0), fact("x", "2")], [1]),
    ("Where did I live before?", [said("I live in Porto.", "1", ended=1.0)], [0]),
    ("Where do I live?", [said("I live in Porto and sing.", "1", ended=0.5)], [0]),
    # What the user asked or only nodded to.
    ("Where do I live?", [said("Where is my dentist?", "1"), said("ok thanks", "2")], []),
    ("我住在哪里？", [said("好的，谢谢", "3"), said("牙医在哪？", "2"), LIVES], [2]),
    ("Where do I live?", [said("I live in Rome. Is it far?", "1")], [0]),
    ("Grapes?", [said("Can my dog eat grapes?", "1"), fact("User has a dog.", "1")], [1]),
    # The same typed without a mark.
    ("where do i live", [said("whats the capital of peru again", "1"), LIVES], [1]),
    ("where do i live", [said("do bees sleep at night", "1"), LIVES], [1]),  # by both judges
    ("我住哪", [said("去上海坐几号线来着", "1"), fact("用户住在苏州。", "2")], [1]),
    ("where do i live", [said("cheers mate, ta", "1"), said("好嘞 谢谢啦", "2"), LIVES], [2]),
    # An order may hold the only answer.
    ("when do i fly", [said("book me a flight to rome on 3 may please", "1")], [0]),
    ("我哪天出差？", [said("帮我订五月三号去北京的票", "1")], [0]),
    # A statement with the form of a question.
    ("boiler", [said("The landlord finally fixed the boiler??", "1")], [0]),
    ("gate code", [said("4471", "1")], [0]),
    # Echoes of an agent, and its answer to the question.
    ("Where do I live?", [said("Lisbon, how nice!", "1", agent=1.0)], []),
    ("Which restaurant did you recommend in Lisbon?",
     [said("I recommend the restaurant Taberna da Rua in Lisbon.", "1", agent=1.0)], [0]),
    ("what ideas did u have for it", [said(PIE, "1", agent=1.0)], [0]),
    ("What did I cook before?", [said(PIE, "1", agent=1.0)], []),
    ("Did I ever visit the U.S.?", [said(PIE, "1", agent=1.0)], []),
    ("What did I tell you about pie?", [said(PIE, "1", agent=1.0)], []),
    # The same words again; but a turn stands for no fact that still holds.
    ("Tea?", [said("I drink green tea daily.", "1"), said("Daily I drink green tea!", "2")], [0]),
    ("Tea?", [said("I stopped drinking tea.", "1"), fact("User drinks tea.", "2")], [0, 1]),
    # One word of difference is the news of a fact beside a fact.
    ("School?",
     [fact("Mia goes to school in Leeds.", "1"), fact("Zoe goes to school in Leeds.", "2")],
     [0, 1]),
    # Another number, and a denial, are not the same.
    (
        "Rent?",
        [said("The monthly rent of my old flat is 900.", "1"),
         said("The monthly rent of my old flat is 950.", "2")],
        [0, 1],
    ),
    ("房租？", [said("我现在每月房租三千", "1"), said("我现在每月房租四千", "2")], [0, 1]),
    ("Tea?", [said("I drink green tea.", "1"), said("I don't drink green tea.", "2")], [0, 1]),
    ("喝茶吗？", [said("我每天都喝绿茶", "1"), said("我每天都不喝绿茶", "2")], [0, 1]),
    # A turn whose fact leaves out a part of a list, a number, or half of what it says, stands for
    # both.
    ("Allergies?", [said("allergic to peanuts and soy", "1"), fact("allergic to peanuts", "1")],
     [0]),
    ("过敏？", [said("我对花生和芒果过敏", "1"), fact("用户对花生过敏。", "1")], [0]),
    ("Laptop?", [said("my laptop is an XPS w 16gb", "1"), fact("User's laptop is an XPS", "1")],
     [0]),
    ("Food?", [said("no peanuts for me, so no satay", "1"), fact("no peanuts", "1")], [0]),
    # Memories of no known kind are left as they are.
    ("Where do I live?", [ShownMemory("", "Where?"), ShownMemory("", "ok")], [0, 1]),
)  # fmt: skip
def test_each_matter_is_one_line(question, found, shown):
    wanted = [one if isinstance(one, int) else found.index(one) for one in shown]
    hidden = left_out(question, found)
    assert wanted == [place for place in range(len(found)) if place not in hidden]
    told = composed(question, found)
    assert len(found) == len(told.shown) + len(told.left_out)


def test_a_block_marks_what_a_later_line_doubts_and_says_what_it_leaves_out_and_why():
    """Whatever the parts of its score say."""
    alone = said("I live in Lisbon.", "1", similarity=1.0, told_later=99.0)
    assert [alone] == composed("Where do I live?", [alone]).shown
    for slot, is_marked in (("about.mia.allergy", False), ("bank", True)):
        allergy = fact("User is allergic to latex.", "1")._replace(slot=slot)
        lines = composed("where does my salary go", [NEW_BANK, OLD_BANK, allergy]).shown
        assert is_marked == (OLD_BANK not in lines)
    window = memory_block(composed("Where do I live?", [MOVED, LIVES]), 500)
    assert LIVES.text in window.prompt and MOVED.text not in window.prompt
    [dropped] = window.dropped
    assert (MOVED.text, "told by other items") == (dropped.item.text, dropped.reason)
    assert ("", []) == (memory_block(composed("", [LIVES]), 10).prompt, composed("", []).shown)
    # Whatever their sentences do: judging each would hold up the loop.
    thanks, asked = "cheers mate. " * 20, "where do you think is my car? " * 20
    assert asks_nothing(thanks[:104]) and not asks_nothing(thanks)
    lines = [said(asked[:90], "1"), said(asked, "2"), LIVES]
    assert lines[1:] == composed("where do i live", lines).shown


@every_case(
    ([0.9, 0.04, 0.05], {1}), ([0.01, 0.001], set()), ([0.001, 0.9], set()),
    ([0.05, 0.02, 0.02, 0.02], {3}), ([], set()),
)  # fmt: skip
def test_the_less_a_line_is_worth_beside_the_best_one_the_sooner_it_goes(chances, hidden):
    assert hidden == hardly_answer(chances)


@every_case(
    ("my flight to rome", "book me a flight to rome please", "2 Nov", "asked on 2 Nov"),
    ("my flight to rome", "book me a flight to rome please", "", "asked before"),
    ("my flight to rome", "we booked the flight to rome on monday", "2 Nov", "2 Nov"),
    ("my flight", "book me a flight, my sister lives in rome", "2 Nov", "2 Nov"),
    ("去罗马的机票", "帮我订一张去罗马的机票", "11月2日", "11月2日的请求"),
    ("去罗马的机票", "帮我订一张去罗马的机票", "", "以前的请求"),
    ("去罗马的机票", "去罗马的机票昨天订好了", "11月2日", "11月2日"),
)
def test_an_order_is_told_as_one(question, text, day, about):
    when = datetime(2026, 11, 2, tzinfo=UTC) if day else None
    order = ShownMemory(day, text, "episodic", ("1",), when)
    assert [order._replace(about=about)] == composed(question, [order]).shown
    by_agent = order._replace(parts={"agent": 1.0})
    assert about == day or all(one.about == day for one in composed(question, [by_agent]).shown)


DAY = datetime(2026, 3, 1, 9, tzinfo=UTC)
OLD_BANK = ShownMemory(
    "1 Mar", "my salary goes to Barclays", "episodic", ("1",), DAY, {"ended": 0.9, "told_later": 1}
)
NEW_BANK = ShownMemory(
    "2 May", "changed banks, my salary goes to Monzo now", "episodic", ("2",),
    DAY + timedelta(days=62), {"similarity": 0.9, "coverage": 1},
)  # fmt: skip


@every_case((0.9, 0.3, 0, {1}), (0.5, 0.3, 0, set()), (0.9, 0.3, 1, set()), (0.1, 0.6, 1, {1}))
def test_less_doubt_is_enough_beside_a_later_line_that_answers(answers, doubt, agent, outdated):
    lines = [NEW_BANK._replace(parts={"agent": agent}), OLD_BANK]
    assert outdated == outdated_lines(lines, [Worth(answers, 0.1), Worth(0.1, doubt)])
    assert doubt > 0.5 or not outdated_lines(lines[::-1], [Worth(0.1, 0.1), Worth(0.9, doubt)])


@every_case(
    (statement("The user pays the rent from Barclays.", "1"), True),
    (statement("The user sings in a choir.", "3"), False),
    (fact("User banks with Barclays.", "1"), False),
    (statement("The user moved the rent from Barclays to Monzo.", "1", "7"), False),
    (statement("The user pays the rent from somewhere."), False),  # its turns are forgotten
    (
        said("You can transfer the rent from Barclays in their app every month.", "4", agent=1),
        False,
    ),
    (said("The town hall takes the rent at the counter every single month.", "4", agent=1), False),
)
def test_what_goes_with_a_turn_that_perhaps_no_longer_holds_is_marked_too(line, is_marked):
    of_turn = "Barclays" in line.text
    line = line._replace(said_at=DAY + timedelta(minutes=1 if of_turn else 60 * 24))
    question = "where does my salary go, who takes the rent, Barclays or the town hall?"
    shown = composed(question, [NEW_BANK, OLD_BANK, line]).shown
    assert uncertain(OLD_BANK.text) in [one.text for one in shown]
    assert (uncertain(line.text) if is_marked else line.text) in [one.text for one in shown]


@every_case(
    ("thanks!", True), ("cheers mate", True), ("thx so much", True),
    ("好嘞 辛苦啦", True), ("早呀", True), ("...", True),
    ("where do i live", False), ("thanks! and where do i live", False), ("pizza", False),
    ("好的，那我住哪", False), ("i moved to leeds", False), ("plan my weekend", False),
    ("ok book it", False), ("ok where", False), ("好的，买吧", False), ("你好，订位", False),
    ("早上好，今天干嘛", False), ("她好吗", False), ("病好了吗", False), ("yes, leeds", False),
    ("ok friday then", False), ("4471", False), ("rome", False), ("过敏", False),
    ("good night routine", False), ("thanks 42", False),
)  # fmt: skip
def test_a_message_that_no_memory_helps(message, is_one):
    assert is_one == asks_nothing(message)


@every_case(
    ("I moved.", None, False, "27 Nov 2026"), ("I moved.", "user", False, "27 Nov 2026"),
    ("Noted.", "bot", False, "27 Nov 2026, bot"),
    ("User lives in Rome.", None, True, "since Nov 2026"),
    ("我搬家了。", "user", False, "2026年11月27日"), ("用户住在罗马。", None, True, "2026年11月起"),
)  # fmt: skip
def test_a_memory_is_labelled_as_people_write_dates(text, author, is_fact, label):
    when = datetime(2026, 11, 27, 20, 24, 33, 264_387, tzinfo=UTC)
    assert label == memory_label(text, when, author, is_fact=is_fact)
    speaker = label.partition(", ")[2]
    assert speaker == memory_label(text, None, author, is_fact=is_fact)
