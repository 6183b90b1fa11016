"""Somebody whom a clause speaks of and nobody has named: "my barber", "Einstein", 房东. Pure.

A rule of form, no list of people: a noun phrase counts as somebody unless it is known to be a thing
(rules/things.toml), a place, or more than one. A pronoun after it may mean them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from shared_core.nlp.kinship import Gender, gender_of
from shared_core.nlp.noun_phrases_en import english_phrases
from shared_core.nlp.noun_phrases_zh import chinese_phrases
from shared_core.nlp.rules import load_rules
from shared_core.nlp.text import Language, whole

KNOWN: Final = "§"
"""Stands for those who are known, in a clause that is searched for others."""
GENDERED: Final[dict[Gender, re.Pattern[str]]] = {
    "female": re.compile(
        r"\b(?:wo(?:man|men)|girls?|lad(?:y|ies)|actress|waitress|queen|princess|goddess|mum|mom|nun"
        r"|hostess|stewardess|heroine|m(?:r?s|iss|adam))\b|女|小姐|太太|阿姨|奶|妈|姐|妹|婆|姑|姨|嫂|婶",
        re.IGNORECASE,
    ),
    "male": re.compile(
        r"\b(?:m[ae]n|guys?|boys?|gentleman|dude|bloke|king|prince|dad|priest|monk|mr|sir)\b"
        r"|先生|男|叔|爷|爸|哥|弟|公公|外公|伯|舅|小伙",
        re.IGNORECASE,
    ),
}


def unknown_people(clause: str, known: Iterable[str], spoken: Language) -> set[Gender]:
    """Return the genders of those whom a clause speaks of and who are not known.

    known: the names of those who are. Relations such as "my son" are left out too.
    """
    masked = load_rules(spoken).kin_mention.sub(KNOWN, clause)
    for name in sorted(known, key=len, reverse=True):
        masked = re.sub(whole(name), KNOWN, masked)
    phrases = chinese_phrases(masked) if spoken == "zh" else english_phrases(masked)
    return {gender_in(phrase, spoken) for phrase in phrases}


def gender_in(phrase: str, spoken: Language) -> Gender:
    """Return what the words of a phrase tell: "female" for "the guy's wife" and "unknown" too."""
    found = [gender for gender, words in GENDERED.items() if words.search(phrase)]
    if len(found) == 1:
        return found[0]
    kin = load_rules(spoken).kin
    related = {gender_of(kin[word]) for word in kin if _holds(phrase, word)} - {"unknown"}
    return related.pop() if not found and len(related) == 1 else "unknown"


def _holds(phrase: str, word: str) -> bool:
    return word in phrase if not word.isascii() else word in phrase.lower().split()
