import numpy as np
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as arrays

from shared_core.core.domain import FactDraft
from shared_core.privacy import classifier

numbers = st.floats(width=32)


@st.composite
def three_of_a_width(draw: st.DrawFn) -> list[np.ndarray]:
    """Return a text's vector and two sets of examples, of any numbers."""
    width = draw(st.integers(1, 4))
    rows = st.integers(1, 20)
    return [
        draw(arrays.arrays(np.float32, (draw(rows), width), elements=numbers)) for _ in range(3)
    ]


texts = st.text(max_size=80)


@given(texts)
def test_any_text_is_read(text):
    assert classifier.private_by_words(text) in (True, False)
    assert classifier.private_by_words(f"I {text}") or any(one > "\u2e80" for one in text)


@given(texts, st.sampled_from(["preference", "rule", "profile", "custom"]))
def test_any_slot_is_read(slot, fact_type):
    fact = FactDraft(
        fact_type=fact_type, slot=slot, value="", statement="", event_id="e", functional=False,
        confidence=1.0, pattern="p", language="en",
    )  # type: ignore[arg-type]  # fmt: skip
    assert classifier.private_by_slot(fact) in (True, False)


def classed(one: np.ndarray, private: np.ndarray, public: np.ndarray, margin: float) -> str:
    near = classifier.Prototypes(private=private, public=public, margin=margin)
    return classifier.class_by_example(one, near)


@given(three_of_a_width())
def test_numbers_of_no_use_are_private(drawn):
    (one, *_), private, public = drawn
    with np.errstate(all="ignore"):
        said = classed(one, private, public, 0.0)
    assert said in ("private", "public")
    if not np.isfinite(one).all():
        assert said == "private"


@given(arrays.arrays(np.float32, (30, 3), elements=st.floats(-1, 1, width=32)), st.data())
def test_a_wider_margin_never_makes_a_text_public(examples, data):
    private, public = examples[:15], examples[15:]  # type: ignore[index]
    margin = classifier.margin_between(private, public)
    assert margin > 0
    one = data.draw(arrays.arrays(np.float32, 3, elements=st.floats(-1, 1, width=32)))
    narrow, wide = (classed(one, private, public, least) for least in (0.0, margin))
    assert (narrow, wide) != ("private", "public")
    assert "private" == classed(one, private, public, float("inf"))
