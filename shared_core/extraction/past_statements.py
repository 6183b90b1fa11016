"""Read a past that is told with its end: "we used to live in Rome but are in Bari since May".

The past is read as it would have been told then, "I live in Berlin", and ends where its own words
say ("until March"), or else where the rest of the sentence begins ("since spring"). A past without
an end is left to the patterns that end a known fact. Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from shared_core.nlp.dates import bounds, resolve
from shared_core.nlp.text import Language

_PRESENT: Final = {
    "lived": "live", "worked": "work", "was": "am", "were": "am", "had": "have", "owned": "own",
    "studied": "study", "played": "play", "drove": "drive", "rented": "rent", "be": "am",
    "smoked": "smoke", "vaped": "vape", "dated": "am dating", "date": "am dating",
}  # fmt: skip
_TOLD_EN: Final = re.compile(
    r"(?:(?:well|so|oh|yeah|and|but|originally|actually)[ ,]+){0,3}"
    r"(?P<front>(?:until|till|up to|from) [^,]{2,40}?,? )?(?:i|we) "
    rf"(?:(?P<used>used to )(?P<base>\w+)|(?P<past>{'|'.join(_PRESENT)}))"
    r"(?P<body>(?: [^,;.(]{2,80}?)??)"
    r"(?P<rest>,? (?:but|and (?=now|then|since|i|we|have|am|are)|before (?=i|we))|[,;.(]"
    r"| (?:until|till|from) (?=.{2,40}\d|(?:last|this|the) )| (?:until|till) |$)",
    re.IGNORECASE,
)
_SAME_VERB_EN: Final = re.compile(
    r"(?:(?:i|we)(?:'m| am|'re| are|'ve been| have been|'ve lived| have lived| have worked)|am|are"
    r"|have (?:been|lived|worked)) (?:now )?(?=(?:in|at|with|for) )",
    re.IGNORECASE,
)
"""What stands for the verb of the past: "but are in Leipzig"."""
_VERB_EN: Final = re.compile(
    r"(?:am|are|have|has|moved|work|live|quit|left|stopped|started|joined|switched)\b",
    re.IGNORECASE,
)
_CONNECTED_EN: Final = re.compile(
    r"^(?:[\s,;.(]|(?:but|and|so|then|now|before|have since)\b)+", re.IGNORECASE
)
_SINCE_EN: Final = re.compile(r"^(?:since|in) \S+(?: \d{4})?,? (?=i\b|we\b)", re.IGNORECASE)
_NEXT: Final = re.compile(r"\b(?:ever since|since then)\b|往后|此后|之后|从此|后来", re.IGNORECASE)
_MARK_ZH: Final = "以前|之前|从前|过去|曾经|原来|原先|早先|当年"
_TOLD_ZH: Final = re.compile(
    rf"(?:我们?|咱们?)?(?P<used>{_MARK_ZH})(?:我们?|一直|都|也|就)*的?"
    r"(?P<body>[^，,；;。！!？?\s]{2,40})[，,；;。\s]+(?P<rest>[^？?]+)$"
)
_AROUND_ZH: Final = re.compile(r"^我们?|(?:之间|期间|为止|的时候|一直|都)")
_ONCE_ZH: Final = re.compile(r"^(\w{1,2})过(?=\w)")
_LIVED_ZH: Final = re.compile(
    r"^(?:(?:人|家)在(?P<there>.{1,12}?)(?:住|生活|待)?|在(?P<place>.{1,12}?)(?:住|生活|定居|待))(?:了|着|过)?$"
)
_PARTNER_ZH: Final = re.compile(r"^((?:女|男)朋友|老婆|老公|对象)是")
_CONNECTED_ZH: Final = re.compile(
    r"^(?:[\s，,；;。]|但是?|不过|后来|往后|此后|之后|从此|然后|现在|如今|结果|就|直到|一直)+"
)
_OTHER_SUBJECT_ZH: Final = re.compile(r"[我她他它您你]|(?:女|男)朋友|老婆|老公")


@dataclass(frozen=True, slots=True, kw_only=True)
class PastStatement:
    """A past and its end.

    present: the clause as told then. begins: None if that is not told. rest: what the sentence goes
    on with, with its subject and verb; shown: the same as it was typed. follows: the rest tells
    what came next: "ever since".
    """

    present: str
    begins: datetime | None
    until: datetime
    rest: str = ""
    shown: str = ""
    follows: bool = False


def past_statement(sentence: str, lang: Language, said_at: datetime) -> PastStatement | None:
    """Return the past that begins a sentence, or None if it tells none with an end."""
    found = (_english if lang == "en" else _chinese)(sentence.strip(), said_at)
    return found if found and found.until < said_at else None


def _english(sentence: str, said_at: datetime) -> PastStatement | None:
    told = _TOLD_EN.match(sentence)
    if told is None:
        return None
    after = sentence[told.end("body") :]
    own = bounds((told["front"] or "") + after.split(",")[0], said_at)
    if own is None and (told["past"] or told["front"]):
        return None
    stop = re.search(r"[,;.(]| (?:but|and) ", after) if own else None
    shown = _CONNECTED_EN.sub("", after[stop.start() :] if stop else "" if own else after)
    until = own.ends if own else _first_date(shown, said_at)
    if until is None:
        return None
    verb = (told["base"] or told["past"]).lower()
    verb = _PRESENT.get(verb, verb)
    rest = _SINCE_EN.sub("", shown)
    if _SAME_VERB_EN.match(rest):
        rest = _SAME_VERB_EN.sub("i am " if verb == "am" else f"i {verb} ", rest, count=1)
        rest = rest.replace("i work with ", "i work at ", 1)
    elif _VERB_EN.match(rest):
        rest = f"i {rest}"
    return PastStatement(
        present=f"i {verb}{told['body']}",
        begins=own.begins if own else None,
        until=until,
        rest=rest,
        shown=shown,
        follows=bool(_NEXT.search(shown)),
    )


def _chinese(sentence: str, said_at: datetime) -> PastStatement | None:
    if told := _TOLD_ZH.match(sentence):
        after = told["rest"]
        shown = _CONNECTED_ZH.sub("", after)
        until = _first_date(shown, said_at)
        body, begins = told["body"], None
    else:
        first = re.split(r"[，,；;。]", sentence, maxsplit=1)[0]
        own = bounds(first, said_at)
        if own is None or not re.match(r"我|在|从|自|\d", first):
            return None
        until, begins = own.ends, own.begins
        body = _AROUND_ZH.sub("", first[: own.start] + first[own.stop :])
        after = sentence[len(first) :]
        shown = _CONNECTED_ZH.sub("", after)
    if until is None:
        return None
    body = _LIVED_ZH.sub(_lives, _PARTNER_ZH.sub(r"\1叫", _ONCE_ZH.sub(r"\1", body)))
    rest = shown if not shown or _OTHER_SUBJECT_ZH.match(shown) else f"我{shown}"
    return PastStatement(
        present=f"我{body}", begins=begins, until=until, rest=rest, shown=shown,
        follows=bool(_NEXT.search(after)),
    )  # fmt: skip


def _lives(match: re.Match[str]) -> str:
    return f"住在{match['there'] or match['place']}"


def _first_date(text: str, said_at: datetime) -> datetime | None:
    """Return the first time that a text tells of the past, if its first time is past."""
    ranges = [one for one in resolve(text, said_at) if one.kind != "every"]
    return ranges[0].begin if ranges and ranges[0].begin < said_at else None
