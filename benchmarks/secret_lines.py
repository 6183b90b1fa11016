"""Makes lines that tell a secret in passing, and harmless ones like them, for training.

benchmarks/data/secrets holds frames and words by language. A frame begins with "+" if it tells a
secret; "{place}" stands for one of the words of that name, "||" begins the next message. The other
slots are values, made by the functions of VALUES.
"""

from __future__ import annotations

import random
import re
import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

DATA: Final = Path(__file__).parent / "data" / "secrets"
ENGLISH_DIGITS: Final = [
    "zero",
    "oh",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
]
CHINESE_DIGITS: Final = "零一二三四五六七八九幺"
SMALL: Final = ["two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "twelve"]
CHINESE_MARKS: Final = "  ，。"
SIGNS: Final = "_-.!@#&+$"


class Line(NamedTuple):
    """Messages of a user, oldest first, and the secrets in them; none in a harmless line."""

    turns: tuple[str, ...]
    secrets: tuple[str, ...]


class Words(NamedTuple):
    """Words that values are made of: plain English ones, and short Chinese clauses."""

    plain: Sequence[str]
    clauses: Sequence[str]


def words_of(lines: Sequence[str]) -> Words:
    """Return the words and clauses of lines."""
    text = "\n".join(lines)
    plain = set(re.findall(r"\b[a-z]{4,10}\b", text))
    clauses = re.findall(r"(?<![\u4e00-\u9fff])[\u4e00-\u9fff]{3,7}(?![\u4e00-\u9fff])", text)
    return Words(sorted(plain), sorted({*clauses}))


class Maker:
    """Makes values from random numbers."""

    def __init__(self, words: Words, seed: int) -> None:
        self.words = words
        self.random = random.Random(seed)

    def digits(self, length: int) -> str:
        return "".join(self.random.choice(string.digits) for _ in range(length))

    def number(self, *lengths: int) -> str:
        return str(self.random.randint(1, 9)) + self.digits(self.random.choice(lengths) - 1)

    def word(self) -> str:
        return self.random.choice(self.words.plain)

    def signs(self, length: int, alphabet: str = string.ascii_uppercase + string.digits) -> str:
        return "".join(self.random.choice(alphabet) for _ in range(length))

    def code(self, chinese: bool) -> str:
        """Return a code as people type it: mostly digits."""
        pick = self.random.random()
        length = self.random.choice([3, 4, 4, 4, 4, 5, 6, 6, 6, 8])
        if pick < 0.62:
            return self.digits(length)
        if pick < 0.70:
            return " ".join(self.digits(length))
        if pick < 0.75:
            six = self.digits(6)
            return self.random.choice([f"{six[:3]} {six[3:]}", f"{six[:2]} {six[2:4]} {six[4:]}"])
        if pick < 0.79:
            return "-".join(self.digits(self.random.choice([4, 5])))
        if pick < 0.87:
            ends = self.random.choice([("", "#"), ("#", ""), ("*", ""), ("", "*"), ("*", "#")])
            return self.digits(length).join(ends)
        if pick < 0.94:
            return self.signs(self.random.choice([4, 5, 6]))
        return self.spelled(chinese)

    def spelled(self, chinese: bool) -> str:
        """Return a code in words."""
        length = self.random.choice([3, 4, 4, 4, 6])
        if chinese:
            if self.random.random() < 0.2:
                return self.random.choice("三四五六七八") + "个" + self.random.choice("零一六八九")
            return "".join(self.random.choice(CHINESE_DIGITS) for _ in range(length))
        told = [self.random.choice(ENGLISH_DIGITS) for _ in range(length)]
        if self.random.random() < 0.2:
            told[0] = f"double {told[0]}"
        return self.random.choice([" ", " ", "-"]).join(told)

    def turned(self) -> str:
        """Return the numbers of a dial."""
        told = [str(self.random.randint(0, 59)) for _ in range(self.random.choice([3, 3, 4]))]
        return self.random.choice(["-", "-", " ", ", ", " right "]).join(told)

    def password(self) -> str:
        """Return a password."""
        pick, one, other = self.random.random(), self.word(), self.word()
        number, sign = self.digits(self.random.choice([1, 2, 2, 3, 4])), self.random.choice(SIGNS)
        if pick < 0.25:
            return one + number + self.random.choice(["", "", "", "!"])
        if pick < 0.40:
            return one.capitalize() + number + self.random.choice(["", "!", "", "#"])
        if pick < 0.52:
            return one.capitalize() + sign + other.capitalize() + self.random.choice(["", number])
        if pick < 0.62:
            return f"{one}{sign}{other}{self.random.choice(['', number, sign + number])}"
        if pick < 0.70:
            return one + other + self.random.choice(["", number])
        if pick < 0.75:
            return one.capitalize() + other.capitalize()
        if pick < 0.82:
            return "-".join([one, other, self.random.choice([self.word(), number])])
        if pick < 0.90:
            letters = string.ascii_letters + string.digits
            return self.signs(self.random.choice([6, 8, 10]), letters + "!#$%&*") + number
        if pick < 0.95:
            return one
        return self.digits(self.random.choice([6, 8]))

    def key(self) -> str:
        """Return a key made by a program."""
        pick, low = self.random.random(), string.ascii_lowercase + string.digits
        if pick < 0.4:
            part = self.random.choice([low, string.ascii_uppercase + string.digits])
            return "-".join(self.signs(self.random.choice([4, 5]), part) for _ in range(3))
        if pick < 0.7:
            return self.signs(
                self.random.choice([12, 16, 20]), string.ascii_letters + string.digits
            )
        if pick < 0.85:
            return self.signs(16, "0123456789abcdef")
        return f"{self.signs(3, string.ascii_lowercase)}_{self.signs(14, string.ascii_letters)}"

    def answer(self, chinese: bool) -> str:
        """Return the answer to a security question, or a word of recognition."""
        if chinese:
            return self.random.choice(self.words.clauses)
        return " ".join(self.word().capitalize() for _ in range(self.random.choice([1, 1, 1, 2])))

    def model(self) -> str:
        """Return a model, a flight or a fault."""
        letters = self.signs(self.random.choice([1, 2, 2, 3]), string.ascii_uppercase)
        tail = self.random.choice(["", "", "", self.signs(1, string.ascii_uppercase)])
        return (
            letters
            + self.random.choice(["", "", "-"])
            + self.digits(self.random.choice([2, 3, 3, 4]))
            + tail
        )

    def price(self) -> str:
        """Return a price."""
        amount = self.number(1, 2, 2, 3) + self.random.choice(["", "", ".50", ".99"])
        return self.random.choice([f"£{amount}", f"${amount}", f"€{amount}", f"{amount} euros"])

    def clock(self) -> str:
        """Return a time of day."""
        hour, minute = self.random.randint(1, 23), self.random.choice(["00", "15", "30", "45"])
        return self.random.choice([f"{hour}:{minute}", f"{hour % 12 + 1}pm", f"{hour % 12 + 1} am"])

    def small(self) -> str:
        """Return a small number."""
        return self.random.choice(
            [self.number(1, 1, 2), self.number(1, 2), self.random.choice(SMALL)]
        )


def _values(make: Maker, chinese: bool) -> Mapping[str, Callable[[], str]]:
    year = lambda: str(make.random.randint(1930, 2026))  # noqa: E731
    return {
        "d": lambda: make.code(chinese), "p": make.password, "k": make.key, "c": make.turned,
        "n": lambda: make.spelled(chinese), "s": lambda: make.answer(chinese), "y": year,
        "d3": lambda: make.digits(3), "k6": lambda: make.signs(make.random.choice([5, 6, 7]),
        string.ascii_letters + string.digits), "w": make.word,
        "b": lambda: make.random.choice("ABCDE"),
        "num": lambda: make.number(2, 2, 3, 3), "num4": lambda: make.number(4, 4, 5),
        "small": make.small if not chinese else lambda: make.number(1, 1, 2),
        "big": lambda: make.number(7, 8, 9, 10, 12), "d6": lambda: make.digits(6),
        "ord": lambda: make.random.choice(["#", "", ""]) + make.model() + make.digits(3),
        "ord2": lambda: f"{make.signs(2)}{make.digits(9)}GB", "model": make.model,
        "money": make.price, "time": make.clock, "zip": lambda: make.digits(5),
        "post": lambda: f"{make.signs(2, string.ascii_uppercase)}{make.small()[:1]} "
        f"{make.digits(1)}{make.signs(2, string.ascii_uppercase)}",
        "promo": lambda: make.word().upper() + make.digits(2),
        "hex": lambda: make.signs(6, "0123456789abcdef"),
    }  # fmt: skip


SECRET: Final = ("d", "p", "k", "c", "n", "s", "y", "d3", "k6")
"""Slots of a secret. In a frame that tells one without any of them, each {w} is one."""
_SLOT: Final = re.compile(r"\{b\} ?\{d\}|\{(\w+)\}")


def _words(language: str) -> dict[str, list[str]]:
    lines = (DATA / f"words_{language}.txt").read_text("utf-8").splitlines()
    pairs = (line.split(": ", 1) for line in lines if line)
    return {name: told.split("|") for name, told in pairs}


def from_frames(make: Maker, language: str, times: int, around: Sequence[str]) -> Iterator[Line]:
    """Yield lines of each frame, some of them with another line before or after."""
    chinese, named = language == "zh", _words(language)
    values = _values(make, chinese)
    for frame in (DATA / f"lines_{language}.txt").read_text("utf-8").splitlines():
        for _ in range(times):
            mark = make.random.choice(CHINESE_MARKS) if chinese else " "
            text = re.sub(r"(?<!\|) (?!\|)", mark, frame[2:])
            made, filled = _filled(make, text, named, values)
            turns = made.split(" || ")
            yield _typed(make, turns, around, Line((), filled if frame[0] == "+" else ()))


def _filled(
    make: Maker,
    text: str,
    named: Mapping[str, Sequence[str]],
    values: Mapping[str, Callable[[], str]],
) -> tuple[str, tuple[str, ...]]:
    """Return a frame with words and values in its slots, and the values that may be secrets."""
    found: list[str] = []
    slots = {match[1] for match in _SLOT.finditer(text)}
    secret = {*SECRET, None} if slots & {*SECRET} else {"w"}

    def other(match: re.Match[str]) -> str:
        name = match[1]
        if name in named:
            return make.random.choice(named[name])
        value = match.group()
        for one in ("b", "d") if name is None else (name,):
            value = value.replace(f"{{{one}}}", values[one]())
        found.extend([value] if name in secret else [])
        return value

    return _SLOT.sub(other, text), tuple(found)


def _typed(make: Maker, turns: Sequence[str], around: Sequence[str], line: Line) -> Line:
    """Return a line as people type it: some with a capital and a stop, some beside another line."""
    pick, done = make.random.random, list(turns)
    if done[0][0].islower() and not done[0].startswith(line.secrets) and pick() < 0.4:
        done[0] = done[0][:1].upper() + done[0][1:]
        done[-1] += make.random.choice(["", "."])
    if pick() < 0.4:
        other, join = make.random.choice(around), make.random.choice([" ", ", ", "\n", ". "])
        first, last = pick() < 0.5, len(done) == 1
        if first:
            done[0] = f"{other}{join}{done[0]}"
        elif last:
            done[0] = f"{done[0]}{join}{other}"
    return Line(tuple(done), line.secrets)


def varied(make: Maker, line: Line, *, other_shape: bool) -> Line:
    """Return a line with other secrets, or with other numbers if it is harmless."""
    chinese = bool(re.search(r"[\u4e00-\u9fff]", "".join(line.turns)))
    if not line.secrets:
        return Line(tuple(re.sub(r"\d+", lambda one: _like_number(make, one[0]), turn)
                          for turn in line.turns), ())  # fmt: skip
    turns, new = list(line.turns), []
    for place, secret in enumerate(line.secrets):
        if other_shape and len(line.secrets) == 1:
            pick = make.random.random()
            new.append(make.code(chinese) if pick < 0.5 else make.password() if pick < 0.9
                       else make.answer(chinese))  # fmt: skip
        else:
            new.append(_like(make, secret))
        turns = [turn.replace(secret, f"\0{place}\0") for turn in turns]
    for place, value in enumerate(new):
        turns = [turn.replace(f"\0{place}\0", value) for turn in turns]
    return Line(tuple(turns), tuple(new))


def _like_number(make: Maker, digits: str) -> str:
    if re.fullmatch(r"(?:19|20)\d\d", digits):
        return str(make.random.randint(1950, 2026))
    if len(digits) > 2 and digits.endswith("00"):
        return str(make.random.randint(1, 9)) + digits[1:]
    return make.number(len(digits))


def _like(make: Maker, secret: str) -> str:
    """Return another secret of the same shape."""
    if re.fullmatch(r"[\u4e00-\u9fff]+", secret):
        if all(sign in f"{CHINESE_DIGITS}两双个洞拐" for sign in secret):
            return "".join(make.random.choice(CHINESE_DIGITS) if sign in CHINESE_DIGITS else sign
                           for sign in secret)  # fmt: skip
        return make.random.choice(make.words.clauses)
    spoken = secret.lower().split()
    if len(spoken) > 1 and all(one in ENGLISH_DIGITS for one in spoken):
        return " ".join(make.random.choice(ENGLISH_DIGITS) for _ in spoken)

    def other(match: re.Match[str]) -> str:
        part = match[0]
        if len(part) > 1:
            word = make.word()
            return word.capitalize() if part[0].isupper() else word
        for alphabet in (string.digits, string.ascii_lowercase, string.ascii_uppercase):
            if part in alphabet:
                return make.random.choice(alphabet)
        return make.random.choice(CHINESE_DIGITS) if part in CHINESE_DIGITS else part

    return re.sub(r"[a-z]{4,}|[A-Z][a-z]{3,}|(?s:.)", other, secret)
