"""Tells who vouches for words of a turn: the user of themself, the user of others, or nobody. Pure.

"My coach assumed I'm vegan, but I eat fish" says the coach's belief, and that it is wrong. What is
embedded under speech, thought, fear, dream, question or supposition is nobody's, unless the user
confirms it. Two judges: a multinomial logistic regression over hashed n-grams of the words around a
value, by their place (`python -m benchmarks.reader.train_vouching` fits it), and expressions of
nlp/rules/vouching.toml for what embeds, negates, asks, denies and confirms.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cache, lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple
from zlib import crc32

from shared_core.nlp.rules import read_rule_file
from shared_core.nlp.text import HAN, Language

if TYPE_CHECKING:
    from numpy.typing import NDArray

Bar = Literal["strict", "stated", "usual", "low"]
"""How sure a value must be vouched for.

strict, stated: values of health, which the trained reader or a rule reads; a rule knows itself what
a clause denies. usual: other values of the trained reader. low: of the rules, and ends.
"""

BUCKETS: Final = 1 << 17
STRICT_SLOTS: Final = frozenset(["allergy", "health", "medication", "trait"])
"""Slots of health, also of relatives, whose values need the strict bar."""
MAX_CONTEXT: Final = 400
"""Maximum number of characters read on each side of a value."""
MAX_TOKENS: Final = 60
LONGEST_NGRAM: Final[dict[Language, int]] = {"en": 3, "zh": 4}
STRICT_OWN: Final = 0.45
"""Least chance that the user says a value of health of themself, now."""
STATED_OTHER: Final = 0.3
"""Chance of being somebody else's from which a rule's value of health is refused."""
USUAL_VOID: Final = 0.6
LOW_VOID: Final = 0.85
"""Chances of being nobody's from which a value is refused, by bar."""
USUAL_OTHER: Final = 0.8
"""Chance of being somebody else's from which a value of the user is refused."""
_TOKEN: Final = re.compile(
    rf"[{HAN}]|[^\W\d_{HAN}]+(?:['’][^\W\d_{HAN}]+)*|\d+|[,，、.。!！?？:：;；…\"“”'()（）\n]"
)
_MARKS: Final = str.maketrans("，、。！？：；“”（）…\n’", ',,.!?:;""()..\'')
_STOPS: Final = frozenset(".!?;")
_SENTENCE: Final = re.compile(r"(?<=[.!?;])\s|(?<=[。！？；;])|\n")
_CLAUSE: Final[dict[Language, re.Pattern[str]]] = {
    "en": re.compile(r"[,:()]|\s[-–—]\s|\b(?:and|so|because|cuz|bc)\b", re.IGNORECASE),
    "zh": re.compile(rf"[,，、:：()（）]|(?<=[{HAN}])\s|\s(?=[{HAN}])|而且|因为|所以"),
}
"""What separates clauses within a sentence."""
_PRESUPPOSED: Final[dict[Language, re.Pattern[str]]] = {
    "en": re.compile(r"\bmy (?:[\w'-]+ ){0,2}$", re.IGNORECASE),
    "zh": re.compile(r"我(?:的|这)[^，,。]{0,2}$"),
}
"""What stands right before a value that is taken as known: "she worries about my asthma"."""


class Voucher(NamedTuple):
    """The chances of who vouches for words; they add up to 1.

    Attributes:
        own: The user says them of themself, as true now.
        other: The user says them of somebody else.
        void: Nobody vouches for them: told, believed, feared, asked, supposed, denied.
        over: The user says that they no longer hold.
    """

    own: float
    other: float
    void: float
    over: float


@dataclass(frozen=True, slots=True, kw_only=True)
class VouchingRules:
    """The expressions of a language; vouching.toml explains them."""

    embeds: re.Pattern[str]
    own: re.Pattern[str]
    breaks: re.Pattern[str]
    negates: re.Pattern[str]
    asks: re.Pattern[str]
    confirms: re.Pattern[str]
    denies: re.Pattern[str]
    likens: re.Pattern[str]
    cleft: re.Pattern[str]


@lru_cache
def load_vouching_rules(language: Language) -> VouchingRules:
    """Return the compiled expressions of a language."""
    source = read_rule_file("vouching.toml")[language]
    names = [one.name for one in fields(VouchingRules)]
    return VouchingRules(**{name: re.compile(source[name], re.IGNORECASE) for name in names})


def of_health(slot: str) -> bool:
    """Tell whether the values of a slot are held to the strict bars, also those of relatives."""
    return slot.rpartition(".")[2] in STRICT_SLOTS


def is_vouched(
    text: str, start: int, end: int, lang: Language, bar: Bar, *, of_other: bool = False
) -> bool:
    """Tell whether the user vouches for the words text[start:end].

    of_other: the words are kept as a fact about somebody else. Every bar but the strict one lets
    pass what is in doubt.
    """
    if bar in ("strict", "stated") and not is_plain(text, start, end, lang, bar):
        return False
    if bar == "stated" and is_negated(text, start, end, lang):
        return True
    if bar == "usual" and is_embedded(text, start, end, lang, reach="clause"):
        return False
    found = voucher(text, start, end, lang)
    if bar == "low":
        return found.void < LOW_VOID
    if bar != "strict" or of_other:
        most = STATED_OTHER if bar == "stated" else USUAL_OTHER
        return found.void < USUAL_VOID and (of_other or found.other < most)
    return found.own >= STRICT_OWN


def is_plain(text: str, start: int, end: int, lang: Language, bar: Bar) -> bool:
    """Tell whether nothing embeds, negates, asks, denies or likens the words text[start:end]."""
    rules = load_vouching_rules(lang)
    sentence, at, stop = _sentence_around(text, start, end)
    clause = _CLAUSE[lang].split(sentence[:at])[-1]
    if is_embedded(text, start, end, lang) or rules.likens.fullmatch(text[start:end].strip()):
        return False
    if bar == "strict" and is_negated(text, start, end, lang):
        return False
    asked = (
        clause
        if lang == "en"
        else clause + text[start:end] + _CLAUSE[lang].split(sentence[stop:])[0]
    )
    if rules.asks.search(asked) and "my" not in asked.lower().split():
        return False
    if rules.cleft.match(sentence[at:]):
        return False
    behind = sentence[stop:]
    return not rules.denies.search(behind) or bool(rules.confirms.search(behind))


def is_negated(text: str, start: int, end: int, lang: Language) -> bool:
    """Tell whether a negation stands before words in their clause."""
    rules = load_vouching_rules(lang)
    sentence, at, _ = _sentence_around(text, start, end)
    clause = _CLAUSE[lang].split(sentence[:at])[-1]
    return bool(rules.negates.search(rules.own.sub(" ", clause)))


def is_embedded(
    text: str,
    start: int,
    end: int,
    lang: Language,
    reach: Literal["sentence", "clause"] = "sentence",
) -> bool:
    """Tell whether words are what somebody says, thinks, fears or supposes, without a yes to it.

    The user's own word is none of these, nor is what it presupposes: "she worries about my asthma".
    reach: how far before the words what embeds them may stand.
    """
    rules = load_vouching_rules(lang)
    sentence, at, _ = _sentence_around(text, start, end)
    before = sentence[:at]
    breaks = [one.end() for one in rules.breaks.finditer(before)]
    before = before[max(breaks, default=0) :]
    if reach == "clause":
        before = _CLAUSE[lang].split(before)[-1]
    if _PRESUPPOSED[lang].search(before) or not rules.embeds.search(rules.own.sub(" ", before)):
        return False
    behind = text[end : end + MAX_CONTEXT]
    return not rules.confirms.search(behind)


def _sentence_around(text: str, start: int, end: int) -> tuple[str, int, int]:
    """Return the sentence around a place, and where the place begins and ends in it."""
    begin = max((one.end() for one in _SENTENCE.finditer(text, 0, start)), default=0)
    stop = _SENTENCE.search(text, end)
    return text[begin : stop.start() if stop else len(text)], start - begin, end - begin


def voucher(text: str, start: int, end: int, lang: Language) -> Voucher:
    """Return who vouches for the words text[start:end] of a turn."""
    row_of, weights, constant = _weights(lang)
    rows = row_of[buckets(text, start, end, lang)]
    scores = constant + weights[rows].sum(axis=0) / len(rows) ** 0.5
    import numpy as np  # deferred: it takes a moment to load

    chances = np.exp(scores - scores.max())
    return Voucher(*(chances / chances.sum()).tolist())


def buckets(text: str, start: int, end: int, lang: Language) -> list[int]:
    """Return the buckets of the n-grams around a value, each once. The value itself is masked."""
    return [*{crc32(one.encode()) % BUCKETS for one in _ngrams(text, start, end, lang)}]


def _ngrams(text: str, start: int, end: int, lang: Language) -> Iterator[str]:
    """Yield n-grams with a letter for their place.

    c: the clause with the value. a: the clause before it. l, r: the rest of the sentence. p, n: the
    sentences before and after.
    """
    before = _tokens(text[max(start - MAX_CONTEXT, 0) : start])[-MAX_TOKENS:]
    behind = _tokens(text[end : end + MAX_CONTEXT])[:MAX_TOKENS]
    stops = [at + 1 for at, one in enumerate(before) if one in _STOPS]
    begin = stops[-1] if stops else 0
    earlier, left = before[:begin], before[begin:]
    close = next((at + 1 for at, one in enumerate(behind) if one in _STOPS), len(behind))
    right, later = behind[:close], behind[close:]
    commas = [at + 1 for at, one in enumerate(left) if one == ","]
    cut = commas[-1] if commas else 0
    stop = next((at + 1 for at, one in enumerate(right) if one == ","), len(right))
    longest, clause = LONGEST_NGRAM[lang], left[cut:][-14:]
    yield from _grams("c", ["^", *clause, "V", *right[:stop][:8]], longest)
    yield from _grams("l", left[:cut][-16:], longest - 1)
    yield from _grams("a", ["^", *clause], longest - 1)
    yield from _grams("r", right[stop:][:16], longest - 1)
    yield from _grams("n", ["^", *later[:12]], longest - 1)
    yield from _grams("p", [*earlier[-14:], "$"], longest - 1)
    for name, part in (("q", right), ("nq", later), ("pq", earlier)):
        yield f"{name}{int('?' in part)}"
    yield f"#{min(4, len(left[cut:]))}"


def _grams(place: str, words: Sequence[str], longest: int) -> Iterator[str]:
    for length in range(1, longest + 1):
        for at in range(len(words) - length + 1):
            yield place + " ".join(words[at : at + length])


def _tokens(text: str) -> list[str]:
    found = _TOKEN.findall(text.casefold().translate(_MARKS))
    return ["0" if one.isdigit() else one for one in found]


@cache
def _weights(lang: Language) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return the row of each bucket, (BUCKETS,), the weights, (R, 4), and the constant, (4,).

    Row 0 is that of unknown n-grams.
    """
    import numpy as np

    with (files("shared_core.nlp") / f"vouching_{lang}.npz").open("rb") as file:
        read = np.load(file)
        row_of = np.zeros(BUCKETS, np.intp)
        row_of[read["buckets"]] = np.arange(1, len(read["buckets"]) + 1)
        weights = read["weights"] * read["scale"]
        return row_of, np.vstack([0 * weights[:1], weights]), read["constant"]
