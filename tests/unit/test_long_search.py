"""A long text is searched in several calls, with the matches of one."""

import re._parser as parser  # type: ignore[import-not-found]

import pytest

from shared_core.core.delimiters import OUR_TAGS
from shared_core.core.long_search import REACH, STEP, matches, occurs, replaced
from shared_core.privacy import told_secrets
from shared_core.privacy.redaction import _KINDS

PATTERNS = [_KINDS["password"].pattern, OUR_TAGS._found] + [
    getattr(told_secrets, name) for name in ("_MAY_TELL", "_OPENED", "_OTHERWISE")
]
SEED = "seed phrase: " + "abandon ability able " * 10
TOLD = f"the password is hunter2!, unlock my door before 1830; it cost me 40. \x01/s>{SEED}"


@pytest.mark.parametrize("pattern", PATTERNS, ids=range(len(PATTERNS)))
def test_several_calls_find_what_one_finds_wherever_a_match_lies(pattern):
    looking_on = pattern.pattern.replace("(?=", "(?:").replace("(?!", "(?:")
    assert parser.parse(looking_on, pattern.flags).getwidth()[1] <= REACH
    assert not occurs(pattern, "< " * STEP)
    for text in (
        TOLD * 90,
        TOLD * 40 + "< " * STEP,
        *("< " * (STEP // 2 - n) + TOLD + "<" * REACH * 3 for n in range(0, 150, 25)),
    ):
        whole = [one.span() for one in pattern.finditer(text)]
        assert whole and whole == [one.span() for one in matches(pattern, text)]
        assert occurs(pattern, text) and replaced(pattern, "-", text) == pattern.sub("-", text)
