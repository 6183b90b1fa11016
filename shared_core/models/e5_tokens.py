"""Cut texts into the pieces of a vocabulary, as XLM-RoBERTa's unigram model does. Pure."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from shared_core.models.e5_file import Vocabulary

MARK: Final = "\u2581"
"""Begins each word; no piece holds it in another place, so that words are cut one by one."""
WORD: Final = re.compile(" [^ ]*")
SPACES: Final = re.compile("  +")
UNKNOWN_COST: Final = 10.0
"""How much less likely than the rarest piece an unknown character is, as log probability."""
KEPT_CHARACTERS: Final = 24
"""Longest word whose pieces are kept. A sentence of Chinese is one long word, seldom seen again."""
KEPT_WORDS: Final = 20_000


class Tokenizer:
    """Finds the most likely pieces of each word."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._normal = vocabulary.normal
        self._scores = vocabulary.scores
        self._unknown = vocabulary.unknown
        self._unknown_score = min(vocabulary.scores) - UNKNOWN_COST
        names = self._names = vocabulary.pieces
        self._pieces = dict(zip(reversed(names), range(len(names) - 1, -1, -1), strict=True))
        for name in ("", names[vocabulary.unknown]):
            self._pieces.pop(name, None)
        self._longest: dict[str, int] = {}
        for name in self._pieces:
            if len(name) > self._longest.get(name[0], 0):
                self._longest[name[0]] = len(name)
        self._kept = lru_cache(KEPT_WORDS)(self._cut)

    def __call__(self, text: str) -> list[int]:
        """Return the ids of the pieces of a text."""
        text = SPACES.sub(" ", text.translate(self._normal))
        if not text.startswith(" "):
            text = f" {text}"
        return [piece for word in WORD.findall(text) for piece in self._pieces_of(word)]

    def located(self, text: str) -> list[tuple[int, int, int]]:
        """Return the pieces of a text: id, start and end in the text as given."""
        characters, places = [" "], [0]
        for place, one in enumerate(text):
            for character in self._normal.get(ord(one), one):
                if character != " " or characters[-1] != " ":
                    characters.append(character)
                    places.append(place)
        found: list[tuple[int, int, int]] = []
        for word in WORD.finditer("".join(characters)):
            at = word.start()
            for piece in self._pieces_of(word[0]):
                end = at + (1 if piece == self._unknown else len(self._names[piece]))
                start = min(at + (characters[at] == " "), end - 1)
                found.append((piece, places[start], places[end - 1] + (characters[end - 1] != " ")))
                at = end
        return found

    def _pieces_of(self, word: str) -> tuple[int, ...]:
        """Return the ids of the pieces of a word that begins with a space."""
        cut = self._kept if len(word) <= KEPT_CHARACTERS else self._cut
        return cut(MARK + word[1:])

    def _cut(self, word: str) -> tuple[int, ...]:
        pieces, scores, count = self._pieces, self._scores, len(word)
        best = [0.0] + [float("-inf")] * count
        last = [(0, 0)] * (count + 1)
        """Where the last piece of the best cut up to each place begins, and its id."""
        for start in range(count):
            base = best[start]
            most = min(count, start + self._longest.get(word[start], 0))
            for end in range(start + 1, most + 1):
                piece = pieces.get(word[start:end])
                if piece is not None and base + scores[piece] > best[end]:
                    best[end] = base + scores[piece]
                    last[end] = (start, piece)
            if base + self._unknown_score > best[start + 1]:
                best[start + 1] = base + self._unknown_score
                last[start + 1] = (start, self._unknown)
        found: list[int] = []
        end = count
        while end:
            end, piece = last[end]
            found.append(piece)
        return tuple(reversed(found))
