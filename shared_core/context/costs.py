"""What the parts of a prompt cost by one tokenizer, each counted once. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from shared_core.context.window import ContextItem, Layout
from shared_core.core.digest_cache import Remembered
from shared_core.core.validation import name_of
from shared_core.errors import InvalidInput
from shared_core.nlp.tokenizer import TokenCounter, count_tokens

LABEL: Final = re.compile(r"- \[[^\]\n]*\](?= \S)")
"""What an item of a list begins with. No token of o200k reaches from "]" to the space behind it."""
LINES: Final = 16_384

_tokens: Final = Remembered(count_tokens, LINES)


class Costs:
    """Counts texts by a tokenizer, and holds it to what a tokenizer promises.

    o200k adds up over the pieces of a prompt, for a piece begins behind a line break and with
    neither white space nor "/"; so a prompt of pieces that were counted costs nothing more. With
    any other tokenizer the whole prompt is counted.
    """

    def __init__(self, count: TokenCounter) -> None:
        self._count = count
        self._adds_up = count is count_tokens
        self._known: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        """Return the tokens of a text.

        What the tokenizer raises is passed on, with a note that names it. Raises InvalidInput,
        naming it, for what is no number of tokens.
        """
        known = self._known.get(text)
        if known is None:
            known = self._known[text] = self._asked(text)
        return known

    def of_prompt(self, items: Sequence[ContextItem], layout: Layout) -> tuple[str, int]:
        """Return the prompt of items that are in reading order, and its tokens."""
        parts = layout.pieces(items)
        prompt = "".join(parts)
        return prompt, sum(map(self, parts)) if self._adds_up else self._asked(prompt)

    def _asked(self, text: str) -> int:
        if self._adds_up:
            return _tokens_of(text)
        try:
            tokens = self._count(text)
        except Exception as error:
            error.add_note(
                f"The tokenizer {self.name} of the context (count=...) raised this for a text of"
                f" {len(text):,} characters."
            )
            raise
        if isinstance(tokens, bool) or not isinstance(tokens, int) or tokens < 0:
            raise InvalidInput(
                f"the tokenizer {self.name} must return how many tokens a text is, a whole number,"
                f" not {tokens!r:.80}: give count=lambda text: len(tokenizer.encode(text))"
            )
        return tokens

    @property
    def name(self) -> str:
        """How the tokenizer is called in messages."""
        return name_of(self._count)


def _tokens_of(line: str) -> int:
    """Return the tokens by o200k; from one turn to the next labels change, and texts do not."""
    label = LABEL.match(line)
    if label is None:
        return _tokens(line)
    return _tokens(line[: label.end()]) + _tokens(line[label.end() :])
