"""Reads numbers in digits and words: "two and a half", 一万二. The grammar is rules/numbers.toml.

Pure. A number is read whole or not at all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Final

from shared_core.nlp.rules import load_fragment
from shared_core.nlp.text import Language

# fmt: off
SMALL: Final = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
                "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen",
                "eighteen", "nineteen"]
# fmt: on
TENS: Final = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
ENGLISH: Final[Mapping[str, int]] = (
    {word: number for number, word in enumerate(SMALL, 1)}
    | {word: 10 * number for number, word in enumerate(TENS, 2)}
    | {"few": 3, "several": 4, "fourty": 40}
)
ENGLISH_TIMES: Final = {
    "dozen": 12, "score": 20, "hundred": 100, "thousand": 1000, "k": 1000, "million": 1_000_000,
}  # fmt: skip
ENGLISH_PARTS: Final = {
    "half": Fraction(1, 2), "½": Fraction(1, 2), "1/2": Fraction(1, 2), "third": Fraction(1, 3),
    "quarter": Fraction(1, 4), "3/4": Fraction(3, 4), "bit": Fraction(0),
}  # fmt: skip
THREE_QUARTERS: Final = re.compile(r"three[- ]quarters?")
ENGLISH_WORD: Final = re.compile(r"1/2|3/4|\d[\d,]*(?:\.\d+)?|½|[a-z]+")
CHINESE_DIGITS: Final = {one: value for value, one in enumerate("零一二三四五六七八九")} | {
    "〇": 0, "两": 2, "俩": 2, "仨": 3, "几": 3,
}  # fmt: skip
CHINESE_TIMES: Final = {
    "十": 10, "百": 100, "千": 1000, "k": 1000, "万": 10_000, "w": 10_000, "亿": 100_000_000,
}  # fmt: skip
CHINESE_FORMS: Final = {"半百": "五十", "廿": "二十", "卅": "三十", "有": "", ",": "", "十几": "十"}
CHINESE_WORD: Final = re.compile(r"\d+(?:\.\d+)?|[零〇一二两三四五六七八九几俩仨]+|[十百千万亿kw]")
CHINESE_ABOUT: Final = re.compile("^[好小近上]|好几|[来多余把]|出头|开外|上下")
POINT: Final = re.compile("[零〇一二两三四五六七八九]点[零〇一二三四五六七八九]+")


def amount(text: str, lang: Language) -> Fraction | None:
    """Return what a number amounts to, or None if it is not understood as a whole.

    About a number is its nearest round one: 30 for 三十出头 and "thirty-odd".
    """
    return _chinese(text) if lang == "zh" else _english(text)


def _english(text: str) -> Fraction | None:
    for around in ("about_after", "about_before"):
        text = load_fragment(around, "en").sub(" ", text)
    text = THREE_QUARTERS.sub("3/4", text.lower())
    total, current, last, is_joined = Fraction(0), None, 0, True
    for word in ENGLISH_WORD.findall(text):
        follows, is_joined = not is_joined, word in ("a", "an", "and")
        if is_joined:
            continue
        if word in ENGLISH_TIMES:
            last = ENGLISH_TIMES[word]
            current = (1 if current is None else current) * Fraction(last)
            if last >= 1000:
                total, current = total + current, Fraction(0)
            continue
        if word in ENGLISH_PARTS:
            if follows and word.isalpha() and current:  # "one third"
                current *= ENGLISH_PARTS[word]
                continue
            # Of the unit before it: "a million and a half".
            current = (current or 0) + ENGLISH_PARTS[word] * (last or 1)
            continue
        digits = word.replace(",", "")
        if word not in ENGLISH and not digits[0].isdigit():
            return None
        value = Fraction(ENGLISH.get(word, digits))
        joins_tens = current is not None and value < 10 and current % 100 in range(20, 100, 10)
        if current is not None and not joins_tens and (not last or value >= last):
            return None
        current, last = (current or 0) + value, 0
    return None if current is None else total + current


def _chinese(text: str) -> Fraction | None:
    text = CHINESE_ABOUT.sub("", text.lower())
    for form, plain in CHINESE_FORMS.items():
        text = text.replace(form, plain)
    text = POINT.sub(lambda found: _in_digits(found[0]), text)
    words = CHINESE_WORD.findall(text)
    if not words or "".join(words) != text:
        return None
    total, section, digit, last = Fraction(0), Fraction(0), None, 0
    for place, word in enumerate(words):
        if word not in CHINESE_TIMES:
            digit = _digit(word, is_last=place == len(words) - 1)
            if digit is None or (place and words[place - 1] not in CHINESE_TIMES):
                return None
            is_short = len(word) == 1 and last >= 100
            if place == len(words) - 1 and is_short:
                digit *= Fraction(last, 10)
            continue
        last = CHINESE_TIMES[word]
        if last < 10_000:
            section, digit = section + (1 if digit is None else digit) * last, None
        else:
            whole = section + (digit or 0)
            if last > 10_000:  # 万亿
                total, whole = Fraction(0), total + whole
            total, section, digit = total + (whole or 1) * last, Fraction(0), None
    return total + section + (digit or 0)


def _in_digits(text: str) -> str:
    return "".join("." if one == "点" else str(CHINESE_DIGITS[one]) for one in text)


def _digit(word: str, *, is_last: bool) -> Fraction | None:
    """Return a digit; 零五 is five, of two in a row before a unit (三五千) the first."""
    if word[0].isdigit():
        return Fraction(word)
    found = [CHINESE_DIGITS[one] for one in word]
    if len(found) > 1 and found[0] == 0:
        found = found[1:]
    if len(found) == 1 or (len(found) == 2 and found[0] < found[1]):
        return Fraction(found[0])
    return Fraction("".join(map(str, found))) if is_last else None
