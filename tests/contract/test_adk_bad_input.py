"""What OpenMemoryService does with values and moments that cannot work, and what it bounds."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
import turns
from google.adk.events import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions import Session
from google.genai import types
from langchain_core.messages import SystemMessage
from psycopg.conninfo import conninfo_to_dict

from adk_memory import OpenMemoryService as Service, PgSessionService
from adk_memory.conformance.samples import entry, texts
from langgraph_store.run_identity import RunIdentity
from langgraph_store.turn_feed import TurnFeed
from shared_core import InvalidInput, MemoryEngine, Scope, StorageUnavailable, open_memory
from shared_core.core.retention_policy import RetentionPolicy

WHO = {"app_name": "app", "user_id": "ann"}


def said(text: str, **fields: Any) -> Event:
    content = types.Content(role="user", parts=[types.Part(text=text)])
    return Event(**{"author": "user", "invocation_id": "i", "content": content, **fields})


@pytest.fixture
def service(memory: MemoryEngine) -> Service:
    return Service(engine=memory)


async def found(service: Service, query: str) -> list[MemoryEntry]:
    return (await service.search_memory(**WHO, query=query)).memories


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"top_k": 0}, "top_k"),
        ({"max_chars": 0}, "max_chars"),
        ({"min_relevance": 1.5}, "min_relevance"),
        ({"deadline_s": 0}, "deadline_s"),
        ({"uri": "mysql://host"}, "mysql"),
    ],
)
def test_an_option_that_cannot_be_is_named_at_once(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        Service(**options)


@pytest.mark.parametrize(
    ("metadata", "complaint"),
    [
        ({"ttl": "soon"}, "ttl"),
        ({"ttl": -1}, "ttl"),
        ({"ttl": True}, "ttl"),
        ({"ttl": timedelta(days=99_999)}, "ttl"),
        ({"hippocampus": {"ttl": "soon"}}, "ttl"),
        ({"hippocampus": {"importance": 11}}, "importance must be a number from 1 to 10, got 11"),
        ({"hippocampus": {"importance": True}}, "importance"),
        ({"hippocampus": {"kind": "dream"}}, "kind must be one of episodic.*dream"),
        ({"hippocampus": {"wait": "yes"}}, "wait must be True or False"),
        ({"hippocampus": {"tags": 3}}, "a dict of importance, kind, ttl, wait.*tags"),
        ({"hippocampus": "on"}, "a dict of importance, kind, ttl, wait"),
    ],
)
async def test_an_option_of_no_use_is_named_and_nothing_is_remembered(
    service: Service, metadata: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        await service.add_events_to_memory(
            **WHO, events=[said("tea")], session_id="s", custom_metadata=metadata
        )
    assert [] == await service.list_memories(**WHO)


async def test_the_words_of_a_caller_come_back_and_serve_where_they_fit(service: Service) -> None:
    own = {"kind": "episodic", "importance": 9, "score": 0.5}
    shared = {"tags": "drinks", "importance": 2, "by": "hand"}
    await service.add_memory(
        **WHO, memories=[entry("green tea", custom_metadata=own)], custom_metadata=shared
    )
    words = {"tags": ["x"], "kind": "preference", "importance": "high", "source": "form"}
    await service.add_events_to_memory(
        **WHO, events=[said("black tea")], session_id="s", custom_metadata=words
    )
    ours = {"kind": "episodic", "importance": 9.0}
    theirs = {"kind": "episodic", "importance": 5.0, "source": "s"}
    listed = await service.list_memories(**WHO, memory_type="episodic")
    assert {
        "green tea": {**shared, **own, "hippocampus": ours},
        "black tea": {**words, "hippocampus": theirs},
    } == {texts([one])[0]: one.custom_metadata for one in listed}
    for one in await service.list_memories(**WHO, memory_type="summary"):
        assert {"hippocampus"} == one.custom_metadata.keys()
    found_words = {
        one.id: {k: v for k, v in one.custom_metadata.items() if k != "hippocampus"}
        for one in (await service.search_memory(**WHO, query="tea")).memories
    }
    assert {**shared, **own} in found_words.values() and words in found_words.values()


async def test_metadata_of_any_shape_is_kept_as_json(service: Service) -> None:
    endless: dict[str, Any] = {}
    endless["self"] = endless
    given = {
        "at": datetime(2026, 1, 1, tzinfo=UTC),
        "set": {"one"},
        "deep": {"list": [1, None, {"x": 2.5}]},
        "nan": float("nan"),
        "bytes": b"\xff",
        "object": object,
        "endless": endless,
        "nul": "a\x00b",
    }
    await service.add_memory(**WHO, memories=[entry("tea", custom_metadata=given)])
    [one] = (await service.search_memory(**WHO, query="tea")).memories
    back = one.custom_metadata
    assert given.keys() | {"hippocampus"} == back.keys()
    assert "2026-01-01T00:00:00Z" == back["at"]
    assert ["one"] == back["set"]
    assert given["deep"] == back["deep"]
    assert ("NaN", "a\ufffdb") == (back["nan"], back["nul"])


class MovableClock:
    """The time of this machine, and what a test has added to it."""

    ahead = timedelta(0)

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.ahead


async def test_what_has_a_time_to_live_goes_with_all_that_was_drawn_from_it(dsn: str) -> None:
    clock = MovableClock()
    async with open_memory(dsn, clock=clock) as memory:
        service = Service(engine=memory)
        await service.add_events_to_memory(
            **WHO, events=[said("I live in Lisbon.")], session_id="s", custom_metadata={"ttl": 3600}
        )
        hour = {"ttl": "3600s"}
        await service.add_memory(**WHO, memories=[entry("Lisbon tram")], custom_metadata=hour)
        assert {"I live in Lisbon.", "User lives in Lisbon.", "Lisbon tram"} == set(
            texts(await found(service, "Lisbon"))
        )
        clock.ahead = timedelta(hours=2)
        assert [] == await found(service, "Lisbon")
        assert [] == await memory.facts(Scope("app", "ann"))
        await memory.sweep_expired()
        again = [said("I live in Lisbon.")]
        await service.add_events_to_memory(**WHO, events=again, session_id="s2")
        assert "User lives in Lisbon." in texts(await found(service, "Lisbon"))


async def test_a_fact_said_again_for_good_outlives_the_turn_that_expires(dsn: str) -> None:
    clock = MovableClock()
    async with open_memory(dsn, clock=clock) as memory:
        service = Service(engine=memory)
        for ttl in ({"ttl": 3600}, {}):
            await service.add_events_to_memory(
                **WHO, events=[said("I live in Lisbon.")], session_id="s", custom_metadata=ttl
            )
        clock.ahead = timedelta(hours=2)
        assert ["I live in Lisbon.", "User lives in Lisbon."] == sorted(
            texts(await found(service, "Lisbon"))
        )


@pytest.mark.parametrize("given", ["yesterday", "in March 2026", "2026-13-01"])
async def test_a_time_in_words_is_kept_as_it_was_given(service: Service, given: str) -> None:
    await service.add_memory(**WHO, memories=[entry("tea time", timestamp=given)])
    [back] = await found(service, "tea time")
    assert given == back.custom_metadata["hippocampus"]["timestamp"]
    assert datetime.fromisoformat(back.timestamp).tzinfo is not None


async def test_a_search_is_bounded_by_characters_as_well(memory: MemoryEngine) -> None:
    service = Service(engine=memory, max_chars=1000)
    for n in range(5):
        await service.add_memory(**WHO, memories=[entry(f"tea {n} " + "leaf " * 60)])
    shown = texts(await found(service, "tea"))
    assert 3 == len(shown)
    assert 1000 >= sum(map(len, shown))
    [cut] = texts(await found(Service(engine=memory, max_chars=20), "tea"))
    assert 20 == len(cut)
    assert cut.endswith("…")


async def test_the_same_words_are_shown_once_and_a_not_makes_other_words(service: Service) -> None:
    same = [
        "I drink green tea",
        "I drink green tea!",
        "i DRINK  green tea",
        "我喝绿茶",
        "我喝绿茶。",
    ]
    told = [entry(text) for text in (*same, "I do not drink green tea", "我不喝绿茶")]
    await service.add_memory(**WHO, memories=told)
    shown = texts(await found(service, "green tea 绿茶"))
    assert 4 == len(shown)
    assert {"I do not drink green tea", "我不喝绿茶"} < set(shown)


async def test_what_has_nothing_to_do_with_the_question_is_left_out(memory: MemoryEngine) -> None:
    told = ["My sister plays the cello.", "我妹妹会拉大提琴。"]
    service = Service(engine=memory)
    await service.add_memory(**WHO, memories=[entry(text) for text in told])
    assert set(told) == set(texts(await found(service, "Who plays an instrument? 谁会乐器？")))
    assert [] == await found(service, "boiling point of mercury")
    everything = Service(engine=memory, min_relevance=0)
    assert set(told) == set(texts(await found(everything, "boiling point of mercury")))


async def test_memories_are_listed_in_pages_and_by_kind(service: Service) -> None:
    for n in range(7):
        await service.add_memory(**WHO, memories=[entry(f"tea {n}", timestamp=f"2026-01-0{n + 1}")])
    await service.add_events_to_memory(**WHO, events=[said("I live in Lisbon.")], session_id="s")
    pages = [await service.list_memories(**WHO, memory_type="semantic", limit=3, offset=start)
             for start in (0, 3, 6, 9)]  # fmt: skip
    assert [3, 3, 2, 0] == [len(page) for page in pages]
    assert ["User lives in Lisbon.", *(f"tea {n}" for n in range(6, -1, -1))] == texts(
        [entry for page in pages for entry in page]
    )
    assert ["I live in Lisbon."] == texts(await service.list_memories(**WHO, memory_type="summary"))
    for wrong in ({"memory_type": "dream"}, {"limit": -1}, {"offset": -1}):
        with pytest.raises(InvalidInput):
            await service.list_memories(**WHO, **wrong)  # type: ignore[arg-type]


async def test_a_database_that_is_away_fails_open_on_search_and_loudly_on_ingestion(
    server: str, dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    name = conninfo_to_dict(dsn)["dbname"]
    event = said("I drink tea.")
    async with Service(dsn) as service:
        await service.add_events_to_memory(**WHO, events=[event], session_id="s")
        strict = Service(engine=service.engine, fail_open=False)
        sessions = PgSessionService(engine=service.engine)
        session = await sessions.create_session(**WHO)
        with psycopg.connect(server, autocommit=True) as admin:
            admin.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false".encode())
            admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name]
            )
            with caplog.at_level(logging.ERROR, "hippocampus"):
                assert [] == await found(service, "tea")
            assert "cannot be used" in caplog.text
            assert 1 == service.failed_searches
            with pytest.raises(StorageUnavailable, match="could not be searched"):
                await found(strict, "tea")
            given = Session(id="s", events=[event, said("And coffee.")], **WHO)
            with pytest.raises(StorageUnavailable):
                await service.add_session_to_memory(given)
            with pytest.raises(StorageUnavailable):
                await sessions.append_event(session, event)
            assert [] == session.events
            admin.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true".encode())
        await service.add_session_to_memory(given)
        await sessions.append_event(session, event)
        assert {"And coffee.", "I drink tea."} <= set(texts(await found(service, "coffee tea")))
        assert 1 == service.failed_searches


async def test_what_stores_nothing_needs_no_database() -> None:
    """Nothing listens at the port, so each statement would raise StorageUnavailable."""
    memory = open_memory("postgresql://nobody@127.0.0.1:1/nothing?connect_timeout=2")
    service = Service(engine=memory)
    await service.add_session_to_memory(Session(id="s", **WHO))
    await service.add_events_to_memory(**WHO, events=[said(" ")], custom_metadata={"ttl": 60})
    with pytest.raises(InvalidInput, match="text part"):
        await service.add_memory(
            **WHO, memories=[entry("tea"), entry(" ")], custom_metadata={"ttl": 60}
        )
    feed = TurnFeed(memory, RunIdentity("app"))
    assert not await feed.append(Scope("app", "ann"), "t", [SystemMessage("Be brief.")])
    with pytest.raises(StorageUnavailable):
        await service.add_memory(**WHO, memories=[entry("tea")])


async def test_a_search_during_a_migration_gives_up_and_the_next_one_works(empty_dsn: str) -> None:
    async with Service(empty_dsn, deadline_s=1) as service:
        with psycopg.connect(empty_dsn) as other:
            other.execute("CREATE SCHEMA hippocampus")  # not committed: whoever migrates waits
            assert [] == await found(service, "tea")
            assert 1 == service.failed_searches
            other.rollback()
        await service.add_memory(**WHO, memories=[entry("tea")])
        assert ["tea"] == texts(await found(service, "tea"))
        assert 1 == service.failed_searches


async def test_a_wrong_schema_is_no_reason_to_answer_with_nothing(dsn: str) -> None:
    with psycopg.connect(dsn) as superuser:
        superuser.execute("UPDATE hippocampus.schema_migrations SET checksum = 'x'")
    async with Service(dsn) as service:
        with pytest.raises(Exception, match="a development version"):
            await found(service, "tea")


async def test_cleanup_takes_what_faded_and_leaves_the_facts(dsn: str) -> None:
    ann, day = Scope("app", "ann"), timedelta(days=1)
    now = datetime.now(UTC)
    async with open_memory(dsn, clock=lambda: now - 30 * day) as then:
        turn = turns.said("e1", "I live in Lisbon.", now - 30 * day)
        await then.append_events(ann, "s", [turn])
        await then.consolidate(ann, "s")
    async with Service(dsn) as service:
        await service.add_memory(
            **WHO, memories=[entry("fresh", custom_metadata={"kind": "episodic"})]
        )
        report = {"total_memories": 3, "cleaned_count": 2}
        for dry_run in (True, False):
            told = await service.cleanup_memories(**WHO, dry_run=dry_run)
            assert 0.2 < told.pop("avg_retention_score") < 0.3
            assert report == told
        assert {"fresh", "User lives in Lisbon."} == set(texts(await service.list_memories(**WHO)))
        await service.engine.append_events(ann, "s", [turn])
        assert {"fresh", "User lives in Lisbon."} == set(texts(await service.list_memories(**WHO)))
        kept = await service.engine.cleanup(ann, RetentionPolicy(threshold=0))
        assert () == tuple(kept.forgotten)
