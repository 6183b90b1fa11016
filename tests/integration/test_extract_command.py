"""`hippocampus extract`: lines in, what the rules draw from them out."""

import json
import subprocess
import sys
from typing import Any

import pytest
from commands import run
from every_case import every_case
from typer.testing import Result
from warm_python import warm_python

from shared_core.cli.main import app

KEYS = {"kind", "value", "slot", "confidence", "pattern"}


def extract(text: str | bytes, *arguments: str) -> Result:
    return run("extract", *arguments, input=text)


def objects(text: str | bytes, *arguments: str) -> list[dict[str, Any]]:
    ran = extract(text, "--json", *arguments)
    assert 0 == ran.exit_code, ran.output
    return [json.loads(line) for line in ran.stdout.splitlines()]


def test_every_line_gives_one_object_dates_are_resolved_and_odd_characters_do_no_harm():
    found = objects("I love tea\n\n我住在绍兴\nhello there, what is up?\nthat is all")
    assert ["I love tea", "", "我住在绍兴"] == [one["text"] for one in found[:3]]
    assert 5 == len(found)
    assert [1, 0, 1, 0, 0] == [len(one["drafts"]) for one in found]
    assert all({"text", "drafts", "needs_llm"} == set(one) for one in found)
    [one] = objects("I moved to Meta last month", "--said-at", "2026-05-13")
    assert ["2026-04-01T00:00:00+00:00"] == [draft["valid_from"] for draft in one["drafts"]]
    found = objects("He works at Amazon I guess\nWhat is Rust?\n")
    assert [True, False] == [one["needs_llm"] for one in found]
    ran = extract("I love tea\nhello\nI told my sister about it\n")
    assert ran.stdout.splitlines() == [
        "I love tea", "  + like = tea  [0.85 en.like.love]", "hello", "  nothing",
        "I told my sister about it", "  (needs a language model)",
    ]  # fmt: skip
    assert ["I love tea"] == [one["text"] for one in objects(b"\xef\xbb\xbfI love tea\r\n")]
    assert [] == objects("")
    ran = extract(b"ok\n" + "我喜欢".encode("gb18030") + b"\n", "--json")
    assert (1, 1) == (ran.exit_code, len(ran.stdout.splitlines()))
    assert "line 2 is not UTF-8" in ran.stderr
    ran = extract("I love tea\n".encode("utf-16"), "--json")
    assert (1, "") == (ran.exit_code, ran.stdout)
    assert "line 1 is not UTF-8 (byte 1)" in ran.stderr and "iconv -f UTF-16 -t" in ran.stderr
    assert 3 == len(objects("\x00\x01 I love tea\n\u2028I love figs\n🙂\n"))
    command = [*warm_python(), "-m", "benchmarks.extraction", "--json"]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert {"EN", "ZH", "speed"} == set(json.loads(ran.stdout)), ran.stderr


@every_case(
    ("I work at Bosch", "profile", "Bosch", "employer"),
    ("I love tea", "preference", "tea", "like"),
    ("Never call me at night", "rule", "Never call me at night", "rule"),
    ("我女儿叫灿灿", "relation", "灿灿", "relation.daughter"),
)  # fmt: skip
def test_a_draft_tells_what_it_is_and_what_found_it(text, kind, value, slot):
    [[draft]] = [one["drafts"] for one in objects(text)]
    assert (kind, value, slot) == (draft["kind"], draft["value"], draft["slot"])
    assert set(draft) >= KEYS
    assert 0 < draft["confidence"] <= 1


TALK = "My daughter is called Mia\nShe loves drawing\n"


@every_case(
    ("I quit my job at Stripe and started at Figma two weeks ago.", "", ["Figma"]),
    ("I love tea", "--without en.like.love", []),
    (TALK, "", []),
    (TALK, "--conversation", ["drawing"]),
    ("I live in Porto. " + "word " * 400_000, "", ["Porto"]),
)  # fmt: skip
def test_the_last_line_gives_what_rules_options_and_lines_before_let_it(text, options, values):
    assert values == [draft["value"] for draft in objects(text, *options.split())[-1]["drafts"]]


def test_a_closed_input_is_an_error_of_one_line(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", None)  # what Python makes of a closed descriptor 0
    with pytest.raises(SystemExit) as ended:
        app(["extract"], prog_name="hippocampus")
    told = "Error: standard input is closed: send lines of text, e.g. with < FILE\n"
    assert (1, "", told) == (ended.value.code, *capsys.readouterr())


@every_case("x" * 1_000_000, "我" * 300_000, "I love " * 150_000, "\x00" * 9)
def test_a_line_of_any_shape_gives_one_object(line):
    [one] = objects(f"{line}\n")
    assert line == one["text"]


@every_case(
    (("--without", "en.like.lvoe"), 1, "no such pattern: en.like.lvoe"),
    (("--said-at", "last week"), 2, "--said-at must be a day like"),
)  # fmt: skip
def test_a_wrong_option_is_an_error_that_names_it(arguments, code, told):
    ran = extract("I love tea\n", *arguments)
    assert code == ran.exit_code
    assert told in ran.stderr
