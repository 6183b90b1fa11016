"""Which statements count as the same."""

from __future__ import annotations

from uuid import uuid4

from every_case import every_case

from shared_core.core.domain import MemoryId
from shared_core.nlp.similarity import same_statement, words_key
from shared_core.ports.runs import LikeText


def same(one: str, other: str) -> bool:
    """Tell whether both count as the same, and that the key says so as well."""
    near = [LikeText(memory_id=MemoryId(uuid4()), text=other, similarity=1.0)]
    found = same_statement(one, near) is not None
    assert found == (words_key(one) is not None and words_key(one) == words_key(other))
    return found


@every_case(
    ("Ann writes C++.", "Ann writes C#."),
    ("Ann writes C++.", "Ann writes C."),
    ("安用C++写程序。", "安用C#写程序。"),
    ("It was -5 degrees.", "It was 5 degrees."),
    ("气温是-5度。", "气温是5度。"),
    ("It was −5 degrees.", "It was +5 degrees."),
    ("Ann runs 1.5 miles.", "Ann runs 15 miles."),
    ("Ann runs 1.5 miles.", "Ann runs 1 5 miles."),
    ("The rate is 5%.", "The rate is 5."),
    ("It costs $5.", "It costs €5."),
    ("安的血型是A+。", "安的血型是A。"),
    ("🙂", "🙃"),
    ("🙂", "🙂"),
    ("...", "!"),
)
def test_a_sign_counts(one: str, other: str) -> None:
    assert not same(one, other)
    assert not same(other, one)


@every_case(
    ("Bruno the dog is afraid.", "bruno, dog, is afraid!"),
    ("Ann writes C++.", "Ann writes “Ｃ＋＋”"),
    ("It was −5 degrees.", "It was -5 degrees"),
    ("Ann moved in 2019.", "Ann moved in 2019"),
    ("Ann runs - so they say - 5 miles.", "Ann runs, so they say, 5 miles."),
    ("COVID-19 kept Ann at home.", "COVID 19 kept Ann at home."),
    ("安的血型是Ａ＋。", "安的血型是A+！"),
)
def test_case_width_punctuation_and_articles_do_not(one: str, other: str) -> None:
    assert same(one, other)
    assert same(other, one)
