"""Discourse state: the people and things a conversation mentioned last. Pure.

A pronoun resolves to the only fitting person in the last two clauses that name anybody. It stays
open with two candidates or an unnamed one ("her friend"). After an unnamed person ("my barber") it
stays open until the fitting person is a subject again.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from shared_core.core.domain import KnownPerson, MemoryId
from shared_core.nlp.kinship import (
    Gender,
    Referent,
    are_distinct,
    entities_of,
    gender_of,
    is_plural,
    may_refer_to,
)
from shared_core.nlp.noun_phrases_en import english_phrases
from shared_core.nlp.noun_phrases_zh import chinese_phrases
from shared_core.nlp.rules import Pattern, RuleSet, load_fragment, load_rules, load_things
from shared_core.nlp.text import Language, place_of, without_name
from shared_core.nlp.typed_text import load_english_typing

COUNT_REACH: Final = 6
"""Number of clauses for which "I have two sons" gives "the older one" its meaning."""
AGE: Final = re.compile(r"\bturned\b|\byears? old\b")
LEAST_PART: Final = 3
"""Minimum number of letters of the first part of a compound noun."""
ONLY_A_NAME: Final = re.compile(r"(?: called| named)?(?= (?-i:[^\Wa-z\d_])[\w'-]*[.!]?\Z)")


class CountedKin:
    """The relation in the speaker's last count of relatives: "two sons", 两个孩子."""

    def __init__(self) -> None:
        self._kin = ""
        self._language: Language = "en"
        self._clauses = 0

    def rewrite(self, clause: str, lang: Language, around: str) -> str:
        """Return a clause about one of several with its relation: "My older son is called Ben".

        After 我有两个孩子, 大的叫乐乐 becomes 我大孩子叫乐乐. Any other clause is returned
        unchanged. around: the sentence of the clause, or more of its text.
        """
        rules = load_rules(lang)
        self._clauses += 1
        if found := rules.several.match(clause):
            self._kin, self._language, self._clauses = found["kin"].lower(), lang, 0
            return clause
        one = rules.one_of.match(clause)
        if one is None or not self._kin or self._language != lang or self._clauses > COUNT_REACH:
            return clause
        groups = one.groupdict(default="")
        if "next" in groups and one["next"] is not None and self._clauses > 1:
            return clause  # 名叫 without a subject names whom the clause before tells of.
        which, rest = groups["which"], one["rest"]
        if lang == "zh":
            title = rules.canonical.get(which, which) + self._kin
            return f"我{title if title in rules.kin else self._kin}{rest}"
        title = f"{rules.canonical.get(which.lower(), which.lower())} {rules.canonical[self._kin]}"
        if name := groups["named"]:
            is_called = _is_called(name, rest, around)
            return f"My{title} {name[0].upper()}{name[1:]}{rest}" if is_called else clause
        bare = ONLY_A_NAME.match(rest)
        return f"My {title.strip()}{f' is called{rest[bare.end() :]}' if bare else rest}"


def _is_called(name: str, rest: str, around: str) -> bool:
    """Tell whether a word with a number after it names somebody: "otis is 6", not "bedtime is 7".

    A word that is no known name needs a sign of one: a capital amid a sentence, an age that is said
    as one, or a second such word.
    """
    if load_english_typing().is_first_name(name.lower()):
        return True
    if _is_common(name) or not load_english_typing().is_name(name.lower()):
        return False
    before, _, _ = around.partition(name)
    is_capital = name[0].isupper() and before.rstrip()[-1:] not in ".!?…"  # nor nothing
    aged = {one["aged"].lower() for one in load_fragment("aged", "en").finditer(around)}
    return bool(is_capital or AGE.search(rest)) or sum(not _is_common(one) for one in aged) > 1


def _is_common(word: str) -> bool:
    """Tell whether a word denotes a thing, or is made of two words that do: "bedtime"."""
    things, lower = load_things(), word.lower()
    parts = ((lower[:place], lower[place:]) for place in range(LEAST_PART, len(lower)))
    return (
        lower in things.en
        or lower.endswith(things.en_endings)
        or any(things.en.issuperset(pair) for pair in parts)
    )


MENTION_CLAUSES: Final = 2
MAX_DISTANCE: Final = 12
"""Number of clauses after which a mention is no antecedent any more."""
ELLIPSIS_REACH: Final = 4
"""Number of clauses for which a sentence without a subject may be about somebody mentioned."""
MAX_ENTITIES: Final = 64
MAX_OBJECTS: Final = 4
MAX_UNNAMED: Final = 32
NOTHING: Final = r"(?!)"
RELATION_SLOT: Final = "relation.{kin}"
NOBODY: Final = re.compile(
    r"(?:(?:it|this|that|he|she|they|we|i|you|there|here|what|who|let|don|can|how)(?:'\w+)?"
    r"|the|its|when|where|why|if|and|but|so|then|no|yes|my|our|your|his|her|their|today|tomorrow"
    r"|yesterday|everyone|someone|nobody|somebody|people|please|thanks|sorry|ok|okay)(?:\s|\Z)",
    re.IGNORECASE,
)

UNNAMED: Final = Referent(name="", gender="unknown", named=False)
CALLED: Final = re.compile(r" (?:is|was) (?:called )?(?=M(?:r|r?s|iss)\b)")
TITLED: Final = re.compile(r"(?P<male>Mr)\b|(?P<female>M(?:r?s|iss))\b")
WOMAN_OR_MAN: Final[dict[str, Gender]] = {
    "woman": "female", "girl": "female", "女": "female",
    "man": "male", "guy": "male", "boy": "male", "男": "male",
}  # fmt: skip
LAST_WORD: Final = re.compile(r"[A-Za-z][\w-]{0,60}\Z|[女男]\Z")


class DiscourseState:
    """The entities of a conversation, its last mentions and its last objects.

    people: those the user named in earlier conversations. This conversation takes precedence.
    """

    def __init__(self, people: Sequence[KnownPerson] = ()) -> None:
        self.counted_kin = CountedKin()
        self._people = sorted(people, key=lambda one: one.told_at)
        self._known_count = 0
        self._known: Mapping[str, Referent] = {}
        self._known_names: re.Pattern[str] | None = None
        self._entities: dict[str, Referent] = {}
        self._source_turns: dict[str, frozenset[str]] = {}
        self._source_facts: dict[str, frozenset[MemoryId]] = {}
        self._ambiguous_names: set[str] = set()
        self._turn = ""
        self._antecedents: tuple[Referent, ...] = ()
        self._mentions: deque[tuple[int, list[Referent]]] = deque(maxlen=MENTION_CLAUSES)
        self._unnamed: deque[tuple[int, Gender]] = deque(maxlen=MAX_UNNAMED)
        self._last_subject: dict[str, int] = {}
        self._objects: deque[tuple[str, str]] = deque(maxlen=MAX_OBJECTS)
        self._clauses = 0
        self._sentence_began = 0
        self.letters: dict[int, int] = {}
        """Traditional characters typed so far, by the simplified ones of the names above."""

    def begin_turn(self, event_id: str, at: datetime) -> None:
        """Start a turn: the next clauses belong to it."""
        self._turn = event_id
        known_count = bisect_right(self._people, at, key=lambda one: one.told_at)
        if known_count != self._known_count:
            self._known_count = known_count
            self._known = entities_of(self._people[:known_count])
            self._known_names = re.compile("|".join(map(re.escape, self._known)) or NOTHING)

    def source_turns(self, *entities: Referent) -> tuple[str, ...]:
        """Return the ids of the earlier turns that introduced these entities."""
        ids = frozenset[str]().union(*(self._source_turns.get(one.name, ()) for one in entities))
        return tuple(sorted(ids - {self._turn}))

    def source_facts(self, *entities: Referent) -> tuple[MemoryId, ...]:
        """Return the ids of the facts from earlier conversations that introduced these entities."""
        ids = {one.source_fact for one in entities if one.source_fact is not None}
        return tuple(sorted(ids.union(*(self._source_facts.get(one.name, ()) for one in entities))))

    def begin_sentence(self) -> None:
        """Start a sentence with the next clause."""
        self._sentence_began = self._clauses

    @property
    def entities(self) -> list[Referent]:
        """All known entities. A person the user named elsewhere replaces one without a relation
        here."""
        known = [
            one
            for name, one in self._known.items()
            if name not in self._entities or not self._entities[name].relation
        ]
        own = [
            one for name, one in self._entities.items() if one.relation or name not in self._known
        ]
        return [*own, *known]

    @property
    def names(self) -> list[str]:
        """The names of all known entities."""
        return [one.name for one in self.entities if one.named and one.name]

    @property
    def speaks_of_others(self) -> bool:
        """Whether a recent clause mentions somebody, who may be the subject left out next."""
        mentioned = max((number for number, _ in self._mentions), default=-ELLIPSIS_REACH)
        unnamed = max((number for number, _ in self._unnamed), default=-ELLIPSIS_REACH)
        return self._clauses - max(mentioned, unnamed) < ELLIPSIS_REACH

    def entities_in(self, clause: str) -> list[Referent]:
        """Return the entities that a clause may name."""
        names = self._known_names
        known = self.entities if names and names.search(clause) else self._entities.values()
        return [one for one in known if one.name in clause]

    def observe(
        self,
        clause: str,
        language: Language,
        *,
        original: str = "",
        user: bool = True,
        antecedents: Collection[Referent] = (),
        unresolved: Collection[Gender] = (),
    ) -> None:
        """Record the people and things a clause mentions.

        clause: with its pronouns replaced by antecedents; original: with its pronouns. unresolved:
        genders of the pronouns without an antecedent. user: whether the user speaks.
        """
        self._clauses += 1
        self._antecedents = tuple(antecedents)
        seen: dict[str, Referent] = {}
        introduced: list[Referent] = []
        if user:
            introduced = self._introduced(clause, language)
            relations = {entity.relation for entity in introduced}
            for entity in (*introduced, *self._kin_mentions(clause, language, relations)):
                seen[entity.name] = entity
        for entity in self.entities_in(clause):
            if is_named_in(entity.name, clause):
                seen[entity.name] = entity
        rules = load_rules(language)
        for match in rules.someone.finditer(clause) if user else ():
            name = next(filter(None, match.groups()), "")
            if name and not NOBODY.match(name) and name not in seen:
                stranger = Referent(name=name, gender=titled(name))
                seen[name] = self._add(stranger, introduced=name not in self._entities)
        for entity in strangers(original or clause, clause if user else "", rules):
            seen[f"? {entity.gender}"] = entity
        if seen:
            self._mentions.append((self._clauses, list(seen.values())))
        about = [*introduced, *self._subjects(clause, language)]
        self._last_subject |= dict.fromkeys((one.name for one in about), self._clauses)
        if user:
            unknown = {*unresolved, *self._unknown_in(clause, language)}
            self._unnamed.extend((self._clauses, gender) for gender in unknown)
        for match in rules.thing.finditer(clause):
            self._note_object(match.groupdict())

    def observe_hearsay(self, passages: Sequence[tuple[str, Language]]) -> None:
        """Record the people mentioned in passages that state nothing: questions, wishes, rumour."""
        for text, language in passages:
            self._clauses += 1
            seen = {one.name: one for one in self.entities_in(text) if is_named_in(one.name, text)}
            unknown = self._unknown_in(text, language)
            for mention in load_rules(language).kin_mention.finditer(text):
                entity = self.kin_entity(mention, language)
                if entity is not None and entity.name in self._entities:
                    seen[entity.name] = entity
                elif entity is None or not entity.named:
                    unknown.add(entity.gender if entity else "unknown")
            if seen:
                self._mentions.append((self._clauses, list(seen.values())))
            self._unnamed.extend((self._clauses, gender) for gender in unknown)

    def is_ambiguous(self, entity: Referent) -> bool:
        """Tell whether two people have this name: a son and a nephew."""
        return entity.name in self._ambiguous_names

    def antecedent(self, gender: Gender) -> Referent | None:
        """Return the only person a pronoun of this gender may refer to, or None."""
        candidates = self.candidates(gender)
        [found] = candidates.values() if len(candidates) == 1 else [UNNAMED]
        return found if found.name else None

    def candidates(self, gender: Gender) -> dict[str, Referent]:
        """Return the possible antecedents of a pronoun by name; "" stands for an unnamed person."""
        fitting = fitting_for(gender)
        here = self._mentions_since(self._sentence_began, fitting)
        found = here or self._mentions_since(self._clauses - MAX_DISTANCE, fitting)
        settled = min((self._last_subject.get(name, 0) for name in found), default=0)
        last = max((clause for clause, one in self._unnamed if one in fitting), default=0)
        if last and last >= max(settled, self._clauses - MAX_DISTANCE):
            found[UNNAMED.name] = UNNAMED
        return found

    def mentioned_before(self, text: str, language: Language, gender: Gender) -> list[Referent]:
        """Return the people in a text that a later pronoun may refer to; UNNAMED stands for unnamed
        ones."""
        fitting = fitting_for(gender)
        found = {one.name: one for one in self.entities_in(text) if is_named_in(one.name, text)}
        for mention in load_rules(language).kin_mention.finditer(text):
            entity = self.kin_entity(mention, language) or UNNAMED
            found[entity.name] = entity
        unknown = self._unknown_in(text, language)
        fits = [one for one in found.values() if one.gender in fitting]
        return [*fits, *(replace(UNNAMED, gender=one) for one in unknown & fitting)]

    def _unknown_in(self, text: str, language: Language) -> set[Gender]:
        known = [one.name for one in self.entities_in(text) if is_named_in(one.name, text)]
        return unknown_people(text, known, language)

    def _subjects(self, clause: str, language: Language) -> list[Referent]:
        """Return the people a clause begins with, as its subject or as the owner of its subject."""
        mention = load_rules(language).kin_mention.match(clause)
        entity = self.kin_entity(mention, language) if mention else None
        named = [one for one in self.entities_in(clause) if clause.startswith(one.name)]
        return [*named, *([entity] if entity else [])]

    def note_unnamed(self, gender: Gender) -> None:
        """Record that the last clause mentions somebody named before the turns that were read."""
        self._mentions.append((self._clauses, [replace(UNNAMED, gender=gender)]))

    @property
    def has_no_names(self) -> bool:
        """Whether no recent clause named anybody."""
        return not any(one.name for _, seen in self._mentions for one in seen)

    def _mentions_since(self, clause: int, genders: set[Gender]) -> dict[str, Referent]:
        found = [
            entity
            for number, seen in self._mentions
            if number > clause
            for entity in seen
            if entity.gender in genders and self._is_known(entity)
        ]
        two = len({(one.name, one.relation) for one in found if self.is_ambiguous(one)}) > 1
        return {one.name: one for one in found} | ({UNNAMED.name: UNNAMED} if two else {})

    def _is_known(self, entity: Referent) -> bool:
        """Tell whether somebody had been named by the time of this turn."""
        return entity.source_fact is None or self._known.get(entity.name) == entity

    def last_object(self, verb: str) -> str:
        """Return the last object of this verb, else the only recent object, else ""."""
        for done, thing in reversed(self._objects):
            if done and done == verb:
                return thing
        things = {thing for _, thing in self._objects}
        return things.pop() if len(things) == 1 else ""

    def kin_entity(self, mention: re.Match[str], language: Language) -> Referent | None:
        """Return the person a kin_mention match refers to; None for one of several."""
        relation = load_rules(language).canonical[mention["kin"].lower()]
        title = mention["title"].lower()
        linked: list[Referent] = []
        for one in self.entities:
            if may_refer_to(one, relation, title):
                linked.append(one)
                if one.subject != linked[0].subject:
                    return None
        if linked:
            return min(linked, key=lambda one: one.known_as)
        entity = Referent(
            name=mention[0][0].lower() + mention[0][1:],
            gender=gender_of(relation),
            relation=relation,
            title=title,
            named=False,
        )
        return None if is_plural(mention["kin"], relation) else entity

    def _kin_mentions(
        self, clause: str, language: Language, introduced: set[str]
    ) -> list[Referent]:
        found: list[Referent] = []
        rules = load_rules(language)
        for mention in rules.kin_mention.finditer(clause):
            if rules.canonical[mention["kin"].lower()] in introduced:
                continue
            entity = self.kin_entity(mention, language)
            # For a named relative, the clause has the relation but not the name.
            found.append(
                UNNAMED if entity is None else self._add(entity, introduced=not entity.named)
            )
        return found

    def _introduced(self, clause: str, language: Language) -> list[Referent]:
        rules = load_rules(language)
        found: list[Referent] = []
        for pattern in rules.relations:
            if pattern.slot != RELATION_SLOT or not (match := pattern.regex.match(clause)):
                continue
            relation = rules.canonical[match["kin"].lower()]
            mention = rules.kin_mention.search(clause)
            title = (mention["title"] if mention else match["kin"]).lower()
            if is_plural(match["kin"], relation):
                title = relation
            for name in names(match["value"], pattern, rules.separator):
                gender = gender_of(relation)
                entity = Referent(name=name, gender=gender, relation=relation, title=title)
                self._replace_unnamed(entity)
                found.append(self._add(entity, introduced=True))
            if found:
                break
        return found

    def _replace_unnamed(self, entity: Referent) -> None:
        """Replace an unnamed relative by the same relative with a name."""
        for earlier in self.entities:
            if not earlier.named and may_refer_to(earlier, entity.relation, entity.title):
                del self._entities[earlier.name]
                for _, seen in self._mentions:
                    seen[:] = [entity if one == earlier else one for one in seen]

    def _add(self, entity: Referent, *, introduced: bool) -> Referent:
        if entity.source_fact is not None:
            return entity
        known = self._entities.pop(entity.name, None)
        if known is not None and known.relation and not entity.relation:
            entity = replace(known)
        elif known is not None and are_distinct(known.relation, entity.relation):
            self._ambiguous_names.add(entity.name)
        self._entities[entity.name] = entity
        if introduced:
            self._source_turns[entity.name] = frozenset(
                [self._turn, *self.source_turns(*self._antecedents)]
            )
            self._source_facts[entity.name] = frozenset(self.source_facts(*self._antecedents))
        while len(self._entities) > MAX_ENTITIES:
            oldest = next(iter(self._entities))
            del self._entities[oldest]
            self._source_turns.pop(oldest, None)
            self._source_facts.pop(oldest, None)
        return entity

    def _note_object(self, found: dict[str, str | None]) -> None:
        thing = found.get("thing") or found.get("topic") or ""
        if thing and not DEICTIC.match(thing):
            self._objects.append(((found.get("verb") or "").lower(), thing))


def fitting_for(gender: Gender) -> set[Gender]:
    """Return the genders an antecedent may have for a pronoun of this gender."""
    return {gender} if gender == "animal" else {gender, "animal", "unknown"}


DEICTIC: Final = re.compile(
    r"(?i:(?:it|this|that|them|these|those|you|me|him|her|us|to|how|what|when|if|the way)\b)"
    r"|[这那它他她你我什怎的了过着]"
)


def strangers(original: str, clause: str, rules: RuleSet) -> Iterator[Referent]:
    """Yield an unnamed entity for each unknown person in the original clause.

    clause: the user's clause with its pronouns replaced. People it introduces by name are skipped.
    """
    ends = {
        match.end("kin")
        for pattern in rules.relations
        if pattern.slot == RELATION_SLOT and (match := pattern.regex.match(clause))
        if original[: match.end("kin")] == clause[: match.end("kin")]
    }
    for stranger in rules.stranger.finditer(original):
        if stranger.end() not in ends:
            yield replace(UNNAMED, gender=stranger_gender(stranger, rules))


def stranger_gender(stranger: re.Match[str], rules: RuleSet) -> Gender:
    """Return the gender in a stranger match, by its last word or by "is Mr" after it."""
    after = stranger.string[stranger.end() :]
    if called := CALLED.match(after):
        return titled(after[called.end() :])
    last = LAST_WORD.search(stranger[0])
    word = last[0].lower() if last else ""
    if not word:
        word = max((kin for kin in rules.kin if stranger[0].endswith(kin)), key=len, default="")
    return WOMAN_OR_MAN.get(word) or gender_of(rules.kin.get(word, ""))


def titled(name: str) -> Gender:
    """Return the gender that "Mr" or "Mrs" before a name implies."""
    title = TITLED.match(name)
    if title is None:
        return "unknown"
    return "male" if title["male"] else "female"


def names(value: str, pattern: Pattern, separator: re.Pattern[str]) -> list[str]:
    """Return the names in the value of a relation pattern."""
    parts = separator.split(value) if pattern.split == "any" else [value]
    parts = [part.strip(" .,，。") for part in parts]
    return [part for part in parts if part and not (pattern.reject and pattern.reject.search(part))]


def is_named_in(name: str, clause: str) -> bool:
    """Tell whether a clause contains a name; Latin names must match whole words."""
    return place_of(name, clause) >= 0


KNOWN: Final = "§"
"""Placeholder for known people in a clause that is searched for others."""
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


def unknown_people(clause: str, known: Iterable[str], lang: Language) -> set[Gender]:
    """Return the genders of the unknown people in a clause: "my barber", "Einstein", 房东.

    A rule of form without a list of people: a noun phrase counts as a person unless it is known as
    a thing (rules/things.toml), a place or a plural. known: names to skip; relations are skipped
    too.
    """
    masked = load_rules(lang).kin_mention.sub(KNOWN, clause)
    for name in sorted(known, key=len, reverse=True):
        masked = without_name(name, masked, KNOWN) if name else masked
    phrases = chinese_phrases(masked) if lang == "zh" else english_phrases(masked)
    return {gender_in(phrase, lang) for phrase in phrases}


def gender_in(phrase: str, lang: Language) -> Gender:
    """Return the gender in a phrase; "unknown" for contradictory words such as "the guy's wife"."""
    found = [gender for gender, words in GENDERED.items() if words.search(phrase)]
    if len(found) == 1:
        return found[0]
    kin = load_rules(lang).kin
    related = {gender_of(kin[word]) for word in kin if _holds(phrase, word)} - {"unknown"}
    return related.pop() if not found and len(related) == 1 else "unknown"


def _holds(phrase: str, word: str) -> bool:
    return word in phrase if not word.isascii() else word in phrase.lower().split()
