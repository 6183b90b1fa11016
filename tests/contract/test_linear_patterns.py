"""No long text keeps a processor busy: not a verb, nor a regular expression."""

import subprocess
from pathlib import Path

import pytest
from warm_python import warm_python

pytestmark = [pytest.mark.tail, pytest.mark.timeout(900)]

READER = Path(__file__).parent.parent / "long_texts.py"


def test_texts_without_punctuation_are_read_within_a_bound_of_processor_time(dsn, other_dsn):
    found = subprocess.run([*warm_python(), READER, dsn, other_dsn], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr[-2000:]


FINDER = Path(__file__).parent.parent / "adversarial_patterns.py"
NOT_TRIED = [
    "shared_core.cli.usage._translated",  # one line that Typer says of an argument
    "shared_core.extraction.fact_operations._replaced",  # an escaped value, as four more
    "shared_core.extraction.forget_topics._as_name",  # escaped names among bounded words
    "shared_core.extraction.forget_topics._own_words",
    "shared_core.extraction.forget_topics._spelled",
    "shared_core.http.bodies.check",  # the patterns of its callers are tried
    "shared_core.nlp.discourse.begin_turn",
    "shared_core.nlp.question_subject.holds_name", "shared_core.nlp.relation_phrases._of_others",
    "shared_core.nlp.vouching.load_vouching_rules",
]  # fmt: skip
"""Functions with expressions made of local names, each with the reason why it is harmless."""


def test_every_pattern_reads_a_long_text_once():
    """Each on long repetitive texts made for it, in seconds of processor time."""
    found = subprocess.run([*warm_python(), FINDER], capture_output=True, text=True, check=True)
    *told, summary = found.stdout.splitlines()
    assert [] == [line for line in told if line.startswith("slow: ")]
    assert NOT_TRIED == [line.removeprefix("unknown: ") for line in told]
    assert int(summary.split()[0]) > 800
