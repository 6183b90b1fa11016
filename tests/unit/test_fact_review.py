"""What a model finds out of date is believed only where the facts show it."""

from datetime import UTC, datetime, timedelta
from typing import Any

from every_case import every_case

from shared_core.core.domain import HeldFact, ThreadId
from shared_core.extraction.fact_review import outdated_facts, review_listing
from shared_core.extraction.llm_schema import ReviewItem
from tests.unit.scripted_model import NOON, held

APRIL, JUNE, OCTOBER = (datetime(2026, month, 1, tzinfo=UTC) for month in (4, 6, 10))
MAY_30 = NOON + timedelta(days=90)


def fact(value: str, number: int, *, slot: str = "residence", **more: Any) -> HeldFact:
    """Return a fact that a turn told; number: as in held()."""
    times = {"valid_from": (told := more.get("stated_at", NOON)), "stated_at": told}
    turns = ((ThreadId("t"), f"e{number}"),)
    return held(value, slot=slot, number=number, **{"turns": turns, **times, **more})


YORK, JO = fact("York", 1, ended_at=MAY_30), fact("Jo", 2, slot="relation.flatmate")
LEEDS = fact("Leeds", 3, stated_at=MAY_30)
BEES = fact("bees", 4, slot="allergy.home")
CAST = fact("cast", 5, slot="jo.health", subject="jo", statement="In a cast for six weeks.")
TO_COME = fact("Rome", 6, slot="home", begins_at=OCTOBER + timedelta(days=9))
OWN, TRAM = fact("chess", 7, slot="hobby", turns=()), fact("tram", 8, slot="commute")
FACTS = (JO, LEEDS, BEES, CAST, TO_COME, OWN, TRAM, YORK)


def reviewed(*items: dict[str, Any], facts: Any = FACTS) -> tuple[list[Any], dict[str, int]]:
    """Return what ends, as (value, until, what still holds), and what was refused."""
    listing = review_listing(facts, 1_000)
    ids = {one.value: name for name, one in listing.facts.items()}
    ids |= {"today": "today", "f99": "f99"}
    given = [
        ReviewItem(**one | {"id": ids[one["id"]], "because": [ids[o] for o in one["because"]]})
        for one in items
    ]
    found, refused = outdated_facts(given, listing, OCTOBER, "reflect.v2")
    return [(one.fact.value, one.until, one.still) for one in found], dict(refused)


def ends(name: str, *because: str, **more: Any) -> dict[str, Any]:
    return {"op": "end", "id": name, "because": [*because], **more}


def updates(value: str, statement: str) -> dict[str, Any]:
    return ends("Jo", "York", op="update", value=value, statement=statement)


def test_the_listing_has_all_facts_with_their_times():
    shown = review_listing([JO, LEEDS, YORK], 1_000)
    assert {"f1": LEEDS, "f2": JO, "e3": YORK} == shown.facts
    assert "[e3] ended 2026-05-30; user, residence: York | User's residence is York." in shown.text
    assert "[f2] since 2026-03-01; user, relation.flatmate: Jo |" in shown.text
    assert ["f1"] == [*review_listing([JO, LEEDS, YORK], 40).facts]


@every_case(
    (ends("Jo", "York"), MAY_30), (ends("Jo", "Leeds", until="2026-06"), JUNE),
    (ends("cast", "today", until="2026-04"), APRIL), (ends("Jo", "York", until="2026"), MAY_30),
    (ends("Jo", "York", until="1901"), MAY_30), (ends("f99", "York"), "not shown"),
    (ends("York", "Leeds"), "has ended"), (ends("bees", "Leeds"), "allergy"),
    (ends("Leeds", "Jo"), "no newer fact"), (ends("Jo", "tram"), "no newer fact"),
    (ends("Jo", "Rome"), "no newer fact"), (ends("chess", "Leeds"), "no turn tells"),
    (ends("Jo", "York", until="2027"), "fact later"), (ends("Jo", "Jo"), "no newer fact"),
    (ends("Jo"), "no newer fact"), (ends("Jo", "today"), "no newer fact"),
    (ends("Jo", "today", until="2025"), "no newer fact"), (ends("Rome", "York"), "not begun"),
    (updates("Bob", "Bob."), "without a value"), (updates("Jo", JO.statement), "do not say"),
    (updates("Jo", "Jo plays the drums in Oslo every night."), "do not say"),
)  # fmt: skip
def test_a_fact_ends_when_others_show_it(item, expected):
    found, refused = reviewed(item)
    if isinstance(expected, datetime):
        assert ([(expected, None)], {}) == ([one[1:] for one in found], refused)
    else:
        assert ([], 1) == (found, sum(refused.values())) and expected in str(refused)


def test_what_still_holds_rests_on_all_that_say_it():
    statement = "The user's flatmate was Jo in York."
    [(_, _, still)], refused = reviewed(updates("Jo", statement))
    assert ("relation.flatmate", "Jo", statement) == (still.slot, still.value, still.statement)
    assert ({}, (JO.memory_id, YORK.memory_id)) == (refused, still.people)


def test_a_review_ends_not_nearly_everything_and_no_two_facts_by_each_other():
    many = [fact(f"thing{number}", number + 10, slot="like") for number in range(20)]
    items = [ends(one.value, "Leeds") for one in many]
    assert ([], {"review that ends too much": 6}) == reviewed(*items[:6], facts=[*many, LEEDS])
    assert 5 == len(reviewed(*items[:5], facts=[*many, LEEDS])[0])
    ring = ends("Leeds", "Jo"), ends("Jo", "Leeds", until="2026-07")
    found, refused = reviewed(*ring)
    assert (["Jo"], {"review that no newer fact shows": 1}) == ([one[0] for one in found], refused)
    found, refused = reviewed(ends("tram", "Jo"), ends("Jo", "York", until="2026-07"))
    assert (["Jo", "tram"], {}) == ([one[0] for one in found], refused)
