"""Words for slots, relations and the people they are about, in the language of a page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from shared_core.core.domain import USER
from shared_core.nlp.slots import ABOUT, FAVOURITE, RELATION
from shared_core.ui.view import PageView

SLOTS: Final[Mapping[str, tuple[str, str]]] = {
    "name": ("Name", "名字"),
    "residence": ("Lives in", "居住地"),
    "employer": ("Works at", "工作单位"),
    "job": ("Works as", "职业"),
    "work_city": ("Works in the city", "工作城市"),
    "age": ("Age", "年龄"),
    "birthday": ("Birthday", "生日"),
    "surname": ("Surname", "姓氏"),
    "origin": ("Comes from", "家乡"),
    "marital_status": ("Marital status", "婚姻状况"),
    "parent_of": ("Number of children", "子女数量"),
    "relation": ("Relative, friend or pet", "亲友与宠物"),
    "place": ("Lives in", "居住地"),
    "school": ("School", "学校"),
    "allergy": ("Allergic to", "过敏原"),
    "health": ("Health", "健康状况"),
    "medication": ("Medicine", "用药"),
    "language": ("Speaks", "语言"),
    "education": ("Education", "学历"),
    "grade": ("School year", "年级"),
    "activity": ("Activity", "兴趣活动"),
    "instrument": ("Instrument", "乐器"),
    "skill": ("Skill", "技能"),
    "trait": ("Trait", "特点"),
    "like": ("Likes", "喜欢"),
    "dislike": ("Dislikes", "不喜欢"),
    "rule": ("Rule", "规则"),
    "plan": ("Plan", "计划"),
    "schedule": ("Schedule", "日程"),
    "note": ("Note", "备注"),
    "possession": ("Owns", "物品"),
    "car": ("Car", "汽车"),
    "pet_kind": ("Kind of pet", "宠物种类"),
    "tool": ("Uses", "工具"),
    "email": ("E-mail", "邮箱"),
    "height": ("Height", "身高"),
    "weight": ("Weight", "体重"),
    "size": ("Size", "尺码"),
    "rent": ("Rent", "房租"),
    "salary": ("Salary", "工资"),
    "zodiac": ("Star sign", "星座"),
    "passport_expiry": ("Passport expires", "护照到期"),
}
"""Words for the slots of the ontology. Their order is that of the page."""
RELATIONS: Final[Mapping[str, tuple[str, str]]] = {
    "is_called": ("is called", "名叫"),
    "works_at": ("works at", "就职于"),
    "works_as": ("works as", "职业是"),
    "works_in_city": ("works in", "工作地在"),
    "lives_in": ("lives in", "住在"),
    "has_birthday": ("has birthday", "生日是"),
    "has_age": ("has age", "年龄"),
    "comes_from": ("comes from", "来自"),
    "allergic_to": ("is allergic to", "过敏"),
    "speaks": ("speaks", "会说"),
    "studied_at": ("studied at", "就读于"),
    "likes": ("likes", "喜欢"),
    "dislikes": ("dislikes", "不喜欢"),
    "knows": ("knows", "认识"),
    "has_skill": ("has skill", "擅长"),
}
"""Words for the declared relations of the graph."""
KIN: Final[Mapping[str, str]] = {
    "assistant": "助理", "aunt": "阿姨", "boss": "上司", "boyfriend": "男朋友", "brother": "兄弟",
    "brother-in-law": "姐夫或妹夫", "cat": "猫", "child": "孩子", "classmate": "同学",
    "colleague": "同事", "cousin": "堂表亲", "daughter": "女儿", "daughter-in-law": "儿媳",
    "dentist": "牙医", "doctor": "医生", "dog": "狗", "father": "爸爸",
    "father-in-law": "岳父或公公",
    "fiance": "未婚夫", "fiancee": "未婚妻", "friend": "朋友", "girlfriend": "女朋友",
    "goldfish": "金鱼", "granddaughter": "孙女", "grandfather": "爷爷", "grandmother": "奶奶",
    "grandson": "孙子", "guinea pig": "豚鼠", "hamster": "仓鼠", "horse": "马", "husband": "丈夫",
    "landlady": "房东", "landlord": "房东", "mother": "妈妈", "mother-in-law": "岳母或婆婆",
    "neighbour": "邻居", "nephew": "侄子", "niece": "侄女", "parrot": "鹦鹉", "partner": "伴侣",
    "pet": "宠物", "rabbit": "兔子", "roommate": "室友", "sister": "姐妹",
    "sister-in-law": "嫂子或弟媳", "son": "儿子", "son-in-law": "女婿", "teacher": "老师",
    "therapist": "心理咨询师", "tortoise": "乌龟", "turtle": "乌龟", "uncle": "叔叔",
    "wife": "妻子",
}  # fmt: skip
"""Chinese words for relatives, friends and pets."""
_ORDER: Final = {slot: place for place, slot in enumerate(SLOTS)}


def split_slot(slot: str) -> tuple[str, str]:
    """Return the subject of a slot ("user" for the user) and the slot without it.

    "relation.daughter.age" is the age of the daughter; "relation.daughter" is about the user.
    """
    first, _, rest = slot.partition(".")
    name, _, own = rest.partition(".")
    if first == ABOUT and own:
        return name, own
    if first == RELATION and own:
        return name, own
    return USER, slot


def slot_order(slot: str) -> tuple[int, str]:
    """Sort slots as the page shows them: who and where first."""
    own = split_slot(slot)[1]
    return _ORDER.get(own.partition(".")[0], len(_ORDER)), own


def slot_label(view: PageView, slot: str) -> str:
    """Return the words for a slot, without its subject."""
    own = split_slot(slot)[1]
    first, _, rest = own.partition(".")
    if first == RELATION and rest:
        return kin_label(view, rest)
    if first == FAVOURITE and rest:
        return view.t(f"Favourite {rest}", f"最喜欢的{rest}")
    english, chinese = SLOTS.get(own, (own.replace("_", " "), own))
    return view.t(english, chinese)


def kin_label(view: PageView, kin: str) -> str:
    """Return the word for a relative, friend or pet."""
    words = kin.replace("_", " ")
    return view.t(words[:1].upper() + words[1:], KIN.get(kin, words))


def subject_label(view: PageView, subject: str, names: Mapping[str, str]) -> str:
    """Return the words for the subject of facts. names: the known names of relatives."""
    if subject == USER:
        user = view.user.user
        return view.t(f"The user ({user})", f"用户（{user}）")
    label = kin_label(view, subject)
    called = names.get(subject)
    return view.t(f"{label} ({called})", f"{label}（{called}）") if called else label


def relation_label(view: PageView, relation: str) -> str:
    """Return the words for a relation of the graph."""
    if relation in RELATIONS:
        return view.t(*RELATIONS[relation])
    if relation in KIN:
        return view.t(relation, KIN[relation])
    if relation.startswith(f"{FAVOURITE}_"):
        thing = relation.removeprefix(f"{FAVOURITE}_").replace("_", " ")
        return view.t(f"favourite {thing}", f"最喜欢的{thing}")
    return relation.replace("_", " ")


def entity_label(view: PageView, entity: str) -> str:
    """Return the shown name of an entity: a word for the user, else its own name."""
    return view.t("user", "用户") if entity == USER else entity
