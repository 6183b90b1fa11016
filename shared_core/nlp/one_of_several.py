"""Which of several "the older one" is: "I have two sons, the older one is called Ben". Pure."""

from __future__ import annotations

import re
from typing import Final

from shared_core.nlp.rules import load_rules
from shared_core.nlp.text import Language

REACH: Final = 6
"""So many clauses after the number of them was told, one of them may be told of."""
ONLY_A_NAME: Final = re.compile(r"(?: called| named)?(?= (?-i:[^\Wa-z\d_])[\w'-]*[.!]?\Z)")


class Several:
    """Of whom the speaker has several, as said last: "two sons", 两个孩子."""

    def __init__(self) -> None:
        self._kin = ""
        self._language: Language = "en"
        self._clauses = 0

    def told(self, clause: str, spoken: Language) -> str:
        """Return a clause about one of them with the relation: "My older son is called Ben".

        大的叫乐乐 is 我大孩子叫乐乐 after 我有两个孩子. Any other clause comes back as it is.
        """
        rules = load_rules(spoken)
        self._clauses += 1
        if found := rules.several.match(clause):
            self._kin, self._language, self._clauses = found["kin"].lower(), spoken, 0
            return clause
        one = rules.one_of.match(clause)
        if one is None or not self._kin or self._language != spoken or self._clauses > REACH:
            return clause
        which, rest = one["which"] or "", one["rest"]
        if spoken == "zh":
            title = rules.canonical.get(which, which) + self._kin
            return f"我{title if title in rules.kin else self._kin}{rest}"
        title = f"{rules.canonical.get(which.lower(), which.lower())} {rules.canonical[self._kin]}"
        bare = ONLY_A_NAME.match(rest)
        return f"My {title.strip()}{f' is called{rest[bare.end() :]}' if bare else rest}"
