"""Text functions for search, extraction and summaries: language, sentences, terms.

Pure, deterministic and linear in the length of the text. They accept every str, including lone
surrogates and NUL.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from itertools import chain
from typing import Final, Literal

from snowballstemmer.english_stemmer import EnglishStemmer

Language = Literal["en", "zh"]

MAX_TERM_CHARACTERS: Final = 64
MAX_NAME_BYTES: Final = 400
"""Maximum length of an entity's name, in any spelling."""
# Longer Latin strings are identifiers, hashes or noise: English suffixes mean nothing there.
MAX_STEMMED_CHARACTERS: Final = 24

STOP_WORDS = """
a an the this that these those i me my mine myself we our ours ourselves you your yours
yourself yourselves he him his himself she her hers herself it its itself they them their
theirs themselves am is are was were be been being do does did doing done have has had having
can could should would shall might must of in on at by for with about into from to up down out
off over under as if then than so such too very just and or but nor not no yes there here when
where which who whom whose what how why all any both each some only own same again also because
while until during before after above below between through s t d m ll re ve don
"""
ENGLISH_STOP_WORDS: Final = frozenset(STOP_WORDS.split())
CHINESE_FUNCTION_CHARACTERS: Final = frozenset(
    "的了吗呢啊吧呀哦嘛么着地得是在我你您他她它们这那和也就都很与及"
)

HAN: Final = "\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
KANA: Final = "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"
HANGUL: Final = "\u1100-\u11ff\uac00-\ud7a3"
THAI_LAO_BURMESE_KHMER: Final = "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ece\u1000-\u1049\u1780-\u17d3"
# Scripts written without spaces, and Korean, whose particles stick to the word.
UNSPACED: Final = HAN + KANA + HANGUL + THAI_LAO_BURMESE_KHMER

HAN_CHARACTER: Final = re.compile(f"[{HAN}]")
LATIN_WORD: Final = re.compile(r"[A-Za-z\u00c0-\u024f]+")


# Words that mark the language of a sentence, whatever names and values it holds.
ENGLISH_FRAME = (
    STOP_WORDS
    + """
us call called calls named like likes liked love loves loved hate hates hated live lives lived move
moves moved work works worked want wants wanted need needs know knows go goes went say says said get
got speak speaks study studies studied play plays played joined married met
"""
)
ENGLISH_FRAME_WORDS: Final = frozenset(ENGLISH_FRAME.split())
CHINESE_FRAME: Final = re.compile(
    "[我你您他她它咱]们?|喜欢|讨厌|[的了吗呢吧啊呀嘛是在叫很都也就不没有和跟这那把被给会要爱住去来做]"
)


def language(text: str) -> Language:
    """Return the language of a sentence, judged by its pronouns, verbs and particles.

    "I live in 上海" is English, "我在 Google 上班" Chinese. On a tie the first such word decides.
    Without any, a text is Chinese if it has at least one Han character for every two Latin words.
    """
    han = len(HAN_CHARACTER.findall(text))
    latin = LATIN_WORD.findall(text) if han else []
    if not latin:
        return "zh" if han else "en"
    english = [match.start() for match in LATIN_WORD.finditer(text) if is_frame(match)]
    chinese = [match.start() for match in CHINESE_FRAME.finditer(text)]
    if len(english) != len(chinese):
        return "en" if len(english) > len(chinese) else "zh"
    if english:
        return "en" if english[0] < chinese[0] else "zh"
    return "zh" if han * 2 >= len(latin) else "en"


def is_frame(word: re.Match[str]) -> bool:
    """Tell whether a word marks its sentence as English; "The" of a title does not."""
    found = word[0]
    begins = not word.string[: word.start()].strip()
    return found.lower() in ENGLISH_FRAME_WORDS and (found.islower() or found == "I" or begins)


OTHER_LANGUAGE: Final = re.compile(
    r"(?<!\s)(?:\s*+[,，;；]\s*+|\s++)(?:(?:and|but|so|because|while|though)\s++|(?:而且|但是?|不过|所以|因为|可是?)(?=[我她他]))?"
    r"(?=(?:I|[Mm]y|[Ww]e|[Oo]ur|[Ss]?he|[Hh]e|[Hh]is|[Hh]er)(?:'\w+)? [a-z]|[我她他])"
)
"""Where a clause in the other language may begin."""


def by_language(sentence: str) -> list[tuple[str, Language]]:
    """Split a sentence at a language switch: "My name is Ana, 我女儿叫小美" gives two parts.

    The switch needs a comma or a conjunction, and a new subject.
    """
    if not (HAN_CHARACTER.search(sentence) and LATIN_WORD.search(sentence)):
        return [(sentence, language(sentence))]
    parts: list[tuple[str, Language]] = []
    start = 0
    for match in OTHER_LANGUAGE.finditer(sentence):
        if not match[0].strip():
            continue
        before, after = sentence[start : match.start()], sentence[match.end() :]
        lang: Language = "zh" if HAN_CHARACTER.match(after) else "en"
        if has_words(before) and language(before) != lang:
            parts.append((before, language(before)))
            start = match.end()
    return [*parts, (sentence[start:], language(sentence[start:]))]


TITLES = "mr mrs ms dr st prof gen sen rep gov capt lt sgt mt vs e.g i.e fig"
NEVER_FINAL: Final = frozenset(TITLES.split())
ABBREVIATIONS = "etc inc ltd co corp jr sr a.m p.m u.s u.k u.n ph.d no vol approx dept est"
SELDOM_FINAL: Final = frozenset(ABBREVIATIONS.split())
BREAK: Final = re.compile(r"(?P<mark>[.!?…。！？；]+)(?P<closing>[\"'”’」』）)\]]*)|\n+")
LAST_WORD: Final = re.compile(r"(?<![^\s\"'“‘(\[（「『])[^\s\"'“‘(\[（「『]+\Z")
LIST_NUMBER: Final = re.compile(r"\s{0,4}\(?\d{1,3}\Z")


def sentences(text: str) -> list[str]:
    """Return the non-empty sentences of a text in order, stripped.

    A line break ends a sentence. Closing quotes and brackets stay with their sentence.
    """
    found: list[str] = []
    start = 0
    for match in BREAK.finditer(text):
        if ends_sentence(text, start, match):
            found.append(text[start : match.end()].strip())
            start = match.end()
    found.append(text[start:].strip())
    return [sentence for sentence in found if sentence]


def ends_sentence(text: str, start: int, match: re.Match[str]) -> bool:
    """Tell whether a BREAK match closes the sentence that begins at start."""
    mark = match["mark"]
    if mark is None:
        return True
    if re.search("[。！？；]", mark):
        return True
    following = text[match.end() : match.end() + 2]
    if following and not following[0].isspace() and not HAN_CHARACTER.match(following):
        return False
    goes_on = following[1:].islower() or following[1:].isdigit()
    if mark.startswith("…") or match["closing"]:
        return not goes_on
    return mark != "." or not protected_stop(
        text[max(start, match.start() - 16) : match.start()], goes_on
    )


def protected_stop(before: str, goes_on: bool) -> bool:
    """Tell whether a full stop belongs to a title, an initial or a list number.

    before: the last 16 characters of the sentence at most. goes_on: a lower-case letter or digit
    follows.
    """
    if LIST_NUMBER.match(before):
        return True
    last = LAST_WORD.search(before)
    if last is None:
        return False
    word = last[0]
    if len(word) == 1 and word.isupper() and word != "I":
        return True
    word = word.lower()
    return word in NEVER_FINAL or (goes_on and word in SELDOM_FINAL)


def folding() -> dict[int, str | None]:
    """Return the translation table applied after NFD: no accents, digits as 0-9."""
    table: dict[int, str | None] = dict.fromkeys(
        chain(
            (0x00AD, 0x0640, 0x0670),
            *(range(0x0300, 0x0370), range(0x0591, 0x05C8), range(0x064B, 0x0660)),
            *(range(0x20D0, 0x2100), range(0xFE00, 0xFE10)),
        )
    )
    for letter, folded in zip("øłđıىةیک_’", "oldiيهيك '", strict=True):
        table[ord(letter)] = folded
    table |= {ord("æ"): "ae", ord("œ"): "oe"}
    for code in range(0x0660, 0xA8DA):
        if unicodedata.category(chr(code)) == "Nd":
            table[code] = str(unicodedata.decimal(chr(code)))
    return table


def combining_marks() -> str:
    """Return all marks that are part of a word in their script, such as Devanagari vowel signs."""
    return "".join(
        chr(code)
        for code in range(0x0370, 0xFE00)
        if unicodedata.category(chr(code)) in ("Mn", "Mc") and not 0x20D0 <= code < 0x2100
    )


FOLDING: Final = folding()
WORD: Final = rf"[^\W{UNSPACED}]+(?:[{combining_marks()}]+[^\W{UNSPACED}]*)*"
TERM: Final = re.compile(rf"([{UNSPACED}]+)|({WORD})('(?:s|t|re|ve|ll|d|m)\b)?")


def search_terms(text: str) -> list[str]:
    """Return the full-text search terms of a text, in order, with repeats.

    Words are folded in case and accents; English stop words are dropped and Latin words stemmed.
    Han gives single characters (except function characters) and pairs. Kana, Hangul, Thai, Lao,
    Burmese and Khmer give pairs; other scripts give words. Documents and queries must both use this
    function.
    """
    folded = unicodedata.normalize("NFKC", text).casefold()
    folded = unicodedata.normalize("NFD", folded).translate(FOLDING)
    terms: list[str] = []
    for run, word, suffix in TERM.findall(unicodedata.normalize("NFC", folded)):
        if run:
            terms.extend(unspaced_terms(run))
        elif suffix == "'t":
            continue  # don't, isn't, can't: auxiliaries, like the rest of the stop words
        elif word not in ENGLISH_STOP_WORDS:
            terms.append(stem(word[:MAX_TERM_CHARACTERS]))
    return terms


def words_of(text: str) -> list[tuple[str, bool]]:
    """Return the words of a text in order, folded in case, and whether each is a run without
    spaces, as Chinese is written. Accents stay."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return [(run or word, bool(run)) for run, word, _ in TERM.findall(folded)]


def unspaced_terms(run: str) -> list[str]:
    """Return the Han characters and all character pairs of a run without spaces, by position."""
    if len(run) == 1:
        return [] if run in CHINESE_FUNCTION_CHARACTERS else [run]
    terms: list[str] = []
    for position, character in enumerate(run):
        if HAN_CHARACTER.match(character) and character not in CHINESE_FUNCTION_CHARACTERS:
            terms.append(character)
        pair = run[position : position + 2]
        if len(pair) == 2:
            terms.append(pair)
    return terms


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """Return the English stem of a folded word of plain letters; any other word is returned
    unchanged.

    Not `snowballstemmer.stemmer()`: it prefers PyStemmer where installed, and two versions would
    disagree about stored terms. A stemmer holds state, so each call creates its own.
    """
    if not (word.isascii() and word.isalpha()) or not 2 < len(word) <= MAX_STEMMED_CHARACTERS:
        return word
    return str(EnglishStemmer().stemWord(word))


QUESTION_MARK: Final = re.compile(r"[?？][\"'”’」』）)\]\s]*\Z")
CLOSING_CHARACTERS: Final = 8
"""Maximum number of characters searched for a question mark from the end."""


def is_question(text: str) -> bool:
    """Tell whether a text ends with a question."""
    return QUESTION_MARK.search(text[-CLOSING_CHARACTERS:]) is not None


def without_accents(text: str) -> str:
    """Return the text, NFKD-decomposed, without diacritics on Latin letters."""
    return re.sub("[\u0300-\u036f]", "", unicodedata.normalize("NFKD", text))


def has_words(text: str) -> bool:
    """Tell whether a text has a letter or digit of any script, so that search can find it."""
    return any(map(str.isalnum, text))


_WORD_BEFORE: Final = re.compile(f"[^\\W{UNSPACED}]")
_WORD_AFTER: Final = re.compile(f"[^\\W\\d{UNSPACED}]")


def place_of(name: str, text: str, begin: int = 0) -> int:
    """Return where a text names something as a whole word, from begin on; -1 if nowhere.

    Non-ASCII names count anywhere, because Chinese has no word boundaries. A regular expression
    for each name would cost more to compile than the text to read.
    """
    at = text.find(name, begin)
    while at >= 0 and name.isascii():
        inside = at and _WORD_BEFORE.match(text, at - 1)
        if not inside and not _WORD_AFTER.match(text, at + len(name)):
            break
        at = text.find(name, at + 1)
    return at


def without_name(name: str, text: str, instead: str) -> str:
    """Return a text with another one in place of a name, wherever it is a whole word."""
    end, kept = 0, []
    while (at := place_of(name, text, end)) >= 0:
        kept += [text[end:at], instead]
        end = at + len(name)
    return "".join([*kept, text[end:]]) if kept else text


def normalised(value: str) -> str:
    """Return a value without differences of case, width, spacing and closing punctuation."""
    folded = unicodedata.normalize("NFKC", value).casefold()
    return " ".join(folded.split()).strip(" .,!?;:。，！？；：")


def short_name(name: str) -> str:
    """Return a name cut so that its plain and normalised forms fit into MAX_NAME_BYTES."""
    while max(len(name.encode()), len(normalised(name).encode())) > MAX_NAME_BYTES:
        name = name[: len(name) * 9 // 10].rstrip()
    return name
