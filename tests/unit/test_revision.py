"""What turns do to the facts that are held: one line for each rule, veto and promise."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import pytest
from every_case import every_case
from hypothesis import given, strategies as st
from turns import said

from benchmarks.typed import statement_of
from shared_core.core.domain import USER, Event, Extraction, FactDraft, HeldFact, MemoryId, ThreadId
from shared_core.extraction.rule_based import RuleExtractor
from shared_core.knowledge.consolidation import _extracted
from shared_core.knowledge.held_index import HeldIndex, key_of
from shared_core.knowledge.revision import Revision, cascaded, revised
from shared_core.knowledge.tagged_ends import SURE, tagged_ends
from shared_core.nlp.rules.revision import load_revision_rules
from shared_core.nlp.slots import slot_of
from shared_core.nlp.text import Language, language as language_of, normalised
from shared_core.ports.runs import ThreadWindow
from tests.unit.revision_traps import CHINESE_HELD, CHINESE_TRAPS, ENGLISH_HELD, ENGLISH_TRAPS

NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)
HERE = ThreadId("here")

ENDS = [
    # rule, slot, value, turn
    ("en.taste.stopped", "like", "coffee", "I quit coffee in March"),
    ("en.taste.any-more", "like", "coffee", "I don't drink coffee anymore, it kept me up"),
    ("en.taste.turned", "like", "jazz", "I'm not really into jazz any more"),
    ("en.taste.over-it", "like", "pizza", "my pizza days are behind me"),
    ("en.taste.switched", "like", "coffee", "I switched from coffee to matcha"),
    ("en.taste.not-touched", "like", "whisky", "I have not touched whisky since the operation"),
    ("en.pursuit.stopped", "activity", "guitar", "I gave up playing guitar"),
    ("en.pursuit.no-longer", "activity", "choir", "I no longer sing in the choir"),
    ("en.job.left", "employer", "Siemens", "I quit Siemens last month"),
    ("en.job.left-name", "employer", "Siemens", "we both left Siemens for good"),
    ("en.job.no-longer", "employer", "Siemens", "I no longer work for Siemens"),
    ("en.job.let-go", "employer", "Siemens", "just got laid off by Siemens"),
    ("en.job.let-me-go", "employer", "Siemens", "Siemens let me go"),
    ("en.job.last-day", "employer", "Tarn", "yesterday was my last day at Tarn"),
    ("en.home.no-longer", "residence", "Leeds", "we don't live in Leeds any more"),
    ("en.home.not-in", "residence", "Leeds", "I'm no longer in Leeds"),
    ("en.home.moved-from", "residence", "Leeds", "I moved from Leeds in January"),
    ("en.home.left", "residence", "Leeds", "I left Leeds for good"),
    ("en.home.sold", "residence", "Leeds", "we sold our house in Leeds"),
    ("en.own.gone", "car", "Honda Civic", "sold the civic"),
    ("en.own.gone", "car", "Honda Civic", "sold the car, got a bike"),
    ("en.own.gave", "car", "Honda Civic", "I gave my civic to my brother"),
    ("en.own.was-sold", "car", "Honda Civic", "my civic got stolen"),
    ("en.tool.stopped", "tool", "Vim", "I stopped using Vim"),
    ("en.tool.any-more", "tool", "Vim", "I don't use Vim any more"),
    ("en.health.not-allergic", "allergy", "peanuts", "turns out I'm not allergic to peanuts"),
    ("en.health.gone", "allergy", "peanuts", "my peanut allergy is gone"),
    ("en.health.fine-again", "injury", "knee", "my knee is fine again"),
    ("en.health.stopped", "health", "migraines", "I stopped having migraines"),
    ("en.health.recovered", "allergy", "peanuts", "I outgrew my peanut allergy"),
    ("en.health.eats-it", "allergy", "peanuts", "I can finally eat peanuts again"),
    ("en.trait.no-longer", "trait", "vegetarian", "I'm no longer a vegetarian"),
    ("en.trait.any-more", "trait", "vegan", "I'm not really vegan any more"),
    ("en.plan.off", "plan", "trip to Lisbon", "the Lisbon trip is off"),
    ("en.plan.cancelled", "plan", "trip to Lisbon", "we cancelled the Lisbon trip"),
    ("en.job.resigned", "employer", "Siemens", "I resigned"),
    ("en.job.quit", "employer", "Siemens", "I quit my job"),
    ("en.job.fired", "employer", "Siemens", "got fired today"),
    ("en.job.jobless", "employer", "Siemens", "I'm between jobs"),
    ("en.job.not-there", "employer", "Siemens", "I don't work there anymore"),
    ("en.job.retired", "job", "midwife", "I finally retired"),
    ("en.post.left", "relation.boss", "Maria", "Maria left the company"),
    ("en.life.died", "relation.cat", "Pixel", "Pixel passed away last night"),
    ("en.life.born", "trait", "pregnant", "I had the baby!! a girl"),
    ("en.life.buried", "relation.dog", "Rex", "we buried Rex yesterday"),
    ("en.pet.goodbye", "relation.dog", "Rex", "we had to say goodbye to Rex"),
    ("en.pet.was-put-down", "relation.dog", "Rex", "Rex was put to sleep yesterday"),
    ("en.pet.lost", "relation.cat", "Mog", "Mog ran away in May and never came back"),
    ("en.pet.put-down", "relation.dog", "Rex", "we had to put Rex down"),
    ("en.life.lost-to", "relation.dog", "Rex", "we lost Rex to cancer"),
    ("en.love.split", "relation.wife", "Anna", "Anna and I got divorced"),
    ("en.love.divorce-final", "relation.husband", "Graham", "The divorce came through on Tuesday"),
    ("en.love.left-them", "relation.boyfriend", "Arjun", "I dumped Arjun"),
    ("en.love.is-ex", "relation.boyfriend", "Arjun", "saw my ex Arjun in town"),
    ("en.love.left-me", "relation.wife", "Anna", "Anna left me"),
    ("en.love.engaged", "relation.boyfriend", "Luis", "Luis proposed!!! we're engaged"),
    ("en.love.married", "relation.fiancee", "Anna", "we got married last week"),
    ("en.health.cast-off", "injury", "broken leg", "cast is off, back to running finally"),
    ("en.health.healed", "injury", "broken leg", "I'm fully recovered"),
    ("en.diet.eats-animals", "trait", "vegan", "I eat fish and meat again these days"),
    ("en.diet.eats-eggs", "trait", "vegan", "I started eating eggs and cheese"),
    ("en.employer.new-job", "employer", "Tarn", "I started a new job at Patagonia"),
    ("en.boss.new", "relation.boss", "Priya", "my new manager is Greg"),
    ("en.home.settled", "residence", "Stromness", "I got the keys in Finstown last week"),
    ("en.diet.now", "trait", "vegan", "so pescatarian i guess"),
    ("en.plan.moved", "appointment", "dentist on 3 May", "the dentist was moved to 9 May"),
    ("en.amount.changed", "rent", "2600", "my rent went up to 2900"),
    ("en.medication.changed", "medication", "amlodipine", "she changed me over to losartan"),
    ("zh.taste.no-more", "like", "两杯咖啡", "我现在不喝咖啡了，胃受不了"),
    ("zh.taste.not-again", "like", "咖啡", "我再也没喝过咖啡"),
    ("zh.taste.topic", "like", "咖啡", "咖啡我已经戒了"),
    ("zh.taste.gave-up", "like", "咖啡", "我戒了咖啡"),
    ("zh.taste.made-give-up", "like", "冰美式", "医生让我把咖啡戒了"),
    ("zh.taste.turned", "like", "火锅", "我对火锅已经没兴趣了"),
    ("zh.pursuit.stopped", "activity", "合唱团", "我退出合唱团了"),
    ("zh.job.left", "employer", "腾讯", "我从腾讯离职了"),
    ("zh.job.left-it", "employer", "腾讯", "我离开了腾讯"),
    ("zh.job.no-longer", "employer", "腾讯", "我不在腾讯上班了"),
    ("zh.job.let-go", "employer", "腾讯", "上周我被腾讯裁了"),
    ("zh.job.used-to", "employer", "腾讯", "我以前在腾讯工作"),
    ("zh.job.last-day", "employer", "腾讯", "我在腾讯的最后一天结束了"),
    ("zh.home.no-longer", "residence", "成都", "我已经不住成都了"),
    ("zh.home.moved-from", "residence", "成都", "我上个月从成都搬走了"),
    ("zh.home.used-to", "residence", "成都", "我以前住在成都"),
    ("zh.home.sold", "residence", "成都", "成都的房子已经卖了"),
    ("zh.own.gone", "car", "比亚迪汉", "我把比亚迪汉卖了"),
    ("zh.own.gave", "car", "比亚迪汉", "比亚迪汉送给我弟了"),
    ("zh.own.topic", "car", "比亚迪汉", "比亚迪汉卖了"),
    ("zh.own.topic", "car", "大众", "车卖了，换了辆特斯拉"),
    ("zh.taste.no-more", "like", "跑步", "现在不跑步了"),
    ("zh.love.split", "relation.girlfriend", "小雨", "我跟女朋友小雨分了"),
    ("zh.tool.stopped", "tool", "微信", "微信我已经不用了"),
    ("zh.tool.switched", "tool", "有道云", "我把有道云换成语雀了"),
    ("zh.health.not-allergic", "allergy", "花生", "原来是误诊，我对花生并不过敏"),
    ("zh.health.gone", "injury", "膝盖", "我的膝盖已经好了"),
    ("zh.health.no-pain", "injury", "膝盖", "膝盖复查没事了"),
    ("zh.health.eats-it", "allergy", "花生", "我终于能吃花生了"),
    ("zh.trait.no-longer", "trait", "吃素", "我不算吃素了"),
    ("zh.plan.off", "plan", "厦门旅行", "厦门旅行取消了"),
    ("zh.plan.cancelled", "plan", "厦门", "我们不去厦门了"),
    ("zh.job.resigned", "employer", "美团", "上周把工作辞了"),
    ("zh.job.fired", "employer", "美团", "我被裁了"),
    ("zh.job.retired", "job", "医生", "上周正式办理了退休手续"),
    ("zh.post.left", "relation.boss", "赵敏", "赵敏调走了"),
    ("zh.life.died", "relation.dog", "旺财", "旺财昨天去世了"),
    ("zh.life.gone", "relation.cat", "灰灰", "灰灰昨晚走了……"),
    ("zh.pet.sent-off", "relation.cat", "灰灰", "我们送走了灰灰"),
    ("zh.love.split", "relation.wife", "小丽", "我和小丽离婚了"),
    ("zh.love.is-ex", "relation.boyfriend", "阿豪", "碰到了前男友阿豪"),
    ("zh.love.left-me", "relation.girlfriend", "小雪", "小雪甩了我"),
    ("zh.love.engaged", "relation.boyfriend", "阿豪", "阿豪跟我求婚了！！！"),
    ("zh.love.married", "relation.boyfriend", "阿豪", "我们上周领证了"),
    ("zh.health.cast-off", "injury", "腿断", "石膏拆了，终于能跑步了"),
    ("zh.health.healed", "injury", "腿断", "我已经痊愈了"),
    ("zh.diet.eats-animals", "trait", "吃素", "最近开始吃鱼和鸡蛋了"),
    ("zh.diet.eats-eggs", "trait", "纯素", "我开始喝牛奶了"),
    ("zh.employer.new", "employer", "美团", "我跳槽到小米了"),
    ("zh.boss.new", "relation.boss", "赵敏", "新领导姓孙"),
    ("zh.home.moved", "residence", "合肥", "全家已经在厦门安顿好了"),
    ("zh.home.rented", "residence", "滨江单间", "我跟同事在良渚合租了个两室"),
    ("zh.plan.moved", "plan", "5月16号辩论赛", "辩论赛改期了，拖到6月20号"),
    ("zh.amount.changed", "rent", "2600", "房租涨到2900了"),
    ("zh.medication.changed", "medication", "氨氯地平", "医生给我换成氯沙坦了"),
]
DOUBTS = [("zh.post.promoted", "relation.boss", "王总", "王总升职了"), ("en.post.left-bare",
    "relation.boss", "Maria", "Maria left."), ("zh.home.left", "residence", "成都",
    "我离开成都了"), ("zh.love.apart", "relation.wife", "小雅", "我和小雅分开了"),
    ("en.taste.used-to", "like", "tennis", "I used to play tennis"), ("en.taste.sick-of", "like",
    "jazz", "I'm sick of jazz"), ("en.taste.done-with", "like", "jazz", "I'm done with jazz"),
    ("en.taste.not-since", "activity", "guitar", "haven't played guitar in years"),
    ("en.taste.told-to-stop", "like", "coffee", "the doctor made me give up coffee"),
    ("en.pursuit.left", "activity", "choir", "I left the choir last week"), ("en.pursuit.dropped",
    "activity", "evening course", "I dropped the evening course"), ("en.job.leaving", "employer",
    "Siemens", "I'm leaving Siemens next month"), ("en.job.changed", "employer", "Siemens",
    "I got a new job"), ("en.home.farewell", "residence", "Leeds", "goodbye Leeds"),
    ("en.post.promoted", "relation.boss", "Maria", "Maria got promoted"), ("en.life.lost",
    "relation.dog", "Rex", "we lost Rex yesterday"), ("en.love.ended-it", "relation.boyfriend",
    "Arjun", "he wants to stay, so we've ended it"), ("en.home.sold-it", "residence", "Leeds",
    "we sold the house"), ("en.plan.moved", "appointment", "dentist on 3 May",
    "I am put back to 9 May"), ("zh.taste.not-now", "activity", "羽毛球", "我不打羽毛球了"),
    ("zh.taste.topic-now", "activity", "羽毛球", "羽毛球不打了"), ("zh.taste.used-to", "like",
    "爬山", "以前我很喜欢爬山"), ("zh.taste.long-since", "activity", "羽毛球",
    "我好久没打羽毛球了"), ("zh.job.leaving", "employer", "腾讯", "我打算离开腾讯"),
    ("zh.job.changed", "employer", "腾讯", "我换工作了"), ("zh.life.gone-bare", "relation.cat",
    "灰灰", "灰灰走了"), ("zh.home.sold-it", "residence", "成都", "我上周搬走了")]  # fmt: skip
SUCCESSORS = [
    # rule, what ended, turns, new value
    ("en.employer.first-week", ("employer", "Tarn"),
     ["I quit my job", "first week at Patagonia done"], "Patagonia"),
    ("en.pet.name", ("relation.cat", "Pixel"),
     ["Pixel passed away", "we adopted a kitten!! his name is Bagel"], "Bagel"),
    ("en.taste.instead", ("like", "coffee"),
     ["I don't drink coffee anymore", "green tea only now"], "green tea"),
    ("zh.employer.at-work", ("employer", "美团"),
     ["上周把工作辞了", "在小米干了两周了，同事都挺好的"], "小米"),
    ("zh.pet.name", ("relation.cat", "灰灰"),
     ["灰灰昨晚走了……", "又领养了一只小橘，起名叫年糕"], "年糕"),
    ("zh.taste.instead", ("like", "咖啡"), ["我现在不喝咖啡了", "改喝普洱了"], "普洱"),
]  # fmt: skip
VETOES = [
    # veto, slot, value, a turn that ends it, the same with the veto, and what is left then
    ("en.unreal", "employer", "Siemens", "I quit my job", "I would never say I quit my job", ""),
    ("en.denied", "employer", "Siemens", "I quit my job", "I have not quit my job", ""),
    ("en.past", "activity", "guitar", "I quit guitar", "I quit guitar as a kid", ""),
    ("en.today", "like", "coffee", "I quit coffee", "I quit coffee for tonight", ""),
    ("en.until", "like", "coffee", "I quit coffee", "I quit coffee for lent", "doubt"),
    ("en.unsure", "like", "coffee", "I quit coffee", "I kinda quit coffee", "doubt"),
    ("en.notice", "employer", "Tarn", "I quit my job", "so I gave my notice at Tarn", "doubt"),
    ("en.to-come", "employer", "Siemens", "I quit my job",
     "I quit my job, starting over next month", "doubt"),
    ("zh.unreal", "relation.dog", "旺财", "旺财去世了", "电影里旺财去世了", ""),
    ("zh.denied", "employer", "腾讯", "我离职了", "我没离职了", ""),
    ("zh.past", "like", "咖啡", "我戒了咖啡", "那时候我戒了咖啡", ""),
    ("zh.today", "like", "咖啡", "我不喝咖啡了", "今天我不喝咖啡了", ""),
    ("zh.until", "like", "咖啡", "我不喝咖啡了", "这几天我不喝咖啡了", "doubt"),
    ("zh.unsure", "employer", "腾讯", "我离职了", "听说我离职了", "doubt"),
    ("zh.to-come", "employer", "腾讯", "我离职了", "我下周离职了", "doubt"),
]  # fmt: skip


def held(slot: str, value: str, subject: str = USER, number: int = 1) -> HeldFact:
    """Return a fact that turn e0 of this thread stated."""
    known = slot_of(slot)
    assert known is not None
    return HeldFact(
        memory_id=MemoryId(UUID(int=number)), fact_type=known.fact_type, slot=slot, subject=subject,
        value=value, functional=known.functional, stated_at=NOON, thread_id=HERE,
        statement=statement_of(slot, value, language_of(value)) or f"{slot} is {value}",
        event_ids=("e0",),
    )  # fmt: skip


def turn(number: int, text: str) -> Event:
    return said(f"e{number}", text, NOON)


BEFORE = [turn(0, "hello")]


def all_held(facts: Sequence[Sequence[str]]) -> list[HeldFact]:
    return [held(*fact, number=number) for number, fact in enumerate(facts, start=1)]  # type: ignore[misc, arg-type]


def read(facts: Sequence[HeldFact], *texts: str, by_rules: bool = False) -> list[FactDraft]:
    """Return what turns do to held facts; by_rules: beside what the rules read of them."""
    turns = [turn(number, text) for number, text in enumerate(texts, start=1)]
    found = RuleExtractor().read(turns) if by_rules else Extraction()
    return list(revised(turns, found, facts, BEFORE, HERE).facts)


def done(drafts: Sequence[FactDraft]) -> list[tuple[str, str, str]]:
    return [(one.operation, one.slot, one.value) for one in drafts]


@every_case(*ENDS)
def test_a_turn_ends_a_held_fact(rule, slot, value, text):
    fact = held(slot, value)
    drafts = read([fact], text)
    assert any(one.pattern == f"revise.{rule}" for one in drafts), drafts
    assert any(
        (key_of(one) == key_of(fact) and one.operation == "retract")
        or (one.operation == "assert" and one.functional and one.slot == fact.slot)
        for one in drafts
    )  # fmt: skip


@every_case(*DOUBTS)
def test_a_hedged_turn_only_doubts(rule, slot, value, text):
    fact = held(slot, value)
    [draft] = read([fact], text)
    assert (f"revise.{rule}", "doubt", key_of(fact)) == (
        draft.pattern, draft.operation, key_of(draft)
    )  # fmt: skip


@every_case(*SUCCESSORS)
def test_a_slot_that_was_ended_takes_a_new_value(rule, fact, texts, value):
    drafts = read([held(*fact)], *texts)
    assert ("assert", fact[0], value, f"revise.{rule}") in [
        (one.operation, one.slot, one.value, one.pattern) for one in drafts
    ]
    assert not read([], texts[-1])


@every_case(
    (["my dog bruno died"], []), (["our cat milo passed away"], []), (["我家仓鼠死了"], []),
    (["my boyfriend Tom and I got engaged"], ["Tom", "engaged"]),
    (["me and my boyfriend Tom broke up"], []), (["my friend Kim passed her exam"], ["Kim"]),
    (["My girlfriend Lea and I broke up"], []),
    (["my wife is called Ann", "My wife Ann and I got divorced"], ["divorced"]),
    (["I work at Barclays", "I quit Barclays, I'm at HSBC now"], ["HSBC"]),
    (["my dog Rex died so we got a dog called Max"], ["Max"]),
    (["i have a dog", "my dog died"], []), (["i have two dogs", "my dog died"], ["two dogs"]),
    (["我有一只猫", "我的猫死了"], []), (["im a nurse", "moved to york"], ["nurse", "York"]),
    (["my dog is called waffles", "waffles loves the park"], ["Waffles"]),
    (["我家狗叫可乐", "可乐喜欢玩球"], ["可乐", "玩球"]),
)  # fmt: skip
def test_who_is_gone_never_begins_and_a_name_is_no_liking(texts, values):
    turns, revision, left = [turn(*one) for one in enumerate(texts)], Revision(), {}
    for number, one in enumerate(turns):
        for draft in revision.read(one, RuleExtractor().read([one], turns[:number]).facts):
            if draft.operation == "assert":
                left[draft.slot, draft.subject] = draft.value
            elif draft.operation == "retract":
                left.pop((draft.slot, draft.subject), None)
    assert values == [*left.values()]


ANNA = held("relation.girlfriend", "Anna")
ANNAS_TOWN = held("relation.girlfriend.place", "Leeds", "anna", 2)
GREG = held("relation.boss", "Greg", number=3)


@every_case(
    ([ANNA, ANNAS_TOWN], "my new gf is called priya", {"Anna", "Leeds"}, set()),
    ([ANNA], "my new girlfriend is Priya", {"Anna"}, set()),
    ([ANNA], "I have a new girlfriend, Priya", {"Anna"}, set()),
    ([ANNA, GREG], "my new boss is called priya", {"Greg"}, set()),
    ([ANNA], "my girlfriend is called Priya", set(), {"Anna"}),
    ([ANNA], "my new girlfriend is called Anna", set(), set()),
    ([ANNA], "my new neighbour is called Priya", set(), set()),
    ([ANNA], "my brother's new girlfriend is called Priya", set(), set()),
    ([ANNA], "what if my new girlfriend is called Priya", set(), set()),
    ([ANNA], "is my new girlfriend called Priya?", set(), set()),
    ([ANNA], "my new boss knows that my girlfriend is called Priya", set(), {"Anna"}),
    ([GREG], "my new boss is called Priya too", set(), {"Greg"}),
)
def test_the_new_one_takes_the_place_of_the_one_before(facts, text, ended, doubted):
    drafts = read(facts, text, by_rules=True)
    assert ended == {one.value for one in drafts if one.operation == "retract"}
    assert doubted == {one.value for one in drafts if one.operation == "doubt"}


def test_what_is_told_of_somebody_is_not_their_end_and_nothing_ends_where_nothing_is_held():
    assert INES_GAVE_BIRTH == done(read(all_held(EXPECTING), "Ines had the baby!!", by_rules=True))
    draft = read([held("like", "Jazz")], "I quit jazz")[0]
    assert key_of(draft) == ("like", USER, normalised("Jazz"))
    turns = [turn(1, "I quit coffee in March")]
    found = RuleExtractor().read(turns)
    assert [one.operation for one in found.facts] == ["retract"]
    assert revised(turns, found, []).facts == []


@every_case(*VETOES)
def test_a_veto_keeps_a_fact(veto, slot, value, ends, vetoed, left):
    fact = held(slot, value)
    assert [one.operation for one in read([fact], ends)] == ["retract"]
    assert [one.operation for one in read([fact], vetoed)] == [left] * bool(left)
    language: Language = "zh" if veto.startswith("zh") else "en"
    regexes = {one.id: one.regex for one in load_revision_rules(language).vetoes}
    assert regexes[veto].search(vetoed)


def test_every_rule_and_every_veto_has_a_line():
    lines = {line[0] for line in (*ENDS, *DOUBTS, *SUCCESSORS)}
    for language in ("en", "zh"):
        rules = load_revision_rules(language)
        for some in (rules.ends, rules.events, rules.successors, rules.replacements):
            assert not {one.id for one in some} - lines
        assert not {one.id for one in rules.vetoes} - {line[0] for line in VETOES}


@every_case((ENGLISH_HELD, ENGLISH_TRAPS), (CHINESE_HELD, CHINESE_TRAPS))
def test_traps_end_next_to_nothing(facts, lines):
    """At most one false end in fifty lines, and five doubts."""
    known = all_held(facts)
    found = [(line, {one.operation for one in read(known, line)}) for line in lines]
    ended = [line for line, operations in found if operations & {"retract", "assert"}]
    doubted = [line for line, operations in found if "doubt" in operations]
    assert len(ended) * 50 <= len(lines), ended
    assert len(doubted) * 10 <= len(lines), doubted


@every_case(
    ("medication", "sertraline", "doc says i can bin the sertraline, feels odd"),
    ("car", "高尔夫", "高尔夫被二手商开走了 以后挤地铁"),
    ("activity", "瑜伽", "瑜伽垫挂闲鱼了 膝盖不答应"),
)  # fmt: skip
def test_the_trained_judge_doubts_what_a_turn_ends_in_passing(slot, value, text):
    known, nothing = [held(slot, value)], Extraction()
    assert [("doubt", slot, value)] == done(read(known, text))
    assert nothing is revised([turn(1, text)], nothing, known, BEFORE, HERE, reader=False)


WINDOW = ThreadWindow(
    read_mark=0, turns=[], context=[], replay_mark=0, replay=[], summed=0, summary=""
)


async def test_rules_alone_ask_no_judge():
    known, turns = [held("car", "高尔夫")], [turn(1, "高尔夫被二手商开走了 以后挤地铁")]
    for reader, doubts in ((True, [("doubt", "car", "高尔夫")]), (False, [])):
        read = await _extracted(RuleExtractor(reader=reader), turns, WINDOW, known, HERE)
        assert doubts == [one for one in done(read.facts) if "doubt" == one[0]]


EXPECTING: list[tuple[str, ...]] = [
    ("relation.wife", "Ines"), ("relation.wife.trait", "pregnant", "ines"),
    ("relation.wife.trait", "vegan", "ines"),
]  # fmt: skip
INES_GAVE_BIRTH = [("retract", "relation.wife.trait", "pregnant")]
WHOM = [
    # facts, turns, what ends
    (EXPECTING, ["Ines had the baby!!"], INES_GAVE_BIRTH),
    (EXPECTING, ["my wife gave birth last night"], INES_GAVE_BIRTH),
    (EXPECTING, ["we had our baby on Sunday"], INES_GAVE_BIRTH),
    (EXPECTING, ["saw Ines today", "she had a healthy baby girl"], INES_GAVE_BIRTH),
    (EXPECTING, ["Ines had the baby shower on Sunday"], []),
    (EXPECTING, ["Ines might have had the baby"], [("doubt", "relation.wife.trait", "pregnant")]),
    (EXPECTING, ["Ines hasn't had the baby yet"], []),
    ([("employer", "Acme")], ["everyone assumed I left Acme"], []),
    (EXPECTING, ["Ines had a baby five years ago"], []),
    (EXPECTING, ["my sister had the baby!"], []),
    (EXPECTING, ["my colleague gave birth yesterday"], []),
    (EXPECTING, ["Ines had the baby monitor on"], []),
    (EXPECTING, ["I wish Ines had had the baby"], []),
    ([("relation.wife.trait", "pregnant"), ("trait", "pregnant")],
     ["my wife finally had the baby"], INES_GAVE_BIRTH),
    ([("relation.wife.trait", "pregnant")], ["my wife's sister had the baby"], []),
    ([("relation.sister.trait", "pregnant")], ["we had the baby!!"], []),
    ([("trait", "pregnant"), ("relation.wife.trait", "pregnant")], ["we had the baby!"], []),
    ([("like", "coffee"), ("relation.wife.like", "coffee", "anna"), ("relation.wife", "Anna")],
     ["Anna gave up coffee"], [("retract", "relation.wife.like", "coffee")]),
    ([("residence", "Berlin"), ("relation.sister", "Lena"),
      ("relation.sister.place", "Berlin", "lena")],
     ["Lena called today", "she no longer lives in Berlin"],
     [("retract", "relation.sister.place", "Berlin")]),
    ([("residence", "洛阳"), ("relation.brother", "李强")],
     ["我哥哥已经不住洛阳了，搬去了珠海"], []),
    ([("like", "咖啡")], ["我妈不喝咖啡了"], []),
    ([("employer", "Siemens")], ["my brother quit his job"], []),
    ([("employer", "Siemens")], ["a colleague of mine was fired, he quit Siemens himself"], []),
    ([("employer", "Siemens")], ["I resigned from Bosch"], []),
    ([("employer", "腾讯")], ["我从中兴离职了"], []),
    ([("relation.boss", "Maria")], ["my boss left the company"],
     [("retract", "relation.boss", "Maria")]),
    ([("relation.wife", "Anna")], ["Tom and I broke up"], []),
    ([("relation.dog", "Rex")], ["our neighbour's dog died"], []),
    ([("relation.daughter", "Mia")], ["we put Mia to sleep at eight"], []),
]  # fmt: skip


@every_case(*WHOM)
def test_a_change_is_of_whom_the_clause_is_about(facts, texts, ended):
    assert ended == done(read(all_held(facts), *texts))


FALLS = [
    ("I quit my job", [("employer", "Tarn"), ("relation.boss", "Maria"),
                       ("relation.boss.age", "50", "maria"), ("work_city", "Leeds")]),
    ("Anna and I got divorced", [("relation.wife", "Anna"), ("relation.wife.age", "40", "anna"),
                                 ("relation.mother-in-law", "Ruth"),
                                 ("marital_status", "married")]),
    ("Pixel passed away", [("relation.cat", "Pixel"), ("relation.cat.age", "15", "pixel")]),
    ("旺财去世了", [("relation.dog", "旺财"), ("relation.dog.age", "8岁", "旺财")]),
    ("我离职了", [("employer", "腾讯"), ("relation.boss", "王总"), ("work_city", "成都")]),
]  # fmt: skip


@every_case(*FALLS)
def test_what_rests_on_an_ended_fact_ends_with_it(text, facts):
    other = [("relation.daughter", "Mia"), ("relation.daughter.age", "5", "mia"), ("age", "34")]
    known = all_held([*facts, *other])
    drafts = read(known, text)
    assert {key_of(one) for one in known[: len(facts)]} == {key_of(one) for one in drafts}
    assert {one.operation for one in drafts} == {"retract"}


def test_an_end_takes_what_rests_on_it_along_and_a_doubt_or_a_contradicted_end_nothing():
    known = all_held([("employer", "Tarn"), ("relation.boss", "Maria"), ("work_city", "Leeds")])
    drafts = done(read(known, "I moved to Meta last month", by_rules=True))
    assert {("assert", "employer", "Meta"), ("retract", "relation.boss", "Maria")} == set(drafts)
    known = [held("employer", "Tarn"), held("relation.boss", "Maria", number=2)]
    drafts = done(read(known, "I quit my job once. I work at Tarn.", by_rules=True))
    assert ("retract", "relation.boss", "Maria") not in drafts
    known = [held("employer", "Siemens"), held("relation.boss", "Maria", number=2)]
    assert [("doubt", "employer", "Siemens")] == done(read(known, "I'm leaving Siemens soon"))
    known = [held("relation.cat", "Pixel"), held("relation.cat.age", "15", "pixel", 2)]
    end = read(known[:1], "Pixel passed away")[0]
    found = done(cascaded(Extraction(facts=[end]), known).facts)
    assert [("retract", "relation.cat", "Pixel"), ("retract", "relation.cat.age", "15")] == found
    unchanged = Extraction(facts=[end])
    assert cascaded(unchanged, known[:1]) is unchanged


CORRECTIONS = [(("age", "34"), "sorry, 33", "33"), (("age", "57"),
    "58, actually. My birthday was last week.", "58"), (("residence", "Boston"),
    "no wait, I mean Austin", "Austin"), (("residence", "Boston"), "Austin, I mean", "Austin"),
    (("relation.son", "Emil"), "oops, I meant Emilio", "Emilio"), (("residence", "南京"),
    "不对，打错了，是苏州", "苏州"), (("age", "34岁"), "说错了，33岁", "33岁")]  # fmt: skip
NO_CORRECTIONS = [
    (("age", "34"), "sorry, 5"), (("residence", "Boston"), "sorry, Bob"),
    (("residence", "Boston"), "no wait, Thursday"), (("name", "Tom"), "no, Netflix"),
    (("name", "Tom"), "Yeah actually!"), (("residence", "南京"), "不对，应该是周四"),
    (("residence", "南京"), "不对，重来"),
]  # fmt: skip


@every_case(*CORRECTIONS)
def test_a_bare_correction_replaces_a_value_of_its_type(fact, text, value):
    known = held(*fact)
    drafts = read([known], text)
    assert drafts[-1].value == value
    assert (drafts[-1].operation, drafts[-1].slot) == ("assert", known.slot)
    assert drafts[-1].other_event_ids == ("e0",)


@every_case(*NO_CORRECTIONS)
def test_another_reply_corrects_nothing(fact, text):
    assert not read([held(*fact)], text)


def test_a_correction_reaches_two_turns_back_and_rules_win_over_an_end_in_the_same_turn():
    assert read([held("age", "34")], "ok", "sorry, 33")
    assert not read([held("age", "34")], "ok", "fine", "sorry, 33")
    turns = [turn(1, "sorry, 33")]
    elsewhere = revised(turns, Extraction(), [held("age", "34")], BEFORE, ThreadId("elsewhere"))
    assert not elsewhere.facts
    drafts = read([held("like", "jazz")], "I quit jazz for a year. I love jazz.", by_rules=True)
    assert [("assert", "like", "jazz")] == done(drafts)
    drafts = read([held("employer", "Siemens")], "I no longer work at Siemens", by_rules=True)
    assert ["en.employer.no-longer"] == [one.pattern for one in drafts]
    drafts = read([], "our cat Pixel is 15", "Pixel passed away last night", by_rules=True)
    ended = [one for one in drafts if one.operation == "retract"]
    possible = {("relation.cat.age", "15"), ("relation.cat", "Pixel")}
    assert possible >= {(one.slot, one.value) for one in ended}
    assert not ended or ended[0].event_id == "e2"


def test_one_diet_ends_another_a_partner_raises_one_doubt_and_a_second_job_nothing():
    drafts = read([held("trait", "vegan")], "I'm pescatarian", by_rules=True)
    assert ("retract", "trait", "vegan") in done(drafts)
    drafts = read([held("relation.girlfriend", "Ana")], "My girlfriend Zoe is here", by_rules=True)
    assert ("doubt", "relation.girlfriend", "Ana") in done(drafts)
    assert ("assert", "relation.girlfriend", "Zoe") in done(drafts)
    text = "I started a new job at Patagonia on the side, as my second job"
    assert ("retract", "employer", "Tarn") not in done(read([held("employer", "Tarn")], text))
    texts = ["I used to play tennis", "I used to play tennis"]
    assert [("doubt", "like", "tennis")] == done(read([held("like", "tennis")], *texts))


LINES = [line[-1] for line in (*ENDS, *DOUBTS)]
FACTS = [(line[1], line[2]) for line in (*ENDS, *DOUBTS)]


@given(st.lists(st.sampled_from(FACTS), max_size=6), st.lists(st.sampled_from(LINES), max_size=4))
def test_only_what_is_held_ends_and_the_same_each_time(facts, lines):
    known = all_held(facts)
    drafts = read(known, *lines)
    possible = {key_of(one) for one in known}
    possible |= {key_of(one) for one in drafts if one.operation == "assert"}
    assert {key_of(one) for one in drafts if one.operation != "assert"} <= possible
    assert drafts == read(known, *lines)


@given(st.sampled_from(FACTS), st.sampled_from(LINES))
def test_no_fact_of_somebody_unnamed_ends(fact, line):
    slot, value = fact
    of_other = held(f"relation.neighbour.{slot.replace('.', '_')}", value, "zebedee")
    assert not [one for one in read([of_other], line) if one.operation != "assert"]


@given(st.sampled_from(LINES))
def test_where_nothing_is_held_the_drafts_are_those_of_the_extractor(line):
    turns = [turn(1, line)]
    found = RuleExtractor(reader=False).read(turns)
    assert revised(turns, found, [], BEFORE, HERE) is found


def over(
    tag: str, words: str, said: str, sure: float = 0.79, language: Language = "en"
) -> FactDraft:
    return FactDraft(
        fact_type="profile", slot={"kin_name": "relation.person"}.get(tag, tag), value=words,
        statement=said, event_id="1", functional=False, confidence=sure,
        pattern=f"reader.{language}.{tag}", language=language, operation="retract",
    )  # fmt: skip


KEPT = [
    held("employer", "Amazon warehouse"), held("phone", "Nokia 3310"), held("like", "coffee"),
    held("plan", "去韩国旅游"), held("bank", "招商银行"), held("relation.cat", "Mog"),
    held("residence", "深水埗劏房"), held("car", "桑塔纳"),
]  # fmt: skip


@pytest.mark.parametrize(("verdict", "draft", "value"), [
    ("end", over("like", "coffee", "coffee isn't for me now"), "coffee"),
    ("end", over("kin_name", "mog", "we said goodbye to mog on saturday"), "Mog"),
    ("end", over("residence", "深水埗劏房", "深水埗劏房交返鎖匙", language="zh"), "深水埗劏房"),
    ("end", over("car", "桑塔纳", "桑塔纳报废了", language="zh"), "桑塔纳"),
    # The words only mention it, or the reading is not sure.
    ("doubt", over("tool", "the old nokia brick", "the nokia brick is in the recycling"),
     "Nokia 3310"),
    ("doubt", over("residence", "深水埗間", "深水埗間交返鎖匙", language="zh"), "深水埗劏房"),
    ("doubt", over("like", "coffee machine", "the coffee machine died"), "coffee"),
    ("doubt", over("kin_name", "mog", "we said goodbye to mog", sure=SURE - 0.1), "Mog"),
])  # fmt: skip
def test_the_value_of_a_fact_of_the_kind_ends_it_or_is_doubted(verdict, draft, value):
    [(change, _)] = tagged_ends([draft], HeldIndex(KEPT))
    assert change.fact is not None
    assert (change.verdict, change.fact.value) == (verdict, value)
    assert change.rule == draft.pattern


@every_case(
    over("employer", "handed my badge in", "handed my badge in on friday"),
    over("plan", "coffee on thursday", "coffee on thursday is off"),
    over("tool", "coffee maker", "the coffee maker is on the tip"),
    over("kin_employer", "amazon warehouse", "dad left the amazon warehouse"),
    over("plan", "去日本旅游", "去日本旅游取消了", language="zh"),
    over("tool", "工商银行", "工商银行卡注销了", language="zh"),
)
def test_words_that_mention_nothing_of_the_kind_end_nothing(draft):
    assert list(tagged_ends([draft], HeldIndex(KEPT))) == []


def test_a_fact_ends_once_and_a_veto_of_the_rules_holds_for_the_reader():
    drafts = [over("kin_name", "mog", "goodbye mog"), over("kin_name", "Mog", "miss you Mog")]
    assert len(list(tagged_ends(drafts, HeldIndex(KEPT)))) == 1
    draft = over("like", "coffee", "dropped coffee all over my laptop")
    spilled = replace(draft, statement="i nearly quit coffee")
    assert list(tagged_ends([spilled], HeldIndex(KEPT))) == []
