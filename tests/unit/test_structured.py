import json
import math
from contextlib import suppress

import pytest
from every_case import every_case
from growth import grows_in_line

from shared_core.extraction.llm_schema import FactOperation, ReflectionItem
from shared_core.models.json_repair import Unreadable, clamped, read_items, read_object

KEYS = ("facts", "insights")
FACT = {"turns": [1], "slot": "employer", "value": "Meta", "statement": "Works at Meta."}
WHOLE = json.dumps({"facts": [FACT], "insights": []})


@every_case(
    WHOLE, f"\ufeff  {WHOLE}\n", f"```json\n{WHOLE}\n```",
    f"```\n{WHOLE}\n```\nLet me know if you need more!",
    f"Sure! Here is the JSON you asked for:\n\n{WHOLE}\n\nI hope this helps :-)",
    f"<think>facts? {{maybe}} not</think>{WHOLE}", f'The shape is {{"title": "x"}} and so: {WHOLE}',
    f"{WHOLE}\n{WHOLE}", WHOLE.replace("]", ",]").replace("}", ",}"), WHOLE.replace('"', "'"),
    WHOLE.replace('"facts"', "facts"), f'{{"result": {WHOLE}}}', f"[{json.dumps(FACT)}]",
    f"使用 {{大括号}} 的说明。{WHOLE}",
    WHOLE.replace('"insights": []', '"insights": null, "none": None, "yes": True'),
)  # fmt: skip
def test_reads_what_is_there_whatever_stands_around_it(text):
    reading = read_object(text, KEYS)
    assert not reading.truncated
    assert [FACT] == reading.value["facts"]


def test_every_cut_keeps_the_elements_that_are_whole():
    facts = [FACT | {"value": f"v{number}"} for number in range(3)]
    text = json.dumps({"facts": facts, "insights": [{"turns": [1]}]})
    ends = [text.index(f'"v{number}"') + 60 for number in range(3)]
    for cut in range(len('{"facts": '), len(text) - 1):
        try:
            reading = read_object(text[:cut], KEYS)
        except Unreadable:
            assert cut < ends[0], text[:cut]
            continue
        assert reading.truncated, text[:cut]
        kept = reading.value["facts"]
        assert isinstance(kept, list) and kept == facts[: len(kept)]
    assert read_object(text[: ends[1] + 40], KEYS).value["facts"] == facts[:2]


@every_case(
    "", "I'm sorry, I can't help with that.", "{}", "[]", "[1, 2]", '{"other": 1}', "{" * 500,
    "null",
)  # fmt: skip
def test_says_what_is_there_instead_and_quotes_nothing(text):
    with pytest.raises(Unreadable, match="no JSON object.*facts, insights") as caught:
        read_object(text, KEYS)
    assert "sorry" not in str(caught.value)


@every_case(
    '{"a":' * 40_000, "[" * 80_000 + WHOLE, '{"facts": [' + '{"a": 1},' * 25_000, '{"' * 40_000,
    "{'a" * 40_000, '{"facts": ' + "9" * 40_000 + "}", "{" + '"x": [1,2,3],' * 16_000,
)  # fmt: skip
def test_hostile_answers_end(text):
    def read(answer: str) -> None:
        with suppress(Unreadable):
            read_object(answer, KEYS)

    assert grows_in_line(read, text)


def test_a_huge_answer_is_read_so_far():
    reading = read_object('{"facts": [' + (json.dumps(FACT) + ",") * 10_000, KEYS)
    assert reading.truncated and isinstance(facts := reading.value["facts"], list)
    assert len(facts) > 1000


@every_case(
    (0.4, 0.4), ("0.4", 0.4), ("40%", 0.4), ("0,4", 0.4), (100, 1.0), (-3, 0.0), (math.nan, 0.7),
    (math.inf, 1.0), (-math.inf, 0.0), ("high", 0.7), (None, 0.7), (True, 0.7), ([], 0.7),
    (10**400, 1.0),
)  # fmt: skip
def test_numbers_come_into_range(given, expected):
    assert clamped(given, 0.0, 1.0, 0.7) == expected


def test_nan_and_infinity_in_json_come_into_range():
    text = '{"facts": [], "insights": [{"memories": [2], "text": "x", "importance": NaN}]}'
    items, wrong = read_items(read_object(text, KEYS).value["insights"], ReflectionItem, 10)
    assert [] == wrong
    assert 5.0 == items[0].importance


def test_one_element_of_no_use_costs_no_other():
    elements = [
        FACT, "text", FACT | {"turns": []}, FACT | {"turns": None}, FACT | {"statement": ""},
        FACT | {"value": "x" * 1000}, FACT | {"user_id": "bob"},
        FACT | {"turns": "turn 3 and 4", "op": "New"},
    ]  # fmt: skip
    items, wrong = read_items(elements, FactOperation, 100)
    assert [[1], [3]] == [item.turns for item in items] and "add" == items[1].op
    assert len(wrong) == 6 and any("user_id" in one for one in wrong)


def test_only_so_many_elements_are_read():
    items, _ = read_items([FACT] * 500, FactOperation, 100)
    assert len(items) == 100
