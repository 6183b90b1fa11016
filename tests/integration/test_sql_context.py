"""get_context_window() and cleanup_low_value_memories(), called in SQL."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from every_case import every_case
from person import Person
from postgres_admin import column, rows
from psycopg.conninfo import make_conninfo
from turns import Clock, said

import benchmarks
from shared_core import NewMemory, Scope, open_memory, run_sync
from shared_core.nlp.tokenizer import count_tokens
from tests.integration import doubting

ANN = Scope("my/app", "ann%")
TENANT = "/my%2Fapp/ann%25/"
NOW = datetime.now(UTC)
WHO = ("ann%", "my/app")
TALK = [
    "I live in Lisbon.", "My sister Mia keeps bees on the roof.", "我妹妹在屋顶上养蜜蜂。",
    "It rained all day; we played cards and drank tea.",
    *(f"Line {number}: xqzj kvw 0x{number * 7919:x} 🐝🐝 𠮷野家." for number in range(40)),
]  # fmt: skip


@pytest.fixture(scope="module")
def filled(postgres):
    dsn = next(lending := postgres.lend())

    async def fill() -> None:
        async with open_memory(dsn, worker=False) as memory:
            turns = [
                said(n, text, NOW - timedelta(hours=len(TALK) - n), author="ann")
                for n, text in enumerate(TALK)
            ]
            await memory.append_events(ANN, "t", turns)
            await memory.consolidate(ANN, "t")
            await memory.remember(Scope("my/app", "bob"), "Bob keeps bees too.")

    run_sync(fill())
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("SET search_path TO hippocampus, public")
        yield connection
    next(lending, None)


def window(
    connection: psycopg.Connection[Any], query: str, *, scope: str | None = TENANT, **given: Any
) -> list[tuple[str, str, float, int]]:
    with connection.transaction(force_rollback=True):
        connection.execute("SELECT set_config('role', 'hippocampus_app', true)")
        if scope is not None:
            connection.execute("SELECT set_config('hippocampus.scope', %s, true)", [scope])
        named = "".join(f", {name} => %({name})s" for name in given)
        call = f"SELECT * FROM get_context_window(%(u)s, %(a)s, %(q)s{named})"
        values = {"u": WHO[0], "a": WHO[1], "q": query, **given}
        return [row[:4] for row in connection.execute(call, values)]


def of(rows: list[tuple[str, str, float, int]], kind: str) -> list[str]:
    return [row[1] for row in rows if row[0] == kind]


def test_it_shows_what_holds_by_words_or_meaning_to_its_user_or_who_owns_the_application(filled):
    rows = window(filled, "Who keeps bees?", p_max_tokens=500)
    assert "User lives in Lisbon." in of(rows, "fact")
    assert TALK[1] in of(rows, "memory")
    shown = of(rows, "history")
    assert TALK[-5:] == shown[-5:] and len(shown) < 30
    assert [text for text in TALK if text in shown] == shown
    assert not set(shown) & set(of(rows, "memory"))
    assert sorted({row[0] for row in rows}) == ["fact", "history", "memory"]
    assert TALK[2] in of(window(filled, "谁养蜜蜂？", p_max_tokens=500), "memory")
    for given, each in ((1, 1), (0.35, 0.35)):
        rows = window(filled, "Who keeps bees?", p_max_tokens=4000, p_tokens_per_byte=given)
        assert rows and all(row[3] == math.ceil(len(row[1].encode()) * each) for row in rows)
    estimated = window(filled, "Who keeps bees?", p_max_tokens=400)
    assert len(estimated) > len(window(filled, "bees?", p_max_tokens=400, p_tokens_per_byte=1))

    def facts() -> list[str]:
        return of(window(filled, "Where does Ann live?"), "fact")

    with filled.transaction(force_rollback=True):
        end = "UPDATE facts SET superseded_at = now() - interval '9 days', valid_until = now() + %s"
        filled.execute(end, [timedelta(hours=3)])
        assert "User lives in Lisbon." in facts()
        filled.execute(end, [timedelta(0)])
        assert [] == facts()
    row = filled.execute(
        "SELECT embedding FROM embeddings JOIN memories USING (memory_id) WHERE text = %s",
        [TALK[3]],
    ).fetchone()
    assert row is not None
    rows = window(filled, "?", p_query_embedding=row[0], p_max_tokens=900, p_thread_id="other")
    assert TALK[3] == of(rows, "memory")[0] and [] == of(rows, "history")
    assert pytest.approx(1, abs=1e-3) == next(row[2] for row in rows if row[0] == "memory")
    assert [] == of(window(filled, "?", p_max_tokens=900), "memory")
    rows = window(filled, "Who keeps bees?", scope="/my%2Fapp/")
    assert TALK[1] in of(rows, "memory") + of(rows, "history")
    assert not any("Bob" in row[1] for row in rows)
    with filled.transaction(force_rollback=True):
        filled.execute(
            "INSERT INTO events (tenant_id, thread_id, seq, event_id, author, role, text,"
            " occurred_at, recorded_at, payload) VALUES (%s, 't', 999, 'logged', 'ann', 'user',"
            " 'My password is hunter2.', now(), now(), '{}')",
            [TENANT],
        )
        assert not any("hunter2" in row[1] for row in window(filled, "password hunter2"))
        filled.execute("UPDATE events SET memory_seq = 999 WHERE event_id = 'logged'")
        assert any("hunter2" in row[1] for row in window(filled, "password hunter2"))


@pytest.mark.parametrize("budget", [1, 3, 30, 200, 1000, 4000])
@pytest.mark.parametrize("ratios", [(0.3, 0.5), (0.0, 0.0), (1.0, 0.0), (0.0, 1.0)])
def test_the_real_tokenizer_never_counts_more_than_the_budget(filled, budget, ratios):
    rows = window(
        filled, "bees 0x1eef xqzj 🐝", p_max_tokens=budget, p_memory_ratio=ratios[0],
        p_history_ratio=ratios[1],
    )  # fmt: skip
    assert sum(row[3] for row in rows) <= budget
    assert all(count_tokens(row[1]) <= row[3] for row in rows)
    assert sum(count_tokens(row[1] + "\n") - 1 for row in rows) <= budget
    assert bool(rows) == (budget > 30 or bool([t for t in TALK if len(t.encode()) <= budget]))


def texts_of(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from texts_of(inner)
    elif isinstance(value, Sequence):
        for inner in value:
            yield from texts_of(inner)


DATA = Path(benchmarks.__file__).parent / "data"
SAID = {
    language: [one["text"] for one in told]
    for language, told in json.loads((DATA / "utterances.json").read_text()).items()
}
CHATS = [text for text in texts_of(json.loads((DATA / "assistant.json").read_text())) if text]


@every_case(SAID["EN"], SAID["ZH"], CHATS)
def test_the_estimate_is_never_below_the_tokenizer_and_at_most_three_times_it(texts, filled):
    row = filled.execute(
        "SELECT array_agg(tokens_at_most(t) ORDER BY place)"
        " FROM unnest(%s::text[]) WITH ORDINALITY given(t, place)",
        [texts],
    ).fetchone()
    assert row is not None
    counted = [count_tokens(text) for text in texts]
    assert [] == [
        text for text, most, count in zip(texts, row[0], counted, strict=True) if most < count
    ]
    assert sum(counted) <= sum(row[0]) <= 3 * sum(counted)


@every_case(None, "", "/my%2Fapp/bob/", "/my%2Fapp/ann")
def test_without_the_scope_of_the_user_it_refuses(scope, filled):
    with pytest.raises(psycopg.errors.InsufficientPrivilege) as raised:
        window(filled, "bees", scope=scope)
    assert "'/my%2Fapp/ann%25/'" in str(raised.value.diag.message_hint)


@every_case(
    {"p_max_tokens": 0}, {"p_max_tokens": None}, {"p_memory_ratio": 0.6},
    {"p_history_ratio": -0.1}, {"p_memory_ratio": float("nan")}, {"p_tokens_per_byte": 0},
)  # fmt: skip
def test_what_means_nothing_is_refused(wrong, filled):
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="must be"):
        window(filled, "bees", **wrong)


async def test_doubtful_facts_are_marked(dsn):
    clock = doubting.Clock()
    async with open_memory(dsn, clock=clock, worker=False, extractor=doubting.Doubting()) as memory:
        texts = ("I live in Boston.", "我喜欢爵士乐。", "I might leave Boston.",
            "我可能要离开爵士乐。")  # fmt: skip
        for day, text in enumerate(texts, 1):
            await Person(memory, doubting.ANN, clock=clock).say(day, text, author="ann")
    in_schema = make_conninfo(dsn, options="-c search_path=hippocampus,public")
    shown = set(column(in_schema, "SELECT content FROM get_context_window('ann', 'app', 'Where?')"))
    assert {
        "User lives in Boston. (perhaps no longer)",
        "用户喜欢爵士乐。（可能已不再如此）",
        *texts,
    } <= shown


@pytest.fixture
async def old(dsn):
    """Two users; each said something 21 days ago, and something today."""
    clock = Clock(NOW - timedelta(days=21))
    async with open_memory(dsn, clock=clock, worker=False) as memory:
        for text in ("I sail.", "I ski."):
            for scope in (Scope("app", "ann"), Scope("app", "b/ob")):
                await memory.append_events(scope, "t", [said(text, text, clock())])
                await memory.remember(scope, NewMemory(text=f"Fact: {text}"))
            clock.now = NOW
    return dsn


def called(dsn: str, arguments: str = "", before: str = "SELECT 1") -> int:
    with psycopg.connect(dsn) as connection:
        connection.execute(before.encode())
        query = f"SELECT hippocampus.cleanup_low_value_memories({arguments})"
        row = connection.execute(query.encode()).fetchone()
        connection.execute("RESET role")
    assert row
    return int(row[0])


def left(dsn: str) -> list[tuple[object, ...]]:
    query = "SELECT tenant_id, text, demoted_at IS NULL FROM hippocampus.memories"
    return rows(dsn, f"{query} WHERE kind = 'episodic' ORDER BY 1, 2")


@pytest.mark.parametrize("role", ["SELECT 1", "SET role TO hippocampus_app"])
async def test_without_arguments_it_goes_by_the_policies(old, role):
    assert 2 == called(old, before=role)
    assert 0 == called(old, before=role)
    kept = [("I sail.", False), ("I ski.", True)]
    assert [(path, *one) for path in ("/app/ann/", "/app/b%2Fob/") for one in kept] == left(old)


async def test_the_documented_call_erases_at_once(old):
    assert 2 == called(old, "0.1, 7")
    assert [("/app/ann/", "I ski.", True), ("/app/b%2Fob/", "I ski.", True)] == left(old)


async def test_it_can_be_bounded_in_number_and_to_a_path(old):
    assert 1 == called(old, "p_limit => 1")
    assert 0 == called(old, "p_scope => '/other/'")
    assert 1 == called(old, "0.99, 0, p_scope => '/app/b%2Fob/', p_limit => 1")
    assert 0 == called(old, "0, 0")
    assert 0 == called(old, "p_min_age_days => 1000")


async def test_a_bound_transaction_cleans_up_its_own_alone(old):
    bound = "SET role TO hippocampus_app; SET hippocampus.scope TO '/app/ann/'"
    assert 1 == called(old, before=bound)
    assert 1 == called(old)


@every_case("2", "-1", "'NaN'", "0.1, -1", "p_limit => -1", "p_scope => 'app'")
def test_a_cleanup_that_means_nothing_is_refused(arguments, dsn):
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="nothing can be cleaned up so"):
        called(dsn, arguments)
