"""Find secrets that a message tells in passing, by the words around each token. Pure.

"The office alarm is 8817#" holds one, "the office alarm cost 8817" does not. A small network
(Rumelhart et al., 1986) reads hashed n-grams of words and Chinese characters (Weinberger et al.,
2009) around each token, the token's shape, and the message before.
`python -m benchmarks.train_told_secrets` fits it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from zlib import crc32

from shared_core.core.long_search import matches, occurs
from shared_core.nlp.text import HAN
from shared_core.privacy.spoken_secrets import UNIT

if TYPE_CHECKING:
    from numpy.typing import NDArray

BITS: Final = 15
"""A feature is one of 2 ** BITS buckets."""
AROUND: Final = 24
"""Number of tokens on each side whose words count wherever they stand."""
BEFORE: Final = 40
"""Number of tokens read of the message before."""
_ENGLISH: Final = (
    "(?:zero|oh|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen"
    "|fifteen|sixteen|seventeen|eighteen|nineteen|twenty|thirty|forty|fifty|sixty|seventy|eighty"
    "|ninety|double|triple|treble|zeros|zeroes)"
)
_CHINESE: Final = "零〇一二三四五六七八九幺两双洞拐十百千万壹贰叁肆伍陆柒捌玖"
_SIGN: Final = rf"[^\s{HAN}\u3000-\u303f\uff00-\uffef()\[\]{{}}<>\"“”‘’,;:=|/\\`…—]"
_TOKEN: Final = re.compile(
    r"(?P<mark>\[REDACTED: \w{1,30}\])"
    r"|(?P<known>[A-Za-z][a-z+]{1,12}://[^\s]{1,2000}"
    r"|[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}"
    r"|(?:19|20)\d\d-\d\d?-\d\d?(?:[T ]\d\d?:[\d:.]{2,12}Z?)?(?![\w-])"
    r"|(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?!\w))"
    r"|(?P<composite>[£$€¥]?\d{1,12}(?:[.,:/]\d{1,12}){1,6}%?(?![\w-]))"
    r"|(?P<spaced>[#*]?\d{1,8}(?:[ -]\d{1,8}){1,11}[#*]?(?![\w%]|[.,:/]\d))"
    rf"|(?P<english>(?i:{_ENGLISH}(?:[ -]{{1,2}}{_ENGLISH}){{1,15}})(?![\w]))"
    rf"|(?P<chinese>[{_CHINESE}](?:[ 、]?个?[{_CHINESE}]){{1,19}})"
    rf"|(?P<han>[{HAN}])"
    rf"|(?P<chunk>{_SIGN}(?:{_SIGN}|['’](?=\w)){{0,200}}=?)"
    r"|(?P<sign>\S)"
)
_TAIL: Final = re.compile(r"(?<![.!?~'’])[.!?~'’]+$")
_WORD: Final = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")


class Token(NamedTuple):
    """A token of a text. shape: a number of SHAPES. word: its hash as a neighbour. stem: the hash
    of the first letters of a word, or of the pattern of a value.
    """

    start: int
    stop: int
    shape: int
    word: int
    stem: int


NEVER, FEW, CODE, SPELLED, HAN_SIGN, WORD, ODD = range(7)
"""Groups of shapes: never a secret, other numbers, numbers as codes are, number words, a Chinese
character, a plain word, a text of mixed signs."""
SHAPES: Final = {
    "punctuation": NEVER, "mark": NEVER, "known": NEVER, "composite": FEW, "spaced": CODE,
    "english": SPELLED, "chinese": SPELLED, "han": HAN_SIGN, "lower": WORD, "title": WORD,
    "upper": WORD, "inner capital": ODD, "hyphened": ODD, "hyphens": ODD, "d1": FEW, "d2": FEW,
    "d3": CODE, "d4": CODE, "d5": CODE, "d6": CODE, "d7": CODE, "d8": CODE, "d9": FEW, "year": CODE,
    "round": CODE, "keyed": ODD, "money": FEW, "measure": FEW, "mixed4": ODD, "mixed7": ODD,
    "mixed": ODD, "signs": ODD, "signs and digits": ODD, "dotted": ODD,
}  # fmt: skip
"""The shapes of tokens, each with its group."""
_SHAPE: Final = {name: number for number, name in enumerate(SHAPES)}


def _hash(text: str) -> int:
    return crc32(text.encode("utf-8", "replace"))


def _digits_shape(digits: str) -> str:
    if re.fullmatch(r"(?:19|20)\d\d", digits):
        return "year"
    if len(digits) > 2 and digits.endswith("00") and digits.strip("0"):
        return "round"
    return f"d{min(9, len(digits))}"


@lru_cache(maxsize=8192)
def _chunk(text: str) -> tuple[int, int, int, int]:
    """Return the length without what ends a sentence, the shape, the word and the stem."""
    bare = _TAIL.sub("", text)
    if not bare:
        return len(text), _SHAPE["punctuation"], _hash(text[:1]), 0
    if _WORD.fullmatch(bare):
        low = bare.lower()
        return len(bare), _SHAPE[_word_shape(bare)], _hash(low), _hash(f"~{low[:4]}")
    name = _value_shape(bare)
    if name in ("mixed4", "mixed7", "mixed", "signs and digits") and text.endswith("!"):
        bare = text
    tail = bare.lstrip("-+£$€¥#0123456789.")[-4:].lower() if name in ("measure", "money") else ""
    return len(bare), _SHAPE[name], _hash(f"\0{SHAPES[name]}{tail}"), _pattern(bare)


_RUN: Final = re.compile(r"(?P<a>[a-z]+)|(?P<A>[A-Z]+)|(?P<n>\d+)")


def _pattern(text: str) -> int:
    """Return the hash of a text with each run of letters or digits as one sign."""
    told = _RUN.sub(lambda run: f"{run.lastgroup}{min(4, len(run[0]))}", text[:60])
    return _hash(f"={told}")


def _word_shape(word: str) -> str:
    if "-" in word:
        return "hyphens" if word.count("-") > 1 else "hyphened"
    if word.islower() or not word.isascii():
        return "lower"
    if word.isupper() and len(word) > 1:
        return "upper"
    return "title" if word[1:].islower() or len(word) == 1 or "'" in word else "inner capital"


def _value_shape(text: str) -> str:
    if text.isdecimal():
        return _digits_shape(text)
    if re.fullmatch(r"[#*]*+\d++(?:[#*]++\d*+)*+", text):
        return "keyed"
    if re.fullmatch(r"[£$€¥]\d+[kKmM]?", text):
        return "money"
    if re.fullmatch(r"[-+]?\d+(?:\.\d+)?(?:[a-zA-Z°%²]{1,4}|-[a-z]{3,})", text):
        return "measure"
    digits = any(one.isdigit() for one in text)
    if text.isalnum():
        return "mixed4" if len(text) < 5 else "mixed7" if len(text) < 8 else "mixed"
    if digits:
        return "signs and digits"
    if re.fullmatch(r"\w+(?:\.\w+)+", text):
        return "dotted"
    return "signs" if re.search(r"\w", text) else "punctuation"


def tokens(text: str) -> list[Token]:
    """Return the tokens of a text in plain-width digits and letters."""
    found = []
    for match in _TOKEN.finditer(text):
        name, start, stop = match.lastgroup, match.start(), match.end()
        if name == "han" or name == "sign":
            shape = _SHAPE["han"] if name == "han" else 0
            found.append(Token(start, stop, shape, _hash(match.group()), 0))
        elif name == "chunk":
            length, shape, word, stem = _chunk(match.group())
            found.append(Token(start, start + length, shape, word, stem))
            if start + length < stop:
                found.append(Token(start + length, stop, 0, _hash(text[stop - 1]), 0))
        elif name:
            group = ODD if name == "mark" else SHAPES[name]
            pattern = 0 if SHAPES[name] == NEVER else _pattern(match.group())
            found.append(Token(start, stop, _SHAPE[name], _hash(f"\0{group}"), pattern))
    return found


class TokenFeatures(NamedTuple):
    """near: (n, F), the buckets of each token. around: (n, 4), its buckets for all tokens around.
    before: (P,), the buckets of the message before. group: (n,)
    """

    near: NDArray[Any]
    around: NDArray[Any]
    before: NDArray[Any]
    group: NDArray[Any]


_LEFT: Final = ((1,), (2,), (3,), (4, 5, 6), (7, 8, 9, 10, 11, 12))
"""Distances to the left of a token that count alike."""
_RIGHT: Final = ((1,), (2,), (3, 4), (5, 6, 7, 8))
_PAD: Final = 16
_WORDS, _PAIRS, _TRIPLES, _STEMS, _OWN, _SHAPES, _AFTER, _TO, _FROM, _INTO, _SENSES = range(11)
"""Rows of values by token: its word; with the word before it; with two of them; its stem; its own
word, or shape; its shape; with the shape before it; with the word before it; with the word behind
it; with two shapes before it; its group of similar words."""


@cache
def sense_table() -> NDArray[Any]:
    """Return the group of similar words by place, 0 for none (benchmarks.word_senses)."""
    import numpy as np

    with (files("shared_core.privacy") / "word_senses.v1.npz").open("rb") as file:
        read = np.load(file)
        table = np.zeros(1 << SENSE_BITS, np.uint32)
        table[np.cumsum(read["steps"], dtype=np.int64)] = read["senses"]
        return table


def _plan() -> tuple[tuple[int, int, int, bool], ...]:
    """Return (row, offset, slot, whether by group) of each feature of a token."""
    near = []
    for slot, offsets in enumerate(_LEFT, 16):
        near += [(_WORDS, -one, slot) for one in offsets]
        near += [(_PAIRS, -one, slot + 16) for one in offsets]
    for slot, offsets in enumerate(_RIGHT, 48):
        near += [(_WORDS, one, slot) for one in offsets]
        near += [(_PAIRS, one + 1, slot + 16) for one in offsets]
    for slot, offsets in enumerate(_LEFT, 100):
        near += [(_SENSES, -one, slot) for one in offsets]
    for slot, offsets in enumerate(_RIGHT, 100 + len(_LEFT)):
        near += [(_SENSES, one, slot) for one in offsets]
    near += [(_TRIPLES, -1, 80), (_TRIPLES, -2, 81), (_TRIPLES, 3, 82)]
    near += [(_STEMS, -1, 83), (_STEMS, -2, 84), (_STEMS, 1, 85)]
    own = [
        (_OWN, 0, 1), (_SHAPES, 0, 2), (_AFTER, 0, 3), (_AFTER, 1, 4), (_TO, 0, 5),
        (_FROM, 0, 6), (_INTO, 0, 7), (_INTO, 2, 8), (_STEMS, 0, 9),
    ]  # fmt: skip
    plain = [(*one, False) for one in own + near]
    return (*plain, *((row, offset, slot + 128, True) for row, offset, slot in near))


@cache
def _columns() -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return rows, offsets and slots of the features, (F, 1) each, and the group of each shape."""
    import numpy as np

    rows, offsets, slots, _ = np.array(_plan()).T[:, :, None]
    return rows, offsets, _slots(slots), np.array([NEVER, *SHAPES.values()], np.uint32)


PLAIN: Final = sum(not by_group for *_, by_group in _plan())
"""Number of features that count alike in each group; those of a group follow."""


def _mix(values: NDArray[Any], slots: NDArray[Any]) -> NDArray[Any]:
    """Return the buckets of values in their slots (the finalizer of MurmurHash3)."""
    import numpy as np

    mixed: NDArray[Any] = (values ^ slots) * np.uint32(0x85EBCA6B)
    mixed ^= mixed >> np.uint32(13)
    mixed *= np.uint32(0xC2B2AE35)
    mixed >>= np.uint32(32 - BITS)
    return mixed


SENSE_BITS: Final = 17
"""A word has one of 2 ** SENSE_BITS places in the table of groups of similar words."""
_AROUND_SLOTS: Final = ((96,), (97,), (98,), (99,))
_BEFORE_SLOTS: Final = (112, 113, 114, 115)


def pair_of(left: Any, right: Any) -> Any:
    """Return the hash of a token and the one before it, from those of both (uint32 arrays wrap)."""
    if isinstance(left, int):
        return (right * 31 + left * 0x01000193) & 0xFFFFFFFF
    import numpy as np

    return right * np.uint32(31) + left * np.uint32(0x01000193)


def sense_places(hashes: NDArray[Any]) -> NDArray[Any]:
    """Return the places of words or pairs in the table of senses."""
    import numpy as np

    return np.asarray((hashes * np.uint32(0x85EBCA6B)) >> np.uint32(32 - SENSE_BITS))


def senses(words: NDArray[Any], pairs: NDArray[Any]) -> NDArray[Any]:
    """Return the group of similar words that each pair is in, or else each word; 0 for none."""
    import numpy as np

    table = sense_table()
    of_pair = table[sense_places(pairs)]
    return np.asarray(np.where(of_pair > 0, of_pair, table[sense_places(words)]))


def _slots(numbers: Any) -> NDArray[Any]:
    """Return numbers of slots as far apart as hashes are."""
    import numpy as np

    return (np.asarray(numbers, np.uint64) * np.uint64(0x9E3779B1)).astype(np.uint32)


def features(found: Sequence[Token], before: Sequence[Token] = ()) -> TokenFeatures:
    """Return the features of the tokens of a text, after those of the message before."""
    import numpy as np

    rows, offsets, slots, groups = _columns()
    count, inner = len(found), slice(_PAD, _PAD + len(found))
    values = np.zeros((11, count + 2 * _PAD), np.uint32)
    read = np.array([(one.word, one.stem, one.shape + 1) for one in found], np.uint32)
    values[[_WORDS, _STEMS, _SHAPES], inner] = read.reshape(count, 3).T
    words, shapes = values[_WORDS], values[_SHAPES]
    values[_PAIRS, 1:] = pair_of(words[:-1], words[1:])
    values[_TRIPLES, 1:] = pair_of(values[_PAIRS, :-1], words[1:])
    group = groups[shapes[inner]]
    is_word = (group == HAN_SIGN) | (group == WORD)
    values[_OWN, inner] = np.where(is_word, words[inner], shapes[inner])
    values[_AFTER, 1:] = shapes[:-1] * np.uint32(64) + shapes[1:]
    values[_TO, 1:] = words[:-1] + shapes[1:] * np.uint32(0x27D4EB2F)
    values[_FROM, :-1] = words[1:] + shapes[:-1] * np.uint32(0x27D4EB2F)
    values[_INTO, 2:] = values[_AFTER, 1:-1] * np.uint32(64) + shapes[2:]
    values[_SENSES] = senses(words, values[_PAIRS])
    near = values[rows, offsets + (_PAD + np.arange(count))]
    near[PLAIN:] += group * np.uint32(0x27D4EB2F)
    around = _mix(values[[_WORDS, _PAIRS, _STEMS, _SENSES], inner], _slots(_AROUND_SLOTS))
    return TokenFeatures(_mix(near, slots).T, around.T, _of_before(before), group)


def _of_before(before: Sequence[Token]) -> NDArray[Any]:
    import numpy as np

    words = np.array([0, *(one.word for one in before[-BEFORE:])], np.uint32)
    stems = np.array([one.stem for one in before[-BEFORE:]], np.uint32)
    pairs = pair_of(words[:-1], words[1:])
    parts = (words, pairs, stems, senses(words[1:], pairs))
    return np.concatenate([*map(_mix, parts, _slots(_BEFORE_SLOTS))])


SIZE: Final = 1024
"""Number of tokens scored at a time, so that a long text needs little memory."""
BAG: Final = 2.0
"""Weight of the words around and before, against those near."""
NARROWER: Final = 2.0
"""How much less a token beside a secret needs to belong to it."""
PLAINER: Final = 1.0
"""How much more a plain word needs, since a text has many of them."""
_NAMES_SECRET: Final = re.compile(
    r"(?i:pass ?(?:word|code|phrase)s?|pass:|passwd|pwd?\b|\bpins?\b"
    r"|\b(?:key|safe|duress|memorable)[ -]?word"
    r"|\b(?:secret|security|recovery|seed|combo|combination|wi-?fi|ssid|psk|login|answer)s?\b)"
    r"|密码|密碼|口令|暗号|暗號|密保|助记词|密钥|wifi|无线"
)
"""Words for a secret."""
_OPENED: Final = re.compile(
    r"(?i:\b(?:codes?|locks?|locked|unlock\w{0,20}|padlock|lockbox|lockers?|doors?|gates?|alarms?|safes?"
    r"|strongbox|vaults?|keypads?|keybox|entry|garage|barrier|account|acc|acct|cards?|phone|tablet"
    r"|laptop|device|router|network|hotspot|sim|puk|otp|cvv|cvc|token|keys?|vpn|backup|voicemail"
    r"|opens?|disarm|shed|suitcase)\b)"
    r"|锁|鎖|门禁|門禁|柜|櫃|保险箱|保險箱|报警|警報|账号|帳號|账户|登录|登入|解|验证|驗證|取件|开门|開門|手势|卡|(?<![态態误誤回编編代尺号號条條维維乱亂数數])[码碼]"
    rf"|{_NAMES_SECRET.pattern}"
)
"""Words for what a secret opens, or for a secret."""
UNNAMED: Final = 2.0
"""How much more a value needs that stands near no name of what a secret opens."""
NEAR: Final = 200
"""Number of characters around a value in which such a name counts."""
_MAY_TELL: Final = re.compile(
    r"\d|[a-z][A-Z]|\w[_@#$%^&*+~-]\w"
    rf"|(?i:{_ENGLISH}[ -]{_ENGLISH}(?!\w))|[{_CHINESE}][ 、]?个?[{_CHINESE}]"
    rf"|{_NAMES_SECRET.pattern}"
)
"""Signs of a text that may tell a secret: a value of an odd shape, or a word for a secret."""
_SECRET: Final = re.compile(
    r"(?i:pass ?(?:word|code|phrase|key)s?|pass:|passwd|\bpwd?\b|\bpins?\b|\b(?:key|door|gate)?"
    r"codes?\b|\blogins?\b|\bcombo|\bcombination|\b(?:key|safe|duress|memorable)[ -]?word"
    r"|\b(?:puk|otp|cvv|cvc|psk)\b|\bsecur|\bsecret|\banswers?\b"
    r"|\b(?:seed|recovery) (?:phrase|words))|密码|密碼|口令|暗号|暗號|密保|答案"
    r"|助记词|助記詞|密钥|密鑰|(?<![态態误誤回编編代尺号號条條维維乱亂数數])[码碼]"
)
"""Words for a secret itself, and not for what it opens."""
_NETWORK: Final = r"(?:wi-?fi|wlan|network|router|hotspot)"
_PRESS: Final = (
    r"(?:[#*]|\b(?:star|hash|pound|asterisk)(?:\s(?:sign|key))?"
    r"|\b(?:press|hit|push|punch|enter|type|dial|tap|then)(?:\s\d{1,4})?)"
)
"""A key of a keypad, or its use: a number before or after it is no time."""
_OTHERWISE: Final = re.compile(
    rf"(?i:(?<![\d.,])\d{{1,9}}+(?={UNIT})"
    r"|\b(?:pa(?:y|ys|id|ying)|spen[dt]|spending|costs?|charged?|worth|budget|price|deposit|fee|bill"
    r"|rent|owed?|owes|earn(?:ed|s)?|saved|donated|bid|offered|wants|asked|asking)(?! ?:)"
    r"(?:\s(?:me|us|him|her|them|you|for\s(?:the|a|my)\s\w{1,20}|is|was|of|about|around|only|just"
    r"|over|nearly|almost|under|up\sto|(?:less|more)\sthan)){0,3}\s(?P<paid>\d{1,9})(?![\w#*-])"
    rf"|{_PRESS},?\s(?:before|after)\s(?P<pressed>)"
    r"|\b(?:at|until|till?|by|before|after)\s(?P<clock>(?:[01]\d|2[0-3])[0-5]\d)(?![\w#*-])"
    r"|\b(?:password|passcode|passphrase)\s(?:managers?|generators?|polic(?:y|ies)|rules?|types?)"
    r"(?:\s(?:is|was))?\s?[:=]?\s?(?P<tool>(?:1password|[a-z]{1,20})(?!\w))"
    rf"|(?:\b(?:{_NETWORK}(?:['’]?s)?\s(?:name|ssid)|ssid|name\sof\s(?:the|my|our|your)\s{_NETWORK})"
    rf"(?:\s(?:is|was)\b|\s?[:=])?|\b{_NETWORK}\s(?:is\s)?(?:called|named))\s?[\"'“]?"
    r"(?P<name>[^\s,;/，。；]{1,40}))"
)
"""A value that the words beside it call an amount, a time, a program or a network's name."""
_ASKS_OTHERWISE: Final = re.compile(
    r"(?i:(?:(?:and|so|but|ok(?:ay)?|hey|oh|by the way)\s)?"
    r"(?:(?P<number>when|how\s(?:much|many|long|old|big|large|far|often|tall|wide|high|heavy|deep)"
    r"|(?:what|which)\s(?:time|year|day|date|price|size|model)|(?:what|how)\b.{0,40}\bcosts?)"
    r"|who(?:se|m)?|where|why|(?:what|which)\s(?:colou?r|brand|wi-?fi|network)"
    r"|(?:what|which|how|tell|give)\b.{0,40}\b(?:names?|called|ssid)"
    rf"|(?:(?:the|your)\s)?(?:name\sof\s(?:the|your)\s{_NETWORK}|{_NETWORK}(?:['’]?s)?\sname|ssid)$)\b)"
    r"|.{0,40}(?:(?P<chinese_number>什么时候|什麼時候|几[点号年]|哪[天年]|多少钱|多[久大长重])"
    r"|谁|誰|哪[里儿家个]|为什么|叫什么|什么名)"
)
"""A question that a person, a time, a place, an amount or a name answers.

A group matches where a number may answer it.
"""
_KEYED: Final = re.compile(r"[#*]\d{3}|\d{3}[#*]")
_BARE_CODE: Final = re.compile(r"\W*\d{4,8}\W*")
_ASKS_TOO: Final = re.compile(
    rf"(?:\b(?:and|or)\b|[和与跟及,，;；/&+]).{{0,40}}?(?:{_OPENED.pattern})", re.IGNORECASE
)
"""What else such a question asks for, if a secret opens it."""
_SENTENCE: Final = re.compile(r"[^.!?。！？\n]+[?？]?")
_ASKS: Final = re.compile(
    r"[?？]|(?i:\b(?:what(?:'?s)?|which|tell|give|send|enter|type|share)\b)"
    r"|多少|什么|什麼|啥|发我|發我|告诉|告訴|给我|給我|输入|輸入|[呢是几]\s*$"
)
"""A sentence that asks for something."""
_ASKED: Final = re.compile(
    r"(?i:pass ?(?:word|code|phrase|key)s?|passwd|\bpwd?\b|\bpins?\b|\b(?:puk|otp|cvv|cvc|2fa)\b"
    r"|\b(?:door|gate|alarm|garage|safe|locker|lock|unlock|access|entry|keypad|security|backup"
    r"|recovery|verification)(?: \w+)? codes?\b|\bcombination)"
    r"|密码|密碼|口令|暗号|暗號|密钥|密鑰|(?:解锁|解鎖|开门|開門|门禁|門禁|验证|驗證|备用|備用|恢复)[码碼]"
)
"""The name of a secret whose value answers a question for it."""
ANSWERS: Final = 3.5
"""How much less a code or a value of an odd shape needs that answers such a question."""
PER_WORD: Final = 0.5
"""How much of that each word beside it takes away: "ask in room 312" answers little."""
_SENTENCE_ENDS: Final = re.compile(r"[.!?,。！？，\n]+\s*")
MAY_FOLLOW: Final = 48
"""Maximum characters of a message whose secret may be named by the message before."""
_MARKED: Final = re.compile(r"(?s:.*)\[REDACTED: \w{1,30}\].*+(?P<rest>(?s:.*))")
"""The last line with a mark, and the lines after it."""
MAX_BEFORE: Final = 200
"""Number of characters read of the message before."""
HIDDEN_SCALE: Final = 0.3
"""Factor of the sums of hidden units, so that they begin where the tangent is steep."""


class SecretWeights(NamedTuple):
    """of_bucket: (2 ** BITS, 1 + H), the score and the hidden units. constant: (1 + H,). out: (H,)
    least: the least scores of a secret, in a text without and with Chinese characters.
    """

    of_bucket: NDArray[Any]
    constant: NDArray[Any]
    out: NDArray[Any]
    least: tuple[float, float]


@cache
def shipped_weights() -> SecretWeights:
    """Return the weights of the package."""
    import numpy as np

    with (files("shared_core.privacy") / "told_secrets.v1.npz").open("rb") as file:
        read = np.load(file)
        of_bucket = np.zeros((1 << BITS, len(read["scale"])), np.float32)
        of_bucket[np.cumsum(read["steps"], dtype=np.int64)] = read["weights"].T * read["scale"]
        return SecretWeights(of_bucket, read["constant"], read["out"], (*read["least"].tolist(),))


def combined(sums: NDArray[Any], weights: SecretWeights) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the scores of tokens and their hidden units, (n,) and (n, H), from summed weights."""
    import numpy as np

    hidden = np.tanh(sums[:, 1:] * HIDDEN_SCALE + weights.constant[1:])
    told = np.add(sums[:, 0], weights.constant[0])
    return np.add(told, np.matmul(hidden, weights.out)), hidden


def _scores(
    weights: SecretWeights, found: Sequence[Token], before: Sequence[Token]
) -> NDArray[Any]:
    """Return the score of each token to be a secret, (n,)."""
    import numpy as np

    told, of_bucket = features(found, before), weights.of_bucket
    place = np.arange(len(found))
    first, stop = np.maximum(0, place - AROUND), np.minimum(len(found), place + AROUND + 1)
    around = np.zeros((len(found) + 1, of_bucket.shape[1]), np.float32)
    np.cumsum(of_bucket[told.around].sum(axis=1), axis=0, out=around[1:])
    sums = of_bucket[told.near].sum(axis=1)
    sums += (around[stop] - around[first]) * (BAG * (stop - first) ** -0.5)[:, None]
    sums += of_bucket[told.before].sum(axis=0) * BAG * max(1.0, len(told.before) / 4) ** -0.5
    score, _ = combined(sums, weights)
    score[(told.group == WORD) | (told.group == HAN_SIGN)] -= PLAINER
    return np.where(told.group == NEVER, -np.inf, score)


def may_tell(text: str) -> bool:
    """Tell whether a text has a value of an odd shape, or a word for a secret."""
    return occurs(_MAY_TELL, text)


def may_follow(text: str) -> bool:
    """Tell whether a text is so short that the message before may name what its value opens."""
    return 0 < len(text) <= MAY_FOLLOW


def may_hold_value(text: str) -> bool:
    """Tell whether a short text holds a code or a value of an odd shape."""
    if not may_follow(text):
        return False
    groups = [*SHAPES.values()]
    return any(groups[one.shape] in (CODE, SPELLED, ODD) for one in tokens(text))


def tokens_before(text: str, before: str) -> list[Token]:
    """Return the tokens of the message before that count for a text.

    None for a long text, and of a message that names nothing that a secret opens. None if it asks
    for something else last, unless it names a secret that no earlier mark has told, or the text is
    a code that does not answer it.
    """
    before = before[-MAX_BEFORE:]
    if not may_follow(text) or not _OPENED.search(before):
        return []
    [*_, last] = filter(None, _SENTENCE_ENDS.split(before.strip()))
    asked = _ASKS_OTHERWISE.match(last)
    if asked and not (
        _SECRET.search(last if asked.lastgroup else _untold(before))
        or _KEYED.search(text)
        or (not asked.lastgroup and _BARE_CODE.fullmatch(text))
        or _ASKS_TOO.search(last, asked.end())
    ):
        return []
    return tokens(before)[-BEFORE:]


def _untold(before: str) -> str:
    """Return the lines behind the last one with a mark: a secret that they name is not told yet."""
    mark = _MARKED.match(before)
    return mark["rest"] if mark else before


def asks_secret(before: str) -> bool:
    """Tell whether the last question of some turns is for a secret that none of them tells."""
    asked = [one for one in _SENTENCE.findall(_untold(before[-MAX_BEFORE:])) if _ASKS.search(one)]
    if not asked or not _ASKED.search(asked[-1]):
        return False
    return not _ASKS_OTHERWISE.match(asked[-1].strip())


def _answers(text: str, found: Sequence[Token]) -> NDArray[Any]:
    """Return how much less each token of an answer needs to be a secret, (n,)."""
    import numpy as np

    groups = [*SHAPES.values()]
    group = np.array([groups[one.shape] for one in found])
    clause = np.cumsum([text[one.start] in ",，;；.。!！" for one in found])
    of_token = np.where(group == WORD, PER_WORD, np.where(group == HAN_SIGN, PER_WORD / 2, 0))
    words = np.bincount(clause, of_token)[clause]
    values = np.isin(group, (CODE, SPELLED, ODD))
    return np.where(values, np.maximum(0, ANSWERS - words), 0)


def _is_told(before: str) -> bool:
    """Tell whether the message before holds the secret that it names, so that a reply holds none.

    A later line of it may name another one.
    """
    rest = _untold(last := before[-MAX_BEFORE:])
    return rest != last and not _OPENED.search(rest)


def told_secrets(
    text: str, before: str = "", weights: SecretWeights | None = None
) -> list[tuple[int, int]]:
    """Return where a text tells secrets: (start, stop) of each, in order.

    Both texts must be in plain-width digits and letters. before: the message before it. weights:
    those of the package by default.
    """
    import numpy as np

    named = tokens_before(text, before)
    if not may_tell(text) and not _NAMES_SECRET.search(before[-MAX_BEFORE:] if named else ""):
        return []
    found, weights = tokens(text), weights or shipped_weights()
    least = weights.least[any(one.shape == _SHAPE["han"] for one in (*found, *named))]
    never = _never(text, found, replies=bool(named) and _is_told(before))
    opened = np.array([match.start() for match in matches(_OPENED, text)] or [-2 * NEAR])
    spans: list[tuple[int, int]] = []
    for start in range(0, len(found), SIZE):
        first = max(0, start - AROUND)
        piece = found[first : start + SIZE + AROUND]
        score = _scores(weights, piece, named)[start - first :][:SIZE]
        if not named:
            begins = np.array([one.start for one in found[start : start + SIZE]])
            place = np.minimum(np.searchsorted(opened, begins - NEAR), len(opened) - 1)
            score -= UNNAMED * (np.abs(opened[place] - begins) > NEAR)
        elif asks_secret(before):
            score += _answers(text, piece)
        score[never[start : start + SIZE]] = -np.inf
        spans += _spans(found[start : start + SIZE], score, least)
    return spans


def _never(text: str, found: Sequence[Token], *, replies: bool) -> NDArray[Any]:
    """Return whether each token is no secret whatever its score, (n,).

    Such are the values of _OTHERWISE. If the text replies to a secret that was told, so are plain
    words, as "noted", unless the text names what another secret opens.
    """
    import numpy as np

    otherwise = np.zeros(len(text), bool)
    for match in matches(_OTHERWISE, text):
        otherwise[slice(*match.span(match.lastgroup or 0))] = True
    words = (WORD, HAN_SIGN) if replies and not _OPENED.search(text) else ()
    groups = [*SHAPES.values()]
    return np.array([otherwise[one.start] or groups[one.shape] in words for one in found], bool)


def _spans(found: Sequence[Token], score: NDArray[Any], least: float) -> Iterator[tuple[int, int]]:
    """Yield the runs of likely tokens that hold a sure one."""
    import numpy as np

    sure = score >= least
    if not sure.any():
        return
    likely = np.concatenate([[False], score >= least - NARROWER, [False]])
    for first, stop in np.flatnonzero(np.diff(likely)).reshape(-1, 2).tolist():
        if sure[first:stop].any():
            yield found[first].start, found[stop - 1].stop
