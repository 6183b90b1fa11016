"""Items that a store embeds later: put() waits for no model, a job makes vectors of passages."""

import uuid
from unittest import mock

import pytest
from langgraph.store.memory import InMemoryStore

from langgraph_store import PgHippocampusStore as Store, memories_namespace
from shared_core import CallableEmbedder, open_memory
from shared_core.errors import InvalidInput, ModelUnavailable
from shared_core.ingest import item_vectors
from shared_core.models.embedding import Embedding
from shared_core.nlp.passages import passages, without_data
from shared_core.ports import Job, JobType

LOG = "".join(f"On day {n} the ferry left at noon and nobody came aboard.\n" for n in range(200))
KEY = "The spare key of the boathouse hangs behind the blue kettle."


@pytest.fixture
async def idle(shared_dsn):
    async with open_memory(shared_dsn, worker=False) as memory:
        yield memory


def files(scope):
    return (*memories_namespace(scope.app, scope.user)[:2], "files")


async def run(memory, scope):
    about = {"scope": scope, "thread_id": None, "job_type": JobType.ITEM_VECTORS, "attempts": 1}
    return await item_vectors.embed_items(memory._handle, Job(job_id=uuid.uuid4(), **about))


@pytest.mark.both_engines
@pytest.mark.parametrize(
    ("text", "question", "made"),
    [
        (KEY, "Where do I find the key to the boathouse?", 1),
        (f"{LOG}\n{KEY}\n\n{LOG}", "Where do I find the key to the boathouse?", 20),
        ("备用钥匙挂在蓝色水壶后面。", "钥匙在哪里？", 1),
        (f"{'-' * 5_000}\n{KEY}", "Where do I find the key to the boathouse?", 1),
    ],
)
async def test_a_put_waits_for_no_model_and_a_job_makes_it_found(idle, scope, text, question, made):
    store, here = Store(engine=idle, embed_later=True), memories_namespace(scope.app, scope.user)
    with mock.patch.object(Embedding, "passages", side_effect=ModelUnavailable("away")):
        await store.aput(here, "/log.md", {"content": LOG[:500]})
        await store.aput(here, "/a.md", {"content": text})
    assert {"item_vectors"} == {job.job_type for job in await idle.jobs.list(scope=scope)}
    found = await run(idle, scope)
    assert (2, made) == (found["items"], found["passages"] - 1)
    assert {"items": 0, "passages": 0} == await run(idle, scope)
    first, *_ = await idle.recall(scope, question)
    assert "/a.md" == first.memory.key and first.parts["similarity"] > 0.2
    assert len(first.memory.text) <= 10_000 and first.memory.value["content"] == text
    await store.aput(here, "/a.md", {"content": "Nothing."})
    assert {"items": 1, "passages": 1} == await run(idle, scope)
    await store.adelete(here, "/a.md")
    assert {"items": 0, "passages": 0} == await run(idle, scope)


@mock.patch.object(item_vectors, "TOGETHER", 4)
async def test_a_job_that_dies_leaves_the_rest_and_an_edit_meanwhile_to_the_next(idle, scope):
    store, here = Store(engine=idle, embed_later=True), files(scope)
    await store.aput(here, "/long.md", {"content": LOG})
    await store.aput(here, "/short.md", {"content": KEY})
    embed, batches = Embedding.passages, []

    async def dying(self, texts, embedded=None):
        batches.append(texts)
        if len(batches) == 3:
            raise ModelUnavailable("away")
        return await embed(self, texts, embedded)

    async def editing(self, texts, embedded=None):
        await store.aput(here, "/short.md", {"content": "The kettle is red."})
        return await embed(self, texts, embedded)

    with mock.patch.object(Embedding, "passages", dying), pytest.raises(ModelUnavailable):
        await run(idle, scope)
    rest = len([*passages(LOG)]) - 2 * item_vectors.TOGETHER
    with mock.patch.object(Embedding, "passages", editing):
        assert {"items": 2, "passages": rest} == await run(idle, scope)
    assert {"items": 1, "passages": 1} == await run(idle, scope)
    assert {"items": 0, "passages": 0} == await run(idle, scope)


@pytest.mark.both_engines
async def test_the_last_words_of_a_long_file_are_found_before_it_has_vectors(idle, scope):
    store, here = Store(engine=idle, embed_later=True), memories_namespace(scope.app, scope.user)
    await store.aput(here, "/b.md", {"content": KEY[10:30]})
    await store.aput(here, "/a.md", {"content": f"{' '.join(map(hex, range(20_000)))} {KEY}"})
    away = mock.patch.object(Embedding, "passages", side_effect=ModelUnavailable("away"))
    with away, pytest.raises(ModelUnavailable):
        await run(idle, scope)
    once = mock.patch.object(item_vectors, "replace_terms", side_effect=AssertionError("again"))
    with away, once, pytest.raises(ModelUnavailable):
        await run(idle, scope)
    first, *_ = await idle.recall(scope, "Where is the spare key of the boathouse kettle?")
    assert "/a.md" == first.memory.key and first.parts["bm25"] > 0
    await store.adelete(here, "/a.md")  # its vectors would keep the worker of other tests busy


@pytest.mark.both_engines
@mock.patch.object(item_vectors, "TOGETHER", 4)
async def test_another_model_embeds_the_same_passages(dsn, scope):
    texts = []
    model = CallableEmbedder(lambda some: texts.extend(some) or [[1.0, 2.0]] * len(some), model="2")
    async with open_memory(dsn, worker=False) as memory:
        await Store(engine=memory, embed_later=True).aput(files(scope), "/a.md", {"content": LOG})
        made = (await run(memory, scope))["passages"]
        assert made == (await memory.reembed(model)).embedded
    assert sorted(LOG[begin:end] for begin, end in passages(LOG)) == sorted(texts[-made:])


async def test_flush_has_what_waits_embedded(shared_memory, scope):
    store, here = Store(engine=shared_memory, embed_later=True), files(scope)
    await store.aput(here, "/a.md", {"content": KEY})
    assert await shared_memory.flush(60)
    [found] = await store.asearch(here, query="Where is the key?")
    assert found.score > 0.2


def test_what_a_worker_cannot_know_is_refused_and_index_false_is_taken(shared_memory, scope):
    with pytest.raises(InvalidInput, match="embed_later and index"):
        Store(engine=shared_memory, embed_later=True, index={"fields": ["content"]})
    store, here = Store(engine=shared_memory, index=False), files(scope)
    store.put(here, "/a.md", {"content": KEY})
    assert [None] == [item.score for item in store.search(here, query="key")]


@pytest.mark.parametrize(
    "text", [KEY * 100, LOG, "钥匙在水壶后面。" * 300, "QUJD" * 999, f"\n\n{KEY}"]
)
def test_passages_cover_every_word_and_no_data(text):
    plain = without_data(text)
    assert len(plain) == len(text)
    bounds = list(passages(plain))
    assert plain.split() == "".join(plain[begin:end] for begin, end in bounds).split()
    assert all(0 < end - begin <= 1_200 for begin, end in bounds)


def test_deepagents_gets_the_answers_of_langgraphs_store(shared_memory):
    backends = pytest.importorskip("deepagents.backends")
    stores = (InMemoryStore(), Store(engine=shared_memory, embed_later=True))
    here = (uuid.uuid4().hex, "ana", "memories")
    theirs, mine = (backends.StoreBackend(store=one, namespace=lambda _: here) for one in stores)
    for method, *args in [
        ("write", "/a/b.md", KEY), ("write", "/c.md", LOG), ("write", "/c.md", "again\n"),
        ("read", "/a/b.md"), ("read", "/none.md"), ("edit", "/c.md", "again", "once more"),
        ("edit", "/c.md", "absent", "x"), ("grep", "kettle"), ("grep", "kettle", "/a"),
        ("delete", "/a"), ("delete", "/a"), ("read", "/a/b.md"),
    ]:  # fmt: skip
        answers = [getattr(one, method)(*args) for one in (theirs, mine)]
        for answer in answers:
            if getattr(answer, "file_data", None):
                answer.file_data = answer.file_data["content"]
        assert answers[0] == answers[1], method
    paths = [[info["path"] for info in one.ls("/").entries] for one in (theirs, mine)]
    assert ["/c.md"] == paths[0] == paths[1]
