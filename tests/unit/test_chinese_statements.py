"""Chinese lines as people type them: what they state, and what they only seem to state."""

import pytest
from every_case import every_case
from turns import said as turn

from shared_core.core.domain import FactDraft
from shared_core.extraction.rule_based import RuleExtractor
from shared_core.knowledge.revision import revised

IN_WORDS = {"note", "plan"}
"""Slots whose value is a sentence, and may tell of a denial."""


def said(*texts: str) -> list[FactDraft]:
    """Return what the turns of one conversation state and end, in order."""
    turns = [turn(place, text) for place, text in enumerate(texts)]
    return list(revised(turns, RuleExtractor().read(turns), []).facts)


def stated(*texts: str) -> list[tuple[str, str]]:
    """Return the slots and values that the turns state."""
    return [(one.slot, one.value) for one in said(*texts) if one.operation == "assert"]


def still_held(*texts: str) -> list[tuple[str, str]]:
    """Return the slots and values that hold after the turns, without notes and plans."""
    held: list[tuple[str, str]] = []
    for one in said(*texts):
        key = (one.slot, one.value)
        if one.operation == "retract":
            held = [each for each in held if each[0] != one.slot or one.value not in ("", each[1])]
        elif one.operation == "assert" and one.slot.rpartition(".")[2] not in IN_WORDS:
            held = [each for each in held if each[0] != one.slot or not one.functional]
            held.append(key)
    return held


DONE = [
    ("我上个月搬到北京了", ("residence", "北京")), ("我不得不搬到北京", ("residence", "北京")),
    ("我没办法只好搬到北京", ("residence", "北京")), ("我很快搬到了北京", ("residence", "北京")),
    ("我没多久就搬到北京了", ("residence", "北京")), ("我在北京租了个房", ("residence", "北京")),
    ("我去年跳槽去了字节", ("employer", "字节")), ("我已经入职美团了", ("employer", "美团")),
    ("我没忍住买了一辆自行车", ("possession", "一辆自行车")),
    ("我不小心把脚扭了", ("health", "脚扭")), ("我有慢性胃炎", ("health", "胃炎")),
    ("我改名叫王伟了", ("name", "王伟")),
]  # fmt: skip
NOT_DONE = [
    "公司让我去北京，我没搬去北京", "我没有搬到上海", "没有搬到上海",
    "我还没搬到成都", "我差一点就搬到北京了", "差点搬到北京", "我马上要搬到厦门了",
    "我快搬到北京了", "我搬不搬到北京呢", "我并没有搬去成都", "我不搬去北京了", "我不用搬去成都了",
    "我什么时候搬去成都了", "我拒绝了搬到北京", "我需要搬到北京", "我得搬到北京", "我会搬到北京",
    "我可以搬到北京", "我决定搬到北京", "我同意跳槽去美团", "搬去成都失败了", "我女儿没搬到北京",
    "我没跳槽去美团", "没跳槽去美团", "我还没入职腾讯", "我没加入腾讯", "我差点加入腾讯",
    "我没在北京租房", "我差一点在北京租了房", "我没有一套房", "我没有一辆自行车", "我没有痔疮",
    "我没查出来是胃炎", "我没离婚", "我还没结婚", "我没换了一辆宝马", "我没养一只猫",
]  # fmt: skip


@every_case(*DONE)
def test_what_was_done_is_stated(text, fact):
    assert fact in stated(text)


@every_case(
    "没有搬到上海", "还没搬到成都", "差一点就搬到北京了", "我没搬到厦门", "我马上要搬到厦门了"
)
def test_who_did_not_move_still_lives_there(text):
    assert still_held("我住在杭州", text) == [("residence", "杭州")]


@every_case(
    "没跳槽去美团", "没入职美团", "我还没从小米离职", "我差点从小米离职", "我从小米还没离职",
    "没换到华为", "换不换到华为",
)  # fmt: skip
def test_who_did_not_leave_still_works_there(text):
    assert still_held("我在小米上班", text) == [("employer", "小米")]


def test_what_almost_happened_raises_no_doubt():
    assert [one.operation for one in said("我在小米上班", "差一点就换到华为了")] == ["assert"]


@every_case("我下周没打算去北京", "我下周不准备去北京", "我下个月不会去北京")
def test_a_plan_that_is_denied_is_none(text):
    assert stated(text) == []
    assert [slot for slot, _ in stated("我下周打算去北京")] == ["plan"]


NAMES = [
    ("我妹妹小乔周五来，她吃素", "sister", "小乔"), ("我闺蜜小琳周末来北京", "friend", "小琳"),
    ("我同事小芳国庆去了云南", "colleague", "小芳"), ("我哥阿强明年结婚", "brother", "阿强"),
    ("我妹妹小乔五一来", "sister", "小乔"), ("我妹妹小乔春节回家", "sister", "小乔"),
    ("我妹妹小乔星期三来", "sister", "小乔"), ("我妹妹小乔月底搬家", "sister", "小乔"),
    ("我妹妹小乔六月结婚", "sister", "小乔"), ("我妹妹叫小乔周五来", "sister", "小乔"),
    ("我同事小周周末来", "colleague", "小周"), ("我老板小周五点下班", "boss", "小周"),
    ("我老公王建国明天出差", "husband", "王建国"), ("我哥阿明明年回来", "brother", "阿明"),
    ("我儿子李国庆今年上学", "son", "李国庆"), ("我朋友张国庆是医生", "friend", "张国庆"),
]  # fmt: skip
NO_NAMES = [
    "我儿子马术课周六上", "我老公高血压上周查出来", "我妈周末来", "我哥周五晚上来",
    "我儿子小学下周开学", "我儿子高三下个月考试", "我儿子夏令营每天很累", "我妈小区周末停水",
    "我老婆小产上周", "我朋友小店周末开业", "我爸小腿上周骨折", "我女儿小名最近改了",
    "我同事小组周五开会", "我朋友高中现在在北京", "我姐小孩周末生日", "我妈金婚上周过的",
]  # fmt: skip


@every_case(*NAMES)
def test_a_name_ends_where_a_time_begins(text, relation, name):
    named = [one for one in stated(text) if one[0] == f"relation.{relation}"]
    assert named == [(f"relation.{relation}", name)]


@every_case(*NO_NAMES)
def test_a_thing_before_a_time_is_no_name(text):
    assert [slot for slot, _ in stated(text) if slot.count(".") == 1] == []


LASTING = [
    ("搬来上海快俩月了", ("residence", "上海")), ("我搬到北京三年了", ("residence", "北京")),
    ("我住在杭州半年多", ("residence", "杭州")), ("搬到上海之后胖了十斤", ("residence", "上海")),
    ("我搬来上海第二周就感冒了", ("residence", "上海")),
    ("我住在成都都三年了", ("residence", "成都")), ("我搬到成都已经习惯了", ("residence", "成都")),
    ("我搬去深圳没多久", ("residence", "深圳")), ("我跳槽到美团三个月了", ("employer", "美团")),
    ("我加入微软之后很忙", ("employer", "微软")), ("我在小米上班三年了", ("employer", "小米")),
    ("我在北京上班三年了", ("work_city", "北京")),
    ("我妹妹住在上海三年了", ("relation.sister.place", "上海")),
    ("我住在三里屯", ("residence", "三里屯")), ("我住在二七区", ("residence", "二七区")),
    ("我住在六安", ("residence", "六安")), ("我住在快活林", ("residence", "快活林")),
    ("我没搬到苏州，说错了，我还在无锡", ("residence", "无锡")),
    ("我加入篮球队三年了", ("activity", "篮球队")),
]  # fmt: skip
NOWHERE = [
    "我搬来快三年了", "我搬来三年多了", "我搬来之后很忙", "我搬来第二周就感冒", "我搬来已经三年",
    "我们搬来没多久", "我入职快两年了", "我入职三个月了", "我入职之后很忙", "我加入公司之后很忙",
    "我在家上班三年了", "我搬到宿舍两周了", "我住在酒店三天了",
    "我住在朋友家三天了", "我搬到新家一个月了", "我住在上海之前在北京", "搬到上海一年后又离开了",
]  # fmt: skip


@every_case(*LASTING)
def test_a_place_ends_where_a_time_begins(text, fact):
    assert fact in stated(text)


NOTHING = {
    "what was not done": NOT_DONE, "a time is no place": NOWHERE,
    "a district of work is no home": ["我在石景山区上班"],
    "a word that is no value is no state":
        ["我分手了", "分手了", "我和男朋友分手了", "00后社畜一枚"],
}  # fmt: skip


@pytest.mark.parametrize("case", NOTHING)
def test_nothing_is_held_after(case):
    held = {text: found for text in NOTHING[case] if (found := still_held(text))}
    assert held == {}


@every_case(
    ("我在浦东上班", ("work_city", "浦东")), ("我在深圳南山上班", ("work_city", "深圳南山")),
    ("我在朝阳区上班", ("work_city", "朝阳")), ("我在招商银行上班", ("employer", "招商银行")),
    ("我在协和医院上班", ("employer", "协和医院")), ("我在奶茶店上班", ("employer", "奶茶店")),
    ("我在瑞幸咖啡店上班", ("employer", "瑞幸咖啡店")),
    ("我在华润超市上班", ("employer", "华润超市")), ("我在教育局上班", ("employer", "教育局")),
)  # fmt: skip
def test_a_district_is_no_employer(text, fact):
    assert stated(text) == [fact]


@every_case(
    ("我对芒果过敏", ["芒果"]), ("我对芒果和花生过敏", ["芒果", "花生"]),
    ("我对芒果有点过敏", ["芒果"]), ("我对芒果过敏不能吃", ["芒果"]),
    ("我对不锈钢过敏", ["不锈钢"]), ("我对芒果过敏，对花生不过敏", ["芒果"]),
    ("我对芒果不过敏", []), ("对芒果不过敏", []), ("我对芒果没有过敏", []),
    ("我对芒果和花生都不过敏", []), ("我对芒果并不过敏", []), ("我对芒果不怎么过敏", []),
    ("我对芒果过敏吗", []), ("我对芒果会不会过敏", []), ("我现在对芒果不过敏了", []),
)  # fmt: skip
def test_an_allergy_that_is_denied_is_none(text, values):
    assert [value for slot, value in stated(text) if slot == "allergy"] == values


@every_case(
    ("我喜欢喝冰美式", "喝冰美式"), ("我挺喜欢吃火锅的", "吃火锅"),
    ("我还蛮喜欢看电影的", "看电影"), ("我喜欢吃清淡的", "吃清淡的"), ("我喜欢吃辣的", "吃辣的"),
    ("我喜欢喝热的", "喝热的"),
)  # fmt: skip
def test_a_closing_particle_is_no_part_of_a_taste(text, value):
    assert stated(text) == [("like", value)]


@every_case(
    "从小米离职了", "上周五从小米离职了，明年一月去华为", "上周五我从小米离职了", "昨晚从小米辞职了"
)
@every_case("我在小米上班", "我女朋友叫小美，我在小米上班")
def test_who_left_need_not_be_named(before, text):
    assert ("employer", "小米") not in still_held(before, text)


@every_case(
    "小李从小米离职了", "我朋友从小米离职了", "他从小米离职了", "没从小米离职", "想从小米离职",
    "从小米离职的人很多", "从小米离职后会不会被告",
)  # fmt: skip
def test_what_others_leave_or_nobody_left_is_kept(text):
    assert ("employer", "小米") in still_held("我在小米上班", text)


SPLIT = [
    "跟小美分手了", "和小美分手了", "我跟小美分手了", "小美跟我分手了", "我跟小美分了 别问",
    "跟小美掰了", "上周五跟小美分手了", "跟女朋友分手了", "我跟我女朋友分手了", "跟她分手了",
]  # fmt: skip
TOGETHER = [
    "阿强跟小美分手了", "我妹妹跟男朋友分手了", "我妹妹跟她分手了", "我和闺蜜分手了",
    "我跟小美分了一个蛋糕", "我跟小美分工", "没跟小美分手", "差点跟小美分手", "我和女朋友没分手",
    "别跟小美分手", "跟小美分手了吗", "跟小美分手的话怎么办",
]  # fmt: skip


@every_case(*SPLIT)
def test_a_couple_that_split_is_none(text):
    assert still_held("我女朋友叫小美", text) == []


@every_case(*TOGETHER)
def test_a_couple_that_did_not_split_is_one(text):
    assert ("relation.girlfriend", "小美") in still_held("我女朋友叫小美", text)


@every_case(
    ("女朋友叫小美", [("relation.girlfriend", "小美")]),
    ("老公叫阿强，我们住杭州", [("relation.husband", "阿强"), ("residence", "杭州")]),
    ("女儿叫甜甜", [("relation.daughter", "甜甜")]),
    ("弟弟名叫王建国", [("relation.brother", "王建国")]), ("女朋友叫我起床", []),
    ("女朋友叫小美来接我", []), ("老公叫外卖了", []), ("老婆叫车去了", []), ("老公叫小声点", []),
    ("弟弟叫小点声", []), ("女儿叫小心", []), ("哥哥叫高兴", []), ("妈妈叫我吃饭", []),
    ("小李女朋友叫小美", []), ("她老公叫阿强", []), ("我朋友的老公叫阿强", []),
)  # fmt: skip
def test_a_relative_at_the_beginning_is_the_users(text, facts):
    assert still_held(text) == facts
