"""What the trained reader takes for over ends the held fact that its words mention."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from uuid import uuid4

from every_case import every_case

from shared_core.core.domain import USER, FactDraft, HeldFact, MemoryId, ThreadId
from shared_core.knowledge.held_index import HeldIndex
from shared_core.knowledge.tagged_ends import SURE, tagged_ends
from shared_core.nlp.slots import slot_of
from shared_core.nlp.text import Language


def held(slot: str, value: str) -> HeldFact:
    known = slot_of(slot)
    assert known is not None
    return HeldFact(
        memory_id=MemoryId(uuid4()),
        fact_type=known.fact_type,
        slot=slot,
        subject=USER,
        value=value,
        statement=f"User {slot} {value}",
        functional=known.functional,
        stated_at=datetime(2026, 3, 1, tzinfo=UTC),
        thread_id=ThreadId("t"),
        event_ids=("0",),
    )


def over(
    tag: str, words: str, said: str, sure: float = 0.79, language: Language = "en"
) -> FactDraft:
    return FactDraft(
        fact_type="profile",
        slot={"kin_name": "relation.person"}.get(tag, tag),
        value=words,
        statement=said,
        event_id="1",
        functional=False,
        confidence=sure,
        pattern=f"reader.{language}.{tag}",
        language=language,
        operation="retract",
    )


FACTS = [
    held("employer", "Amazon warehouse"), held("phone", "Nokia 3310"), held("like", "coffee"),
    held("plan", "去韩国旅游"), held("bank", "招商银行"), held("relation.cat", "Mog"),
    held("residence", "深水埗劏房"), held("car", "桑塔纳"),
]  # fmt: skip


@every_case(
    (over("like", "coffee", "coffee isn't for me now"), "coffee"),
    (over("kin_name", "mog", "we said goodbye to mog on saturday"), "Mog"),
    (over("residence", "深水埗劏房", "深水埗劏房交返鎖匙", language="zh"), "深水埗劏房"),
    (over("car", "桑塔纳", "桑塔纳报废了", language="zh"), "桑塔纳"),
)
def test_the_value_of_a_fact_of_the_kind_ends_it(draft: FactDraft, value: str) -> None:
    [(change, _)] = tagged_ends([draft], HeldIndex(FACTS))
    assert change.fact is not None
    assert (change.verdict, change.fact.value) == ("end", value)
    assert change.rule == draft.pattern


@every_case(
    (over("tool", "the old nokia brick", "the nokia brick is in the recycling"), "Nokia 3310"),
    (over("residence", "深水埗間", "深水埗間交返鎖匙", language="zh"), "深水埗劏房"),
    (over("like", "coffee machine", "the coffee machine died"), "coffee"),
)
def test_words_that_only_mention_a_value_raise_a_doubt(draft: FactDraft, value: str) -> None:
    [(change, _)] = tagged_ends([draft], HeldIndex(FACTS))
    assert change.fact is not None
    assert (change.verdict, change.fact.value) == ("doubt", value)


def test_a_reading_that_is_not_sure_raises_a_doubt() -> None:
    draft = over("kin_name", "mog", "we said goodbye to mog", sure=SURE - 0.1)
    [(change, _)] = tagged_ends([draft], HeldIndex(FACTS))
    assert change.verdict == "doubt"


@every_case(
    over("employer", "handed my badge in", "handed my badge in on friday"),
    over("plan", "coffee on thursday", "coffee on thursday is off"),
    over("tool", "coffee maker", "the coffee maker is on the tip"),
    over("kin_employer", "amazon warehouse", "dad left the amazon warehouse"),
    over("plan", "去日本旅游", "去日本旅游取消了", language="zh"),
    over("tool", "工商银行", "工商银行卡注销了", language="zh"),
)
def test_words_that_mention_nothing_of_the_kind_end_nothing(draft: FactDraft) -> None:
    assert list(tagged_ends([draft], HeldIndex(FACTS))) == []


def test_a_fact_ends_once() -> None:
    drafts = [over("kin_name", "mog", "goodbye mog"), over("kin_name", "Mog", "miss you Mog")]
    assert len(list(tagged_ends(drafts, HeldIndex(FACTS)))) == 1


def test_a_veto_of_the_rules_holds_for_the_reader() -> None:
    draft = over("like", "coffee", "dropped coffee all over my laptop")
    spilled = replace(draft, statement="i nearly quit coffee")
    assert list(tagged_ends([spilled], HeldIndex(FACTS))) == []
