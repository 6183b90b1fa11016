"""Who has memories, which memories fit a filter, how many there are, and slices of time."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4
from zoneinfo import ZoneInfo

import pytest
from every_case import every_case
from person import Person, alone
from turns import said

from shared_core import AsOf, InvalidInput, NewMemory, Scope, UserSummary, run_sync
from shared_core.recall import listing

pytestmark = pytest.mark.both_engines

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)  # a Sunday
NAIVE = NOON.replace(tzinfo=None)
TEXTS = [
    "I sail in 50% of my holidays.", "My ÖRTLICHER club is Café_Blau.", "我住在上海，喜欢喝茶。",
    "The car was sold.",
]  # fmt: skip
"""What Ann says, each a day before the one above, in two threads."""
TALK = [
    (1, "I planted tulips in the garden this morning."),
    (5, "My sister Mia visited us for dinner."), (5, "We saw a heron at the lake."),
    (12, "我把蜜蜂搬到了屋顶上。"), (40, "The old car was sold to a neighbour."),
]  # fmt: skip
"""What Lin says, so many days ago."""


def ago(days: int, minutes: int = 0) -> datetime:
    return NOON - timedelta(days=days) + timedelta(minutes=minutes)


async def fill(ann: Person) -> Person:
    """Let Ann say TEXTS, and set the clock to noon."""
    ann.clock.now = NOON
    turns = [said(f"e{number}", text, ago(number)) for number, text in enumerate(TEXTS)]
    for place in range(2):
        await ann.append_events(f"t{place}", turns[place::2])
    return ann


async def talk(lin: Person) -> Person:
    """Let Lin say TALK, and set the clock to noon."""
    lin.clock.now = NOON
    turns = [said(f"e{n}", text, ago(days, n)) for n, (days, text) in enumerate(TALK)]
    await lin.append_events("t", turns)
    return lin


@pytest.fixture(scope="module")
def two(still_memory, still_dsn):
    """Ann and Lin, whose memories no test changes."""
    memory, clock = still_memory
    ann = Person(memory, Scope(f"app {uuid4().hex}", "ann"), still_dsn, clock)
    return run_sync(fill(ann)), run_sync(talk(ann.other("lin")))


@pytest.fixture
def ann(two):
    two[0].clock.now = NOON
    return two[0]


@pytest.fixture
def lin(two):
    two[1].clock.now = NOON
    return two[1]


@pytest.fixture
async def new_ann(ann_by_clock):
    """An Ann of this test, who has said TEXTS."""
    return await fill(ann_by_clock)


@pytest.fixture
async def only_ann(dsn, clock):
    """The only user of a database, who has said TEXTS."""
    async with alone(dsn, clock) as ann:
        yield await fill(ann)


async def texts(ann: Person, **filters: Any) -> list[str]:
    """Return the texts of the listed memories, which must be as many as are counted."""
    found = await ann.list_memories(**filters)
    assert len(found) == await ann.count_memories(**filters)
    return [one.text for one in found]


async def sliced(ann: Person, *args: Any, **options: Any) -> list[str]:
    return [one.text for one in (await ann.slice(*args, **options)).memories]


@every_case(
    ("SAIL", [0]), ("50%", [0]), ("%", [0]), ("_", [1]), ("\\", []), ("örtlicher", [1]),
    ("CAFÉ", [1]), ("cafe", []), ("上海", [2]), ("住在上海，喜", [2]), (" ", [0, 1, 3]),
    ("", [0, 1, 2, 3]), ("plane", []),
)  # fmt: skip
async def test_a_part_of_the_text_is_found_in_any_case_and_without_wildcards(part, numbers, ann):
    assert [TEXTS[number] for number in numbers] == await texts(ann, contains=part)


async def test_a_thread_has_what_was_drawn_from_its_turns(new_ann):
    ann = new_ann
    told = ("I live in Porto.", "The tram is late.", "Bye.")
    turns = [said(text, text, ago(9)) for text in told]
    await ann.append_events("t2", turns)
    await ann.consolidate("t2")
    of_thread = await ann.list_memories(thread_id="t2")
    assert {"episodic", "semantic", "summary"} == {one.kind for one in of_thread}
    assert {"t2"} == {one.thread_id for one in of_thread}
    assert ["User lives in Porto."] == await texts(ann, thread_id="t2", kinds=["semantic"])
    assert [TEXTS[1], TEXTS[3]] == await texts(ann, thread_id="t1")
    assert [] == await texts(ann, thread_id="t1", contains="sail")
    assert [] == await texts(ann, thread_id="t%")


async def test_a_period_ends_before_its_end_pages_have_one_order_and_odd_bounds_are_refused(ann):
    begin, end = ago(2), NOON
    assert TEXTS[1:3] == await texts(ann, begin=begin, end=end)
    assert TEXTS[:3] == await texts(ann, begin=begin)
    assert TEXTS[3:] == await texts(ann, end=begin)
    pages = [await ann.list_memories(contains=" ", limit=1, offset=n) for n in range(4)]
    assert [TEXTS[0], TEXTS[1], TEXTS[3]] == [one.text for page in pages for one in page]
    wrong: list[Any] = [[NOON, NOON], [NAIVE], NOON, "2026", [NOON] * 10_001]
    for bounds in wrong:
        with pytest.raises(InvalidInput, match="bounds"):
            await ann.count_memories(bounds)
    pages: list[Any] = [{"limit": 0}, {"limit": 1001}, {"after": "ann"}, {"contains": 7}]
    for options in [*pages, {"app": ""}]:
        with pytest.raises(InvalidInput):
            await ann.memory.users(**options)


async def test_memories_are_counted_by_period(new_ann):
    ann = new_ann
    await ann.remember(NewMemory(text="Ann rows.", occurred_at=NOON))
    days = [ago(3), ago(2), ago(1)]
    assert 5 == await ann.count_memories()
    assert [1, 1, 3] == list(await ann.count_memories(days))
    assert [1, 1, 2] == list(await ann.count_memories(days, kinds=["episodic"]))
    assert [1, 0, 1] == list(await ann.count_memories(days, thread_id="t1"))
    assert [0] == list(await ann.other("bob").count_memories([NOON]))
    assert [] == list(await ann.count_memories([]))


async def test_users_come_by_application_and_name_in_pages(only_ann):
    memory, scope = only_ann.memory, only_ann.scope
    names = ("app", "bob"), ("app", "a/b%"), ("app.2", "ann"), ("zoo", "李雷")
    others = [Scope(*name) for name in names]
    for number, other in enumerate(others):
        await memory.remember(other, NewMemory(text="I sail.", occurred_at=ago(-number)))
    found = await memory.users()
    assert {scope, *others} == {one.scope for one in found}
    assert UserSummary(scope, 4, NOON) in found
    assert UserSummary(others[2], 1, ago(-2)) in found
    pages: list[UserSummary] = []
    after = None
    while page := await memory.users(limit=2, after=after):
        pages += page
        after = page[-1].scope
    assert found == pages
    assert ["a/b%", "ann", "bob"] == [one.scope.user for one in await memory.users("app")]
    assert ["bob"] == [one.scope.user for one in await memory.users("app", after=scope)]
    assert [] == await memory.users("ap") == await memory.users("app", after=Scope("zoo", "x"))


async def test_a_user_is_found_by_a_part_of_the_name(only_ann, monkeypatch):
    memory = only_ann.memory
    monkeypatch.setattr(listing, "WALKED", 2)
    named = [Scope("app", name) for name in ("Jo/Ann", "25%", "李雷", "zoe")]
    for scope in named:
        await memory.remember(scope, "I sail.")

    async def found(part: str, **options: Any) -> list[str]:
        return [one.scope.user for one in await memory.users(contains=part, **options)]

    assert ["Jo/Ann", "ann"] == await found("ANN")
    assert ["Jo/Ann"] == await found("ann", limit=1)
    assert ["ann"] == await found("ann", limit=1, after=named[0])
    assert ["Jo/Ann"] == await found("/") and ["25%"] == await found("%")
    assert ["李雷"] == await found("雷") and [] == await found("2F")


async def test_users_are_found_among_named_ones_also_with_no_memory_to_recall(new_ann):
    ann = new_ann
    app, me, bob = ann.scope.app, ann.scope.user, ann.other("bob")
    for other in (bob, ann.other("cleo"), replace(ann, scope=Scope(f"zoo {app}", "bob"))):
        await other.remember("I sail.")

    async def found(**options: Any) -> list[str]:
        return [one.scope.user for one in await ann.memory.users(app, **options)]

    assert [me, "cleo"] == await found(among=["cleo", "nobody", me])
    assert ["cleo"] == await found(among=["cleo", me], after=bob.scope)
    assert [me] == await found(among=["cleo", me], limit=1)
    assert ["cleo"] == await found(among=["cleo", me], contains="EO")
    assert [] == await found(among=[])
    with pytest.raises(InvalidInput, match="app"):
        await ann.memory.users(among=[me])
    dora = ann.other("dora")
    await dora.remember("Theo sails.")
    await dora.forget_about("Theo")
    assert UserSummary(dora.scope, 0, NOON) in await ann.memory.users(app)


async def test_a_user_without_memories_is_no_user_of_them(only_ann):
    from langgraph_store import PgHippocampusStore

    memory, ann, bob = only_ann.memory, only_ann.scope, only_ann.other("bob")
    store = PgHippocampusStore(engine=memory)
    await store.aput(("docs", "shelf"), "a", {"text": "not a memory"})
    await store.aput(("docs",), "b", {"text": "no user at all"})
    await bob.remember(NewMemory(text="gone", expires_at=NOON + timedelta(seconds=1)))
    assert [ann, bob.scope] == [one.scope for one in await memory.users(limit=2)]
    await bob.forget_scope()
    assert [ann] == [one.scope for one in await memory.users()]


@every_case(
    {"thread_id": ""}, {"thread_id": 7}, {"contains": None}, {"contains": "\x00"},
    {"begin": NAIVE}, {"end": "yesterday"}, {"begin": NOON, "end": NOON},
    {"kinds": "episodic"},
)  # fmt: skip
async def test_filters_that_mean_nothing_are_refused(options, ann):
    for verb in (ann.list_memories, ann.count_memories):
        with pytest.raises(InvalidInput, match=next(iter(options))[:4]):
            await verb(**options)


@every_case(
    ("last Tuesday", [2, 1]), ("yesterday", [0]), ("last month", [4]), ("上周二", [3]),
    ("最近六天", [0, 2, 1]), ("from last month to yesterday", [0, 2, 1, 3, 4]), ("in 1999", []),
)  # fmt: skip
async def test_words_find_what_was_said_then_newest_first(when, numbers, lin):
    assert [TALK[number][1] for number in numbers] == await sliced(lin, when)


async def test_ends_are_exclusive_pages_have_one_order_parts_are_counted_and_a_query_ranks(lin):
    first = ago(40, 4)
    last = ago(1)
    oldest_first = await sliced(lin, begin=first, end=last, order="oldest")
    assert [TALK[n][1] for n in (4, 3, 1, 2)] == oldest_first
    everything = await sliced(lin)
    pages = [one for n in range(0, 6, 2) for one in await sliced(lin, limit=2, offset=n)]
    assert 5 == len(everything) and everything == pages
    assert everything[::-1] == await sliced(lin, order="oldest")
    assert everything[1:] == await sliced(lin, end=last)
    found = await lin.slice("from last month to yesterday", query="bees on the roof? 蜜蜂")
    assert TALK[3][1] == found.memories[0].text
    assert found.hits[0].parts and [hit.memory for hit in found.hits] == [*found.memories]
    within = await lin.slice("last Tuesday", query="蜜蜂")
    assert {TALK[1][1], TALK[2][1]} == {one.text for one in within.memories}
    assert within.memories[1:] == (await lin.slice("last Tuesday", query="蜜蜂", offset=1)).memories
    assert found.to_dict() == json.loads(json.dumps(found.to_dict()))
    assert await sliced(lin, "last Tuesday") == await sliced(lin, "last Tuesday", query=" ")
    found = await lin.slice("from 2026-11-09 to 2026-11-22", bucket="week", limit=1)
    assert [1, 3] == [one.count for one in found.buckets]
    assert datetime(2026, 11, 16, tzinfo=UTC) == found.buckets[1].begin == found.buckets[0].end
    whole = await lin.slice(bucket="month", kinds=["episodic"])
    assert [1, 4] == [one.count for one in whole.buckets]
    assert 5 == sum(one.count for one in (await lin.slice(bucket="day")).buckets)
    assert () == (await lin.other("bob").slice(bucket="day")).buckets
    zone = ZoneInfo("Pacific/Kiritimati")  # already the next day
    [day] = (await lin.slice(begin=ago(1), bucket="day", zone=zone)).buckets
    assert (22, 1) == (day.begin.day, day.count)


async def test_the_hour_that_comes_twice_is_two_parts(ann_by_clock):
    berlin = ZoneInfo("Europe/Berlin")
    begin = datetime(2026, 10, 25, 2, 45, tzinfo=berlin)  # summer time
    end = begin.replace(minute=15, fold=1)  # half an hour later
    moments = [begin, begin.replace(minute=0, fold=1), end]
    notes = [NewMemory(text=f"note {n}", occurred_at=at) for n, at in enumerate(moments)]
    ann_by_clock.clock.now = NOON
    await ann_by_clock.remember(notes)
    found = await ann_by_clock.slice(begin=begin, end=end, bucket="hour", zone=berlin)
    assert ["note 1", "note 0"] == [one.text for one in found.memories]
    assert [(0, 1), (1, 1)] == [(one.begin.fold, one.count) for one in found.buckets]
    assert [900, 900] == [one.end.timestamp() - one.begin.timestamp() for one in found.buckets]


async def test_a_slice_shows_what_is_current_and_of_its_user(ann_by_clock):
    lin = await talk(ann_by_clock)
    await lin.other(f"{lin.scope.user} ").remember(NewMemory(text="Not Lin's.", occurred_at=NOON))
    gone = NewMemory(text="Gone.", occurred_at=NOON, expires_at=NOON - timedelta(seconds=1))
    later = NewMemory(text="A plan.", key="plan", occurred_at=NOON, kind="reflection")
    await lin.remember([gone, later])
    assert ["A plan."] == await sliced(lin, begin=NOON - timedelta(hours=1))
    assert ["A plan."] == await sliced(lin, kinds=["reflection"])
    assert [] == await sliced(lin, kinds=[])
    assert [] == await sliced(lin, as_of=AsOf(known=ago(1)))
    await lin.forget("plan")
    assert [] == await sliced(lin, kinds=["reflection"])


@every_case(
    ({"when": "every Friday"}, "a recurring time"),
    ({"begin": NOON.replace(tzinfo=None)}, "time zone"),
    ({"begin": NOON, "end": ago(1)}, "end must be after begin"),
    ({"bucket": "fortnight"}, "bucket must be one of"),
    ({"order": "best"}, "order must be 'newest' or 'oldest'"),
    ({"kinds": ["turns"]}, "kind 'turns' is not known"),
    ({"limit": -1}, "limit must be between"), ({"offset": -1}, "offset must be between"),
    ({"asked_at": NOON.replace(tzinfo=None)}, "asked_at has no time zone"),
    ({"begin": "1700-01-01", "end": "2026-01-01", "bucket": "day"}, "more than 10,000 times"),
)  # fmt: skip
async def test_a_slice_that_means_nothing_is_refused(options, wrong, lin):
    with pytest.raises(InvalidInput, match=wrong):
        await lin.slice(**options)
