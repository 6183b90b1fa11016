"""Strategies of sessions: the built-in ones, one's own, broken and unknown ones."""

import sys
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import invalidate_caches
from typing import Any

import psycopg
import pytest
from tenacity import wait_fixed

import shared_core as core
from shared_core.core.domain import Extraction, ModelUsage, StatementDraft
from shared_core.core.namespaces import scope_path
from tests.integration.talking import statements


class Shout(core.MemoryStrategy):
    """Remembers all that was said, as it was said."""

    @property
    def name(self) -> str:
        return "shout"

    async def extract(self, events: Sequence[core.Event], user_id: str) -> list[core.MemoryRecord]:
        text = "Said: " + " ".join(event.text for event in events)
        return [core.MemoryRecord(user_id=user_id, content=text, strategy_type=self.name)]


class Broken(Shout):
    """Raises while it is broken."""

    broken = True

    async def extract(self, events: Sequence[core.Event], user_id: str) -> list[core.MemoryRecord]:
        if self.broken:
            raise RuntimeError("out of order")
        return await super().extract(events, user_id)


class Weighing(Shout):
    """Notes how much it thinks of what it remembers."""

    metadata: Any = {"weight": 3}

    async def extract(self, events: Sequence[core.Event], user_id: str) -> list[core.MemoryRecord]:
        [record] = await super().extract(events, user_id)
        return [replace(record, metadata=self.metadata)]


@dataclass
class User:
    """A user who talks, and the database of all tests."""

    dsn: str
    scope: core.Scope

    def opened(self, *strategies: object, **options: Any) -> core.MemoryEngine:
        if strategies:
            options["conversation"] = core.ConversationSettings(strategies=strategies)
        return core.open_memory(self.dsn, **options)

    async def say(self, memory: core.MemoryEngine, *inputs: str) -> bool:
        """Say something in a session of its own; return whether it was consolidated."""
        for text in inputs:
            await memory.process_memory(text, self.scope.user)
        await memory.end_session(self.scope.user)
        return await memory.flush(60)

    async def statements(self, memory: core.MemoryEngine) -> list[str]:
        return sorted(await statements(memory, self.scope))

    def rows(self) -> list[Any]:
        query = "SELECT status, event_count FROM hippocampus.conversations WHERE tenant_id = %s"
        with psycopg.connect(self.dsn) as superuser:
            return superuser.execute(query, [scope_path(self.scope)]).fetchall()


@pytest.fixture(scope="module")
def module_dsn(postgres):
    """A database in which each test is a user."""
    yield from postgres.lend()


@pytest.fixture
def ann(module_dsn):
    return User(module_dsn, core.Scope("default", f"ann {uuid.uuid4()}"))


@pytest.mark.parametrize(
    ("strategies", "text", "remembered"),
    [
        (["privacy_filter", "graph_extraction", Shout()], "I like tea",
         ["I like tea.", "Said: I like tea", "1 edges"]),
        (["graph_extraction"], "Paris is the capital of France",
         ["Paris is the capital of France", "0 edges"]),
        (["privacy_filter"], "I like tea", ["I like tea.", "0 edges"]),
    ],
    ids=["one of our own", "without the filter", "without the graph"],
)  # fmt: skip
async def test_each_strategy_adds_what_it_does(ann, strategies, text, remembered):
    async with ann.opened(*strategies) as memory:
        assert await ann.say(memory, text)
        edges = (await memory.graph.neighbourhood(ann.scope, "user")).edges
        assert remembered == [*await ann.statements(memory), f"{len(edges)} edges"]


async def test_a_strategy_that_raises_fails_its_job_and_stores_nothing_by_halves(ann, monkeypatch):
    monkeypatch.setattr("shared_core.jobs.runner.POISON", wait_fixed(0.01))
    broken = Broken()
    async with ann.opened("privacy_filter", broken) as memory:
        assert not await ann.say(memory, "I like tea")
        assert ([("ended", 1)], []) == (ann.rows(), await ann.statements(memory))
        [job] = await memory.jobs.list(ann.scope)
        assert "RuntimeError" in (job.error or "")
        broken.broken = False
        await memory.jobs.retry([job.job_id])
        assert await memory.flush(60)
        assert [("ended", 1)] == ann.rows()
        assert ["I like tea.", "Said: I like tea"] == await ann.statements(memory)


async def test_a_strategy_that_is_not_known_is_named_at_the_first_input(ann):
    async with ann.opened("privacy_filter", "telepathy") as memory:
        with pytest.raises(
            core.InvalidInput, match="'telepathy' is unknown: name one of privacy_f"
        ):
            await memory.process_memory("I like tea", ann.scope.user)
        assert [] == ann.rows()


PACKAGE = """
from shared_core import MemoryRecord, MemoryStrategy


class Promises(MemoryStrategy):
    @property
    def name(self):
        return "promises"

    async def extract(self, events, user_id):
        return [
            MemoryRecord(user_id=user_id, content=one.text, strategy_type=self.name,
                         event_ids=(one.event_id,))
            for one in events if "promise" in one.text
        ]
"""


async def test_a_package_that_is_installed_is_found_by_its_entry_point(ann, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("MEMORY_STRATEGIES", "privacy_filter,promises")
    text = "Will you wait? I promise to call"
    async with ann.opened() as memory:
        with pytest.raises(core.InvalidInput, match="strategy 'promises' is unknown"):
            await ann.say(memory, text)
    (tmp_path / "our_promises.py").write_text(PACKAGE)
    info = tmp_path / "our_promises-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: our-promises\nVersion: 1.0\n")
    points = "[hippocampus.strategies]\npromises = our_promises:Promises\n"
    (info / "entry_points.txt").write_text(points)
    invalidate_caches()
    async with ann.opened() as memory:
        assert await ann.say(memory, text)
        assert text in {one.text for one in await memory.list_memories(ann.scope)}
    del sys.modules["our_promises"]


async def test_what_a_strategy_notes_is_stored_with_the_memory(ann):
    async with ann.opened(Weighing()) as memory:
        assert await ann.say(memory, "Something about bees")
        found = [one.value["metadata"] for one in await memory.list_memories(ann.scope)]
        [kept] = [one for one in found if isinstance(one, dict) and one.get("strategy") == "shout"]
        assert {"weight": 3} == kept["strategy_metadata"]


@pytest.mark.parametrize("noted", [7, {"weight": float("nan")}, {"at": object()}])
async def test_what_is_no_json_is_refused_by_the_name_of_the_strategy(ann, noted):
    strategy = Weighing()
    strategy.metadata = noted
    async with ann.opened(strategy, worker=False) as memory:
        await memory.process_memory("Something about bees", ann.scope.user)
        session = await memory.conversations.end(ann.scope)
        assert session is not None
        with pytest.raises(core.InvalidInput, match="the metadata of strategy 'shout'"):
            await memory.consolidate(ann.scope, session.session_id)
        await memory.forget_scope(ann.scope)  # its job too


class Model:
    """An extractor that is no rules: it says what it was told to say of the first turn."""

    name, window_tokens, reread_turns = "model", 10_000, 0

    async def extract(
        self, events: Sequence[core.Event], context: Sequence[core.Event]
    ) -> Extraction:
        told = {"The user keeps bees.": "private", "Paris is the capital of France.": "public"}
        ids = (events[0].event_id,)
        drafts = [StatementDraft(text=text, event_ids=ids, privacy=of) for text, of in told.items()]
        return Extraction(statements=drafts)

    async def summarise(
        self, events: Sequence[core.Event], previous: str, max_characters: int
    ) -> tuple[str, ModelUsage]:
        raise AssertionError("of a session no summary is written")


async def test_a_model_makes_its_own_statements_and_the_filter_holds(ann):
    async with ann.opened(extractor=Model()) as memory:
        assert await ann.say(memory, "Something about bees")
        assert ["The user keeps bees."] == await ann.statements(memory)


async def test_only_what_is_returned_counts_as_read(ann):
    async with ann.opened() as memory:
        assert await ann.say(memory, "I live in Lisbon", "I like tea", "I have a cat called Tom")
        answer = await memory.process_memory("Where do I live?", ann.scope.user)
        assert ["I live in Lisbon."] == [one["content"] for one in answer["memories"]]
        known = await memory.list_memories(ann.scope)
        read = await memory.accesses(ann.scope, [one.memory_id for one in known])
        assert ["I live in Lisbon."] == [one.text for one in known if one.memory_id in read]
