"""Summarise a thread with its own sentences, without a model."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from shared_core.core.domain import Event
from shared_core.nlp.rules import load_rules
from shared_core.nlp.text import HAN, KANA, Language, language, search_terms, sentences

ELLIPSIS: Final = "…"
LANGUAGES: Final[tuple[Language, ...]] = ("en", "zh")
NEWS: Final = 2.0
"""Weight of a key sentence that reports a change; it is chosen before all others."""
TURN_AROUND_BONUS: Final = 1.0
# The newest third of the sentences has this share of the room reserved: a summary rolls on.
NEWEST: Final = 1 / 3
NEWEST_ROOM: Final = 0.6
# Guards match sentences of a turn; longer ones are checked in parts.
GUARDED_CHARACTERS: Final = 400
AGENT_WEIGHT: Final = 0.5
QUESTION_WEIGHT: Final = 0.4
SHORT_WEIGHT: Final = 0.5
MIN_TERMS: Final = 3
# Minimum score of a further sentence, as a share of the best score.
MIN_SHARE: Final = 0.2
# Maximal marginal relevance: the penalty for repeating chosen sentences.
REPETITION_PENALTY: Final = 0.7
# The selection is quadratic, and worse candidates are never picked.
MAX_CANDIDATES: Final = 200

# List and heading marks, and emphasis; a mark between two letters stays, as it separates words.
_MARKS: Final = r"(?:\*\*|`)++"
_LETTER: Final = rf"[^\W{HAN}{KANA}]"
MARKUP: Final = re.compile(
    r"^(?:#{1,6}\s+|[-*•+]\s+|\(?\d{1,3}[.)、]\s*|>\s*)+"
    rf"|(?<!{_LETTER})(?<![`*]){_MARKS}|{_MARKS}(?!{_LETTER})"
)
QUESTION: Final = re.compile(r"[?？][\"'”’」』）)]*$|[吗呢][。！]?$")
SMALL_TALK: Final = re.compile(
    r"(?:hi|hey|hello|good (?:morning|evening|afternoon|night)|thanks?|thank you|ok(?:ay)?|sure|"
    r"got it|bye|goodbye|you'?re welcome|no problem|of course|certainly|sounds good)\b"
    r"(?:[^\w]+\w+){0,2}\W*$"
    r"|(?:你好|您好|嗨|早上好|晚上好|谢谢|多谢|不客气|好的|好吧|再见|拜拜|没问题|当然|嗯|哈)"
    r".{0,4}$",
    re.IGNORECASE,
)
TURN_AROUND: Final = re.compile(
    r"\b(?:is|are|it's|that's|was) "
    r"(?:now |all )?(?:off|over|cancell?ed)\b|\bcall(?:ed|ing) (?:it )?off\b"
    r"|\bcancel(?:led|ed|ling|ing)?\b|\binstead\b|\bno longer\b|\bany ?more\b|\bpostpone[sd]?\b"
    r"|\bchanged (?:my|our|the|his|her|their) (?:minds?|plans?)\b|\bturns out\b|\bafter all\b"
    r"|\bswitch(?:ed|ing)? to\b|\brather than\b"
    r"|取消|改成|改为|改到|改去|改在|换成|换到|推迟|延期|不再|不去了|不要了|改主意|改变主意|泡汤|作废|算了",
    re.IGNORECASE,
)
SECRET_OR_MARK: Final = re.compile(
    r"\[REDACTED\b"
    r"|\b(?:pass(?:word|wd|phrase|code)|pin|pin code|api[- ]?key|secret key|private key|cvv"
    r"|credentials|(?:access|auth|bearer) token|credit card|social security|ssn)s?\b.{0,40}?"
    r"(?:\b(?:is|are|was|be|to)\b|[:=]|\d)"
    r"|\d\S{0,20}(?: \w{1,12}){0,3} (?:password|passcode|pin|api[- ]?key)\b"
    r"|\bcode\b.{0,30}\bis\b.{0,5}\d{3}"
    r"|(?:密码|口令|密钥|私钥|验证码|身份证号|银行卡号?|信用卡号?|卡号).{0,10}?(?:是|为|[:：=\d])"
    r"|\d\w{0,30}.{0,8}(?:密码|口令|密钥)",
    re.IGNORECASE,
)
ENDED: Final = re.compile(r"[.!?…。！？；;:：][\"'”’」』）)\]]*$")
CLAUSE_END: Final = re.compile(r"[,;:，；：、—–)）]")
WORD_BOUNDARY: Final = re.compile(rf"\s|(?<=\W)(?=\w)|(?<=[{HAN}{KANA}])(?=\w)|(?=[{HAN}{KANA}])|$")


@dataclass(frozen=True, slots=True, kw_only=True)
class SummarySentence:
    """A sentence of the thread with its score; position is its place in the order of speech."""

    position: int
    text: str
    terms: frozenset[str]
    score: float
    is_news: bool = False


def summarise(
    turns: Sequence[Event],
    *,
    max_characters: int = 200,
    key_sentences: Mapping[str, float] | Collection[str] = (),
) -> str:
    """Return the most important sentences of a thread in their order, or "".

    The summary never exceeds max_characters and consists of whole sentences. If none fits, the best
    one is cut at a clause or between words and ends in "…". User turns weigh more than agent turns;
    other roles are skipped. The newest third has room reserved, and a change of plans weighs more.
    Questions are left out unless the thread holds nothing else. Secrets, redaction marks and orders
    to the memory are never included.

    key_sentences: sentences that carried facts, with their weights, or a collection with weight 1.
    """
    if not isinstance(key_sentences, Mapping):
        key_sentences = dict.fromkeys(key_sentences, 1.0)
    found = list(candidates(turns, key_sentences))
    if only_asked(turns):
        found = [one for one in found if not QUESTION.search(one.text)]
    news = chosen_from([one for one in found if one.is_news], [], max_characters)
    newest = found[len(found) - math.ceil(len(found) * NEWEST) :] if len(found) > 1 else []
    newest = [one for one in newest if one not in news]
    taken = len(joined(news))
    room = taken + int((max_characters - taken) * NEWEST_ROOM)
    chosen = chosen_from(newest, news, room)
    ranked = best_first(found)
    chosen = chosen_from([one for one in found if one not in chosen], chosen, max_characters)
    if not chosen and ranked:
        return shortened(ranked[0].text, max_characters)
    return joined(chosen)


def best_first(found: Sequence[SummarySentence]) -> list[SummarySentence]:
    """Return the sentences by score, at most MAX_CANDIDATES."""
    return sorted(found, key=lambda one: (-one.score, one.position))[:MAX_CANDIDATES]


def chosen_from(
    found: Sequence[SummarySentence], before: Sequence[SummarySentence], max_characters: int
) -> list[SummarySentence]:
    """Return `before` plus the sentences that add most to it and fit into max_characters."""
    chosen = [*before]
    ranked = best_first(found)
    remaining = [*ranked]
    overlaps = {
        one.position: max((cosine(one.terms, other.terms) for other in before), default=0.0)
        for one in remaining
    }
    while remaining:
        best = max(remaining, key=lambda one: (marginal(one, overlaps), -one.position))
        remaining.remove(best)
        if marginal(best, overlaps) < MIN_SHARE * ranked[0].score:
            break
        if len(joined([*chosen, best])) <= max_characters:
            chosen.append(best)
            for one in remaining:
                overlap = cosine(one.terms, best.terms)
                overlaps[one.position] = max(overlaps[one.position], overlap)
    return chosen


def only_asked(turns: Sequence[Event]) -> bool:
    """Tell whether user turns hold only questions and small talk."""
    found = [one for turn in turns if turn.role == "user" for one in sentences(turn.text)]
    return all(QUESTION.search(one) or SMALL_TALK.match(one) for one in found)


def candidates(
    turns: Sequence[Event], key_sentences: Mapping[str, float]
) -> Iterator[SummarySentence]:
    """Yield every distinct sentence except small talk, scored against the whole thread."""
    roles: dict[str, str] = {}
    for turn in turns:
        if turn.role in ("user", "agent"):
            for sentence in sentences(turn.text):
                if not unsafe(sentence):
                    roles.setdefault(MARKUP.sub("", sentence).strip(), turn.role)
    terms = {sentence: frozenset(search_terms(sentence)) for sentence in roles}
    spread = Counter(term for found in terms.values() for term in found)
    norm = math.sqrt(sum(count * count for count in spread.values())) or 1.0
    keys = {key.strip(): weight for key, weight in key_sentences.items() if key.strip()}
    for position, (sentence, role) in enumerate(roles.items()):
        found = terms[sentence]
        small_talk = SMALL_TALK.match(sentence)
        held = (
            w for key, w in keys.items() if key in sentence or (not small_talk and sentence in key)
        )
        key = max(held, default=0.0)
        if found and (key or not small_talk):
            central = sum(spread[term] for term in found) / (norm * math.sqrt(len(found)))
            weight = (1.0 if role == "user" else AGENT_WEIGHT) * manner(sentence, len(found))
            turned = TURN_AROUND_BONUS * bool(TURN_AROUND.search(sentence))
            yield SummarySentence(
                position=position,
                text=sentence,
                terms=found,
                score=(central + key + turned) * weight,
                is_news=key >= NEWS,
            )


def unsafe(sentence: str) -> bool:
    """Tell whether a sentence holds a secret or an order to the memory."""
    return bool(SECRET_OR_MARK.search(sentence)) or any(
        guard.unsafe and guard.regex.search(sentence[start : start + GUARDED_CHARACTERS])
        for start in range(0, len(sentence), GUARDED_CHARACTERS)
        for lang in LANGUAGES
        for guard in load_rules(lang).guards
    )


def manner(sentence: str, distinct_terms: int) -> float:
    """Return the weight of a sentence's form, 0 to 1."""
    weight = QUESTION_WEIGHT if QUESTION.search(sentence) else 1.0
    return weight * (SHORT_WEIGHT if distinct_terms < MIN_TERMS else 1.0)


def marginal(candidate: SummarySentence, overlaps: Mapping[int, float]) -> float:
    """Return the score minus what the chosen sentences already say; overlaps by position."""
    return candidate.score * (1.0 - REPETITION_PENALTY * overlaps[candidate.position])


def cosine(left: frozenset[str], right: frozenset[str]) -> float:
    """Return the cosine of two sets of terms."""
    return len(left & right) / math.sqrt(len(left) * len(right))


def joined(chosen: Sequence[SummarySentence]) -> str:
    """Return the sentences as one text in the order of speech, each with final punctuation."""
    text = ""
    for candidate in sorted(chosen, key=lambda one: one.position):
        chinese = language(candidate.text) == "zh"
        ending = "" if ENDED.search(candidate.text) else "。" if chinese else "."
        space = "" if not text or (chinese and text[-1] in "。！？；…」』”）") else " "
        text += space + candidate.text + ending
    return text


def without_sentences(text: str, drops: Callable[[str], bool]) -> str:
    """Return a text without the sentences for which drops() is true."""
    kept = [one for one in sentences(text) if not drops(one)]
    return ("" if language(text) == "zh" else " ").join(kept)


def shortened(text: str, max_characters: int) -> str:
    """Return the beginning of a text with "…", cut after a clause or between two words.

    Returns "" if not even the first word fits.
    """
    room = max_characters - len(ELLIPSIS)
    if room <= 0:
        return ""
    clauses = [match.start() for match in CLAUSE_END.finditer(text, 0, room + 1)]
    words = [match.start() for match in WORD_BOUNDARY.finditer(text[: room + 1])]
    cut = max((end for end in clauses if end > room // 2), default=0)
    cut = cut or max((end for end in words if 0 < end <= room), default=0)
    return text[:cut].rstrip() + ELLIPSIS if text[:cut].strip() else ""
