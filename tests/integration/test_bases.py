"""What an extractor drafts from one turn or several: it stays as long as one basis is whole.

Whatever an extractor returns is stored, within the bounds of the database.
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from person import Person, read_by
from turns import said

from shared_core import Event
from shared_core.core.domain import Extraction, FactDraft, InsightDraft, StatementDraft, TripleDraft
from shared_core.knowledge.edge_planning import stated_edges
from shared_core.nlp.relation_schema import DECLARED
from tests.integration.test_runs import Scripted, fact
from tests.unit.scripted_model import fact as told_of, reading

BRUNO = "Bruno is Ann's dog and fears thunder."


@pytest.fixture
def reader():
    return Scripted({})


@pytest.fixture
def ann(ann, reader):
    """Ann, whose turns the reader reads."""
    return read_by(ann, reader)


def turn(number: int, **more: Any) -> Event:
    return said(number, f"Turn {number} of the story.", **more)


def told(kind: str, *event_ids: str) -> Extraction:
    """Return what some turns say together, as a draft of one kind."""
    last, others = event_ids[-1], event_ids[:-1]
    match kind:
        case "fact":
            return Extraction(facts=[fact(last, "dog", "Bruno", other_event_ids=others)])
        case "statement":
            return Extraction(statements=[StatementDraft(text=BRUNO, event_ids=event_ids)])
        case "insight":
            return Extraction(insights=[InsightDraft(text=BRUNO, event_ids=event_ids)])
    return Extraction(triples=[TripleDraft(subject="Ann", relation="owns", object="Bruno",
                                           event_id=last, other_event_ids=others)])  # fmt: skip


KINDS = ("fact", "statement", "insight", "edge")


async def kept(ann: Person, kind: str) -> bool:
    """Tell whether what was told is there, and that nothing is left of it where it is not."""
    edges = ann.rows("edges")["edges"]
    sources = ann.sql(
        "SELECT event_id FROM hippocampus.edge_sources WHERE tenant_id = %(tenant)s UNION ALL"
        " SELECT event_id FROM hippocampus.memory_sources"
        " JOIN hippocampus.memories USING (tenant_id, memory_id)"
        " WHERE tenant_id = %(tenant)s AND kind IN ('semantic', 'reflection')"
    )
    texts = await ann.texts("semantic", "reflection")
    assert bool(texts or edges) == bool(sources)
    return bool(edges if kind == "edge" else texts)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("bases", "lost"), [
    pytest.param([(1, 2), (3, 4)], [[1], [3]], id="a second basis is an alternative"),
    pytest.param([(1, 2), (3, 4)], [[2], [4]], id="each turn of a basis is needed"),
    pytest.param([(1, 2), (3, 4), (5,)], [[2, 3], [5]], id="one turn of each takes all"),
    pytest.param([(1, 2), (1, 3)], [[], [2], [1]], id="two bases may share a turn"),
    # After "Mia loves art" "she loves art" says nothing without it.
    pytest.param([(1,), (1, 2)], [[1]], id="what only adds to a basis is none"),
])  # fmt: skip
async def test_what_was_told_stays_as_long_as_one_basis_is_whole(ann, reader, kind, bases, lost):
    for turns in bases:
        ids = [f"e{number}" for number in turns]
        reader.script[ids[-1]] = told(kind, *ids)
        await ann.append_events("t", [turn(number) for number in turns])
        await ann.consolidate("t")
    await ann.forget("summary/t")
    assert await kept(ann, kind)
    gone: set[int] = set()
    for numbers in lost:
        gone.update(numbers)
        await ann.forget_turns("t", [f"e{number}" for number in numbers])
        whole = [basis for basis in bases if gone.isdisjoint(basis)]
        assert bool(whole) == await kept(ann, kind)
        if whole and kind != "edge":
            [one] = await ann.list_memories(kinds=["semantic", "reflection"])
            turns = sorted({number for basis in whole for number in basis})
            assert tuple(f"e{number}" for number in turns) == one.source_event_ids


@pytest.mark.parametrize("kind", KINDS)
async def test_undo_takes_the_basis_of_its_run_alone(ann, reader, kind):
    reader.script = {"e2": told(kind, "e1", "e2"), "e3": told(kind, "e1", "e3")}
    await ann.append_events("t", [turn(1), turn(2)])
    await ann.consolidate("t")
    await ann.append_events("t", [turn(3)])
    before = ann.rows()
    run = await ann.consolidate("t")
    assert before != ann.rows()
    await ann.undo_run(run.run_id)
    assert before == ann.rows()
    await ann.forget_turns("t", ["e2"])
    assert not await kept(ann, kind)


@pytest.mark.parametrize("kind", KINDS[:3])
async def test_a_basis_expires_with_the_first_of_its_turns(ann, reader, kind):
    soon, later, last = (datetime.now(UTC) + timedelta(hours=hours) for hours in (1, 2, 3))
    reader.script = {"e2": told(kind, "e1", "e2"), "e4": told(kind, "e3", "e4")}
    for turns in ({1: soon, 2: last}, {3: later, 4: last}):
        await ann.append_events("t", [turn(number, expires_at=at) for number, at in turns.items()])
        await ann.consolidate("t")
    [one] = await ann.list_memories(kinds=["semantic", "reflection"])
    assert later == one.expires_at


async def test_what_a_user_wrote_does_not_go_with_a_turn_that_says_it(ann, reader):
    reader.script = {"e1": told("statement", "e1")}
    await ann.remember(BRUNO)
    await ann.append_events("t", [turn(1)])
    assert 0 == (await ann.consolidate("t")).statements
    await ann.forget_turns("t", ["e1"])
    assert [BRUNO] == await ann.texts("semantic")


async def test_an_edge_outlives_its_fact_by_what_says_it_alone(ann, reader):
    edge = TripleDraft(subject="Ann", relation="owns", object="Bruno", event_id="e1")
    both = Extraction(facts=[fact("e1", "dog", "Bruno")], triples=[edge])
    reader.script = {"e1": both, "e2": told("edge", "e2")}
    for number in (1, 2):
        await ann.append_events("t", [turn(number)])
        await ann.consolidate("t")
    await ann.forget_turns("t", ["e1"])
    assert [] == await ann.facts()
    left = "SELECT object FROM hippocampus.edges WHERE tenant_id = %(tenant)s"
    assert [("Bruno",)] == ann.sql(left)
    await ann.forget_scope()
    assert [] == ann.sql(left)


NAMED = {
    "en": ("My sister is called Zoraida.", "She works at Acme.", "Zoraida", "Acme"),
    "zh": ("我妹妹叫灿灿。", "她在腾讯上班。", "灿灿", "腾讯"),
}


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("language", ["en", "zh"])
async def test_an_edge_goes_with_the_turn_that_told_whom_she_means(ann, language, at_once):
    *texts, name, company = NAMED[language]
    turns = [said(number, text) for number, text in enumerate(texts, 1)]
    told = [told_of([2 if at_once else 1], "employer", company, subject=name)]
    extractor, _ = reading(*({"facts": answer} for answer in ([told] if at_once else [[], told])))
    ann = read_by(ann, extractor)
    for given in [turns] if at_once else [[turn] for turn in turns]:
        await ann.append_events("t", given)
        await ann.consolidate("t")
    assert await kept(ann, "edge")
    await ann.forget_turns("t", ["e1"])
    assert not await kept(ann, "edge")


LONG = "".join(chr(0x4E00 + number * 7919 % 20_000) for number in range(1_500))
FACT = fact("e1", "like", "tea", fact_type="preference", functional=False)
EDGE = TripleDraft(subject="ann", relation="knows", object="ben", event_id="e1")


@pytest.mark.parametrize("wrong", [
    replace(FACT, value=LONG),
    replace(FACT, slot="sl\x00ot", subject="su\x00b\ud800", pattern="p\x00"),
    replace(FACT, slot=LONG, subject=LONG, value=LONG),
    replace(FACT, subject="\ufdfa" * 300, value="\ufdfa" * 2_000),
    replace(EDGE, subject="a\x00b", relation="r\x00", object="o\x00"),
    replace(EDGE, subject=LONG, relation=LONG, object=LONG),
    replace(EDGE, object="\ufdfa" * 300), replace(EDGE, subject=" "),
])  # fmt: skip
async def test_no_draft_fails_a_run(ann, reader, wrong):
    facts = [FACT, *([wrong] if isinstance(wrong, FactDraft) else [])]
    triples = [EDGE, *([wrong] if isinstance(wrong, TripleDraft) else [])]
    reader.script = {"e1": Extraction(facts=facts, triples=triples)}
    await ann.append_events("t", [turn(1)])
    report = await ann.consolidate("t")
    relations = stated_edges(reader.script["e1"], DECLARED)
    named = [triple for triple in relations if triple.subject.strip()]
    assert (len(facts), len(named)) == (report.facts_opened, report.edges)
    assert 1 == sum("'object': 'ben'" in row for row in ann.rows("edges")["edges"])


async def test_long_values_that_begin_alike_are_two_facts(ann, reader):
    values = [LONG[:1_400] + end for end in "甲乙乙"]
    reader.script = {"e1": Extraction(facts=[replace(FACT, value=value) for value in values])}
    await ann.append_events("t", [turn(1)])
    assert 2 == (await ann.consolidate("t")).facts_opened
    assert {*values} == {*await ann.values()}
