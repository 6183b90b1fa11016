"""Names of slots and relations, and the sentences of what a caller states."""

from every_case import every_case

from shared_core.core.domain import USER
from shared_core.extraction import stated_facts
from shared_core.nlp import slots
from shared_core.nlp.relation_schema import present_relation


@every_case(
    ("employer", "employer", True), ("Works At", "employer", True), ("公司", "employer", True),
    ("current-location", "residence", True), ("居住地", "residence", True),
    ("date of birth", "birthday", True), ("hobbies", "activity", False), ("喜好", "like", False),
    ("favorite_movie", "favourite.film", True),
    ("favourite.ice cream", "favourite.ice cream", True),
    ("最喜欢的颜色", "favourite.colour", True), ("mom", "relation.mother", False),
    ("relation.女儿.年龄", "relation.daughter.age", True),
    ("daughter_age", "relation.daughter.age", True),
    ("family.wife.city", "relation.wife.place", True), ("instruction", "rule", False),
)  # fmt: skip
def test_a_name_of_a_model_is_a_slot_of_the_rules(given, name, functional):
    slot = slots.slot_of(given)
    assert slot is not None
    assert (name, functional, True) == (slot.name, slot.functional, slot.known)


@every_case("shoe size", "相机型号", "relation.friend.job", "favorites")
def test_a_slot_the_rules_do_not_know_holds_many_values(given):
    slot = slots.slot_of(given)
    assert slot is not None
    assert ("custom", False, False) == (slot.fact_type, slot.functional, slot.known)
    assert ":" not in slot.name and " " not in slot.name


def test_a_slot_of_any_length_is_cut():
    slot = slots.slot_of("very " * 100)
    assert slot is not None
    assert len(slot.name) <= 48


@every_case("", "..", "password", "Admin Password", "api-key", "card number", "密码", "bank.pin")
def test_secrets_and_nothing_are_no_slots(given):
    assert slots.slot_of(given) is None


def test_a_slot_about_somebody_else_is_apart_from_the_users():
    age = slots.slot_of("age")
    assert age is not None
    assert "about.cancan.age" == slots.slot_about("Cancan", age).name
    assert "relation.daughter.age" == slots.slot_about("女儿", age).name
    assert "relation.mother.age" == slots.slot_about("mom", age).name


def test_a_slot_of_a_relation_is_the_same_of_a_name():
    age = slots.slot_of("relation.daughter.age")
    assert age is not None
    assert "relation.daughter.age" == slots.slot_about("Mia", age).name


@every_case(
    ("Mia", "about.mia.age", "relation.daughter.age"),
    ("灿灿", "about.灿灿.residence", "relation.daughter.place"),
    ("Mia", "about.mia.like", "relation.daughter.like"),
)
def test_what_is_told_of_a_name_is_a_slot_of_a_relation(subject, slot, of_daughter):
    assert slots.relation_slots(subject, slot)["relation.daughter"] == of_daughter
    assert slots.about_slot(subject, of_daughter) == slot


@every_case("age", "about.leo.age", "relation.daughter.age", "about.mia.name")
def test_other_slots_are_no_relations_of_a_name(slot):
    assert slots.relation_slots("Mia", slot) == {}


@every_case(
    ("lived_in", "lives_in"), ("resided_in", "lives_in"), ("used_to_live_in", "lives_in"),
    ("formerly_lived_in", "lives_in"), ("was_based_in", "lives_in"), ("worked_at", "works_at"),
    ("worked_for", "works_at"), ("was_employed_by", "works_at"), ("worked_as", "works_as"),
)  # fmt: skip
def test_a_past_form_has_its_present_one(past, present):
    assert present == present_relation(past)


@every_case(
    "lives_in", "works_at", "works_for", "employed_by", "based_in", "studied_at", "born_in",
    "was_born_in", "liked", "worked", "worked_on", "worked_with", "lived_with", "moved_to",
    "married", "married_to", "visited", "was_friend_of", "used_to", "need_in", "bred_in", "曾住在",
)  # fmt: skip
def test_other_relations_have_none(relation):
    assert present_relation(relation) is None


SLOTS = sorted(
    {name for name in slots.known_slot_names() if stated_facts.stated_slot(name).name == name}
    | {"favourite.colour", "relation.daughter", "relation.daughter.age", "relation.mother.place",
       "relation.dog.like", "shoe_size", "my.own.slot"}
)  # fmt: skip


@every_case(*SLOTS)
@every_case(
    ("en", "Zenith", USER), ("en", "Zenith", "Mia"), ("zh", "苏州", USER), ("zh", "苏州", "米娅")
)
def test_every_slot_has_a_sentence(spoken, value, subject, slot):
    said = stated_facts.sentence(stated_facts.stated_slot(slot), value, subject, spoken)
    who = {"en": "User", "zh": "用户"}[spoken] if subject == USER else subject
    assert value in said and "{" not in said
    assert said.endswith("。" if spoken == "zh" else ".")
    assert who in said or slot == "rule"


@every_case(
    ("age", "30", "en", "User is 30 years old."),
    ("age", "30 years old", "en", "User is 30 years old."), ("age", "30", "zh", "用户30岁。"),
    ("age", "三十岁", "zh", "用户三十岁。"), ("job", "engineer", "en", "User is an engineer."),
    ("relation.daughter", "米娅", "zh", "用户的女儿叫米娅。"),
    ("favourite.colour", "蓝色", "zh", "用户最喜欢的颜色是蓝色。"),
    ("rule", "Answer briefly.", "en", "Rule from the user: Answer briefly."),
    ("employer", "Yahoo!", "en", "User works at Yahoo!."),
)  # fmt: skip
def test_a_sentence_says_a_value(slot, value, spoken, expected):
    assert expected == stated_facts.sentence(stated_facts.stated_slot(slot), value, USER, spoken)


@every_case(
    ("Zenith", [], "en"), ("苏州", ["User likes tea."], "zh"),
    ("Zenith", ["用户喜欢茶。", "用户会说中文。", "User likes tea."], "zh"),
    ("Zenith", ["用户会说中文。", "User likes tea.", "User is 30 years old."], "en"),
)  # fmt: skip
def test_a_bare_name_is_stated_in_the_language_of_what_is_known(said, known, expected):
    assert expected == stated_facts.statement_language(said, known)


def test_a_slot_of_the_callers_own_holds_one_value():
    own, known = stated_facts.stated_slot("shoe size"), stated_facts.stated_slot("likes")
    assert ("shoe_size", "custom", True) == (own.name, own.fact_type, own.functional)
    assert ("like", "preference", False) == (known.name, known.fact_type, known.functional)
    draft = stated_facts.stated_draft(known, "tea", "Mia", None, "en")
    assert ("about.mia.like", "Mia") == (draft.slot, draft.subject)


@every_case(
    ("employr", "employer"), ("emplloyer", "employer"), ("emplpyer", "employer"),
    ("emplyoer", "employer"), ("employe", "employer"), ("xemployer", "employer"),
    ("residnce", "residence"), ("compny", "company"), ("employer", None), ("emplyr", None),
    ("game", None), ("mane", None), ("my.employr", None), ("鞋码", None), ("", None),
)  # fmt: skip
def test_one_edit_is_near(given, meant):
    assert meant == slots.near_slot(given)
