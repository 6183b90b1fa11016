"""Runs: what an extractor read is applied whole, once, with its sources, and can be undone."""

import asyncio
import multiprocessing
import os
import signal
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from every_case import every_case
from long_forms import LONG
from person import Person, alone, read_by
from postgres_admin import execute
from turns import START, said as said_at

from shared_core import CallableEmbedder, Event, JobStatus, JobType, Scope, open_memory
from shared_core.core.domain import (
    Conclusions,
    Emotion,
    Extraction,
    FactDraft,
    InsightDraft,
    ModelUsage,
    StatementDraft,
    TripleDraft,
)
from shared_core.errors import Conflict, InvalidInput, ModelUnavailable, NotFound
from shared_core.extraction.rule_based import RuleExtractor
from shared_core.knowledge import consolidation
from shared_core.storage.postgres.connection.policies import PostgresPolicies
from tests.integration.two_at_once import meeting, while_reading

ANN = Scope("app", "ann")
Events = Sequence[Event]
Summary = tuple[str, ModelUsage]


def said(number: int, text: str) -> Event:
    return said_at(f"e{number:05}", text, START + timedelta(minutes=number))


class Scripted(RuleExtractor):
    """A fake: reads by rules, and adds what the test wrote for a turn's id."""

    name = "fake-v1"

    def __init__(self, script: dict[str, Extraction]) -> None:
        super().__init__()
        self.script = script
        self.seen: list[tuple[list[str], list[str]]] = []

    async def extract(self, events: Events, context: Events) -> Extraction:
        self.seen.append(([one.event_id for one in events], [one.event_id for one in context]))
        read = await super().extract(events, context)
        mine = [self.script[one.event_id] for one in events if one.event_id in self.script]
        return Extraction(
            facts=[*read.facts, *(fact for one in mine for fact in one.facts)],
            statements=[text for one in mine for text in one.statements],
            insights=[text for one in mine for text in one.insights],
            triples=[triple for one in mine for triple in one.triples],
            emotions={key: feel for one in mine for key, feel in one.emotions.items()},
            importance={key: rate for one in mine for key, rate in one.importance.items()},
            usage=ModelUsage(calls=1, input_tokens=100, output_tokens=10),
        )


def fact(event_id: str, slot: str, value: str, **more: Any) -> FactDraft:
    return FactDraft(**{
        "fact_type": "profile", "slot": slot, "value": value,
        "statement": f"User: {slot} is {value}.", "event_id": event_id, "functional": True,
        "confidence": 0.9, "pattern": "fake", "language": "en", **more,
    })  # fmt: skip


def employed(number: int, employer: str, *statements: StatementDraft, **more: Any) -> Extraction:
    """Return a fact of a turn, and what else is drawn from it."""
    drawn = [fact(f"e{number:05}", "employer", employer)]
    return Extraction(facts=drawn, statements=statements, **more)


def states(text: str, *turns: int, **more: Any) -> StatementDraft:
    return StatementDraft(text=text, event_ids=tuple(f"e{n:05}" for n in turns), **more)


def works_at(number: int, employer: str) -> TripleDraft:
    return TripleDraft(
        subject="user", relation="works_at", object=employer, event_id=f"e{number:05}",
        functional=True,
    )  # fmt: skip


async def tell(ann: Person, number: int, text: str = "", thread: str = "t") -> Any:
    """Append a turn and consolidate its thread; return the report."""
    await ann.append_events(thread, [said(number, text or f"Turn {number} of the story.")])
    return await ann.consolidate(thread)


def edges(ann: Person, columns: str) -> list[tuple[Any, ...]]:
    """Return columns of the edges, by object."""
    where = "WHERE tenant_id = %(tenant)s ORDER BY object"
    return ann.sql(f"SELECT {columns} FROM hippocampus.edges {where}")


async def test_all_kinds_of_drafts_are_kept_with_their_turns(ann):
    told = "Cancan is Ann's daughter, is five and loves drawing."
    proud = Emotion(valence=0.8, arousal=0.4, label="proud")
    daughter = {"subject": "user", "relation": "daughter", "object": "Cancan"}
    script = {"e00002": Extraction(statements=[states(told, 1, 2, importance=8, emotion=proud)],
        insights=[InsightDraft(text="Family comes first for Ann.", event_ids=("e00002",))],
        triples=[TripleDraft(event_id="e00001", **daughter)],
        emotions={"e00002": Emotion(valence=0.9, arousal=0.5, label="joy")},
        importance={"e00001": 8.0})}  # fmt: skip
    ann = read_by(ann, Scripted(script))
    turns = [said(1, "My daughter Cancan is five."), said(2, "She loves drawing, how lovely!")]
    await ann.append_events("t", turns)
    report = await ann.consolidate("t")
    # Whose daughter, how old, what she loves: the facts are edges, too.
    assert (1, 1, 3) == (report.statements, report.insights, report.edges)
    assert ModelUsage(calls=1, input_tokens=100, output_tokens=10) == report.usage
    [run] = await ann.runs()
    assert ("fake-v1", report.run_id) == (run.extractor, run.run_id)
    assert {"statements": 1, "model_calls": 1, "output_tokens": 10}.items() <= run.counts.items()
    stored = {one.text: one for one in await ann.list_memories()}
    statement = stored[told]
    assert ("e00001", "e00002") == statement.source_event_ids
    assert 8 == statement.importance
    metadata: Any = statement.value["metadata"]
    assert {"valence": 0.8, "arousal": 0.4, "label": "proud"} == metadata["emotion"]
    insight = stored["Family comes first for Ann."]
    assert ("reflection", ("e00002",)) == (insight.kind, insight.source_event_ids)
    assert 8 == stored["My daughter Cancan is five."].importance
    turn: Any = stored["She loves drawing, how lovely!"].value["metadata"]
    assert "joy" == turn["emotion"]["label"]
    assert {
        ("user", "daughter", "Cancan", run.run_id),
        ("Cancan", "has_age", "five", run.run_id),
        ("Cancan", "likes", "drawing", run.run_id),
    } == {*edges(ann, "subject, relation, object, run_id")}


async def test_drafts_of_no_turn_and_numbers_out_of_bounds_do_no_harm(ann):
    script = {
        "e00001": Extraction(
            facts=[
                fact("e00001", "city", "Rome", confidence=7.0, importance=float("nan")),
                fact("elsewhere", "city", "Oslo"),
                fact("e00001", "empty", "  "),
            ],
            statements=[StatementDraft(text="Nobody said so.", event_ids=("elsewhere",)),
                        StatementDraft(text="Nor this.", event_ids=())],
            insights=[InsightDraft(text="Nothing.", event_ids=("e00001", "elsewhere"))],
            triples=[TripleDraft(subject="a", relation="b", object="c", event_id="elsewhere")],
            importance={"e00001": 99.0, "elsewhere": 3.0},
        )
    }  # fmt: skip
    ann = read_by(ann, Scripted(script))
    await ann.append_events("t", [said(1, "That is settled.")])
    report = await ann.consolidate("t")
    [run] = await ann.runs()
    assert 6 == run.counts["rejected"]
    assert (1, 0, 0, 0) == (
        report.facts_opened, report.statements, report.insights, report.edges)  # fmt: skip
    [known] = await ann.facts()
    assert ("Rome", 1.0) == (known.value, known.confidence)
    assert {10.0, 5.0} == {one.importance for one in await ann.list_memories()}


async def test_a_statement_goes_when_what_it_tells_of_ends(ann):
    script = {
        "e00001": employed(
            1, "Google", states("Ann works at Google.", 1), triples=[works_at(1, "Google")]
        ),
        "e00002": employed(2, "Meta", triples=[replace(works_at(2, "Meta"), subject="User")]),
    }
    ann = read_by(ann, Scripted(script))
    await tell(ann, 1, "It is settled.")
    await tell(ann, 2, "That is settled.")
    assert ["User: employer is Meta."] == await ann.texts("semantic")
    ended = START + timedelta(minutes=2)
    assert [("Google", ended), ("Meta", None)] == edges(ann, "object, valid_until")


@pytest.mark.parametrize("at_once", [True, False])
async def test_an_edge_ends_with_a_fact_that_was_known_before_it(ann, at_once):
    script = {
        "e00001": employed(1, "Acme"),
        "e00002": employed(2, "Acme", triples=[works_at(2, "Acme")]),
        "e00003": Extraction(facts=[fact("e00003", "employer", "", operation="retract")]),
    }
    turns = [said(number, f"Turn {number} of the story.") for number in (1, 2, 3)]
    span = "valid_from, valid_until"
    one, three = (START + timedelta(minutes=number) for number in (1, 3))
    ann = read_by(ann, Scripted(script))
    for given in [turns[:1], turns[1:]] if at_once else [[turn] for turn in turns]:
        await ann.append_events("t", given)
        before = ann.rows()
        run = await ann.consolidate("t")
    assert [(one, three)] == edges(ann, span)
    assert run.run_id
    await ann.undo_run(run.run_id)
    assert before == ann.rows()
    await ann.consolidate("t")
    await ann.forget_turns("t", ["e00002"])
    assert [(one, three)] == edges(ann, span)
    await ann.forget_turns("t", ["e00001"])  # nothing else says the edge
    assert [] == edges(ann, span)


async def test_undoing_a_run_restores_the_exact_state_before_and_needs_a_run(ann):
    with pytest.raises(NotFound, match="there is no run"):
        await ann.undo_run("0197a000-0000-7000-8000-000000000000")
    with pytest.raises(InvalidInput, match="run_id must be a UUID"):
        await ann.undo_run("last")
    script = {
        "e00001": employed(
            1, "Google", states("Ann works at Google.", 1), importance={"e00001": 7.0}
        ),
        "e00003": employed(
            3, "Meta", insights=[InsightDraft(text="Ann changes jobs.", event_ids=("e00003",))],
            triples=[works_at(3, "Meta")], importance={"e00003": 9.0},
            emotions={"e00003": Emotion(valence=0.5, arousal=0.5)},
        ),
    }  # fmt: skip
    ann = read_by(ann, Scripted(script))
    first = [said(1, "I love tea. Google pays me."), said(2, "I live in Leeds.")]
    await ann.append_events("t", first)
    before_first = ann.rows()
    one = await ann.consolidate("t")
    second = [said(3, "I love tea, and I live in York."), said(4, "Meta pays me.")]
    await ann.append_events("t", second)
    before = ann.rows()
    two = await ann.consolidate("t")
    assert before != ann.rows()
    assert one.run_id and two.run_id
    with pytest.raises(Conflict, match=f"undo them first, in this order: {two.run_id}"):
        await ann.undo_run(one.run_id)
    await ann.undo_run(two.run_id)
    assert before == ann.rows()
    assert {"Ann works at Google."} <= {*await ann.texts("semantic")}
    with pytest.raises(Conflict, match="was undone already"):
        await ann.undo_run(two.run_id)
    again = await ann.consolidate("t")  # what was undone can be read again
    assert (2, two.facts_opened) == (again.events, again.facts_opened)
    assert again.run_id
    await ann.undo_run(again.run_id)
    await ann.undo_run(one.run_id)
    after = ann.rows()
    for table in ("facts", "edges"):
        assert before_first[table] == after[table]
    assert [] == await ann.texts("semantic", "summary")


async def test_what_was_forgotten_meanwhile_does_not_come_back_by_an_undo(ann):
    ann = read_by(ann, Scripted({}))
    await tell(ann, 1, "I live in Leeds.")
    second = await tell(ann, 2, "I live in York.")
    await ann.forget_turns("t", ["e00001"])
    assert second.run_id
    await ann.undo_run(second.run_id)
    assert {"I live in York."} == {one.text for one in await ann.list_memories()}
    assert [] == ann.rows_with("Leeds")


async def test_a_forgotten_turn_takes_statements_and_old_summaries_with_it(ann):
    script = {
        "e00002": Extraction(
            statements=[states("Ann met Ben in Leeds.", 1, 2)],
            insights=[InsightDraft(text="Leeds matters.", event_ids=("e00001", "e00002"))],
        )
    }  # fmt: skip
    ann = read_by(ann, Scripted(script))
    for number in range(1, 5):
        await tell(ann, number, f"I was in Leeds, chapter {number} of the story.")
    await ann.forget_turns("t", ["e00001"])
    kinds = "SELECT DISTINCT kind FROM hippocampus.memories WHERE tenant_id = %(tenant)s"
    assert [("episodic",)] == ann.sql(kinds)
    report = await ann.consolidate("t")  # the summary is written anew, without it
    assert "Leeds" in report.summary
    assert "chapter 1" not in report.summary
    assert 0 == report.events


async def test_rules_sum_up_what_no_turn_tells_alone(ann):
    home, work, both = "I live in Rome.", "I work at Acme.", "I live in Rome. I work at Acme."
    table = ((home, work), ""), ((both, home, "Thanks!"), ""), ((home, "Thanks!", work), both)
    for day, (texts, summary) in enumerate(table):
        await ann.tell(day, *texts, thread=str(day))
        assert summary == (await ann.consolidate(str(day))).summary
    assert [both] == await ann.texts("summary")


async def test_phases_have_marks_of_their_own(ann):
    ann = read_by(ann, Scripted({}))
    await ann.append_events("t", [said(1, "I live in Leeds.")])
    replay = await ann.consolidate("t", job_type=JobType.FAST_REPLAY)
    assert (0, 0, "I live in Leeds.") == (replay.events, replay.facts_opened, replay.summary)
    assert [] == await ann.facts()
    deep = await ann.consolidate("t", job_type=JobType.DEEP_REFLECTION)
    assert (1, 1, "") == (deep.events, deep.facts_opened, deep.summary)
    assert ["I live in Leeds."] == await ann.texts("summary")
    assert None is (await ann.consolidate("t")).run_id


@every_case("garbage", "fast-replay", JobType.CALLBACK, "reflection")
async def test_what_is_no_work_on_a_thread_is_refused(job_type, ann):
    await ann.append_events("t", [said(1, "I live in Leeds.")])
    with pytest.raises(InvalidInput, match="must be one of fast_replay, deep_reflection, full_con"):
        await ann.consolidate("t", job_type=job_type)
    assert [] == await ann.runs()


async def test_long_threads_are_read_in_windows_that_overlap(ann):
    extractor = Scripted({})
    extractor.window_tokens = 30
    ann = read_by(ann, extractor)
    turns = [said(number, f"Turn {number}: I was in town number {number}.") for number in
             range(20)]  # fmt: skip
    await ann.append_events("t", turns)
    assert 20 == (await ann.consolidate("t", job_type=JobType.DEEP_REFLECTION)).events
    read = [event_id for events, _ in extractor.seen for event_id in events]
    assert [turn.event_id for turn in turns] == read
    for (events, _), (_, context) in zip(extractor.seen, extractor.seen[1:], strict=False):
        assert events[-1] == context[-1]


async def test_a_model_builds_on_the_summary_before(ann):
    class Rolling(Scripted):
        reread_turns = 0

        async def summarise(self, events: Events, previous: str, max_characters: int) -> Summary:
            asked.append(([one.event_id for one in events], previous))
            return f"{previous}|{len(events)}", ModelUsage(calls=1)

    asked: list[tuple[list[str], str]] = []
    ann = read_by(ann, Rolling({}))
    for number in (1, 2, 3):
        report = await tell(ann, number)
    assert "|1|1|1" == report.summary
    assert [(["e00001"], ""), (["e00002"], "|1"), (["e00003"], "|1|1")] == asked
    [summary] = await ann.list_memories(kinds=["summary"])
    assert ("e00001", "e00002", "e00003") == summary.source_event_ids


@pytest.mark.tail
@pytest.mark.timeout(900)
async def test_turns_of_two_windows_and_one_of_much_text(dsn, monkeypatch):
    count = 10_000
    if not LONG:
        count = 100
        monkeypatch.setattr(consolidation, "WINDOW", count // 2)
    async with open_memory(dsn, embedder=lambda texts: [[1.0]] * len(texts),
                           extractor=RuleExtractor(), worker=False) as memory:  # fmt: skip
        many = [said(number, f"Note {number}: I was here.") for number in range(count)]
        long = "word " * (200_000 if LONG else 30_000)
        last = [said(count, long), said(count + 1, "I live in Leeds.")]
        for given in (many, last[:1], last[1:]):
            await memory.append_events(ANN, "long", given, later=True)
        report = await memory.consolidate(ANN, "long")
        assert (count + 2, 1) == (report.events, report.facts_opened)
        assert 0 == (await memory.consolidate(ANN, "long")).events


async def test_a_reflection_across_threads_can_be_undone_and_asked_for_again(ann):
    assert 0 == (await ann.reflect()).reflections_generated
    for number in range(3):
        await tell(ann, number, "I love green tea.", f"t{number}")
    before = ann.rows()
    report = await ann.reflect()
    assert report.run_id
    await ann.undo_run(report.run_id)
    assert before == ann.rows()
    [pattern] = (await ann.reflect(limit=50)).reflections
    assert ("Again and again: User likes green tea.", "pattern") == (
        pattern.content, pattern.category)  # fmt: skip
    assert 0 == (await ann.reflect()).reflections_generated
    [hit] = await ann.recall("tea", kinds=["reflection"])
    assert ("e00000", "e00001", "e00002") == hit.memory.source_event_ids
    await ann.forget_turns("t1", ["e00001"])
    assert [] == await ann.texts("reflection")
    with pytest.raises(InvalidInput, match="limit must be between 1 and 500"):
        await ann.reflect(limit=0)


async def test_a_model_that_keeps_failing_gives_way_to_the_rules_and_is_marked(dsn):
    class Failing(Scripted):
        name = "model-v1"

        async def extract(self, events: Events, context: Events) -> Extraction:
            failed.append(len(events))
            raise ModelUnavailable("the model is down")

    failed: list[int] = []
    now = [START]
    memory = open_memory(dsn, extractor=Failing({}), clock=lambda: now[0], worker=False)
    async with memory:
        await memory.append_events(ANN, "t", [said(1, "I live in Leeds.")], later=True)
        for tries in range(1, 6):
            await memory.jobs.serve(once=True)
            assert tries == len(failed)
            if tries < 5:
                [job] = await memory.jobs.list(ANN)
                assert (JobStatus.PENDING, tries) == (job.status, job.attempts)
                assert job.error and "ModelUnavailable" in job.error
                assert [] == await memory.runs(ANN)
            now[0] += timedelta(minutes=5)
        assert ["Leeds"] == [fact.value for fact in await memory.facts(ANN)]
        [run] = await memory.runs(ANN)
        assert ("rules", "model-v1") == (run.extractor[:5], run.counts["instead_of"])
        assert await memory.recall(ANN, "Leeds")


@pytest.mark.parametrize(
    ("texts", "kept"),
    [
        (["Tom owes Bob ten euros.", "Bob owes Tom ten euros."], [0, 1]),
        (["Ann takes her pill before breakfast.", "Ann takes her pill after breakfast."], [0, 1]),
        (["The meeting is on Monday.", "The meeting is on Thursday."], [0, 1]),
        (["安在吃饭之前吃药。", "安在吃饭之后吃药。"], [0, 1]),
        (["小明打败了小红。", "小红打败了小明。"], [0, 1]),
        (["会议在星期三。", "会议在星期四。"], [0, 1]),
        (["Ann writes C++.", "Ann writes C#."], [0, 1]),
        (["🙂", "🙃"], [0, 1]),
        (
            [
                "Ann's dog Bruno is afraid of thunder and hides under the bed.",
                "Ann's dog Bruno is afraid of thunder, and hides under the bed!",
                "Ann's dog Bruno is not afraid of thunder and hides under the bed.",
                "安的狗叫布鲁诺，它害怕打雷，会躲到床底下。",
                "安的狗叫布鲁诺，它害怕打雷，会躲到床底下",
            ],
            [0, 2, 3],
        ),
    ],
)
async def test_statements_that_differ_are_kept_and_what_is_known_is_said_once(ann, texts, kept):
    script = {
        f"e{place:05}": Extraction(statements=[states(text, place)])
        for place, text in enumerate(texts)
    }
    ann = read_by(ann, Scripted(script))
    for place in range(len(texts)):
        await tell(ann, place)
    assert sorted(texts[place] for place in kept) == await ann.texts("semantic")


async def test_what_is_forgotten_while_a_summary_is_written_does_not_come_back(ann):
    class Slow(Scripted):
        reread_turns = 0

        async def summarise(self, events: Events, previous: str, max_characters: int) -> Summary:
            if previous and not forgotten:
                forgotten.append(await ann.forget_turns("t", ["e00001"]))
            told = " | ".join(event.text for event in events)
            return f"{previous} {told}".strip(), ModelUsage()

    forgotten: list[int] = []
    ann = read_by(ann, Slow({}))
    await tell(ann, 1, "My secret is Zorro.")
    assert "It rained all day." == (await tell(ann, 2, "It rained all day.")).summary
    assert [] == ann.rows_with("Zorro")


async def test_a_statement_about_something_else_in_the_same_turn_stays(ann):
    text = "Mia is Ann's daughter and is five."
    script = {
        "e00001": employed(1, "Acme", states(text, 1), states("Ann works at ACME.", 1)),
        "e00002": employed(2, "Bosch"),
    }
    ann = read_by(ann, Scripted(script))
    for number in (1, 2):
        await tell(ann, number)
    assert [text, "User: employer is Bosch."] == await ann.texts("semantic")


async def test_who_took_the_place_of_what_a_run_ended_must_be_undone_first(ann):
    quit_ = replace(fact("e00002", "employer", "Acme"), operation="retract")
    script = {
        "e00001": employed(1, "Acme"),
        "e00002": Extraction(facts=[quit_]),
        "e00003": employed(3, "Bosch"),
    }
    ann = read_by(ann, Scripted(script))
    reports = [await tell(ann, number, thread=f"t{number}") for number in (1, 2, 3)]
    assert reports[1].run_id and reports[2].run_id
    with pytest.raises(Conflict, match=f"in this order: {reports[2].run_id}"):
        await ann.undo_run(reports[1].run_id)
    await ann.undo_run(reports[2].run_id)
    await ann.undo_run(reports[1].run_id)
    assert ["Acme"] == [one.value for one in await ann.facts()]


async def test_a_slow_clock_does_not_change_the_order_of_runs(ann_by_clock):
    ann, clock = ann_by_clock, ann_by_clock.clock
    clock.day = 1
    first = await tell(ann, 1, "I live in Berlin.")
    clock.forward(-30)
    second = await tell(ann, 2, "I live in Rome.")
    assert [second.run_id, first.run_id] == [run.run_id for run in await ann.runs()]
    with pytest.raises(Conflict, match=str(second.run_id)):
        await ann.undo_run(first.run_id)


def embed(texts: Sequence[str]) -> list[list[float]]:
    return [[1.0, 2.0] for _ in texts]


TINY = CallableEmbedder(embed, model="tiny")


def consolidate_and_die(dsn: str, step: str) -> None:
    """Consolidate a thread of Ann in a process of its own, which is killed at a step."""

    def die(at: str) -> None:
        if step == at:
            os.kill(os.getpid(), signal.SIGKILL)

    class Dying(RuleExtractor):
        async def extract(self, events: Events, context: Events) -> Extraction:
            die("extract")
            return await super().extract(events, context)

        async def summarise(self, events: Events, previous: str, max_characters: int) -> Summary:
            die("summarise")
            return await super().summarise(events, previous, max_characters)

    apply_run, send = consolidation.apply_run, PostgresPolicies._send

    async def late_send(self: PostgresPolicies, connection: Any, sent: Any) -> Any:
        if sent[-1][0] == b"COMMIT":
            # The server has the whole transaction, and waits at its end.
            sent = [*sent[:-1], (b"SELECT pg_sleep(60)", {}), sent[-1]]
            asyncio.get_running_loop().call_later(1.0, die, "within")
        return await send(self, connection, sent)

    async def dying_run(*given: Any) -> None:
        die("before")
        if step == "within":
            PostgresPolicies._send = late_send  # type: ignore[method-assign]
        await apply_run(*given)
        die("after")

    async def main() -> None:
        async with alone(dsn, embedder=TINY, extractor=Dying()) as ann:
            await ann.consolidate("t")

    consolidation.apply_run = dying_run  # type: ignore[assignment]
    asyncio.run(main())


@pytest.mark.parametrize("step", ["extract", "summarise", "before", "within", "after"])
@pytest.mark.tail
async def test_a_kill_at_any_step_loses_nothing_and_doubles_nothing(dsn, step):
    async with alone(dsn, embedder=TINY) as ann:
        told = ("I live in Leeds.", "I love green tea.", "Thanks!")
        await ann.append_events("t", [*map(said, (1, 2, 3), told)])
        fork = multiprocessing.get_context("fork")
        killed = fork.Process(target=consolidate_and_die, args=(dsn, step))
        killed.start()
        await asyncio.to_thread(killed.join)
        assert -signal.SIGKILL == killed.exitcode
        execute(  # else its sleep goes on
            dsn, "SELECT pg_cancel_backend(pid) FROM pg_stat_activity"
            " WHERE query LIKE '%pg_sleep%' AND pid <> pg_backend_pid()"
            " AND datname = current_database()",
        )  # fmt: skip
        assert (0 if step == "after" else 3) == (await ann.consolidate("t")).events
        facts = sorted(one.statement for one in await ann.facts(history=True))
        assert ["User likes green tea.", "User lives in Leeds."] == facts
        assert 1 == len(await ann.texts("summary"))
        assert 1 == len(await ann.runs())


async def test_an_extractor_that_raises_a_conflict_is_called_once(ann):
    calls = []

    class Conflicting(RuleExtractor):
        async def extract(self, events: Events, context: Events) -> Extraction:
            calls.append(len(events))
            raise Conflict("not of a run")

    ann = read_by(ann, Conflicting())
    await ann.append_events("t", [said(1, "I live in Leeds.")])
    with pytest.raises(Conflict, match="not of a run"):
        await ann.consolidate("t")
    assert [1] == calls


async def test_two_at_once_neither_double_nor_lose(ann_with):
    one, other = ann_with(), ann_with()
    turns = [said(number, f"I love tea number {number}.") for number in range(12)]
    await one.append_events("t", turns)
    await one.append_events("u", [replace(turn, author="ann") for turn in turns])
    await asyncio.gather(*(ann.consolidate(thread) for ann in (one, other) for thread in "tu"))
    facts = [fact.value for fact in await one.facts(history=True)]
    assert sorted(f"tea number {number}" for number in range(12)) == sorted(facts)
    sources = {fact.value: fact.source_event_ids for fact in await one.facts()}
    assert ("e00007",) == sources["tea number 7"]
    rested = one.sql(
        "SELECT x.thread_id FROM hippocampus.memory_sources x"
        " JOIN hippocampus.facts f USING (tenant_id, memory_id)"
        " WHERE tenant_id = %(tenant)s AND f.value #>> '{}' = 'tea number 7' ORDER BY 1"
    )
    assert [("t",), ("u",)] == rested  # each once
    assert 2 == len(await one.texts("summary"))


TOLD = {
    "en": ("Bruno the dog is afraid of thunder.", "Bruno, the dog, is afraid of thunder!"),
    "zh": ("安的狗布鲁诺害怕打雷。", "安的狗布鲁诺害怕打雷！"),
}


class Counting(RuleExtractor):
    """The rules; counts how often they are asked, also as a copy that knows somebody."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    async def extract(self, events: Events, context: Events) -> Extraction:
        self.calls.append("extract")
        return await super().extract(events, context)


class Telling(Counting):
    """A fake: makes one statement and one insight of every thread, or of all memories."""

    name = "fake-v1"

    def __init__(self, statement: str) -> None:
        super().__init__()
        self.statement = statement

    async def extract(self, events: Events, context: Events) -> Extraction:
        self.calls.append("extract")
        ids = (events[0].event_id,)
        return Extraction(
            statements=[StatementDraft(text=self.statement, event_ids=ids)],
            insights=[InsightDraft(text="Ann likes dogs.", event_ids=ids)],
        )

    async def reflect(self, memories: Any, held: object, now: object) -> Conclusions:
        self.calls.append("reflect")
        ids = tuple(one.memory_id for one in memories)
        return Conclusions(insights=[InsightDraft(text=self.statement, memory_ids=ids)])


@pytest.mark.parametrize("language", ["en", "zh"])
async def test_two_threads_that_finish_together_write_one_statement(ann_with, language):
    readers = [Telling(text) for text in TOLD[language]]
    one, other = (ann_with(extractor=reader) for reader in readers)
    barrier = asyncio.Barrier(2)
    for ann, thread in ((one, "t"), (other, "u")):
        await ann.append_events(thread, [said_at(thread, "It thundered in the night.")])
        meeting(ann.memory, "like_texts", barrier)
    await asyncio.gather(one.consolidate("t"), other.consolidate("u"))
    [statement] = await one.texts("semantic")
    assert statement in TOLD[language]
    assert ["Ann likes dogs."] == await one.texts("reflection")
    assert [1, 1] == [len(reader.calls) for reader in readers]  # none twice for the same turns
    assert 2 == len(await one.runs())


async def test_two_reflections_that_finish_together_write_one_insight(ann_with):
    one, other = (ann_with(extractor=Telling(text)) for text in TOLD["en"])
    await one.remember(["Bruno hid under the bed.", "It thundered."])
    barrier = asyncio.Barrier(2)
    for ann in (one, other):
        meeting(ann.memory, "like_texts", barrier)
    await asyncio.gather(one.reflect(), other.reflect())
    [insight] = await one.texts("reflection")
    assert insight in TOLD["en"]


async def test_words_are_found_where_no_vector_is_near(dsn):
    """Three others are nearer than what says the same."""

    def embed(given: Sequence[str]) -> list[list[float]]:
        return [[0.9, 0.1] if text == texts_told[0] else [1.0, 0.0] for text in given]

    texts_told = ["Bruno fears thunder.", *(f"Bruno met dog {n}." for n in range(6))]
    reader = Telling("")
    async with alone(dsn, embedder=embed, extractor=reader) as ann:
        for number, text in enumerate([*texts_told, "Bruno fears thunder!"]):
            reader.statement = text
            await tell(ann, number, "Hello, my friend.", f"t{number}")
        assert sorted(texts_told) == await ann.texts("semantic")


class Relating(RuleExtractor):
    """A fake: reads one edge of the user out of every turn, its relation being the turn's id."""

    name = "fake-v1"

    async def extract(self, events: Events, context: Events) -> Extraction:
        ids = [{"relation": one.event_id, "event_id": one.event_id} for one in events]
        return Extraction(
            triples=[TripleDraft(subject="user", object="Acme", **one) for one in ids]
        )


async def tries_of_two_at_once(ann: Person, *turns: Event) -> int:
    """Consolidate two turns, each before it knows of the other; return how often they looked."""
    barrier, looks = asyncio.Barrier(2), 0

    async def counted() -> None:
        nonlocal looks
        looks += 1
        if looks <= 2:
            await barrier.wait()

    while_reading(ann.memory, after=counted)
    for thread, turn in zip("tu", turns, strict=True):
        await ann.append_events(thread, [turn])
    await asyncio.gather(*(ann.consolidate(thread) for thread in "tu"))
    return looks


@pytest.mark.parametrize(
    ("relations", "tries"), [(["works_at", "lives_in"], 2), (["works_at", "works_at"], 3)]
)
async def test_only_runs_on_one_relation_of_the_user_meet(ann_with, relations, tries):
    turns = [said_at(relation, "A long story.") for relation in relations]
    assert tries == await tries_of_two_at_once(ann_with(extractor=Relating()), *turns)


@pytest.mark.tail
async def test_many_runs_on_one_matter_all_come_through(dsn):
    """Each thread tells a value of one slot; a text is embedded once for all its tries."""
    embedded: list[str] = []

    def embed(given: Sequence[str]) -> list[list[float]]:
        embedded.extend(given)
        return [[1.0, 0.0] for _ in given]

    ends = "adegklmn" if LONG else "ade"
    names = [f"{first}{second}" for first in ("Re", "Bo", "Mi", "Ta") for second in ends]
    reader = Counting()
    async with alone(dsn, embedder=embed, extractor=reader) as ann:
        for name in names:
            await ann.append_events(name, [said_at(name, f"I have a dog named {name}.")])
        embedded.clear()
        await asyncio.gather(*(ann.consolidate(name) for name in names))
        assert sorted(names) == await ann.values()
        assert len(names) == len(reader.calls)  # none again for a name that its turn does not have
        told = [text for text in embedded if any(name in text for name in names)]
        assert sorted(set(told)) == sorted(told)


async def test_a_turn_is_read_again_if_another_run_named_somebody_in_it(ann_with):
    reader = Counting()
    turns = [
        said_at("t", "I have a dog named Rex. Bo is older."),
        said_at("u", "I have a dog named Bo. Rex is older."),
    ]
    assert 3 == await tries_of_two_at_once(ann_with(extractor=reader), *turns)
    assert 3 == len(reader.calls)
