"""Facts that a turn may have ended: when they become doubtful, and what makes them certain."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count, permutations
from typing import Any
from uuid import UUID

from every_case import every_case

from shared_core.context.assembler import ContextAssembler
from shared_core.context.window import ContextWindow, rendered_item
from shared_core.core.domain import Extraction, FactDraft, MemoryId
from shared_core.core.doubts import doubted_at, marked
from shared_core.extraction.draft_validation import validated
from shared_core.knowledge import fact_planning as planning
from shared_core.nlp.relation_schema import triples_of
from shared_core.nlp.tokenizer import count_tokens
from shared_core.nlp.uncertainty import uncertain
from shared_core.ports.runs import Fact, KnownFact, Retraction
from shared_core.profiles.profile_memory import ProfileMemory

START = datetime(2026, 3, 1, tzinfo=UTC)
HELD = UUID(int=1000)


def day(number: float) -> datetime:
    return START + timedelta(days=number)


def draft(number: float, operation: str = "assert", **given: Any) -> FactDraft:
    fields: dict[str, Any] = {
        "fact_type": "profile", "slot": "residence", "value": "Boston",
        "statement": "User lives in Boston.", "event_id": str(number), "functional": True,
        "confidence": 0.9, "pattern": f"{operation}.p", "language": "en", "operation": operation,
    }  # fmt: skip
    return FactDraft(**fields | given)


def doubt(number: float, **given: Any) -> FactDraft:
    return draft(number, "doubt", **given)


LIKES = {"fact_type": "preference", "slot": "like", "functional": False}
AGE_OF_MIA = {"slot": "relation.daughter.age", "value": "5", "subject": "Mia"}


def known(one: FactDraft, *days: float, doubted: float | None = None) -> KnownFact:
    return KnownFact(
        memory_id=MemoryId(HELD), fact_type=one.fact_type, key=planning.fact_key(one),
        value=one.value, valid_from=day(days[0]), stated_at=[day(at) for at in days],
        doubted_at=None if doubted is None else day(doubted),
    )  # fmt: skip


def plan(
    drafts: Sequence[FactDraft],
    facts: Sequence[KnownFact] = (),
    retractions: Sequence[Retraction] = (),
    first_id: int = 1,
) -> planning.FactPlan:
    ids = (MemoryId(UUID(int=number)) for number in count(first_id))
    said_at = {one.event_id: day(float(one.event_id)) for one in drafts}
    return planning.plan_facts(drafts, facts, said_at, lambda: next(ids), retractions, day(99))


@every_case(
    {}, {"value": ""}, LIKES | {"value": "jazz"}, LIKES | {"value": "爵士乐", "language": "zh"},
    AGE_OF_MIA, {"fact_type": "custom", "slot": "rent", "value": "900"},
)  # fmt: skip
def test_a_doubt_marks_the_fact_that_holds_and_ends_nothing(given):
    held = known(draft(1, **({**given, "value": given.get("value") or "Boston"})), 1)
    made = plan([doubt(3, **given)], [held])
    assert {HELD: day(3)} == made.doubted
    assert ([], {}, {"doubted": 1}) == (made.opened, made.closed, planning.doubt_counts(made))
    [(kept, event_ids)] = made.retracted
    assert (True, "doubt.p", day(3), ("3",)) == (
        kept.is_doubt, kept.pattern, kept.said_at, event_ids)  # fmt: skip


@every_case({"value": "Austin"}, {"slot": "origin"}, {"fact_type": "custom"}, {"subject": "Mia"})
def test_a_doubt_of_another_value_slot_type_or_person_marks_nothing(other):
    assert {} == plan([doubt(3, **other)], [known(draft(1), 1)]).doubted


@every_case(
    ([1], None, 3, {HELD: day(3)}),
    ([1, 4], None, 3, {}),  # stated again after the doubt
    ([3], None, 3, {HELD: day(3)}),  # in one turn the later reading counts
    ([1], 2, 3, {HELD: day(3)}),  # the latest doubt counts, whatever is read first
    ([1], 4, 3, {}),
    ([1], 3, 3, {}),
)
def test_the_times_of_the_turns_decide_about_a_doubt(stated, before, at, expected):
    assert expected == plan([doubt(at)], [known(draft(1), *stated, doubted=before)]).doubted


@every_case((4, {HELD: None}), (3, {HELD: None}), (2, {}))
def test_stating_it_again_settles_an_earlier_doubt(at, expected):
    made = plan([draft(at)], [known(draft(1), 1, doubted=3)])
    assert expected == made.doubted
    assert [MemoryId(HELD)] == [one for one, _ in made.seen_again]
    assert ({"confirmed": 1} if expected else {}) == planning.doubt_counts(made)


def test_a_doubtful_fact_is_closed_and_a_doubt_is_one_mark_that_is_kept_until_it_is_settled():
    held = known(draft(1), 1, doubted=3)
    moved = plan([draft(5, value="Austin")], [held])
    [opened] = moved.opened
    assert ({HELD: day(5)}, "Austin", None) == (moved.closed, opened.draft.value, opened.doubted_at)
    assert {HELD: day(5)} == plan([draft(5, "retract")], [held]).closed
    assert {HELD: day(5)} == plan([doubt(4), draft(5, "retract", value="")], [held]).closed
    ended = replace(known(draft(1), 1), valid_until=day(2))
    assert {} == plan([doubt(3)], [ended]).doubted
    [(kept, _)] = plan([doubt(3)]).retracted
    late = plan([draft(1)], retractions=[kept])
    assert ([day(3)], {}) == ([one.doubted_at for one in late.opened], late.closed)
    assert [None] == [one.doubted_at for one in plan([draft(4)], retractions=[kept]).opened]
    other = plan([draft(1, value="Austin")], retractions=[kept])
    assert [(None, None)] == [(one.doubted_at, one.valid_until) for one in other.opened]
    held = known(draft(1), 1)
    assert {} == plan([doubt(3), draft(4)], [held]).doubted
    assert {HELD: day(5)} == plan([doubt(3), draft(4), doubt(5)], [held]).doubted
    marked_before = known(draft(1), 1, doubted=3)
    assert {HELD: None} == plan([draft(4), doubt(3)], [marked_before]).doubted
    assert {HELD: day(5)} == plan([draft(4), doubt(5)], [marked_before]).doubted
    made = plan([draft(1), doubt(2)])
    assert [day(2)] == [one.doubted_at for one in made.opened]
    assert ({}, {"doubted": 1}) == (made.doubted, planning.doubt_counts(made))
    assert [None] == [one.doubted_at for one in plan([draft(1), doubt(2), draft(3)]).opened]
    spouse = doubt(1, slot="relation.wife", value="Mia", functional=False)
    assert [] == triples_of([spouse])
    bare = doubt(1, statement="", value="")
    [kept] = validated(Extraction(facts=[bare]), {"1"}).extraction.facts
    assert "doubt" == kept.operation
    assert ["assert"] == [one.operation for one in planning.without_moot([doubt(1), draft(1)])]
    assert ["doubt"] == [one.operation for one in planning.without_moot([doubt(1)])]
    value = {"content": "x", "metadata": {"slot": "residence"}}
    with_mark = marked(value, day(1))
    assert (day(1), "residence") == (doubted_at(with_mark), with_mark["metadata"]["slot"])
    assert value == marked(with_mark, None) == marked(value, None)
    for other in (None, "x", {}, {"metadata": 1}, {"metadata": {"doubted_at": "x", "slot": "s"}},
                  {"metadata": {"doubted_at": "2026-03-01", "slot": "s"}},
                  {"metadata": {"doubted_at": "2026-03-01T00:00:00+00:00"}}):  # fmt: skip
        assert doubted_at(other) is None, other
    assert "User lives in Boston. (perhaps no longer)" == uncertain("User lives in Boston.")
    assert "用户住在波士顿。（可能已不再如此）" == uncertain("用户住在波士顿。")


@every_case(
    ([draft(1), doubt(2)], ("Boston", day(2))), ([draft(1), doubt(2), draft(3)], ("Boston", None)),
    ([draft(1), draft(3), doubt(2)], ("Boston", None)),
    ([draft(1), doubt(2), doubt(4), draft(3)], ("Boston", day(4))),
    ([draft(1), doubt(2), draft(3, value="Austin")], ("Austin", None)),
    ([draft(1), draft(2, value="Austin"), doubt(3, value="Austin")], ("Austin", day(3))),
)  # fmt: skip
def test_the_order_of_reading_does_not_matter(said, expected):
    for order in permutations(said):
        facts: dict[UUID, KnownFact] = {}
        retractions: list[Retraction] = []
        for number, one in enumerate(order, 1):
            made = plan([one], list(facts.values()), retractions, first_id=number)
            facts = applied(facts, made, day(float(one.event_id)))
            retractions += [retraction for retraction, _ in made.retracted]
        held = [(one.value, one.doubted_at) for one in facts.values() if one.valid_until is None]
        assert [expected] == held, [(one.operation, one.event_id) for one in order]


def applied(
    facts: dict[UUID, KnownFact], made: planning.FactPlan, at: datetime
) -> dict[UUID, KnownFact]:
    """Return the facts after a run of one draft."""
    found = dict(facts)
    for memory_id, _ in made.seen_again:
        stated_at = sorted([*found[memory_id].stated_at, at])
        found[memory_id] = replace(found[memory_id], stated_at=stated_at)
    for memory_id, until in made.closed.items():
        found[memory_id] = replace(found[memory_id], valid_until=until)
    for memory_id, mark in made.doubted.items():
        found[memory_id] = replace(found[memory_id], doubted_at=mark)
    for one in made.opened:
        found[one.memory_id] = KnownFact(
            memory_id=one.memory_id, fact_type=one.draft.fact_type, key=one.key,
            value=one.draft.value, valid_from=one.valid_from, valid_until=one.valid_until,
            stated_at=[at], doubted_at=one.doubted_at,
        )  # fmt: skip
    return found


@every_case(
    ({}, "User lives in Boston.", "User lives in Boston (perhaps no longer)."),
    ({"value": "波士顿", "statement": "用户住在波士顿。", "language": "zh"},
     "用户住在波士顿。", "用户住在波士顿（可能已不再如此）。"),
)  # fmt: skip
def test_a_profile_marks_a_doubtful_fact(given, certain, doubtful):
    profile = ProfileMemory()

    def merge(one: FactDraft) -> str:
        profile.merge([one], {one.event_id: day(float(one.event_id))}, lambda _: ())
        return profile.get_content()

    assert certain == merge(draft(1, **given))
    assert doubtful == merge(doubt(2, **given))
    assert profile == ProfileMemory.from_dict(profile.to_dict())
    assert certain == merge(draft(3, **given))
    assert doubtful == merge(doubt(4, **given))
    moved = draft(5, value="Austin", statement="User lives in Austin.")
    assert "User lives in Austin." == merge(moved)
    assert [certain] == [one.text for one in profile.history]


def assemble(max_tokens: int, fact: Fact, **options: bool) -> ContextWindow:
    assembler = ContextAssembler(max_tokens, **options)
    return assembler.assemble(system_prompt="", query="", facts=[fact])


@every_case(
    ("User lives in Boston.", "User lives in Boston. (perhaps no longer)"),
    ("用户住在波士顿。", "用户住在波士顿。（可能已不再如此）"),
)
def test_a_context_window_marks_a_doubtful_fact_and_counts_the_mark(text, line):
    certain = Fact(
        memory_id=MemoryId(HELD), fact_type="profile", slot="residence", value="v", statement=text,
        confidence=0.9, extractor="x", pattern="p", valid_from=day(1), valid_until=None,
        thread_id=None, source_event_ids=(),
    )  # fmt: skip
    doubtful = replace(certain, doubted_at=day(2))
    windows = [assemble(500, one) for one in (certain, doubtful)]
    assert line not in windows[0].prompt
    assert f"] {line}\n" in windows[1].prompt
    assert [None, True] == [window.items[0].to_dict().get("uncertain") for window in windows]
    [few, more] = [window.items[0].tokens for window in windows]
    assert few < more == count_tokens(rendered_item(windows[1].items[0]))
    least = windows[1].tokens
    assert windows[1].prompt == assemble(max(least, 64), doubtful).prompt
    long = replace(doubtful, statement=" ".join([text] * 60))
    [item] = assemble(200, long, cut=True).items
    assert item.cut and rendered_item(item).endswith(f" […]{uncertain(text).removeprefix(text)}\n")
