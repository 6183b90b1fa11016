"""What rests on something goes with it: reflections with memories, knowledge with its context."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from person import Person, read_by
from turns import said

from shared_core import Event, JobType, RetentionPolicy
from shared_core.core import domain
from shared_core.extraction.rule_based import RuleExtractor
from shared_core.knowledge.edge_planning import stated_edges
from shared_core.nlp.relation_schema import DECLARED
from tests.integration.test_runs import Scripted, fact
from tests.unit.scripted_model import fact as told_of, reading


class Concluding(RuleExtractor):
    """A fake: reads by rules, and concludes one thing from all memories."""

    async def reflect(self, memories: Any, held: object, now: object) -> domain.Conclusions:
        ids = tuple(memory.memory_id for memory in memories)
        text = "Ana hides an affair with Zorro."
        return domain.Conclusions(insights=[domain.InsightDraft(text=text, memory_ids=ids)])


async def said_again_and_again(ann: Person, text: str) -> list[Any]:
    runs = []
    for number in range(3):
        runs.append(await ann.say(number, text))
    assert 1 == (await ann.reflect()).reflections_generated
    return runs


async def test_a_reflection_goes_with_a_remembered_memory(ann):
    ann = read_by(ann, Concluding())
    keys = await ann.remember(["Ana has an affair.", "Ana meets Zorro on Fridays."])
    assert 1 == (await ann.reflect()).reflections_generated
    assert 2 == await ann.forget(keys[0])
    assert [] == await ann.texts("reflection")
    assert ["Ana meets Zorro on Fridays."] == await ann.texts("item", "semantic")


@pytest.mark.parametrize("language", ["en", "zh"])
async def test_a_reflection_goes_with_its_fact(ann, language):
    await said_again_and_again(ann, {"en": "I love jazz.", "zh": "我喜欢爵士乐。"}[language])
    [fact] = await ann.facts()
    await ann.forget(str(fact.memory_id))
    assert [] == await ann.texts("reflection")


async def test_a_reflection_goes_with_the_run_that_wrote_its_fact(ann):
    runs = await said_again_and_again(ann, "I love jazz.")
    for run_id in reversed(runs):
        await ann.undo_run(run_id)
    assert [] == await ann.texts("semantic", "reflection")


async def test_a_reflection_is_retired_with_its_fact_and_comes_back_by_undo(ann):
    await said_again_and_again(ann, "I live in Berlin.")
    pattern = await ann.texts("reflection")
    moved = await ann.say(9, "I live in Rome now.")
    assert [] == await ann.texts("reflection")
    assert [] == await ann.recall("again and again", kinds=["reflection"])
    await ann.undo_run(moved)
    assert pattern == await ann.texts("reflection")


async def test_a_reflection_expires_with_the_first_of_its_memories(ann):
    ann = read_by(ann, Concluding())
    soon = datetime.now(UTC) + timedelta(hours=1)
    turns = [said(1, "Zorro came by.", expires_at=soon), said(2, "Fridays are best.")]
    await ann.append_events("t", turns)
    await ann.reflect()
    [reflection] = await ann.list_memories(kinds=["reflection"])
    assert soon == reflection.expires_at


async def test_a_faded_memory_leaves_its_reflection(ann):
    ann = read_by(ann, Concluding())
    await ann.append_events("t", [said(1, "Zorro came by."), said(2, "Ana smiled.")])
    await ann.reflect()
    [faded, _] = await ann.list_memories(kinds=["episodic"])
    kept = [one.key for one in await ann.list_memories() if one.key != faded.key]
    assert 2 == await ann.retention.pin(kept)
    assert 1 == len((await ann.cleanup(RetentionPolicy(threshold=1, min_age_days=0))).forgotten)
    assert 1 == len(await ann.texts("reflection"))


async def test_a_forgotten_summary_takes_those_it_replaced(ann):
    await ann.tell(0, "I play the cello.", "Thanks!")
    for day, text in ((1, "I live in Zanzibar."), (2, "I work at Acme."), (3, "I like papayas.")):
        await ann.say(day, text)
    await ann.say(7, "I play chess.", "Nice set.", "It is made of ivory.", thread="other")
    assert 3 == await ann.forget("summary/t")
    summaries = "FROM hippocampus.memories WHERE tenant_id = %(tenant)s AND kind = 'summary'"
    assert [("summary/other",)] == ann.sql(f"SELECT key {summaries}")


class Rolling(RuleExtractor):
    """A fake: carries each summary on, as a model does."""

    name = "rolling"
    reread_turns = 0

    async def summarise(
        self, events: Sequence[Event], previous: str, max_characters: int
    ) -> tuple[str, domain.ModelUsage]:
        return " ".join([previous, *(event.text for event in events)]).strip(), domain.NO_USAGE


async def test_a_summary_expires_with_what_it_carries_on(ann):
    now = datetime.now(UTC)
    soon, later = now + timedelta(hours=1), now + timedelta(hours=2)
    ann = read_by(ann, Rolling())
    for number, expires_at in enumerate([later, soon, None, later]):
        await ann.say(number, f"Zorro visits on day {number}.", expires_at=expires_at)
    [summary] = await ann.list_memories(kinds=["summary"])
    assert ("day 0" in summary.text, soon) == (True, summary.expires_at)


def expire(ann: Person, where: str) -> None:
    for table in ("events", "memories"):
        ann.sql(f"UPDATE hippocampus.{table} SET expires_at = '2026-01-01' WHERE {where}")


async def test_a_summary_that_expired_is_no_part_of_the_next(ann):
    ann = read_by(ann, Rolling())
    await ann.say(1, "Zorro visits tonight.")
    expire(ann, "tenant_id = %(tenant)s")
    await ann.say(2, "It rains in Bonn.")
    [summary] = await ann.list_memories(kinds=["summary"])
    assert ("It rains in Bonn.", None) == (summary.text, summary.expires_at)


async def test_expired_turns_without_a_memory_are_swept(memory, scope, dsn):
    ann = Person(memory, scope, dsn)
    soon = datetime.now(UTC) + timedelta(hours=1)
    turns = [said(1, "I like papayas.", expires_at=soon), said(2, "ok", expires_at=soon), said(3,
        "Be kind to Zorro.", role="system", expires_at=soon), said(4, "ok")]  # fmt: skip
    await ann.append_events("t", turns)
    await memory.sweep_expired()
    left = "SELECT event_id FROM hippocampus.events ORDER BY seq"
    assert 4 == len(ann.sql(left))
    expire(ann, "expires_at IS NOT NULL")
    assert 0 == await memory.sweep_expired((scope.app, scope.user, "notes"))
    assert 4 == len(ann.sql(left))
    assert 1 == await memory.sweep_expired()
    assert [("e4",)] == ann.sql(left)
    assert not any(await ann.append_events("t", turns))


NAMES = {
    "en": ("My daughter Zoraida is five.", "She loves drawing and plays chess.", "Zoraida"),
    "zh": ("我女儿叫灿灿。", "她喜欢画画，今年五岁。", "灿灿"),
}


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("language", ["en", "zh"])
async def test_who_a_pronoun_means_is_forgotten_with_the_turn_that_said_so(ann, language, at_once):
    first, second, name = NAMES[language]
    await ann.append_events("t", [said(1, first)])
    if not at_once:
        await ann.consolidate("t")
    await ann.append_events("t", [said(2, second), said(3, "I like papayas.")])
    await ann.consolidate("t", job_type=JobType.DEEP_REFLECTION)
    told = [one for one in await ann.facts() if name in one.statement]
    assert ("e1", "e2") in [one.source_event_ids for one in told]
    await ann.forget("summary/t")
    await ann.forget_turns("t", ["e1"])
    assert [] == ann.rows_with(name)
    assert ["User likes papayas."] == [one.statement for one in await ann.facts()]


async def test_a_turn_that_names_somebody_itself_needs_no_other(ann):
    await ann.tell(1, "My daughter Mia is five.")
    await ann.tell(2, "My daughter Mia loves art.")
    await ann.say(3, "I live in Rome with Mia.")
    await ann.forget_turns("t", ["e1"])
    told = {one.value: one.source_event_ids for one in await ann.facts()}
    assert [("e2",), ("e3",)] == sorted(told[one] for one in told if one in ("art", "Rome"))


async def test_a_repeat_that_needs_another_turn_keeps_nothing_alive(ann):
    turns = ["My daughter Zoraida loves art.", "She loves art."]
    await ann.append_events("t", [said(n, text) for n, text in enumerate(turns)])
    await ann.consolidate("t", job_type=JobType.DEEP_REFLECTION)
    await ann.forget_turns("t", ["e0"])
    assert [] == ann.rows_with("Zoraida")


async def test_a_memory_that_ends_while_a_model_reflects_leaves_no_reflection(ann):
    class Interrupted(Concluding):
        async def reflect(self, memories: Any, held: object, now: object) -> domain.Conclusions:
            facts = [one for one in memories if one.kind == "semantic"]
            if not seen:
                await ann.say(2, "I live in Rome now.")
            seen.append([one.text for one in facts])
            return await super().reflect(facts, held, now)

    seen: list[list[str]] = []
    ann = read_by(ann, Interrupted())
    await ann.say(1, "I live in Berlin.")
    report = await ann.reflect()
    [rome] = await ann.facts()
    assert [["User lives in Berlin."], ["User lives in Rome."]] == seen
    assert [(rome.memory_id,)] == [one.memory_ids for one in report.reflections]


async def test_a_turn_that_is_in_several_threads_is_named_once(ann):
    for thread in ("t", "u", "v"):
        await ann.say(1, "I love jazz.", thread=thread)
    [fact] = await ann.facts()
    [kept] = await ann.list_memories(kinds=["semantic"])
    assert (("e1",), ("e1",)) == (fact.source_event_ids, kept.source_event_ids)


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


def told(kind: str, *event_ids: str) -> domain.Extraction:
    """Return what some turns say together, as a draft of one kind."""
    last, others = event_ids[-1], event_ids[:-1]
    match kind:
        case "fact":
            return domain.Extraction(facts=[fact(last, "dog", "Bruno", other_event_ids=others)])
        case "statement":
            return domain.Extraction(
                statements=[domain.StatementDraft(text=BRUNO, event_ids=event_ids)]
            )
        case "insight":
            return domain.Extraction(
                insights=[domain.InsightDraft(text=BRUNO, event_ids=event_ids)]
            )
    triple = {"subject": "Ann", "relation": "owns", "object": "Bruno"}
    draft = domain.TripleDraft(event_id=last, other_event_ids=others, **triple)
    return domain.Extraction(triples=[draft])


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
    edge = domain.TripleDraft(subject="Ann", relation="owns", object="Bruno", event_id="e1")
    both = domain.Extraction(facts=[fact("e1", "dog", "Bruno")], triples=[edge])
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
EDGE = domain.TripleDraft(subject="ann", relation="knows", object="ben", event_id="e1")


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
    facts = [FACT, *([wrong] if isinstance(wrong, domain.FactDraft) else [])]
    triples = [EDGE, *([wrong] if isinstance(wrong, domain.TripleDraft) else [])]
    reader.script = {"e1": domain.Extraction(facts=facts, triples=triples)}
    await ann.append_events("t", [turn(1)])
    report = await ann.consolidate("t")
    relations = stated_edges(reader.script["e1"], DECLARED)
    named = [triple for triple in relations if triple.subject.strip()]
    assert (len(facts), len(named)) == (report.facts_opened, report.edges)
    assert 1 == sum("'object': 'ben'" in row for row in ann.rows("edges")["edges"])


async def test_long_values_that_begin_alike_are_two_facts(ann, reader):
    values = [LONG[:1_400] + end for end in "甲乙乙"]
    reader.script = {
        "e1": domain.Extraction(facts=[replace(FACT, value=value) for value in values])
    }
    await ann.append_events("t", [turn(1)])
    assert 2 == (await ann.consolidate("t")).facts_opened
    assert {*values} == {*await ann.values()}
