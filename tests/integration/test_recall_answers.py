"""What recall() and search() answer: hits by every way of finding, each with its reason."""

import json
from datetime import date, datetime
from functools import partial
from uuid import uuid4

import pytest
from person import Person, alone, at

from shared_core import Hit, InvalidInput, ModelUnavailable, NewMemory, Scope, run_sync
from shared_core.ports.recall import RecallResult, ThreeFactor
from shared_core.recall.ranking import relevance

pytestmark = pytest.mark.both_engines

TEA = "Ann drinks green tea every morning."


def texts(hits: object) -> list[str]:
    assert isinstance(hits, list | tuple | RecallResult)
    return [hit.memory.text for hit in hits if isinstance(hit, Hit)]


@pytest.fixture(scope="module")
def filled(shared_memory):
    """A user with five memories, which no test changes."""
    user = Person(shared_memory, Scope(f"app {uuid4().hex}", "ann"))
    texts = [
        TEA, "The dog is called Rex.", "Bob sails on Sundays.", "她喜欢喝绿茶。",
        "ann drinks green tea, every morning",
    ]  # fmt: skip
    run_sync(user.remember(texts))
    return user


class Breaking:
    """An embedder that can be switched off."""

    model = "breaking"
    works = True

    def __call__(self, given: list[str]) -> list[list[float]]:
        if not self.works:
            raise OSError("no route to the model")
        return [[1.0, float(len(text)), float(text.count("tea"))] for text in given]


@pytest.fixture
async def broken(dsn):
    """A user with two memories, whose embedder has failed since."""
    embedder = Breaking()
    async with alone(dsn, embedder=embedder) as user:
        await user.remember([TEA, "The dog is called Rex."])
        embedder.works = False
        yield user


async def test_the_answer_is_a_sequence_of_ranked_hits_with_documented_results_by_name(filled):
    found = await filled.recall("What tea does Ann drink?", limit=3)
    hits = list(found)
    assert 3 == len(found) == len(hits)
    assert found == hits and hits == found and found == found["merged"]
    assert (found[0], found[1:]) == (hits[0], hits[1:])
    assert hits == sorted(hits, key=lambda hit: hit.score, reverse=True)
    assert found != hits[:2] and found and hits[0] in found
    assert (False, False, ()) == (found.degraded, found.reranked, found.graph_results)
    nothing = await filled.other("nobody").recall("tea")
    assert not nothing and nothing == [] and [] == nothing
    found = await filled.recall("What tea does Ann drink?", limit=3)
    told = found.to_dict()
    assert ["vector_results", "graph_results", "merged"] == list(told)
    assert told == json.loads(json.dumps(told))
    for name in ("vector_results", "merged"):
        assert [hit.memory.text for hit in found[name]] == [hit["text"] for hit in told[name]]
    nearest = found["vector_results"]
    assert found.vector_results is nearest and 3 == len(nearest)
    assert all(hit.score == hit.parts["similarity"] for hit in nearest)
    assert list(nearest) == sorted(nearest, key=lambda hit: hit.score, reverse=True)
    with pytest.raises(KeyError):
        found["results"]  # type: ignore[call-overload]
    found = await filled.search("What tea does Ann drink?", 2)
    by_vector = await filled.recall("What tea does Ann drink?", limit=2, ranking="vector")
    assert texts(found) == texts(by_vector) == texts(by_vector.vector_results)
    assert pytest.approx([hit.score for hit in by_vector], abs=1e-4) == [hit.score for hit in found]
    assert 5 == len(await filled.search("animals"))
    assert [] == await filled.search("animals", kinds=["summary"])
    assert [] == await filled.search("🦜") == await filled.search("tea", limit=0)


async def test_search_without_an_embedder_names_the_way_out(broken):
    with pytest.raises(ModelUnavailable, match=r"no route.*recall\(\)"):
        await broken.search("tea")


@pytest.mark.parametrize("ranking", ["linear", "vector"])
async def test_recall_without_an_embedder_says_so_and_goes_on_by_words(broken, ranking):
    found = await broken.recall("tea", ranking=ranking)  # type: ignore[arg-type]
    assert (True, ()) == (found.degraded, found.vector_results)
    assert TEA == found[0].memory.text
    assert ("tea",) == found[0].matched and "similarity" not in found[0].parts


async def test_every_hit_says_why_it_was_found(ann):
    lines = ["I live in Lisbon.", "今天去喝茶了。"]
    await ann.say(0, *lines)
    found = await ann.recall("Who lives in Lisbon? 她喝什么茶？")
    by_text = {hit.memory.text: hit for hit in found}
    turn, fact = by_text["I live in Lisbon."], by_text["User lives in Lisbon."]
    assert ("lives", "Lisbon") == turn.matched == fact.matched
    assert ("喝", "茶") == by_text[lines[1]].matched
    assert (None, at(0)) == (turn.valid_from, fact.valid_from)
    for shown in ("words: lives, Lisbon", "episodic by user", "session t", "from e0", " meaning"):
        assert shown in turn.explain()
    assert "holds since 2026-03-01" in fact.explain()
    assert "\n" not in turn.explain() and f"{turn.score:.2f} = " in turn.explain()


async def test_a_floor_leaves_out_what_is_unrelated_distinct_repeats_and_diversity_likeness(filled):
    unrelated = "quantum chromodynamics on the lattice"
    assert await filled.recall(unrelated)
    assert [] == await filled.recall(unrelated, min_relevance=0.4)
    question = "What tea does Ann drink?"
    every = await filled.recall(question)
    some = await filled.recall(question, min_relevance=0.4)
    assert texts(some) == texts([hit for hit in every if relevance(hit) >= 0.4])
    assert 0 < len(some) < len(every)
    near = [hit.memory for hit in every.vector_results if hit.score >= 0.4]
    assert near == [hit.memory for hit in some.vector_results]
    assert 0 < len(near) < len(every.vector_results)
    every = await filled.recall("green tea in the morning")
    distinct = await filled.recall("green tea in the morning", distinct=True, limit=4)
    assert (5, 4) == (len(every), len(distinct))
    assert 1 == sum("morning" in text for text in texts(distinct))
    assert [text for text in texts(every) if text in texts(distinct)] == texts(distinct)
    question = "green tea in the morning"
    plain = await filled.recall(question, limit=2)
    diverse = await filled.recall(question, limit=2, diversity=1.0)
    assert all("morning" in text for text in texts(plain))
    assert plain[0].memory == diverse[0].memory and "morning" not in diverse[1].memory.text
    assert texts(plain) == texts(await filled.recall(question, limit=2, diversity=0.0))


async def test_the_floor_comes_before_the_limit(ann):
    """What the ranking puts first and has little to do with the question takes no place."""
    vital = NewMemory(text="The dog is called Rex.", importance=10)
    await ann.remember([NewMemory(text=TEA, importance=1), vital])
    asked = partial(ann.recall, "What tea does Ann drink?", ranking="three_factor", limit=1)
    assert [vital.text] == texts(await asked())
    assert [TEA] == texts(await asked(min_relevance=0.4))


async def test_what_matters_little_is_left_out_before_the_limit(ann):
    await ann.remember(
        [NewMemory(text=f"{TEA} ({number})", importance=1.5) for number in range(40)]
        + [NewMemory(text="Tea at last.", importance=importance) for importance in (5.7, 9)]
    )
    found = {
        least: [hit.memory.importance for hit in await ann.recall(TEA, min_importance=least)]
        for least in (0, 1.5, 5.7, 5.71, 10)
    }
    assert [10, 10] == [len(found[0]), len(found[1.5])]
    assert pytest.approx([5.7, 9]) == sorted(found[5.7])
    assert [9] == found[5.71] and [] == found[10]
    for least in (-1, 11, None, float("nan")):
        with pytest.raises(InvalidInput, match="min_importance"):
            await ann.recall(TEA, min_importance=least)  # type: ignore[arg-type]


async def test_a_turn_of_no_thread_is_recalled(ann):
    await ann.remember([NewMemory(text=TEA, kind="episodic"), "Bob sails."])
    assert TEA == (await ann.recall("green tea"))[0].memory.text


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"min_relevance": 1.1}, "min_relevance must be between 0 and 1, got 1.1"),
        ({"min_relevance": float("nan")}, "min_relevance"),
        ({"min_relevance": "0.1"}, "min_relevance must be between 0 and 1, got '0.1'"),
        ({"diversity": None}, "diversity must be between 0 and 1, got None"),
        ({"kinds": 5}, "kinds must be a list.*got 5"),
        ({"limit": 2.5}, "limit must be between 0 and 100,000, a whole number, got 2.5"),
        ({"limit": "3"}, "limit must be .* got '3'"),
        ({"asked_at": date(2026, 3, 1)}, "asked_at must be a datetime with a time zone"),
        ({"asked_at": ""}, "asked_at must be a datetime with a time zone"),
        ({"diversity": -0.1}, "diversity must be between 0 and 1"),
        ({"kinds": ["facts"]}, "kind 'facts' is not known: take one of episodic"),
        ({"kinds": "semantic"}, r"kinds must be a list.*\['semantic'\]"),
        ({"ranking": "best"}, "ranking 'best' is not known"),
        ({"limit": -1}, "limit must be between 0"),
        ({"asked_at": datetime(2026, 3, 1)}, "asked_at has no time zone"),  # noqa: DTZ001
        ({"namespace": ("app", "bob", "memories")}, "not in scope"),
        ({"reranker": 5}, "reranker of type int is of no known form"),
    ],
)
async def test_what_cannot_be_meant_is_refused(ann, options, complaint):
    with pytest.raises(InvalidInput, match=complaint):
        await ann.recall("tea", **options)  # type: ignore[arg-type]


async def test_repeats_do_not_take_the_places_of_answers(ann):
    await ann.remember(["What is my tea?"] * 160)
    await ann.remember(["My tea is sencha.", "Bob sails on Sundays."])
    found = await ann.recall("What is my tea?", distinct=True, limit=5)
    assert ["What is my tea?", "My tea is sencha.", "Bob sails on Sundays."] == texts(found)


async def test_the_three_factors_can_be_weighed(ann):
    new = [NewMemory(text=TEA, importance=1), NewMemory(text="Tea is fine.", importance=10)]
    await ann.remember(new)
    asked = partial(ann.recall, "What tea does Ann drink?")
    assert TEA == texts(await asked(ranking=ThreeFactor(importance=0)))[0]
    assert TEA == texts(await asked(ranking=ThreeFactor(relevance=0)))[1]


CHANGES = {"en": (["I work at a bank in Leeds.", "I now work nights, at a shop by the old harbour.",
    "It rained all day."], "Where do I work?", "Where did I work before?"),
    "zh": (["我在银行工作。", "我现在在超市工作了。", "今天下了一整天的雨。"], "我在哪里工作？",
    "我以前在哪里工作？")}  # fmt: skip


@pytest.mark.parametrize("language", CHANGES)
async def test_what_tells_a_change_stands_above_what_it_overtakes(ann, language):
    (older, newer, other), now, before = CHANGES[language]
    for day, text in enumerate([older, other, newer]):
        await ann.tell(day, text, thread=f"thread {day}")
    hits = await ann.recall(now, limit=3)
    assert [newer, older] == texts(hits)[:2]
    marks = [(hit.parts["overtakes"], hit.parts["is_overtaken"]) for hit in hits]
    assert [(1.0, 0.0), (0.0, 1.0), (0.0, 0.0)] == marks
    assert hits[0].parts["raised"] > 0, "without it the older stands above"
    of_before = await ann.recall(before, limit=3)
    assert older == of_before[0].memory.text
    assert 1.0 == of_before[0].parts["overtakes"]


ENDED = {
    "en": ("I live in Bath.", "I moved to Lisbon.", "Where do I live now?", "Lisbon"),
    "zh": ("我住在上海。", "我搬到苏州了。", "我现在住在哪里？", "苏州"),
}


@pytest.mark.parametrize("language", ENDED)
async def test_a_summary_of_what_has_ended_stands_below_what_holds(ann, language):
    before, after, question, place = ENDED[language]
    late = "The tram is late."
    for day, text in ((0, before), (20, after)):
        await ann.say(day, text, late, "Thanks!", thread=f"thread {day}")
    hits = await ann.recall(question, asked_at=at(29))
    assert place in hits[0].memory.text
    marks = {(hit.memory.kind, hit.memory.text): hit.parts["ended"] for hit in hits}
    assert 1.0 == marks["summary", f"{before} {late}"] == marks["episodic", before]
    assert 0.0 == marks["episodic", after]


@pytest.mark.parametrize(
    "told, question, answer",
    [
        ("I'm a tiler.|our hamster lives in the bathroom|we're 3", "What do I do for a living?", 0),
        ("我妈住罗湖区 跟我弟一起|我在南山租了个一居室|养了只猫", "我住哪个区", 1),
    ],
)
async def test_the_answer_stands_above_what_shares_a_word(ann, told, question, answer):
    lines = told.split("|")
    await ann.tell(0, *lines)
    first, *others = await ann.recall(question, kinds=["episodic"])
    assert lines[answer] == first.memory.text
    assert all(relevance(other) < 0.5 for other in others)
