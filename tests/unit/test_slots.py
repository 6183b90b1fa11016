from __future__ import annotations

from every_case import every_case

from shared_core.nlp.slots import about_slot, edge_relation, relation_slots, slot_about, slot_of


@every_case(
    ("employer", "employer", True),
    ("Works At", "employer", True),
    ("公司", "employer", True),
    ("current-location", "residence", True),
    ("居住地", "residence", True),
    ("date of birth", "birthday", True),
    ("hobbies", "activity", False),
    ("喜好", "like", False),
    ("favorite_movie", "favourite.film", True),
    ("favourite.ice cream", "favourite.ice cream", True),
    ("最喜欢的颜色", "favourite.colour", True),
    ("mom", "relation.mother", False),
    ("relation.女儿.年龄", "relation.daughter.age", True),
    ("daughter_age", "relation.daughter.age", True),
    ("family.wife.city", "relation.wife.place", True),
    ("instruction", "rule", False),
)
def test_a_name_of_a_model_is_a_slot_of_the_rules(given: str, name: str, functional: bool) -> None:
    slot = slot_of(given)
    assert slot is not None
    assert (name, functional, True) == (slot.name, slot.functional, slot.known)


@every_case("shoe size", "相机型号", "relation.friend.job", "favorites")
def test_a_slot_the_rules_do_not_know_holds_many_values(given: str) -> None:
    slot = slot_of(given)
    assert slot is not None
    assert ("custom", False, False) == (slot.fact_type, slot.functional, slot.known)
    assert ":" not in slot.name and " " not in slot.name


def test_a_slot_of_any_length_is_cut() -> None:
    slot = slot_of("very " * 100)
    assert slot is not None
    assert len(slot.name) <= 48


@every_case("", "..", "password", "Admin Password", "api-key", "card number", "密码", "bank.pin")
def test_secrets_and_nothing_are_no_slots(given: str) -> None:
    assert slot_of(given) is None


def test_a_slot_about_somebody_else_is_apart_from_the_users() -> None:
    age = slot_of("age")
    assert age is not None
    assert "about.cancan.age" == slot_about("Cancan", age).name
    assert "relation.daughter.age" == slot_about("女儿", age).name
    assert "relation.mother.age" == slot_about("mom", age).name


def test_a_slot_of_a_relation_is_the_same_of_a_name() -> None:
    age = slot_of("relation.daughter.age")
    assert age is not None
    assert "relation.daughter.age" == slot_about("Mia", age).name


@every_case(
    ("Mia", "about.mia.age", "relation.daughter.age"),
    ("灿灿", "about.灿灿.residence", "relation.daughter.place"),
    ("Mia", "about.mia.like", "relation.daughter.like"),
)
def test_what_is_told_of_a_name_is_a_slot_of_a_relation(
    subject: str, slot: str, of_daughter: str
) -> None:
    assert relation_slots(subject, slot)["relation.daughter"] == of_daughter
    assert about_slot(subject, of_daughter) == slot


@every_case("age", "about.leo.age", "relation.daughter.age", "about.mia.name")
def test_other_slots_are_no_relations_of_a_name(slot: str) -> None:
    assert relation_slots("Mia", slot) == {}


def test_edges_have_one_object_where_the_slot_holds_one_value() -> None:
    assert ("works_at", True) == edge_relation("WORKS AT")
    assert ("has_skill", False) == edge_relation("has skill")
    assert ("居住地", True) == edge_relation("居住地")
