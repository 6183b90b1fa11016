"""Of whom or what a question asks: the user, somebody around them, or the world. Pure.

"What is my daughter's name?" asks of the daughter, and is not answered by the user's own;
"What is the capital of France?" and 中国的首都是哪里 ask of neither, and only what names what they
name has to do with them.
"""

from __future__ import annotations

import re
from typing import Final

from shared_core.nlp.coreference import SPEAKER
from shared_core.nlp.noun_phrases_zh import FOREIGN
from shared_core.nlp.relation_phrases import asked_kin
from shared_core.nlp.rules import load_rules
from shared_core.nlp.text import Language, language, search_terms

YOU: Final = re.compile(r"\b(?:you|your|yours)\b|[你您]", re.IGNORECASE)
# What a question names that is not said of the user without more words.
NAMED: Final[dict[Language, re.Pattern[str]]] = {
    "en": re.compile(
        r"\bof (?!(?:all|us|them|the|this|that|these|those|it|each|any|an?)\b)[\w-]{3}"
        r"|(?<=[a-z] )(?!I\b|I')[A-Z][\w-]"
    ),
    "zh": re.compile(r"[\u4e00-\u9fff]的(?=[\u4e00-\u9fff])|《"),
}
OWN_NAME: Final = re.compile(
    r"(?:my|user's) (?:full |first |last )?name\b|(?:i am|i'm) called\b"
    r"|(?:我|用户)(?:的名字)?(?:就|是)?叫",
    re.IGNORECASE,
)


def asks_of_the_world(question: str) -> bool:
    """Tell whether a question names what it asks of, and that is nobody around the user."""
    spoken = language(question)
    if SPEAKER.search(question) or YOU.search(question) or asked_kin(question):
        return False
    rules = load_rules(spoken)
    asks = any(one.id.endswith(".question") and one.regex.search(question) for one in rules.guards)
    named = NAMED[spoken].search(question) or rules.no_person.search(question)
    return asks and bool(named or (spoken == "zh" and FOREIGN.search(question)))


def shares_words(text: str, question: str) -> bool:
    """Tell whether a text names anything that a question does, but for words of one character."""
    asked = {term for term in search_terms(question) if len(term) > 1}
    return not asked.isdisjoint(search_terms(text))


def is_name_of_the_user(text: str) -> bool:
    """Tell whether a text gives the user's own name."""
    return bool(OWN_NAME.match(text))
