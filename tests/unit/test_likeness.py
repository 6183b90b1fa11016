"""Which statements count as the same, and which hits repeat what was said already."""

from uuid import uuid4

from every_case import every_case
from hypothesis import given, strategies as st
from memories import memory

from shared_core.core.domain import Hit, MemoryId
from shared_core.nlp.similarity import same_statement, words_key
from shared_core.ports.runs import LikeText
from shared_core.recall.reranking import MOST_DIVERSIFIED, diversified, jaccard, marginally_relevant


def same(one: str, other: str) -> bool:
    """Tell whether both count as the same, and that the key says so as well."""
    near = [LikeText(memory_id=MemoryId(uuid4()), text=other, similarity=1.0)]
    found = same_statement(one, near) is not None
    assert found == (words_key(one) is not None and words_key(one) == words_key(other))
    return found


@every_case(
    ("Ann writes C++.", "Ann writes C#."), ("Ann writes C++.", "Ann writes C."),
    ("安用C++写程序。", "安用C#写程序。"), ("It was -5 degrees.", "It was 5 degrees."),
    ("气温是-5度。", "气温是5度。"), ("It was −5 degrees.", "It was +5 degrees."),
    ("Ann runs 1.5 miles.", "Ann runs 15 miles."), ("Ann runs 1.5 miles.", "Ann runs 1 5 miles."),
    ("The rate is 5%.", "The rate is 5."), ("It costs $5.", "It costs €5."),
    ("安的血型是A+。", "安的血型是A。"), ("🙂", "🙃"), ("🙂", "🙂"), ("...", "!"),
)  # fmt: skip
def test_a_sign_counts(one, other):
    assert not same(one, other)
    assert not same(other, one)


@every_case(
    ("Bruno the dog is afraid.", "bruno, dog, is afraid!"),
    ("Ann writes C++.", "Ann writes “Ｃ＋＋”"), ("It was −5 degrees.", "It was -5 degrees"),
    ("Ann moved in 2019.", "Ann moved in 2019"),
    ("Ann runs - so they say - 5 miles.", "Ann runs, so they say, 5 miles."),
    ("COVID-19 kept Ann at home.", "COVID 19 kept Ann at home."),
    ("安的血型是Ａ＋。", "安的血型是A+！"),
)  # fmt: skip
def test_case_width_punctuation_and_articles_do_not(one, other):
    assert same(one, other)
    assert same(other, one)


WORDS = st.frozensets(st.sampled_from("abcdef"), max_size=5)
TEXTS = st.lists(st.tuples(st.floats(-9, 9), WORDS), max_size=8)


def hit(score: float, text: str) -> Hit:
    return Hit(memory=memory(1, text), score=score, parts={})


TEA = [
    hit(3.0, "Ann drinks green tea"), hit(2.9, "Ann drinks green tea every day"),
    hit(2.0, "The dog is called Rex"), hit(1.0, "Bob sails"),
]  # fmt: skip


@every_case((0.0, [0, 1, 2, 3]), (0.2, [0, 1, 2, 3]), (0.6, [0, 2, 3, 1]), (1.0, [0, 2, 3, 1]))
def test_the_more_diversity_the_later_what_repeats(diversity, expected):
    assert [TEA[at] for at in expected] == diversified(TEA, 4, diversity)
    assert [TEA[at] for at in expected[:2]] == diversified(TEA, 2, diversity)


def test_the_best_are_compared_chinese_ones_by_characters_and_the_rest_follows():
    same = [hit(float(-at), "Ann drinks green tea") for at in range(MOST_DIVERSIFIED + 5)]
    other = hit(-float(MOST_DIVERSIFIED) - 9, "Bob sails")
    hits = [*same[:-1], other, same[-1]]
    assert hits == diversified(hits, len(hits), 0.9)
    assert hits[: MOST_DIVERSIFIED + 3] == diversified(hits, MOST_DIVERSIFIED + 3, 0.9)
    assert 0.0 == jaccard(frozenset(), frozenset())
    assert [0, 1] == marginally_relevant([1.0, 0.5], [frozenset(), frozenset()], 5, 0.9)
    assert [] == diversified([], 5, 0.5)
    hits = [hit(3.0, "她喜欢喝绿茶"), hit(2.9, "她喜欢喝绿茶的"), hit(2.5, "狗叫旺财")]
    assert [hits[0], hits[2], hits[1]] == diversified(hits, 3, 0.5)


@given(TEXTS, st.integers(0, 10), st.floats(0.01, 1))
def test_it_takes_some_of_the_texts_each_once_beginning_with_the_best(texts, limit, diversity):
    scores = sorted((score for score, _ in texts), reverse=True)
    words = [held for _, held in texts]
    taken = marginally_relevant(scores, words, limit, diversity)
    assert len(taken) == len(set(taken)) == min(limit, len(texts))
    assert set(taken) <= set(range(len(texts)))
    assert taken[:1] == [0][: len(taken)]
    assert taken == marginally_relevant(scores, words, limit, diversity)
    assert taken == marginally_relevant(scores, words, len(texts), diversity)[:limit]


@given(TEXTS)
def test_no_diversity_leaves_the_order(texts):
    scores = sorted((score for score, _ in texts), reverse=True)
    order = marginally_relevant(scores, [held for _, held in texts], len(texts), 0.0)
    assert list(range(len(texts))) == order


@given(WORDS, WORDS)
def test_likeness_is_a_share_and_the_same_both_ways(one, other):
    assert 0 <= jaccard(one, other) == jaccard(other, one) <= 1
    assert jaccard(one, one) == (1.0 if one else 0.0)
