"""Read what people type as the patterns expect it. Pure.

"im" becomes "i'm", "moved to leeds" "I moved to Leeds", 住喺 住在. Patterns read the result, guards
the text as typed as well; values are quoted from the text as typed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from shared_core.nlp.rules import (
    compiler,
    load_fragment,
    load_kin_words,
    longest_first,
    read_language,
    read_rule_file,
)
from shared_core.nlp.text import Language

AS_IT_IS: Final = re.compile(r"https?://|\b(?:def|const|import|return|class) \w|[{}=]|;\s*$|\w\(\)")
"""Matches a sentence with code or an address, which is left as it is."""
KEPT_WIDE: Final = "，。！？；：（）～"
"""Full-width punctuation that the Chinese patterns expect."""
NARROW: Final = {
    code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F) if chr(code) not in KEPT_WIDE
}
WORD: Final = re.compile(r"(?<![\w@./'+-])[A-Za-z]+(?![\w@/'+-]|\.\w)")
PLAIN_NAME: Final = re.compile(r"[^\W\d_]+(?: [^\W\d_]+){0,2}")
SPACES: Final = re.compile(r"(?<=\s)\s+|^\s+|\s+$")
MIN_NAME_CHARACTERS: Final = 3


@dataclass(frozen=True, slots=True)
class TypedText:
    """A sentence as typed, and as the patterns read it.

    starts, ends: the stretch of the typed text that each character of the text stands for; both
    empty for an unchanged text. letters: simplified characters, with the traditional ones typed.
    """

    typed: str
    text: str
    starts: Sequence[int] = ()
    ends: Sequence[int] = ()
    letters: Mapping[int, int] | None = None

    def quoted(self, value: str) -> str:
        """Return a value of the text as it was typed; only the capital of a name stays."""
        at = self.text.find(value) if self.starts and value else -1
        if at < 0:
            return self.restored(value)
        typed = self.typed[self.starts[at] : self.ends[at + len(value) - 1]].strip()
        return typed if typed and typed.casefold() != value.casefold() else value

    def restored(self, text: str) -> str:
        """Return a text drawn from the sentence with its traditional characters."""
        return text.translate(self.letters) if self.letters else text


class Rewriting:
    """A text under edit that keeps track of where its characters come from."""

    def __init__(self, typed: str) -> None:
        self.text = typed
        self.starts = list(range(len(typed)))
        self.ends = list(range(1, len(typed) + 1))

    def sub(self, pattern: re.Pattern[str], new: str | Callable[[re.Match[str]], str]) -> None:
        """Replace each match, as re.sub() does; what both share at the ends keeps its place."""
        pieces: list[str] = []
        starts: list[int] = []
        ends: list[int] = []
        at = 0
        for match in pattern.finditer(self.text):
            to = match.expand(new) if isinstance(new, str) else new(match)
            if to == match[0]:
                continue
            begin, end, to = _difference(match, to)
            origin = self.starts[begin] if begin < len(self.starts) else len(self.starts)
            until = self.ends[end - 1] if end > begin else origin
            pieces += [self.text[at:begin], to]
            starts += [*self.starts[at:begin], *[origin] * len(to)]
            ends += [*self.ends[at:begin], *[until] * len(to)]
            at = end
        if pieces:
            self.text = "".join([*pieces, self.text[at:]])
            self.starts = [*starts, *self.starts[at:]]
            self.ends = [*ends, *self.ends[at:]]

    def insert(self, place: int, words: str) -> None:
        """Insert words that nobody typed."""
        origin = self.starts[place] if place < len(self.starts) else len(self.text)
        self.text = self.text[:place] + words + self.text[place:]
        self.starts[place:place] = [origin] * len(words)
        self.ends[place:place] = [origin] * len(words)


def _difference(match: re.Match[str], to: str) -> tuple[int, int, str]:
    """Return the stretch that a replacement changes, and the text it becomes."""
    old, begin, end = match[0], match.start(), match.end()
    shared = 0
    while shared < min(len(old), len(to)) and old[shared] == to[shared]:
        shared += 1
    old, to, begin = old[shared:], to[shared:], begin + shared
    shared = 0
    while shared < min(len(old), len(to)) and old[-1 - shared] == to[-1 - shared]:
        shared += 1
    return begin, end - shared, to[: len(to) - shared]


@dataclass(frozen=True, slots=True, kw_only=True)
class EnglishTyping:
    """How people type English; rules/typed.toml explains the parts."""

    words: Mapping[str, str]
    rewrites: Sequence[tuple[re.Pattern[str], str]]
    filler: re.Pattern[str]
    omissions: Sequence[tuple[re.Pattern[str], str]]
    here: re.Pattern[str]
    named: re.Pattern[str]
    first_name: re.Pattern[str]
    first_names: frozenset[str]
    no_name: frozenset[str]
    words_too: frozenset[str]
    places: re.Pattern[str]
    homes: re.Pattern[str]
    now_in: re.Pattern[str]
    firms: re.Pattern[str]

    def is_name(self, words: str) -> bool:
        """Tell whether words where a name is expected may be one."""
        return self.no_name.isdisjoint(words.split(" "))

    def is_first_name(self, words: str) -> bool:
        """Tell whether words begin with a common first name."""
        return not self.first_names.isdisjoint([words, *words.replace("-", " ").split(" ")[:1]])


@dataclass(frozen=True, slots=True, kw_only=True)
class ChineseTyping:
    """How people type Chinese; rules/typed.toml explains the parts."""

    simplified: Mapping[int, int]
    cantonese: re.Pattern[str]
    cantonese_rewrites: Sequence[tuple[re.Pattern[str], str]]
    rewrites: Sequence[tuple[re.Pattern[str], str]]
    filler: re.Pattern[str]
    omits_i: re.Pattern[str]


@lru_cache
def load_english_typing() -> EnglishTyping:
    """Return how people type English, read and compiled on the first call."""
    rules = read_language("en")
    compiled = compiler(rules)
    table = read_rule_file("typed.toml")["en"]
    words = frozenset(table["words_too"].split())
    plain = [
        name
        for name in rules["words"]["city_or_country"]
        if PLAIN_NAME.fullmatch(name) and name.lower() not in words
    ]
    places = "|".join([*(name.lower() for name in plain), table["places"]])
    organisations = [name for name in rules["words"]["organisation"] if PLAIN_NAME.fullmatch(name)]
    firms = "|".join([*(name.lower() for name in organisations), table["firms"]])
    first_names = {name.lower() for name in rules["words"]["first_name"]} - words
    return EnglishTyping(
        words=table["words"],
        rewrites=[(compiled(one["regex"]), one["with"]) for one in table["rewrites"]],
        filler=compiled(table["filler"]),
        omissions=[
            (compiled(table["omits_am"]), "I'm "),
            (compiled(table["omits_i"]), "I "),
            (compiled(table["omits_was"]), "I was "),
        ],
        here=compiled(table["here"]),
        named=compiled(table["named"]),
        first_name=compiled(table["first_name"]),
        first_names=frozenset(first_names | set(table["first_names"].split())) - words,
        words_too=words,
        no_name=frozenset(table["no_name"].split()),
        places=compiled(rf"{table['place_before']}(?P<name>{places})\b(?!')"),
        homes=compiled(rf"{table['home_before']}(?P<name>{table['homes']})\b(?!')"),
        now_in=compiled(table["now_in"]),
        firms=compiled(rf"{table['firm_before']}(?P<name>{firms})(?![\w'])"),
    )


@lru_cache
def load_chinese_typing() -> ChineseTyping:
    """Return how people type Chinese, read and compiled on the first call."""
    compiled = compiler(read_language("zh"))
    table = read_rule_file("typed.toml")["zh"]
    pairs = read_rule_file("traditional.toml")["pairs"].strip()
    return ChineseTyping(
        simplified={ord(old): ord(new) for old, new in zip(pairs[::2], pairs[1::2], strict=True)},
        cantonese=compiled(table["cantonese"]),
        cantonese_rewrites=[
            (compiled(one["regex"]), one["with"]) for one in table["cantonese_rewrites"]
        ],
        rewrites=[(compiled(one["regex"]), one["with"]) for one in table["rewrites"]],
        filler=compiled(table["filler"]),
        omits_i=compiled(table["omits_i"]),
    )


def as_meant(text: str) -> str:
    """Return a text with the words it means: "whats my wifes name" becomes "what's my wife's name".

    Those who read questions begin with it; as_read() does more, for sentences that state facts.
    """
    if AS_IT_IS.search(text):
        return text
    words, possessive = _meanings()
    text = WORD.sub(lambda match: _word(match[0], words), text.replace("’", "'"))
    return possessive.sub(r"\g<owner>'s", text)


@lru_cache
def _meanings() -> tuple[Mapping[str, str], re.Pattern[str]]:
    """Return the words that stand for others, and the pattern of a possessive without its "'"."""
    table = read_rule_file("typed.toml")["en"]
    kin = "|".join(map(re.escape, longest_first(load_kin_words("en"))))
    possessive = table["possessive"].replace("{{kin}}", f"(?:{kin})")
    return table["words"], re.compile(possessive, re.IGNORECASE)


def as_read(
    sentence: str, lang: Language, names: Mapping[str, str] | None = None, *, alone: bool = True
) -> TypedText:
    """Return a sentence as the patterns read it.

    names: known names by the form in which people may type them, see typed_names(). alone: nobody
    but the user can be the subject of a sentence without one.
    """
    if AS_IT_IS.search(sentence):
        return TypedText(sentence, sentence)
    text = Rewriting(sentence)
    text.text = sentence.translate(NARROW)
    letters: Mapping[int, int] | None = None
    if lang == "zh":
        letters = _read_chinese(text, names or {}, alone=alone)
    else:
        _read_english(text, names or {}, alone=alone)
    if text.text == sentence:
        return TypedText(sentence, sentence)
    return TypedText(sentence, text.text, text.starts, text.ends, letters)


def typed_names(names: Iterable[str]) -> Mapping[str, str]:
    """Return names by their lower-case or simplified form, where that differs from the name."""
    simplified = load_chinese_typing().simplified
    forms = {name.lower().translate(simplified): name for name in names}
    return {
        form: name
        for form, name in forms.items()
        if form != name and (len(form) >= MIN_NAME_CHARACTERS or not form.isascii())
    }


def _read_english(text: Rewriting, names: Mapping[str, str], *, alone: bool) -> None:
    rules = load_english_typing()
    text.sub(rules.filler, " ")
    text.sub(SPACES, "")
    text.sub(WORD, lambda match: _word(match[0], rules.words))
    for pattern, new in rules.rewrites:
        text.sub(pattern, new)
    text.sub(rules.named, lambda match: _capitals(match, rules.is_name))
    text.sub(rules.first_name, lambda match: _capitals(match, rules.is_first_name))
    text.sub(rules.places, lambda match: _capitals(match, lambda _: True))
    text.sub(rules.homes, lambda match: _capitals(match, lambda _: True))
    text.sub(rules.now_in, r"\g<lead>I live in")
    text.sub(rules.firms, lambda match: _capitals(match, lambda _: True))
    if names:
        text.sub(WORD, lambda match: _known_name(match[0], names, rules.words_too))
    if alone:
        _complete_english(text, rules)


def _word(word: str, words: Mapping[str, str]) -> str:
    """Return the word meant; capitals are letters of an acronym, as in IM and US."""
    if len(word) > 1 and word.isupper():
        return word
    meant = words.get(word.lower(), word)
    return meant[0].upper() + meant[1:] if word[0].isupper() else meant


def _known_name(word: str, names: Mapping[str, str], words_too: Collection[str]) -> str:
    return word if word in words_too else names.get(word, word)


def _capitals(match: re.Match[str], is_name: Callable[[str], bool]) -> str:
    """Return a match with its lower-case names in capitals."""
    whole = match[0]
    for name in filter(None, match.groups()):
        if name.islower() and is_name(name):
            at = whole.rfind(name)
            whole = (
                whole[:at]
                + " ".join(_capital(part) for part in name.split(" "))
                + whole[at + len(name) :]
            )
    return whole


def _capital(part: str) -> str:
    """Return a part of a name with a capital, but a particle such as "da" as it is."""
    is_particle = load_fragment("particle", "en").fullmatch(part)
    return part if is_particle else part[:1].upper() + part[1:]


def _complete_english(text: Rewriting, rules: EnglishTyping) -> None:
    """Insert the subject that a sentence leaves out. A question keeps its words."""
    if text.text.rstrip().endswith("?") and "," not in text.text:
        return
    if found := rules.here.match(text.text):
        lead, rest = found["lead"], found["rest"]
        if not rest[:1].isupper() and len(rest) > len(" here"):
            text.insert(len(lead), "I'm ")
        return
    for pattern, subject in rules.omissions:
        if found := pattern.match(text.text):
            text.insert(found.end("lead"), subject)
            return


def _read_chinese(
    text: Rewriting, names: Mapping[str, str], *, alone: bool
) -> Mapping[int, int] | None:
    rules = load_chinese_typing()
    if rules.cantonese.search(text.text):
        for pattern, new in rules.cantonese_rewrites:
            text.sub(pattern, new)
    simple = text.text.translate(rules.simplified)
    changed = {(new, old) for old, new in zip(text.text, simple, strict=True) if old != new}
    kept = {one for one in simple if one in text.text}
    letters = {ord(new): ord(old) for new, old in changed if new not in kept}
    for form, name in names.items():
        if len(form) == len(name) and form in simple:
            simple = simple.replace(form, name)
    text.text = simple
    for pattern, new in rules.rewrites:
        text.sub(pattern, new)
    text.sub(rules.filler, "，")
    if alone and (found := rules.omits_i.match(text.text)):
        text.insert(found.end("lead"), "我")
    return letters or None
