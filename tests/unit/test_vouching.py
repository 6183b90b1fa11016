"""Who vouches for a value: the user, somebody else, or nobody."""

from datetime import UTC, datetime

from every_case import every_case

from shared_core.core.domain import Event
from shared_core.extraction import RuleExtractor
from shared_core.nlp.vouching import is_embedded

AT = datetime(2026, 11, 20, 10, tzinfo=UTC)


def read(*texts):
    events = [
        Event(event_id=str(at), role="user", author="user", text=text, occurred_at=AT)
        for at, text in enumerate(texts)
    ]
    return [(one.slot, one.value) for one in RuleExtractor().read(events).facts]


@every_case(
    "You wrote that I'm allergic to sesame, but that is wrong.",
    "You told me that I'm allergic to sesame.",
    "My dentist thought I have asthma, but the X-ray was clear.",
    "My coach assumed I'm vegetarian, but I eat fish.", "I was misdiagnosed with Crohn's in 2015.",
    "my ex tells everyone i'm on lithium", "if I had diabetes, could I eat that?",
    "Do I have asthma? I cough at night.", "I dreamt I had leprosy",
    "我妈以为我对海鲜过敏，其实不是", "同事都当我怀孕了，其实就是胖", "你上次说我对芒果过敏",
    "手表提示我房颤，去查啥事没有", "要是我有痛风，还能喝啤酒吗",
)  # fmt: skip
def test_what_others_say_of_the_users_health_is_no_fact(text):
    assert read(text) == []


@every_case(
    ("I have asthma but it's mild, is altitude a problem?", "asthma"),
    ("I'm allergic to sesame.", "sesame"), ("I take levothyroxine in the morning", "levothyroxine"),
    ("My doctor put me on metoprolol in June.", "metoprolol"),
    ("I am lactose intolerant.", "lactose intolerant"), ("我对海鲜过敏，点菜帮我避开", "海鲜"),
    ("我有高血压，每天吃氨氯地平", "氨氯地平"), ("我痛风，酒局怎么推", "痛风"),
)  # fmt: skip
def test_what_the_user_says_of_their_own_health_is_read(text, value):
    assert value in [found for _, found in read(text)]


@every_case(
    ("allergic to walnuts is my stepson, not me", "allergy", ""),
    ("对虾过敏的是我室友", "allergy", "虾"), ("my sister's graduation is on june 5", "plan", ""),
    ("戒烟第30天", "dislike", "烟"), ("抽烟吗我", "trait", ""),
)  # fmt: skip
def test_a_value_of_somebody_else_or_of_the_past_is_none_of_the_users(text, slot, value):
    assert not [found for found in read(text) if found[0] == slot and value in found[1]]


@every_case(("我在西安住了八年", "residence", "西安"), ("I have a cat, Mog", "relation.cat", "Mog"))
def test_a_value_is_read_once_without_the_words_around_it(text, slot, value):
    assert read(text) == [(slot, value)]


@every_case(
    ("en", "everyone says I have gout", "gout", True),
    ("en", "everyone says I have gout and the test confirmed it", "gout", False),
    ("en", "they say a lot, but I have gout", "gout", False),
    ("en", "my wife worries about my gout", "gout", False),
    ("zh", "大家都说我有痛风", "痛风", True), ("zh", "大家都说我有痛风，一查果然", "痛风", False),
    ("zh", "大家都瞎猜，其实我有痛风", "痛风", False),
)  # fmt: skip
def test_a_yes_or_the_users_own_word_ends_what_is_embedded(lang, text, value, embedded):
    start = text.index(value)
    assert is_embedded(text, start, start + len(value), lang) is embedded
