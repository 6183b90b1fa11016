"""Combine the turns about a person into one self-contained statement. Pure.

"我女儿叫灿灿", "她今年5岁" and "她喜欢画画" become "灿灿是我的女儿，今年5岁，喜欢画画". A clause
with an unresolved pronoun is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from shared_core.core.domain import MemoryId, StatementDraft
from shared_core.extraction.rule_reader import ResolvedClause
from shared_core.nlp.kinship import Referent, are_distinct, title_for, title_in
from shared_core.nlp.slots import is_name_slot
from shared_core.nlp.text import Language

PERSON_IMPORTANCE: Final = 8.0
KNOWLEDGE_IMPORTANCE: Final = 3.0
MAX_PARTS: Final = 12
"""Maximum number of predicates in one statement."""

DEICTIC: Final = re.compile(
    r"\b(?:i|me|my|mine|we|us|our|you|your|he|she|it|him|her|his|hers|its|they|them|their|this|that"
    r"|these|those|here|there|now|today|tonight|yesterday|tomorrow|so|not)\b|n't\b"
    r"|[我你您他她它咱]|[这那](?![么])|今天|昨天|明天|现在|刚才|不是|[吗吧呢？?]|谁|什么|哪",
    re.IGNORECASE,
)
KNOWLEDGE: Final[dict[Language, re.Pattern[str]]] = {
    "en": re.compile(
        r"(?:the )?[A-Z][\w'-]+(?: [\w'-]+){0,3} (?:is|are|was|were)"
        r" (?:(?:the|an?) (?:[\w'-]+ ){1,3}of|(?:located |born )?in)"
        r" (?:the )?(?:[A-Z]|\d)[\w' -]{1,40}\Z"
    ),
    "zh": re.compile(
        r"(?![^是]{0,8}(?:[或就也都真很还不的了只最才总可比]|特别|尤其|确实|其实|应该|感觉|主题))"
        r"[\u4e00-\u9fffA-Za-z0-9·《》]{2,10}?(?:是|位于)(?!.*(?:[很挺好真]|一种|一个|非常|关于|如何))"
        r"[\u4e00-\u9fffA-Za-z0-9·《》]{1,10}的[\u4e00-\u9fffA-Za-z0-9·《》]{1,8}\Z"
    ),
}
# A short predicate about a state, not an event, that no pattern reads.
PLAIN: Final[dict[Language, re.Pattern[str]]] = {
    "en": re.compile(r"(?!is\b.*ing\b)(?:is|has|[a-z]+s)\b(?: [\w'-]+){1,7}\Z"),
    "zh": re.compile(
        r"(?!.*(?:[说问告让给叫和跟把被了过来去,，]|刚|一起))[\u4e00-\u9fffA-Za-z0-9]{3,14}\Z"
    ),
}


@dataclass(slots=True)
class _EntityGroup:
    entity: Referent
    language: Language
    parts: dict[str, None] = field(default_factory=dict)
    event_ids: dict[str, None] = field(default_factory=dict)
    people: dict[MemoryId, None] = field(default_factory=dict)


def statements_of(read: Iterable[ResolvedClause]) -> list[StatementDraft]:
    """Return one statement for each person or animal, and one for each clause of general knowledge.

    Statements about people are private, general knowledge is public. A person who was only named
    gets none.
    """
    groups: dict[tuple[str, Language], _EntityGroup | StatementDraft] = {}
    latest: dict[str, str] = {}
    for clause in read:
        if not clause.complete:
            continue
        for entity, part in described_by(clause):
            name = latest.get(entity.name, entity.name)
            before = groups.get((name, clause.language))
            if isinstance(before, _EntityGroup) and are_distinct(
                before.entity.relation, entity.relation
            ):
                name = latest[entity.name] = f"{entity.name} ({entity.relation})"
            key = (name, clause.language)
            group = groups.setdefault(key, _EntityGroup(entity, clause.language))
            keeps = not part or tells_more(clause) or is_plain(part, clause.language)
            if keeps and isinstance(group, _EntityGroup) and len(group.parts) < MAX_PARTS:
                group.entity = entity if entity.relation else group.entity
                if part:
                    group.parts.setdefault(part)
                group.event_ids |= dict.fromkeys([clause.event_id, *clause.needs])
                group.people |= dict.fromkeys(clause.people)
        if clause.about is None and not clause.facts and is_knowledge(clause):
            groups.setdefault((clause.text, clause.language), knowledge(clause))
    drafts = [one if isinstance(one, StatementDraft) else stated(one) for one in groups.values()]
    return [draft for draft in drafts if draft is not None]


def described_by(clause: ResolvedClause) -> list[tuple[Referent, str]]:
    """Return the people a clause describes, each with the predicate, "" if it only names them."""
    if clause.about is not None:
        predicate = clause.predicate.strip(" ,，.。!！~～")
        return [(clause.about, "" if only_names(clause) else predicate)]
    return [
        (
            Referent(
                name=fact.value,
                gender="unknown",
                relation=fact.slot.removeprefix("relation."),
                title=title_in(fact.statement),
            ),
            "",
        )
        for fact in clause.facts
        if is_name_slot(fact.slot)
    ]


def only_names(clause: ResolvedClause) -> bool:
    """Tell whether a clause gives only the name of somebody."""
    rest = clause.predicate.strip(" ,，.。!！")
    if clause.about and rest in (f"is {clause.about.name}", f"是{clause.about.name}"):
        return True
    if clause.language == "zh":
        return bool(re.match(r"的?(?:名字|小名)?(?:叫做?|名叫|是叫|名字是|是我)", rest))
    return bool(re.match(r"(?:'s name |is |are )?(?:is )?(?:called|named) |is (?:my|our) ", rest))


def tells_more(clause: ResolvedClause) -> bool:
    """Tell whether a pattern read more than a name in a clause."""
    return any(fact.slot.count(".") > 1 for fact in clause.facts)


def is_plain(part: str, language: Language) -> bool:
    """Tell whether a predicate can be kept without context and without a pattern."""
    return bool(PLAIN[language].match(part)) and not DEICTIC.search(part)


def stated(group: _EntityGroup) -> StatementDraft | None:
    """Return the statement of a group, or None if it only repeats a known name."""
    entity, parts = group.entity, list(group.parts)
    if entity.named and entity.title:
        title = title_for(entity, group.language)
        parts.insert(0, f"是我的{title}" if group.language == "zh" else f"is my {title}")
    if not entity.relation or len(parts) < 2:
        return None  # perhaps no person, or the fact already says it
    return StatementDraft(
        text=joined(entity.name, parts, group.language),
        event_ids=tuple(group.event_ids),
        people=tuple(group.people),
        importance=PERSON_IMPORTANCE,
        privacy="private",
    )


def joined(name: str, parts: Sequence[str], language: Language) -> str:
    """Return a subject and its predicates as one sentence."""
    if language == "zh":
        return name + "，".join(parts)
    predicate_list = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
    return f"{name[:1].upper()}{name[1:]} {predicate_list}."


def is_knowledge(clause: ResolvedClause) -> bool:
    """Tell whether a clause states general knowledge that needs no context."""
    text = clause.text.strip(" .。!！")
    return bool(KNOWLEDGE[clause.language].match(text)) and not DEICTIC.search(text)


def knowledge(clause: ResolvedClause) -> StatementDraft:
    """Return a clause of general knowledge as a statement."""
    return StatementDraft(
        text=clause.text.strip(" 。" if clause.language == "zh" else " "),
        event_ids=(clause.event_id, *clause.needs),
        people=clause.people,
        importance=KNOWLEDGE_IMPORTANCE,
        privacy="public",
    )
