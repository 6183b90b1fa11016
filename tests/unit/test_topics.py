"""Which topic a question about the user asks for, and what recall looks for then."""

import numpy as np
import pytest
from every_case import every_case

from shared_core.models.embedders import E5Embedder
from shared_core.nlp.rules import read_rule_file
from shared_core.recall.query import query_terms
from shared_core.recall.topics import TOPICS, ReadQuestion, read_question, topic_vectors

E5 = E5Embedder()


async def read(question: str, model: str = E5.model) -> ReadQuestion:
    return read_question(question, await E5.embed_query(question), query_terms(question), model)


@every_case(
    ("how do I earn my daily bread?", "job"), ("what's my trade?", "job"), ("我是干嘛的", "job"),
    ("who did I work for previously", "past_job"), ("我之前在哪家单位", "past_job"),
    ("which area is my place in", "home"), ("我住哪个区", "home"), ("我原来住哪", "past_home"),
    ("how do I get to the office", "commute"),
    ("anything I can't eat?", "food"), ("点外卖有什么忌口要注意的", "food"),
    ("what's wrong with my back", "health"), ("送礼要避开什么", "gift"),
    ("我闲的时候玩啥", "hobby"), ("where does my mother live?", None), ("我妈住哪", None),
    ("what is my cat called", None), ("Where is Ann's office?", None),
    ("What do I do for a living? " * 5, None),
)  # fmt: skip
async def test_a_question_about_the_user_asks_for_its_topic(question, topic):
    shares = (await read(question)).shares
    assert topic == max(shares, key=shares.__getitem__, default=None)


@every_case(
    ("What do I do for a living?", []), ("Where do I live?", ["live"]), ("我住哪", ["我住", "住"]),
    ("How do I take my coffee?", ["take", "coffe"]), ("Where does Tom live?", ["tom", "live"]),
)  # fmt: skip
async def test_words_that_only_ask_for_a_topic_are_not_searched(question, terms):
    found = await read(question)
    assert terms == list(found.terms)


async def test_a_question_moves_by_the_shipped_vectors_of_its_topic_and_not_with_another_embedder():
    question = "What do I do for a living?"
    tiler, hamster = await E5.embed_passages(["I'm a tiler.", "Our hamster lives in the bath."])
    asked, found = (await E5.embed_query(question))[0], await read(question)
    assert found.vector is not None and 1 == pytest.approx(np.linalg.norm(found.vector), abs=1e-5)
    assert (tiler - hamster) @ found.vector[0] > (tiler - hamster) @ asked + 0.1
    other = await read(question, "another model")
    assert other.vector is not None and (asked == other.vector[0]).all() and not other.shares
    known, topics = topic_vectors(E5.model), read_rule_file(TOPICS)
    asks = [text for one in topics.values() for texts in one["asks"].values() for text in texts]
    assert known is not None and list(topics) == known.names and len(asks) == len(known.asks)
    for place in (0, len(asks) // 2, -1):
        assert (await E5.embed_query(asks[place]))[0] @ known.asks[place] > 0.99
