"""The privacy class of what a run writes, in English and Chinese, with the bundled embedder.

What must not be stored reaches no table, no index and no fact, whichever way it comes.
"""

import json
import logging
import threading
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from turns import said

from langgraph_store import PgHippocampusStore, memories_namespace
from shared_core import Event, InvalidInput, MemoryEngine, NewMemory, Scope, open_memory
from shared_core.core.domain import (
    Conclusions,
    Extraction,
    FactDraft,
    InsightDraft,
    JsonValue,
    StatementDraft,
)
from shared_core.extraction.rule_based import RuleExtractor
from shared_core.models.embedders import CallableEmbedder, UseEmbedder
from shared_core.nlp.text import language
from shared_core.ports.jobs import Job
from shared_core.ports.session_logs import Seen
from shared_core.privacy.classifier import examples
from shared_core.privacy.redaction import PrivacyPolicy, Redaction

ANN = Scope("app", "ann")
CARD = "4111 1111 1111 1111"
KEY = "AKIAIOSFODNN7EXAMPLE"
PUBLIC = {"privacy": "public"}


async def tell(memory: MemoryEngine, *texts: str, first: int = 0, scope: Scope = ANN) -> None:
    turns = [said(number, text) for number, text in enumerate(texts, first)]
    await memory.append_events(scope, "t", turns)
    await memory.consolidate(scope, "t")


async def classes(memory: MemoryEngine, scope: Scope = ANN) -> dict[str, Any]:
    """Return the class of every memory that was derived, by its text."""
    found = await memory.list_memories(scope, kinds=["semantic", "reflection"], limit=1000)
    return {one.text: dict(one.value.get("metadata", {})).get("privacy") for one in found}  # type: ignore[arg-type, call-overload]


class Scripted(RuleExtractor):
    """A fake that finds what the test wrote, and concludes from memories what it wrote."""

    name = "fake-v1"

    def __init__(self, *found: Extraction, concluded: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self.found = list(found)
        self.concluded = concluded or {}

    async def extract(self, events: Sequence[Event], context: Sequence[Event]) -> Extraction:
        return self.found.pop(0)

    async def reflect(self, memories: Any, held: object, now: object) -> Conclusions:
        found = [(self.concluded.get(one.text), (one.memory_id,)) for one in memories]
        insights = [InsightDraft(text=text, memory_ids=ids) for text, ids in found if text]
        return Conclusions(insights=insights)


def fact(slot: str, statement: str, **more: Any) -> FactDraft:
    return FactDraft(**{
        "fact_type": "custom", "slot": slot, "value": statement, "statement": statement,
        "event_id": "e0", "functional": False, "confidence": 0.9, "pattern": "fake",
        "language": language(statement), **more,
    })  # fmt: skip


def statement(text: str, **more: Any) -> StatementDraft:
    return StatementDraft(text=text, event_ids=("e0",), **more)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (
            ("My daughter is called Cancan.", "She is five.", "She loves art.", "I work at Google.",
             "Beijing is the capital of China.", "Clara is the mother of Ben."),
            {"Beijing is the capital of China.": "public", "Clara is the mother of Ben.": "private",
             "Cancan is my daughter, is five and loves art.": "private",
             "User works at Google.": "private"},
        ),
        (
            ("我女儿叫灿灿", "她今年5岁", "她喜欢画画", "北京是中国的首都",
             "林悦是上海分公司的经理"),
            {"北京是中国的首都": "public", "林悦是上海分公司的经理": "private",
             "灿灿是我的女儿，今年5岁，喜欢画画": "private"},
        ),
    ],
)  # fmt: skip
async def test_what_the_rules_read_has_a_class(shared_memory, scope, texts, expected):
    await tell(shared_memory, *texts, scope=scope)
    found = await classes(shared_memory, scope)
    assert expected.items() <= found.items()
    assert {"private", "public"} == set(found.values())


async def test_whatever_an_extractor_leaves_open_gets_a_class(shared_dsn, scope):
    facts = [  # the class that is given, and the one that it gets
        ("about.paris.population", "Paris is the largest city of France.", {}, "public"),
        ("residence", "Beijing is the capital of China.", PUBLIC, "private"),  # by its slot
        ("首都", "堪培拉是澳大利亚的首都。", {}, "public"),
        ("小名", "小虎怕打雷。", {}, "private"),
        ("diagnosis", "The sea is salty.", {"privacy": "private"}, "private"),
    ]
    statements = [
        ("Canberra is the capital of Australia.", {}, "public"),
        ("The user said that Oslo is a city.", PUBLIC, "private"),
        ("小虎在学校跟同学打架了。", {}, "private"),
    ]
    family, kyoto = "Family comes first for Maya.", "Kyoto is the old capital of Japan."
    found = Extraction(
        facts=[fact(slot, text, **given) for slot, text, given, _ in facts],
        statements=[statement(text, **given) for text, given, _ in statements],
        insights=[InsightDraft(text=text, event_ids=("e0",)) for text in (kyoto, family)],
    )
    async with open_memory(shared_dsn, extractor=Scripted(found), worker=False) as memory:
        await tell(memory, "A long story.", scope=scope)
        expected = {text: told for *_, text, _, told in [*facts, *statements]}
        assert expected | {kyoto: "public", family: "private"} == await classes(memory, scope)


async def test_what_is_concluded_from_a_private_memory_is_private(shared_dsn, scope):
    concluded = {
        "Canberra is the capital of Australia.": "Paris is the largest city of France.",
        "Maya has a toothache.": "Kyoto is the old capital of Japan.",
    }
    found = Extraction(statements=[statement(text) for text in concluded])
    extractor = Scripted(found, concluded=concluded)
    async with open_memory(shared_dsn, extractor=extractor, worker=False) as memory:
        await tell(memory, "A long story.", scope=scope)
        await memory.reflect(scope)
        known = await classes(memory, scope)
        assert "public" == known["Paris is the largest city of France."]
        assert "private" == known["Kyoto is the old capital of Japan."]


async def test_an_embedder_that_fails_on_the_examples_leaves_all_private(dsn, caplog):
    asked: list[str] = []
    broken = True
    bundled = UseEmbedder()

    async def embed(texts: list[str]) -> Any:
        asked.extend(texts)
        if broken and examples("en")[0] in texts:
            raise RuntimeError("no more for today")
        return await bundled.embed_passages(texts)

    embedder = CallableEmbedder(embed, model="flaky")
    async with open_memory(dsn, embedder=embedder, worker=False) as memory:
        with caplog.at_level(logging.WARNING, "hippocampus"):
            await tell(memory, "Beijing is the capital of China.", "Rome is the capital of Italy.")
        assert {"private"} == set((await classes(memory)).values())
        assert 1 == asked.count(examples("en")[0])
        assert "every text counts as private: embedder 'flaky'" in caplog.text
        broken = False
        await tell(memory, "Canberra is the capital of Australia.", first=10)
        await tell(memory, "Kyoto is the old capital of Japan.", first=20)
        known = await classes(memory)
        assert "private" == known["Beijing is the capital of China."]
        assert "public" == known["Canberra is the capital of Australia."]
        assert "public" == known["Kyoto is the old capital of Japan."]
        assert 2 == asked.count(examples("en")[0])  # once in vain, once for good
        assert 0 == asked.count(examples("zh")[0])
        turn_and_statement = 2
        assert turn_and_statement == asked.count("Kyoto is the old capital of Japan.")


async def test_an_embedder_without_meaning_leaves_all_private(dsn):
    def lengths(texts: list[str]) -> list[list[float]]:
        return [[float(len(text)), float(len(text) % 7), 1.0] for text in texts]

    embedder = CallableEmbedder(lengths, model="lengths")
    async with open_memory(dsn, embedder=embedder) as memory:
        await tell(memory, "Beijing is the capital of China.", "北京是中国的首都")
        found = await classes(memory)
        assert 2 == len(found)
        assert {"private"} == set(found.values())


async def test_a_reader_leaves_out_what_is_public(shared_memory, scope):
    await tell(shared_memory, "Beijing is the capital of China.", "I love rowing.", scope=scope)
    store = PgHippocampusStore(engine=shared_memory)
    place = memories_namespace(scope.app, scope.user)
    not_public = {"$not": {"metadata": {"privacy": "public"}}}
    kept = await store.asearch(place, filter=not_public, limit=50)
    shown = {(one.value["kind"], one.value["content"]) for one in kept}
    assert ("semantic", "User likes rowing.") in shown
    assert ("episodic", "Beijing is the capital of China.") in shown
    assert ("semantic", "Beijing is the capital of China.") not in shown


def keyed(event_id: str, text: str, **more: Any) -> Event:
    """Return a turn whose metadata hold a secret."""
    return said(event_id, text, metadata={"raw": f"key {KEY}"}, **more)


def everything(dsn: str) -> str:
    """Return all rows of all tables as one text."""
    with psycopg.connect(dsn) as superuser:
        tables = superuser.execute(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = 'hippocampus'"
        ).fetchall()
        return "\n".join(
            str(row[0])
            for (table,) in tables
            for row in superuser.execute(f"SELECT to_jsonb(t) FROM hippocampus.{table} t")
        )


async def test_masked_before_anything_is_stored(memory, dsn):
    await memory.append_events(ANN, "t", [keyed("a", f"I live in Leeds. My card is {CARD}.")])
    turn = keyed("b", "我的密码是abc12345。我住在上海。")
    await memory.append_events(ANN, "t", [turn], later=True)
    await memory.remember(ANN, NewMemory(text=f"Her key is {KEY}.", key="k"))
    assert await memory.flush(60)
    await memory.consolidate(ANN, "t")
    stored = everything(dsn)
    for secret in (CARD, KEY, "abc12345"):
        assert secret not in stored
    hits = await memory.recall(ANN, "Leeds card", kinds=["episodic"])
    assert "I live in Leeds. My card is [REDACTED: card]." in [hit.memory.text for hit in hits]
    [fact] = await memory.facts(ANN)
    assert "上海" in fact.value
    await memory.append_events(ANN, "t", [keyed("a", f"I live in Leeds. My card is {CARD}.")])
    assert 2 == len(await memory.list_memories(ANN, kinds=["episodic"]))  # the same turn, once


async def test_dropped_turns_stay_in_no_table(dsn):
    async with open_memory(dsn, privacy="strict") as memory:
        turns = [keyed("a", f"card {CARD}"), keyed("b", "I ski.")]
        new = await memory.append_events(ANN, "t", turns)
        assert {"a", "b"} == new
        assert ["I ski."] == [one.text for one in await memory.list_memories(ANN)]
        with pytest.raises(InvalidInput, match=r"contains card, which the privacy setting refuses"):
            await memory.remember(ANN, f"card {CARD}")
        assert CARD not in everything(dsn)


async def test_off_leaves_what_was_keyed(dsn, monkeypatch):
    monkeypatch.setenv("HIPPOCAMPUS_PRIVACY", "off")
    async with open_memory(dsn) as memory:
        await memory.append_events(ANN, "t", [keyed("a", f"card {CARD}")])
        assert [f"card {CARD}"] == [one.text for one in await memory.list_memories(ANN)]


async def test_small_talk_and_system_text_are_history_and_no_memory(shared_memory, scope):
    turns = [keyed("a", "Hello!"), keyed("b", "You are a helpful assistant. I live in Oslo.",
        role="system"), keyed("c", "I live in Leeds."), keyed("d", "好的，谢谢")]  # fmt: skip
    await shared_memory.append_events(scope, "t", turns)
    await shared_memory.consolidate(scope, "t")
    kept = await shared_memory.list_memories(scope, kinds=["episodic"])
    assert ["I live in Leeds."] == [one.text for one in kept]
    assert "Hello!" in str(await shared_memory.context_window(scope, "t", "Where?"))
    assert ["Leeds"] == [fact.value for fact in await shared_memory.facts(scope)]


async def test_a_nod_that_answers_a_question_is_kept(shared_memory, scope):
    turns = [
        keyed("a", "Are you allergic to nuts?", role="agent"), keyed("b", "No"),
        keyed("c", "你住在上海吗？", role="agent"), keyed("d", "对"),
        keyed("e", "Noted.", role="agent"), keyed("f", "Nice"),
    ]  # fmt: skip
    await shared_memory.append_events(scope, "t", turns)
    kept = await shared_memory.list_memories(scope, kinds=["episodic"])
    assert {"No", "对"} == {one.text for one in kept if one.source_event_ids[0] in "bdf"}


async def test_authors_callbacks_and_shown_logs_hold_no_secret(memory, dsn):
    await memory.append_events(ANN, "t", [replace(keyed("a", "Ben is here."), author=f"me {KEY}")])
    await memory.remember(ANN, NewMemory(text="Ben likes tea.", author=f"me {KEY}"))
    payload = {"messages": [{"content": f"card {CARD}, {KEY}", "id": CARD}], "other": KEY}
    memory.jobs.learn(nothing)
    await memory.jobs.ask(ANN, "t", payload, delay_s=1000)
    stored = everything(dsn)
    assert KEY not in stored
    assert f"card {CARD}" not in stored
    assert CARD in stored  # an id
    log = await memory.sessions.create(ANN, "s")
    logged = keyed("b", f"My card is {CARD}.")
    await memory.sessions.append(ANN, "s", logged, "{}", seen=Seen(version=log.version))
    window = await memory.context_window(ANN, "s", "Which card?")
    assert "My card is [REDACTED: card]." in str(window)
    assert CARD not in str(window)


@pytest.mark.parametrize(("asked", "value", "is_secret"), [
    ("remind me of the gate code for the cabin", "90417", True),
    ("帮我记一下家里保险箱的密码", "471806", True), ("so what opens the gate?", "９０４１７", True),
    ("remind me of the gate code for the cabin", "sure, it should be 90417 for now", True),
    ("how wide is the door", "204", False), ("你猜我今天走了多少步", "21056", False),
])  # fmt: skip
async def test_the_message_before_says_what_a_value_opens(
    shared_memory, scope, asked, value, is_secret
):
    first, second = keyed("a", asked), keyed("b", value)
    await shared_memory.append_events(scope, "one call", [first, second])
    await shared_memory.append_events(scope, "two calls", [first])
    await shared_memory.append_events(scope, "two calls", [second])
    await shared_memory.append_events(scope, "two calls", [keyed("c", "ok"), keyed("d", "ok")])
    await shared_memory.append_events(scope, "a nod between", [first])
    await shared_memory.append_events(scope, "a nod between", [keyed("c", "ok"), second])
    for gone in ("none", "a"):  # masked as before, so no edit, even if the question is gone
        await shared_memory.forget_turns(scope, "two calls", [gone])
        again = await shared_memory.append_events(scope, "two calls", [second])
        assert (set(), set()) == (set(again), set(again.edited))
    await shared_memory.process_memory(asked, scope.user, app=scope.app)
    await shared_memory.process_memory(value, scope.user, app=scope.app)
    log = await shared_memory.sessions.create(scope, "log")
    for turn in (first, second):
        await shared_memory.sessions.append(
            scope, "log", turn, "{}", seen=Seen(version=log.version)
        )
        log = await shared_memory.sessions.load(scope, "log")
    window = await shared_memory.context_window(scope, "log", "What now?")
    kept = [one.text for one in await shared_memory.list_memories(scope, kinds=["episodic"])]
    theirs = shared_memory.conversations.scope(scope.user, scope.app)
    kept += [one.text for one in await shared_memory.conversations.events(theirs, 9)]
    assert (7, 0 if is_secret else 4) == (len(kept), kept.count(value))
    assert is_secret != (value in str(window))
    moved = await shared_memory.append_events(scope, "two calls", [keyed("b", "I moved to Ghent.")])
    assert {"b"} == moved.edited


async def test_a_log_that_is_redacted_hides_what_the_message_before_names(dsn):
    async with open_memory(dsn, privacy=PrivacyPolicy(session_logs=True)) as memory:
        log = await memory.sessions.create(ANN, "s")
        for key, text in (("a", "remind me of the gate code for the cabin"), ("b", "90417")):
            payload = json.dumps({"text": text})
            await memory.sessions.append(
                ANN, "s", keyed(key, text), payload, seen=Seen(version=log.version)
            )
            log = await memory.sessions.load(ANN, "s")
    assert "90417" not in everything(dsn)


async def nothing(job: Job) -> dict[str, JsonValue]:
    return {}


async def test_long_texts_are_redacted_beside_the_event_loop(shared_memory, scope, monkeypatch):
    word = f"hunter{uuid.uuid4().hex}"
    threads: list[bool] = []
    redact = PrivacyPolicy.redact

    def noted(policy: PrivacyPolicy, text: str, *kinds: Any) -> Redaction:
        if word in text or "quokka" in text:  # others use the class too
            threads.append(threading.current_thread() is threading.main_thread())
        return redact(policy, text, *kinds)

    monkeypatch.setattr(PrivacyPolicy, "redact", noted)
    for blanks, is_main in ((" ", True), (" " * 100_000, False)):
        threads.clear()
        turn = said(f"e{len(blanks)}", f"My password is{blanks}{word}.")
        await shared_memory.append_events(scope, "t", [turn])
        await shared_memory.remember(scope, [f"My other password is{blanks}{word}."])
        assert {is_main} == set(threads)
    for hit in await shared_memory.recall(scope, "password"):
        assert "hunter" not in hit.memory.text
    turns = [said(f"t{number}", f"The quokka ate {number} figs.") for number in range(100)]
    await shared_memory.append_events(scope, "t", turns)
    threads.clear()
    await shared_memory.context_window(scope, "t", "What now?")
    assert {False} == set(threads)
