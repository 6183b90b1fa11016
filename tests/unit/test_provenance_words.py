"""A draft names the turns before its own that it draws on, and no others."""

from __future__ import annotations

from every_case import every_case

from shared_core.core.domain import Extraction, FactDraft, InsightDraft, StatementDraft
from shared_core.extraction.draft_validation import validated
from shared_core.extraction.earlier_turns import EarlierTurns
from tests.unit.scripted_model import fact, reading, turns


async def test_a_model_draws_on_what_was_said_before() -> None:
    *before, own = turns(
        "My lover is called Zorro.", "agent: How nice!", "The weather is fine.", "He moves to Bonn."
    )
    extractor, _ = reading(
        {
            "facts": [
                fact([1], "city", "Bonn", "Zorro lives in Bonn.", subject="Zorro"),
                fact([1], "city", "Bonn", "User moves to Bonn."),
            ],
            "statements": [{"turns": [1], "text": "Zorro, the user's lover, moves to Bonn."}],
            "insights": [{"turns": [1], "category": "insight", "text": "The user may miss Zorro."}],
        }
    )
    found = await extractor.extract([own], before)
    assert [("e1",), ()] == [one.other_event_ids for one in found.facts]
    assert [("e4", "e1")] == [one.event_ids for one in found.statements]
    assert [("e4", "e1")] == [one.event_ids for one in found.insights]


@every_case(
    ("灿灿喜欢画画。", ("e1",)),
    ("用户的女儿喜欢画画。", ("e1",)),
    ("用户喜欢画画。", ()),
    ("The user takes pills for depression.", ("e2",)),
    ("The user takes pills at night.", ()),
)
def test_only_telling_words_count(text: str, needed: tuple[str, ...]) -> None:
    *before, own = turns(
        "我女儿叫灿灿，我喜欢她。", "I have had a depression.", "画画：pills at night, I take them"
    )
    assert needed == EarlierTurns(before).needed(text, [own])


def test_a_draft_may_rest_on_context_and_not_on_it_alone() -> None:
    def told(event_id: str, *others: str) -> FactDraft:
        return FactDraft(
            fact_type="profile", slot="city", value="Bonn", statement="User lives in Bonn.",
            event_id=event_id, other_event_ids=others, functional=True, confidence=1.0,
            pattern="fake", language="en",
        )  # fmt: skip

    found = validated(
        Extraction(
            facts=[told("new", "before", "new", "nowhere"), told("before", "new")],
            statements=[
                StatementDraft(text="Both.", event_ids=("before", "new")),
                StatementDraft(text="Old.", event_ids=("before",)),
                StatementDraft(text="Neither.", event_ids=("new", "nowhere")),
            ],
            insights=[
                InsightDraft(text="Both, too.", event_ids=("new", "before")),
                InsightDraft(text="Old, too.", event_ids=("before",)),
            ],
        ),
        {"new"},
        {"before"},
    )
    assert [("before",)] == [one.other_event_ids for one in found.extraction.facts]
    assert ["Both."] == [one.text for one in found.extraction.statements]
    assert ["Both, too."] == [one.text for one in found.extraction.insights]
    assert 4 == found.rejected


@every_case(2, [1, 2], "[2]")
async def test_an_edge_draws_on_the_turn_that_named_somebody(turn: object) -> None:
    *before, named, own = turns(
        "We met Zorro.", "The weather is fine.", "My sister is called Mia.", "She works at Acme."
    )
    edges = [
        {"turn": turn, "subject": "Mia", "relation": "works_at", "object": "Acme"},
        {"turn": 2, "subject": "Mia", "relation": "knows", "object": "Zorro"},
        {"turn": 2, "subject": "user", "relation": "visits", "object": "Acme"},
    ]
    extractor, _ = reading({"facts": [], "relations": edges})
    found = await extractor.extract([named, own], before)
    needed = {one.relation: (one.event_id, {*one.other_event_ids}) for one in found.triples}
    assert {
        "works_at": (own.event_id, {named.event_id}),
        "knows": (own.event_id, {named.event_id, before[0].event_id}),
        "visits": (own.event_id, set()),
    } == needed


async def test_one_edge_of_two_turns_is_drafted_for_each() -> None:
    said = turns("Mia works at Acme.", "At Acme they know Mia.")
    edge = {"subject": "Mia", "relation": "works_at", "object": "Acme"}
    extractor, _ = reading({"relations": [{**edge, "turn": 2}, {**edge, "turn": 1}]})
    found = await extractor.extract(said, [])
    assert [("e1", ()), ("e2", ())] == [
        (one.event_id, one.other_event_ids) for one in found.triples
    ]
