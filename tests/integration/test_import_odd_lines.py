"""Lines that no export of ours holds: they write to nobody else, and are refused by name."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest

from shared_core import Conflict, Event, InvalidInput, Scope, open_memory
from shared_core.core.row_text import MOST_POSITION, fields_of, read_value
from tests.integration.talking import Watch

ANA, BOB = Scope("app", "ana"), Scope("app", "bob")
HEAD = '{"hippocampus_export": 2, "schema_version": 1, "of": {"app": "app", "user": "ana"}}'
END = '{"end": true, "rows": 1}'


def said(event_id: str, text: str) -> Event:
    at = datetime(2026, 1, 22, tzinfo=UTC)
    return Event(event_id=event_id, author="ana", role="user", text=text, occurred_at=at)


def memory_row(**changed: Any) -> dict[str, Any]:
    memory_id, at = str(uuid4()), "2026-01-22T10:00:00+00:00"
    return {
        "tenant_id": "/app/ana/", "memory_id": memory_id, "namespace": "/memories/",
        "key": memory_id, "kind": "semantic", "text": "Ana skis.", "terms": "", "value": {},
        "importance": 5, "term_count": 0, "created_at": at, "updated_at": at, "occurred_at": at,
        **changed,
    }  # fmt: skip


@pytest.mark.both_engines
async def test_a_second_row_on_a_line_writes_to_nobody_else(dsn: str) -> None:
    own, other = json.dumps(memory_row()), json.dumps(memory_row(tenant_id="/app/bob/"))
    async with open_memory(dsn, clock=Watch(), worker=False) as memory:
        await memory.import_lines(
            [HEAD, f'{{"table": "memories", "row": {other}, "row": {own}}}', END]
        )
        assert ([], 1) == (
            list(await memory.list_memories(BOB)),
            len(await memory.list_memories(ANA)),
        )


ODD = [
    ("value", '{"a": 1%s}' % ("0" * 5000), "type jsonb"),
    ("value", '{"a": 1e5000}', "type jsonb"),
    ("importance", "1" + "0" * 5000, "type number"),
    ("importance", "1e39", "type number: '1e39': it is out of range"),
    ("tenant_id", "1" + "0" * 5000, "belongs to '1000"),
]  # fmt: skip


@pytest.mark.both_engines
@pytest.mark.parametrize(
    ("column", "token", "told"), ODD, ids=["long", "exponent", "real-long", "real", "tenant"]
)
async def test_a_number_that_nothing_reads_is_refused_by_name(
    dsn: str, column: str, token: str, told: str
) -> None:
    row = json.dumps(memory_row(**{column: "HERE"})).replace('"HERE"', token)
    async with open_memory(dsn, clock=Watch(), worker=False) as memory:
        with pytest.raises(InvalidInput, match=f"line 2.*{told}"):
            await memory.import_lines([HEAD, f'{{"table": "memories", "row": {row}}}', END])
        assert [] == list(await memory.list_memories(ANA))


@pytest.mark.both_engines
@pytest.mark.parametrize("odd", [{"target": 5}, {"target": None}, {"counts": []}])
async def test_a_receipt_that_nothing_reads_is_refused(dsn: str, odd: dict[str, Any]) -> None:
    async with open_memory(dsn, clock=Watch(), worker=False) as memory:
        await memory.erase(ANA)
        lines = [line async for line in memory.export(ANA)]
        receipt = json.loads(lines[1])
        receipt["row"] |= {"erasure_id": str(uuid4()), **odd}
        with pytest.raises(InvalidInput, match="line 2: it holds no receipt"):
            await memory.import_lines([HEAD, json.dumps(receipt), END])
        assert 1 == len(await memory.erasures(app="app"))


@pytest.mark.parametrize("text", ["\\u0000", "\\ud800"])
def test_texts_of_a_list_can_be_stored(text: str) -> None:
    with pytest.raises(InvalidInput, match="NUL byte or a lone surrogate"):
        read_value("event_ids", "text[]", f'["{text}"]')


def test_a_word_far_away_costs_no_memory() -> None:
    words = read_value("terms", "tsvector", "\"'a':1 'b':999999999999\"")
    assert (MOST_POSITION, "a", "b") == (len(words), words[0], words[-1])


@pytest.mark.parametrize(
    "line",
    [
        '{"table": "events", "row": {"a": 1}, "row": {"a": 2}}',
        '{"table": "events", "row": {"a": 1}, "r\\u006fw": {"a": 2}}',
        '{"table": "events", "row": {"a": 1, "a": 2}}',
        '{"row": {"a": 1}, "table": "events", "row": {"a": 2}}',
        ' {"table": "events", "row": {"a": 2}, "b": {"a": 3}} ',
        '{"table": "events", "row": {"a": 2 } }\t',
    ],
)
def test_the_last_of_several_members_counts_as_for_json(line: str) -> None:
    assert {"a": "2"} == fields_of(line) == {key: str(value) for key, value in
                                             json.loads(line)["row"].items()}  # fmt: skip


@pytest.mark.both_engines
async def test_a_turn_whose_number_another_turn_has_is_refused_at_its_line(
    dsn: str, other_dsn: str
) -> None:
    async with (
        open_memory(dsn, clock=Watch(), worker=False) as memory,
        open_memory(other_dsn, clock=Watch(), worker=False) as other,
    ):
        await memory.append_events(ANA, "t", [said("e1", "I ski."), said("e2", "I row.")])
        lines = [line async for line in memory.export(ANA, vectors=True)]
        await other.append_events(ANA, "t", [said("x1", "I sail.")])
        number = 1 + next(n for n, line in enumerate(lines) if '"event_id":"e1"' in line)
        with pytest.raises(Conflict, match=f"line {number}, a row of events: something else"):
            await other.import_lines(lines)
        assert ["I sail."] == [one.text for one in await other.list_memories(ANA)]
        await other.forget_thread(ANA, "t")
        await other.import_lines(lines)
        assert {"I ski.", "I row."} == {one.text for one in await other.list_memories(ANA)}
