"""Finds the subject of a clause: the user, a named person, or somebody unknown. Pure."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field
from typing import Final

from shared_core.core.domain import USER
from shared_core.knowledge.held_index import HeldIndex, holds_name
from shared_core.nlp.rules import load_rules
from shared_core.nlp.rules.revision import RevisionRules, load_revision_rules
from shared_core.nlp.text import Language, normalised

TOKEN: Final = re.compile(r"[\w'-]+|[,;:()—–…!?.]")
PUNCTUATION: Final = frozenset(",;:()—–…!?.-")
JOINED: Final = frozenset({"and", "but", "then", "or", "&"})
WITH_USER: Final = re.compile(r"(?:我们?|咱们?)(?:跟|和|与)[^，,\s]{1,5}$")
READ_BACK: Final = 120
"""Maximum number of characters before a predicate in which its subject is looked for."""
REMEMBERED_TURNS: Final = 2
"""Number of turns, this one included, in which a pronoun may have its antecedent."""
UNKNOWN: Final = None


@dataclass(slots=True)
class Subjects:
    """Resolves the subject of a predicate. carried: the subject of the clause before, or UNKNOWN.

    Everything in doubt is UNKNOWN, which is nobody the user has facts about.
    """

    held: HeldIndex
    carried: str | None = USER
    _turn: int = 0
    _named: deque[tuple[int, str]] = field(default_factory=lambda: deque(maxlen=32))

    def begin_turn(self) -> None:
        self._turn += 1
        self.carried = USER

    def before(self, text: str, language: Language) -> str | None:
        """Return the subject of the predicate that follows a text: USER, a name, or UNKNOWN."""
        if language == "zh":
            return self._before_chinese(text[-READ_BACK:])
        return self._before_english(text[-READ_BACK:])

    def owner(self, text: str, language: Language, *, carries: bool = True) -> str | None:
        """Return USER if what follows a text is the user's: "my ", "so the ", 我的.

        carries: a Chinese clause that names nobody is about whom the clause before was about.
        """
        rules = load_revision_rules(language)
        if language == "zh":
            rest = rules.trailing.sub("", text.strip())
            elided = not rest and carries
            while mine := next((one for one in rules.owners if rest.endswith(one)), ""):
                rest = rules.trailing.sub("", rest.removesuffix(mine))
            if elided:
                return self.carried
            return USER if not rest.strip("，, ") else UNKNOWN
        tokens = [one.lower() for one in TOKEN.findall(text)]
        while tokens and tokens[-1] in {*rules.owners, "the", "old", *rules.particles}:
            tokens.pop()
        return USER if not tokens or tokens[-1] in PUNCTUATION | JOINED else UNKNOWN

    def observe(self, clause: str, language: Language) -> None:
        """Remember the subject of a clause, and the people it names."""
        low = clause.lower()
        for fact in self.held.named():
            name = normalised(fact.value)
            if holds_name(name, low) or (language == "zh" and len(name) == 3 and name[1:] in low):
                self._named.append((self._turn, name))
        rules = load_revision_rules(language)
        begins = self._begins(clause, language, rules)
        self.carried = self.carried if begins == "" else begins

    def _before_english(self, text: str) -> str | None:
        rules = load_revision_rules("en")
        tokens = TOKEN.findall(text)
        while tokens and tokens[-1].lower() in rules.particles:
            tokens.pop()
        if not tokens or tokens[-1] in PUNCTUATION:
            return self._opening(tokens, rules) if tokens else self.carried
        if tokens[-1].lower() in JOINED:
            return self._opening(tokens, rules)
        return self._english_person(tokens, rules)

    def _opening(self, tokens: list[str], rules: RevisionRules) -> str | None:
        """Return the subject with which tokens open, for a predicate that leaves it out."""
        for count in range(1, 5):
            if found := self._english_person(tokens[:count], rules):
                return found
        plain = {*rules.particles, *PUNCTUATION, *JOINED}
        return self.carried if all(one.lower() in plain for one in tokens) else UNKNOWN

    def _english_person(self, tokens: list[str], rules: RevisionRules) -> str | None:
        """Return whom the last of some tokens stands for."""
        if not tokens:
            return UNKNOWN
        last = tokens[-1].lower()
        if last in rules.user:
            return USER
        if last in rules.pronouns:
            return self._antecedent(rules.pronouns[last])
        word = last.removesuffix("'s")
        if relation := load_rules("en").kin.get(" ".join([*tokens[-2:-1], word]).lower()) or (
            load_rules("en").kin.get(word)
        ):
            near = [one.lower() for one in tokens[-4:-1]]
            if any(one.endswith("'s") for one in near) or not set(near) & {*rules.owners}:
                return UNKNOWN
            return self._only(relation)
        return self._called(word)

    def _before_chinese(self, text: str) -> str | None:
        rules = load_revision_rules("zh")
        rest = rules.trailing.sub("", text.strip(" 　"))
        if not rest or rest[-1] in "，,。！!；;":
            return self.carried
        return self._chinese_person(rest, rules)

    def _chinese_person(self, text: str, rules: RevisionRules) -> str | None:
        """Return whom the end of a text stands for."""
        for fact in self.held.named():
            name = fact.value.lower()
            if text.lower().endswith(name) or (len(name) == 3 and text.endswith(name[1:])):
                return normalised(fact.value)
        if any(text.endswith(one) for one in rules.user) or WITH_USER.search(text):
            return USER
        if gender := rules.pronouns.get(text[-1]):
            return self._antecedent(gender)
        kin = load_rules("zh").kin
        for word in sorted((one for one in kin if text.endswith(one)), key=len, reverse=True):
            rest = text.removesuffix(word)
            owner = next((one for one in rules.owners if rest.endswith(one)), "")
            rest = rules.trailing.sub("", rest.removesuffix(owner))
            return self._only(kin[word]) if not rest.strip("，, ") else UNKNOWN
        return UNKNOWN

    def _begins(self, clause: str, language: Language, rules: RevisionRules) -> str | None:
        """Return the subject with which a clause begins, "" if it names none."""
        if language == "en":
            tokens = TOKEN.findall(clause[:READ_BACK])[:4]
            if not tokens or tokens[0].lower() in rules.particles | PUNCTUATION:
                return ""
            return next(
                (one for count in (1, 2, 3, 4)
                 if (one := self._english_person(tokens[:count], rules))), UNKNOWN
            )  # fmt: skip
        if any(clause.startswith(one) for one in rules.strangers):
            return UNKNOWN
        kin = load_rules("zh").kin
        start = next((one for one in rules.owners if clause.startswith(one)), "")
        rest = clause.removeprefix(start)
        if word := next((one for one in sorted(kin, key=len, reverse=True)
                         if rest.startswith(one)), ""):  # fmt: skip
            follows = rest.removeprefix(word)
            return UNKNOWN if follows.startswith("的") else self._only(kin[word])
        if start or any(clause.startswith(one) for one in rules.user):
            return USER
        if gender := rules.pronouns.get(clause[:1]):
            return self._antecedent(gender)
        names = [normalised(one.value) for one in self.held.named()]
        return next((one for one in names if clause.lower().startswith(one)), "")

    def _only(self, relation: str) -> str | None:
        names = {normalised(one.value) for one in self.held.people([relation])}
        return names.pop() if len(names) == 1 else UNKNOWN

    def _called(self, word: str) -> str | None:
        names = {normalised(one.value) for one in self.held.named()}
        found = {name for name in names if word in name.split()}
        return found.pop() if len(found) == 1 else UNKNOWN

    def _antecedent(self, gender: str) -> str | None:
        """Return the one person of this gender that was named of late."""
        found = {
            name
            for turn, name in self._named
            if turn > self._turn - REMEMBERED_TURNS
            and self.held.genders(name) & {gender, "unknown", "animal"}
        }
        return found.pop() if len(found) == 1 else UNKNOWN
