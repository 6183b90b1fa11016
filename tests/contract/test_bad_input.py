"""What people really type and models really answer: right results or clear errors, never halves."""

import asyncio
import math
import random
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial, reduce
from typing import Any

import psycopg
import pytest
from every_case import every_case
from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types
from langgraph.store.base import GetOp, ListNamespacesOp, MatchCondition, PutOp, SearchOp
from long_forms import LONG
from turns import said

from adk_memory import OpenMemoryService
from langgraph_store import PgHippocampusStore, memories_namespace
from langgraph_store.conformance.samples import word_vectors
from shared_core import CallableEmbedder, MemoryEngine, NewMemory, Scope, open_memory
from shared_core.errors import BatchError, EmbeddingMismatch, InvalidInput, ModelUnavailable

HERE = ("memories", "alice")
ALICE = Scope("app", "alice")
NOW = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)
TABLES = ("threads", "events", "memories", "embeddings", "facts", "memory_sources", "runs")


@pytest.fixture
def engine(dsn):
    engine = open_memory(dsn, embedder=word_vectors)
    yield engine
    asyncio.run(engine.close())


@pytest.fixture
def ours(engine):
    return PgHippocampusStore(engine=engine)


def rows(dsn: str) -> dict[str, int]:
    """Count the rows of every table that has any, past row security."""
    with psycopg.connect(dsn) as superuser:
        superuser.execute("SET search_path TO hippocampus")
        counts = {t: superuser.execute(f"SELECT count(*) FROM {t}".encode()) for t in TABLES}
        return {table: count for table, c in counts.items() for (count,) in c.fetchall() if count}


DRAWN = random.Random(3)
TEXTS = {
    "emoji": "👍🏽 🦜 I \u2764\ufe0f tea",
    "right to left": "\u202bאני שותה תה\u202c وأحب القهوة", "NUL": "a\x00b tea",
    "surrogates": "tea \ud800 and \udfff",
    "control characters": "tea\x01\x02\x1b[31m\ufeff\u200b",
    "quotes": "it's \"tea\" \\ '' %s {0} $1 -- ; DROP TABLE memories",
    "tsquery": "tea & ! | <-> :* ( 'a'':1A", "1 MB of one word": "tea " * 250_000,
    "1 MB without a space": "x" * 1_000_000,
    "1 MB of long words": " ".join(DRAWN.randbytes(32).hex() for _ in range(16_000)),
    "1 MB of Chinese": "".join(map(chr, DRAWN.choices(range(0x4E00, 0x9FFF), k=330_000))),
}  # fmt: skip
any_text = pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)


def clean(text: str) -> str:
    return re.sub("[\x00\ud800-\udfff]", "\ufffd", text).strip()


@any_text
async def test_any_text_is_remembered_whole_and_found(engine, text):
    await engine.remember(ALICE, "something else")
    await engine.remember(ALICE, NewMemory(text=text, author=text[:50], metadata={text[:9]: text}))
    [hit, *_] = await engine.recall(ALICE, text[:500])
    assert hit.memory.text == clean(text)


@any_text
async def test_any_turn_of_a_thread_is_remembered_and_consolidated(engine, text, dsn):
    """A run reads 200,000 characters of a turn. By day one text alone has more."""
    if not LONG:
        text = text[: 210_000 if text.startswith("xxx") else 40_000]
    turns = [said("e1", text), said("e2", "My name is Alice."), said("e3", "ok " + text)]
    assert await engine.append_events(ALICE, "s", turns) == {"e1", "e2", "e3"}
    assert (await engine.consolidate(ALICE, "s")).events == rows(dsn)["events"] == 3
    assert "Alice" in [fact.value for fact in await engine.facts(ALICE)]


@any_text
async def test_any_text_in_a_value_comes_back(ours, text):
    await ours.aput(HERE, "k", {"text": text, "list": [text[:9]], text[:9]: 1})
    item = await ours.aget(HERE, "k")
    assert item is not None and str(item.value["text"]).strip() == clean(text)
    assert [found.key for found in await ours.asearch(HERE, query=text)] == ["k"]


@pytest.mark.parametrize("text", ["?!…", "👍", "\u200b", "—", "٣", "ა", "\ue000"])
async def test_the_bundled_model_takes_the_oddest_texts(shared_memory, scope, text):
    await shared_memory.remember(scope, ["tea", text])
    await PgHippocampusStore(engine=shared_memory).aput(HERE, "k", {"text": text})
    assert len(await shared_memory.recall(scope, f"a {text}")) == 2


@pytest.mark.parametrize("blank", ["", " ", "\n\t\u3000", "\x1f"])
async def test_a_blank_memory_is_refused_and_a_blank_turn_is_only_logged(engine, dsn, blank):
    with pytest.raises(InvalidInput, match="text"):
        await engine.remember(ALICE, ["tea", blank])
    assert rows(dsn) == {}
    await engine.append_events(ALICE, "s", [said("e1", blank)])
    assert rows(dsn) == {"threads": 1, "events": 1}
    assert await engine.recall(ALICE, blank) == []


@pytest.mark.parametrize("value", [{"text": ""}, {"content": " "}, {}, {"text": None}])
async def test_an_item_without_words_is_kept_and_found_by_no_meaning(ours, value):
    await ours.aput(HERE, "k", value)
    await ours.aput(HERE, "tea", {"text": "tea"})
    assert (await ours.aget(HERE, "k")).value == value  # type: ignore[union-attr]
    found = await ours.asearch(HERE, query="text content")
    assert ["tea", "k"] == [item.key for item in found] and found[1].score is None


CIRCULAR: dict[str, Any] = {}
CIRCULAR["self"] = CIRCULAR
DEEP: dict[str, Any] = reduce(lambda inner, _: {"a": inner}, range(5_000), {})


@pytest.mark.parametrize(
    "bad", [{"n": math.nan}, {"n": [math.inf]}, {"at": NOW}, {"set": {1}}, {"bytes": b"x"},
            {("a", 1): 2}, {1: "a", "1": "b"}, {"in": [{"a": ({None: 1},)}]},
            {"self": CIRCULAR}, {"deep": DEEP}, {"o": object()}],
    ids=lambda bad: str(next(iter(bad))),
)  # fmt: skip
async def test_a_value_that_is_no_json_is_refused_alone(ours, dsn, bad):
    await ours.aput(HERE, "old", {"text": "tea"})
    with pytest.raises(BatchError) as failed:
        await ours.abatch([PutOp(HERE, k, v) for k, v in (("a", {}), ("old", None), ("b", bad))])
    assert [2] == list(failed.value.errors)
    with pytest.raises(InvalidInput, match=r"'b'.*JSON"):
        await ours.aput(HERE, "b", bad)
    assert rows(dsn)["memories"] == 1
    with pytest.raises(InvalidInput, match="JSON"):
        await ours.asearch(HERE, filter={"k": {"$eq": bad}})


LOOKALIKES = [
    ("a/b", "c"), ("a", "b/c"), ("a%2Fb", "c"), ("a%2fb", "c"), ("a%252Fb", "c"), ("a.b", "c"),
    ("a%2Eb", "c"), ("a%252Eb", "c"), ("a", "b.c"), ("a", "c"), ("A", "c"), ("a ", "c"),
    (" a", "c"), ("a", "c "), ("a", "c\n"), ("é", "c"), ("e\u0301", "c"), ("\u0430", "c"),
    ("ａ", "c"), ("a\u200b", "c"), ("a%", "c"), ("a_", "c"), ("a'", "c"), ('a"', "c"),
    ("a\\", "c"), ("*", "*"), ("a", "*"), ("..", ".."), ("/", "/"), ("ß", "c"), ("ss", "c"),
    ("x" * 300, "y" * 300), ("x" * 300, "y" * 299), ("🦜" * 300, "%" * 300), ("memories", "a"),
    ("i", "c"), ("İ", "c"), ("ı", "c"), ("a:b", "c"), ("null", "0"), ("a", "c/memories"),
]  # fmt: skip


async def test_ids_that_look_alike_never_share_memory(engine):
    service, store = OpenMemoryService(engine=engine), PgHippocampusStore(engine=engine)
    for n, (app, user) in enumerate(LOOKALIKES):
        entry = MemoryEntry(content=types.Content(parts=[types.Part(text=f"tea {n}")]), id="k")
        await service.add_memory(app_name=app, user_id=user, memories=[entry])
        await engine.append_events(Scope(app, user), "s", [said("e1", f"tea said {n}")])
    for n, (app, user) in enumerate(LOOKALIKES):
        found = (await service.search_memory(app_name=app, user_id=user, query="tea")).memories
        assert {e.content.parts[0].text for e in found} == {f"tea {n}", f"tea said {n}"}  # type: ignore[index]
        labels = memories_namespace(app, user)
        items = await store.asearch(labels)
        assert {item.value["content"] for item in items} == {f"tea {n}", f"tea said {n}"}
        assert {item.namespace for item in items} == {labels}


@pytest.mark.parametrize("alphabet", [range(48, 123), range(0x4E00, 0x9FFF)], ids=["en", "zh"])
@pytest.mark.parametrize("length", [300, 1_000, 10_000])
async def test_long_ids_work_or_are_refused_clearly(ours, length, alphabet, dsn):
    long = "".join(chr(random.Random(n).choice(alphabet)) for n in range(length))
    engine, written = ours.engine, 0
    for write in (lambda: ours.aput((long, "a"), "k", {"text": "tea"}),
                  lambda: ours.aput((long, long), long, {"text": "tea"}),
                  lambda: engine.append_events(Scope(long, long), long, [said(long, "tea")]),
                  lambda: engine.append_events(ALICE, "s", [said(long, "tea")])):  # fmt: skip
        try:
            await write()
            written += 1
        except InvalidInput as error:
            assert "long" in str(error) and (length, long[0] < "z") != (300, True)
        assert rows(dsn).get("memories", 0) == written


@every_case(" ", "\t\n", "\u3000")
async def test_a_blank_name_is_nobody(blank, engine):
    for scope, name in ((Scope(blank, "u"), "app_name"), (Scope("a", blank), "user_id")):
        with pytest.raises(InvalidInput, match=f"{name} must not be blank"):
            await engine.remember(scope, "tea")
        with pytest.raises(InvalidInput, match=f"{name} must not be blank"):
            await engine.process_memory("tea", scope.user, app=scope.app)


@every_case("", "a\x00b", "\ud800", None, 7)
async def test_an_id_that_cannot_be_stored_is_named_in_the_error(bad, engine, dsn):
    for scope in (Scope(bad, "u"), Scope("a", bad)):
        for call in (partial(engine.remember, scope, "tea"), partial(engine.recall, scope, "tea"),
                     partial(engine.append_events, scope, "s", [said("e1", "tea")]),
                     partial(engine.forget, scope, "k")):  # fmt: skip
            with pytest.raises(InvalidInput, match=r"app_name|user_id"):
                await call()
    with pytest.raises(InvalidInput, match="thread_id"):
        await engine.append_events(ALICE, bad, [said("e1", "tea")])
    turns = [said("e1", "tea"), replace(said("e2", "tea"), event_id=bad)]
    with pytest.raises(InvalidInput, match="event_id"):
        await engine.append_events(ALICE, "s", turns)
    if bad is not None:
        with pytest.raises(InvalidInput, match="key"):
            await engine.remember(ALICE, ["tea", NewMemory(text="tea", key=bad)])
    assert rows(dsn) == {}


@every_case("", "a\x00b", "\ud800")
async def test_what_cannot_be_stored_is_never_there(bad, ours):
    await ours.aput(HERE, "k", {"n": 1})
    assert await ours.aget(HERE, bad) is None
    await ours.adelete(HERE, bad)
    assert await ours.engine.forget(ALICE, bad) == 0
    assert await ours.asearch(HERE, filter={bad: 1}) == []
    assert len(await ours.asearch(HERE, filter={"n": {"$ne": bad}})) == 1


@every_case("", "a.b", 1, "a\x00b", "a\ud800")
async def test_a_label_that_cannot_be_used_is_an_error(bad, ours):
    listing = ListNamespacesOp((MatchCondition("suffix", (bad,)),))
    for op in (GetOp((bad,), "k"), PutOp(("a", bad), "k", {}), SearchOp((bad,)), listing):
        with pytest.raises(ValueError, match=r"[Nn]amespace|label"):
            await ours.abatch([op])
    for root in ((), ("langgraph",)):
        with pytest.raises(ValueError, match="amespace"):
            await ours.aput(root, "k", {})


ODD_LABELS = ["%", "_", "/", "a/b", "a%2Fb", "a'b", 'a"b', "\\", "*x", "🦜", "é",
              "e\u0301", " a ", "a b", "A", "a", "+", "x" * 300, "(", "{", "\n"]  # fmt: skip
ODD_SPACES = [("odd", label) for label in ODD_LABELS]


async def test_odd_labels_are_kept_apart_and_come_back_whole(ours):
    await ours.abatch([PutOp(space, "k", {"label": space[1]}) for space in ODD_SPACES])
    for space in ODD_SPACES:
        item = await ours.aget(space, "k")
        assert item is not None and item.value == {"label": space[1]}
        assert [found.namespace for found in await ours.asearch(space)] == [space]
        assert await ours.alist_namespaces(prefix=space) == [space]
        assert await ours.alist_namespaces(suffix=space[1:]) == [space]
    assert await ours.alist_namespaces() == sorted(ODD_SPACES)


NONSENSE: list[tuple[Callable[[PgHippocampusStore], Any], str]] = [
    (lambda s: s.batch([ListNamespacesOp((MatchCondition("sideways", ("a",)),))]), "sideways"),  # type: ignore[arg-type]
    (lambda s: s.search((), limit=-1), "a whole number from 0, got -1"),
    (lambda s: s.search((), offset=-1), "a whole number from 0, got -1"),
    (lambda s: s.list_namespaces(limit=-1), "a whole number from 0, got -1"),
    *[(lambda s, ttl=ttl: s.put(HERE, "new", {"n": 1}, ttl=ttl), "time to live")
      for ttl in (0, -1, math.nan, math.inf, 1e30)],
    *[(lambda s, wanted=wanted: s.search(HERE, filter=wanted), "filter")
      for wanted in ({"$eq": 1},
                     {"a": {"b": {"$regex": "x"}}}, {"n": {"$gt": None}}, [], "", "x", 0)],
]  # fmt: skip


@every_case(*NONSENSE)
def test_an_argument_that_makes_no_sense_is_a_clear_error(call, word, ours, dsn):
    with pytest.raises(InvalidInput, match=word):
        call(ours)
    assert rows(dsn) == {}


def reads_and_writes(engine: MemoryEngine) -> list[Callable[[], Any]]:
    return [
        lambda: engine.remember(ALICE, ["tea", "coffee"]),
        lambda: engine.append_events(ALICE, "s", [said("e1", "My name is Alice.")]),
        lambda: PgHippocampusStore(engine=engine).aput(HERE, "k", {"text": "tea"}),
        lambda: PgHippocampusStore(engine=engine).asearch(HERE, query="tea"),
    ]


def broken(texts: list[str]) -> Any:
    raise OSError("the model is on fire")


BROKEN: dict[str, Callable[[list[str]], Any]] = {
    "raises": broken, "NaN": lambda texts: [[math.nan, 1.0] for _ in texts],
    "infinite": lambda texts: [[1e39, 1.0] for _ in texts],
    "ragged": lambda texts: [[1.0] * (n + 1) for n in range(len(texts) + 1)],
    "too many": lambda texts: [[1.0, 2.0]] * (len(texts) + 1),
    "too few": lambda texts: [[1.0, 2.0]] * (len(texts) - 1),
    "nothing": lambda texts: [[] for _ in texts],
    "no numbers": lambda texts: [["a", "b"] for _ in texts],
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
async def test_a_broken_embedder_is_named_and_nothing_is_stored(dsn, name):
    works = False

    def embed(texts: list[str]) -> Any:
        return word_vectors(texts) if works else BROKEN[name](texts)

    async with open_memory(dsn, embedder=CallableEmbedder(embed, model="toy-1")) as engine:
        for call in reads_and_writes(engine):
            with pytest.raises(ModelUnavailable, match="toy-1"):
                await call()
        assert rows(dsn) == {}
        works = True
        await engine.remember(ALICE, "tea and coffee")
        works = False
        assert len(await engine.recall(ALICE, "coffee")) == 1


async def test_what_a_failed_consolidation_left_undone_is_done_next_time(dsn):
    models = iter([word_vectors, broken, word_vectors])

    def embed(texts: list[str]) -> Any:
        return next(models)(texts)

    async with open_memory(dsn, embedder=embed) as engine:
        await engine.append_events(ALICE, "s", [said("e1", "My name is Alice.")])
        with pytest.raises(ModelUnavailable):
            await engine.consolidate(ALICE, "s")
        assert rows(dsn) == {"threads": 1, "events": 1, "memories": 1, "embeddings": 1,
                             "memory_sources": 1}  # fmt: skip
        assert (await engine.consolidate(ALICE, "s")).facts_opened == 1


async def test_an_embedder_that_changes_its_length_is_refused(dsn):
    length = 8
    toy = CallableEmbedder(lambda texts: [[1.0] * length for _ in texts], model="toy")
    async with open_memory(dsn, embedder=toy) as engine:
        await engine.remember(ALICE, "tea")
        before, length = rows(dsn), 9
        for again in (engine, open_memory(dsn, embedder=toy)):
            for call in reads_and_writes(again):
                with pytest.raises(EmbeddingMismatch, match=r"toy.*\b[89] dim"):
                    await call()
            await again.close()
        assert rows(dsn) == before


async def test_vectors_of_another_model_are_refused_with_both_names_and_a_way_out(dsn):
    old, new = (CallableEmbedder(word_vectors, model=name) for name in ("old", "new"))
    async with open_memory(dsn, embedder=old) as engine:
        await engine.remember(ALICE, "tea")
    before = rows(dsn)
    async with open_memory(dsn, embedder=new) as engine:
        for call in [*reads_and_writes(engine), lambda: engine.recall(ALICE, "tea")]:
            with pytest.raises(EmbeddingMismatch, match=r"'old'.*'new'.*schema="):
                await call()
    assert rows(dsn) == before


async def test_a_model_that_has_made_no_vector_may_be_replaced(dsn):
    old, new = (CallableEmbedder(word_vectors, model=name) for name in ("old", "new"))
    async with open_memory(dsn, embedder=old) as engine:
        assert await engine.recall(ALICE, "is anybody there?") == []
    async with open_memory(dsn, embedder=new) as engine:
        await engine.remember(ALICE, "tea")
        assert len(await engine.recall(ALICE, "tea")) == 1


def test_an_async_embedder_meets_one_loop_however_many_call_it(dsn):
    met: set[asyncio.AbstractEventLoop] = set()

    async def embed(texts: list[str]) -> list[list[float]]:
        met.add(asyncio.get_running_loop())
        return word_vectors(texts)

    with PgHippocampusStore(dsn, index={"dims": 64, "embed": embed}) as store:
        for n in range(3):
            asyncio.run(store.aput(HERE, str(n), {"text": "tea"}))
        assert (len(store.search(HERE, query="tea")), len(met)) == (3, 1)
