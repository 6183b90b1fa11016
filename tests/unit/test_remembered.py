"""What is remembered of texts: the same results, so many of them, and no text."""

import gc

from hypothesis import given, strategies as st

from shared_core.core.digest_cache import DigestCache


@given(st.lists(st.text(st.characters(exclude_categories=()), max_size=4), max_size=60))
def test_it_returns_what_the_function_returns(texts):
    upper = DigestCache("test", str.upper, 5)
    assert [text.upper() for text in texts] == [upper(text) for text in texts]


def test_the_last_ones_are_not_asked_again_and_old_ones_go():
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


def test_what_is_falsy_is_remembered_too():
    asked: list[str] = []
    nothing = DigestCache("test", lambda text: bool(asked.append(text)), 3)
    assert [False, False] == [nothing("a"), nothing("a")]
    assert ["a"] == asked


def test_no_text_is_kept():
    kept = DigestCache("test", len, 3)
    secret = "".join(["the password is ", "hunter2"])
    kept(secret)
    found: list[object] = [kept]
    for one in found:
        found += [
            part for part in gc.get_referents(one) if not callable(part) and part not in found
        ]
    assert not any(isinstance(one, str) and "hunter2" in one for one in found)
