"""Values for benchmarks.fuzz: usual ones by the name of a parameter, and odd ones of every type."""

from __future__ import annotations

import math
import random
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, Final

from google.adk.events.event import Event as AdkEvent
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions import Session
from google.genai import types
from langgraph.store.base import GetOp, ListNamespacesOp, MatchCondition, PutOp, SearchOp

from shared_core import AsOf, Event, ExtractionStrategy, NewMemory, RetentionPolicy, Scope
from shared_core.ports.jobs import JobStatus, JobType

NOW: Final = datetime(2026, 3, 1, 9, tzinfo=UTC)
WORDS: Final = ("I live in Leeds.", "My daughter Mia is 5.", "我住在深圳", "What do I like?", "tea")
ODD_TEXTS: Final = (
    "", " ", "\t\n", "\u3000", "\x00", "a\x00b", "\ud800", "tea \udfff", "\udc80\ud800", "\ufeff",
    "\u202e\u2066abc\u2069", "e\u0301" * 20, "👩‍👩‍👧‍👦🏳️‍🌈", "مرحبا بالعالم",
    "ｆｕｌｌ", "ß", "İı", "中" * 300,
    "a.b", "a/b", "%", "%s %(x)s {0} $1", "'; DROP TABLE memories; --", '"', "\\", "\\u0000",
    "NaN", "null", "true", "-1", "1e999", "9" * 5_000, "0x7f", "٣", "²", "1970-01-01", "2026-13-45",
    "2026-02-30T25:61:00Z", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "*", "(", "[",
    "conversation:", "summary/t", "user", "/memories/", "x" * 300, "x" * 3_000, "x" * 100_000,
    "(" * 2_000, "I like " * 1_000, "@" * 500, "1" * 40, "4111 1111 1111 1111", "a b c " * 1_000,
    "昨天" * 200, "last " * 500, "é\x7f\x85\u2028", "password is " * 100, "00000000-0000-0000-0000",
)  # fmt: skip
ODD_NUMBERS: Final = (
    0, -1, 1, 2, 3.0, 2.5, -0.0, 2**31 - 1, 2**31, 2**63 - 1, 2**63, -(2**63) - 1, 2**64, 10**400,
    -(10**400), 10**5_000, 1e308, -1e308, 5e-324, math.nan, math.inf, -math.inf, True, False,
    Decimal("1e9999"), Decimal("NaN"), 1j,
)  # fmt: skip
ODD_MOMENTS: Final = (
    datetime(2026, 3, 1),  # noqa: DTZ001
    datetime.min, datetime.max,  # noqa: DTZ901
    datetime.min.replace(tzinfo=UTC),
    datetime.max.replace(tzinfo=UTC), datetime.max.replace(tzinfo=timezone(timedelta(hours=-23))),
    datetime.min.replace(tzinfo=timezone(timedelta(hours=23))), date(2026, 3, 1), timedelta(days=1),
    datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14))), datetime(2026, 3, 1, tzinfo=UTC),
)  # fmt: skip
CIRCULAR: Final[dict[str, Any]] = {}
CIRCULAR["self"] = CIRCULAR
Make = Callable[[random.Random], Any]


class Text(str):
    """A subclass of a built-in type, as frameworks make them."""


class Hostile:
    """An object whose every use raises."""

    def __getattr__(self, name: str) -> Any:
        raise LookupError(name)

    def __repr__(self) -> str:
        raise LookupError("repr")


def nothing(*_: object) -> None:
    """Do nothing: a function of a caller."""


def deep(levels: int) -> Any:
    """Return a nested dict."""
    nested: dict[str, Any] = {}
    for _ in range(levels):
        nested = {"a": nested}
    return nested


def odd(chance: random.Random) -> Any:
    """Return an odd value of any type."""
    kind = chance.randrange(12)
    if kind < 4:
        return chance.choice(ODD_TEXTS)
    if kind < 6:
        return chance.choice(ODD_NUMBERS)
    if kind == 6:
        return chance.choice(ODD_MOMENTS)
    if kind == 7:
        return odd_json(chance)
    if kind == 8:
        return [odd(chance) for _ in range(chance.randrange(3))]
    if kind == 9:
        return tuple(odd(chance) for _ in range(chance.randrange(3)))
    return chance.choice(
        (None, None, b"", b"\xff\x00", object(), {1}, frozenset(), uuid.uuid4(), nothing,
         Text("tea"), range(3), iter([]), [[]], ..., NotImplemented, CIRCULAR, deep(5_000))
    )  # fmt: skip


def odd_json(chance: random.Random) -> Any:
    """Return an odd object that may or may not be JSON."""
    key = chance.choice(("text", "a", "", "\x00", "\ud800", "$eq", "$gt", "中", "k" * 300))
    value = chance.choice(
        (chance.choice(ODD_TEXTS), chance.choice(ODD_NUMBERS), None, [], {}, [[[]]], [None] * 50,
         {"a": {"b": []}}, {1: 2}, {None: 1}, {("a",): 1}, CIRCULAR, deep(40), deep(5_000), NOW,
         b"x", {1, 2}, object(), {"$in": [1]}, {"$gt": math.nan})
    )  # fmt: skip
    return {key: value}


def one_of(*values: Any) -> Make:
    """Return a maker that chooses among values."""
    return lambda chance: chance.choice(values)


def scope(chance: random.Random) -> Scope:
    """Return one of a few users, sometimes with an odd part."""
    if chance.random() < 0.15:
        return Scope(chance.choice(("app", odd(chance))), odd(chance))
    return Scope("app", chance.choice(("ana", "bob", "朱莉")))


def text(chance: random.Random) -> str:
    """Return a text that may be stored."""
    return chance.choice((*WORDS, *ODD_TEXTS)) if chance.random() < 0.5 else chance.choice(WORDS)


def with_odd_field(made: Any, chance: random.Random) -> Any:
    """Return a dataclass with an odd value in one field, in a quarter of the cases."""
    if chance.random() < 0.75:
        return made
    return replace(made, **{chance.choice(list(type(made).__dataclass_fields__)): odd(chance)})


def event(chance: random.Random) -> Any:
    """Return a turn."""
    made = Event(
        event_id=f"e{chance.randrange(1_000)}", author="user", role="user", text=text(chance),
        occurred_at=NOW + timedelta(minutes=chance.randrange(10_000)),
    )  # fmt: skip
    return with_odd_field(made, chance)


def new_memory(chance: random.Random) -> Any:
    """Return a memory to store."""
    made = NewMemory(text=text(chance), key=chance.choice((None, "k1", "k2")))
    return with_odd_field(made, chance)


def storable(value: str) -> str:
    """Return a text that the models of Google ADK take."""
    return value.encode("utf-8", "replace").decode()


def content(chance: random.Random) -> types.Content:
    """Return content of Google ADK."""
    parts = [types.Part(text=storable(text(chance))) for _ in range(chance.randrange(3))]
    return types.Content(role=chance.choice(("user", "model", "", None)), parts=parts or None)


def adk_event(chance: random.Random) -> AdkEvent:
    """Return an event of Google ADK."""
    return AdkEvent(
        id=storable(text(chance))[:300], author=storable(text(chance)), content=content(chance),
        timestamp=chance.choice((0.0, 1.7e9, -1.0, 1e18, math.nan, math.inf)),
        invocation_id=chance.choice(("", "i")), partial=chance.choice((None, True, False)),
    )  # fmt: skip


def session(chance: random.Random) -> Session:
    """Return a session of Google ADK."""
    return Session(
        id=chance.choice(("s", storable(text(chance)))), app_name=chance.choice(("app", "")),
        user_id=chance.choice(("ana", storable(text(chance)))),
        events=[adk_event(chance) for _ in range(chance.randrange(3))],
    )  # fmt: skip


def entry(chance: random.Random) -> MemoryEntry:
    """Return a memory of Google ADK."""
    return MemoryEntry(
        content=content(chance), id=chance.choice((None, "k", storable(text(chance)))),
        author=chance.choice((None, storable(text(chance)))),
        timestamp=chance.choice((None, "", "yesterday", "2026-03-01", storable(text(chance)))),
        custom_metadata=chance.choice(({}, {"kind": "x"}, {"ttl": -1}, {"importance": 99})),
    )  # fmt: skip


def namespace(chance: random.Random) -> Any:
    """Return the labels of a namespace."""
    usual = (("app", "ana", "memories"), ("app", "ana", "notes"), ("docs",), ("a", "b", "c", "d"))
    if chance.random() < 0.7:
        return chance.choice((*usual, ("app", "ana", "hippocampus-instructions")))
    return tuple(chance.choice((*ODD_TEXTS, "a", 1, None)) for _ in range(chance.randrange(4)))


def operation(chance: random.Random) -> Any:
    """Return an operation of a LangGraph store."""
    space, key = namespace(chance), key_of(chance)
    return chance.choice((
        GetOp(space, key), PutOp(space, key, value(chance)), PutOp(space, key, None),
        SearchOp(space, query=text(chance), limit=usual_or_odd(one_of(0, 3), chance)),
        SearchOp(space, filter=odd_json(chance)), PutOp(space, key, value(chance), ttl=odd(chance)),
        ListNamespacesOp((MatchCondition(chance.choice(("prefix", "suffix")), space),)),
    ))  # fmt: skip


def key_of(chance: random.Random) -> Any:
    """Return a key."""
    return chance.choice(("k1", "k2", chance.choice(ODD_TEXTS)))


def value(chance: random.Random) -> Any:
    """Return the value of an item."""
    return {"text": text(chance)} if chance.random() < 0.5 else odd_json(chance)


def many(make: Make) -> Make:
    """Return a maker of short lists."""
    return lambda chance: [make(chance) for _ in range(chance.randrange(3))]


def policy(chance: random.Random) -> Any:
    """Return a retention policy."""
    return chance.choice((RetentionPolicy(), "default", "none", text(chance)))


def usual_or_odd(make: Make, chance: random.Random) -> Any:
    """Return a usual value, or in a third of the cases an odd one."""
    return odd(chance) if chance.random() < 0.33 else make(chance)


ID: Final = one_of("k1", "k2", uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001", "t1")
FLAG: Final = one_of(True, False)
COUNT: Final = one_of(0, 1, 5, 100)
SHARE: Final = one_of(0.0, 0.3, 1.0, 7.0)
MOMENT: Final = one_of(NOW, *ODD_MOMENTS)
USUAL: Final[Mapping[str, Make]] = {
    **dict.fromkeys(("query", "input", "value_text", "system_prompt", "profile", "label"), text),
    **dict.fromkeys(("key", "run_id", "edge_id", "memory_id", "token_id"), ID),
    **dict.fromkeys(("keys", "memory_ids", "event_ids", "job_ids", "aliases"), many(ID)),
    **dict.fromkeys(("thread_id", "session_id"), one_of("t1", "t2", "s")),
    **dict.fromkeys(("user_id", "user"), one_of("ana", "bob")),
    **dict.fromkeys(("app", "app_name"), one_of("app")),
    **dict.fromkeys(("limit", "offset", "max_hops", "depth", "version", "points"), COUNT),
    **dict.fromkeys(("max_tokens", "max_depth"), one_of(1, 64, 2000)),
    **dict.fromkeys(("delay_s", "ttl", "days_ahead", "timeout_s"), one_of(0, 1.5, 100)),
    **dict.fromkeys(("min_relevance", "min_importance", "diversity", "confidence"), SHARE),
    **dict.fromkeys(("threshold", "min_age_days"), SHARE),
    **dict.fromkeys(("at", "asked_at", "valid_from", "valid_until", "expires_at"), MOMENT),
    **dict.fromkeys(("begin", "end"), one_of(NOW, "2026-03-01", "yesterday", "昨天")),
    **dict.fromkeys(("kinds", "never"), many(one_of("episodic", "semantic", "summary", "x"))),
    **dict.fromkeys(("instructions", "users"), many(text)),
    **dict.fromkeys(("value", "payload", "custom_metadata", "state", "filter"), value),
    **dict.fromkeys(("namespace", "namespace_prefix", "prefix", "suffix"), namespace),
    **dict.fromkeys(("entity", "start", "goal", "name", "object"), one_of("user", "Mia", "Leeds")),
    **dict.fromkeys(
        ("later", "unseen", "session_end", "history", "retry_later", "dry_run", "distinct",
         "vectors", "restore", "refresh_ttl", "functional", "forget", "model"), FLAG,
    ),
    "as_of": lambda chance: chance.choice((AsOf(), AsOf(valid=NOW), AsOf(known=NOW))),
    "bucket": one_of("day", "week", "month", "year", "second"),
    "days": many(SHARE),
    "events": many(event),
    "index": one_of(False, None, ["text"], ["a.b[*]"], ["$"], []),
    "job_type": one_of(*JobType, "reflection"),
    "matching": text,
    "memories": lambda chance: chance.choice((text, many(new_memory), many(text)))(chance),
    "memory_type": one_of("episodic", "semantic"),
    "ops": many(operation),
    "order": one_of("newest", "oldest", "best"),
    "policy": policy,
    "ranking": one_of("linear", "three_factor", "x"),
    "relation": one_of("lives_in", "knows", "likes", "住在"),
    "scope": scope,
    "session": session,
    "slot": one_of("residence", "name", "like", "employer", "my_own", "公司"),
    "source": many(text),
    "stages": many(one_of("demoted", "archived", "x")),
    "statuses": many(one_of(*JobStatus, "x")),
    "strategy": one_of(ExtractionStrategy(), None),
    "subject": one_of("user", "Mia", None),
    "when": one_of("yesterday", "last week", "昨天", "2026", "in March", "next year"),
    "zone": one_of("Europe/Berlin", "UTC", UTC, "Mars/Phobos", "../../etc/passwd"),
}  # fmt: skip
"""A maker of usual values for each parameter that has some; all others get odd ones."""
