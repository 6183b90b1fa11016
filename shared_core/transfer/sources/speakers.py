"""Who says which line of an episode: "Ana: ...", "Ana (user): ...", "assistant: ...". Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from shared_core.core.domain import ROLES, USER, Role
from shared_core.nlp.coreference import SPEAKER as FIRST_PERSON
from shared_core.nlp.rules import load_kin_words, read_rule_file

SPEAKER = re.compile(
    r"\s{0,8}([^\s:：(（][^:：]{0,60}?)?(?: {0,4}\((\w{1,40})\))?(: {1,4}|：\s{0,4}|:)"
)
"""Matches a possible speaker at the beginning of a line, and the colon with its blanks."""
AGENTS = frozenset({"assistant", "ai", "agent", "bot", "model", "助手"})
USERS = frozenset({"user", "human", "用户"})
ROLE_NAMES = AGENTS | USERS | {"system"}
"""Roles that stand before a colon in place of a name, in lower case."""
DOUBTFUL_ROLES = frozenset({"model"})
"""Roles that are also labels: "Model: Tesla 3"."""
PARTICLES = frozenset({
    "al", "bin", "da", "de", "del", "den", "der", "di", "dos", "du", "el", "la", "le", "ten",
    "ter", "van", "von", "zu",
})  # fmt: skip
"""Words of a name that are written small."""
WORD = re.compile(r"[^\W\d_][\w.'’\-]{0,40}|\d{1,4}")
CHINESE_NAME = re.compile(
    r"(?![我你您他她它这那])[\u4e00-\u9fff]{2,4}|[\u4e00-\u9fff]{1,8}·[\u4e00-\u9fff·]{1,12}"
)
MAX_NAME_WORDS = 4


@dataclass(frozen=True, slots=True)
class Said:
    """What a speaker says in an episode.

    Attributes:
        line: Number of the first line, from 1.
        author: The name before the colon, or "".
        role: The role that the episode states, in lower case; "" if it states a name alone.
        text: The words after the colon, up to the next speaker.
    """

    line: int
    author: str
    role: str
    text: str


def said_in(content: str, users: frozenset[str], entities: frozenset[str]) -> list[Said]:
    """Return what each speaker of an episode says, in order.

    A role or a name of the user before the colon begins a turn. On the first line, an entity or
    what looks like a name does so too. If it does, so do other names on later lines, but in an
    answer of an agent, which may hold lists and code, only entities. A line without a speaker
    continues the turn before; before the first speaker the user speaks.

    Args:
        content: The text of the episode.
        users: The names of the users, in lower case.
        entities: The names of entities, in lower case.
    """
    lines = content.splitlines()
    roles = ROLE_NAMES if any(map(_has_capital_role, lines)) else ROLE_NAMES - DOUBTFUL_ROLES
    found: list[tuple[int, str, str, list[str]]] = []
    for number, line in enumerate(lines, 1):
        speaker = _role_or_user(line, users, roles)
        if speaker is None and (number == 1 or found[0][1].lower() not in ROLE_NAMES | {""}):
            speaker = _other_name(
                line,
                entities,
                only_entities=number > 1 and found[-1][2] in AGENTS,
                small=number == 1 or (not found[0][2] and found[0][1].islower()),
            )
        if speaker is not None:
            author, role, text = speaker
            found.append((number, author, role, [text]))
        elif found:
            found[-1][3].append(line)
        else:
            found.append((number, "", USER, [line]))
    return [Said(number, author, role, "\n".join(lines).strip())
            for number, author, role, lines in found]  # fmt: skip


def role_of(named: str) -> Role:
    """Return the role that is stored for a named role; one that is not known is the user's."""
    return "agent" if named in AGENTS else ROLES.get(named, "user")


def own_speakers(said: Iterable[Said], names: frozenset[str], *, is_entity: bool) -> frozenset[str]:
    """Return the names, in lower case, under which the user speaks.

    These are the names of the user, else the only speaker with the same first name, if one of
    the two names is that first name alone. Else they are those with the role of the user. If
    there is none, and nobody speaks as "user", the only speaker with a name is the user.

    Args:
        said: What all speakers of the user's episodes say.
        names: The names of the user, in lower case.
        is_entity: Whether the file has an entity with a name of the user.
    """
    speakers: dict[str, set[str]] = {}
    for one in said:
        if one.role not in ROLE_NAMES or one.role in USERS:
            speakers.setdefault(one.author.lower(), set()).add(one.role)
    by_role = {name for name, roles in speakers.items() if roles & USERS}
    named = speakers.keys() - USERS - {""}
    own = named & names
    if not own:
        alike = {one for one in named if any(_is_short_form(one, name) for name in names)}
        own = alike if len(alike) == 1 else set()
    if not own:
        own = by_role or (named if len(named) == 1 and not is_entity else set())
    return frozenset(own)


def _first(name: str) -> str:
    return name.split(maxsplit=1)[0] if name.strip() else ""


def _is_short_form(one: str, other: str) -> bool:
    """Tell whether one of two names is the first name of the other alone: "ana", "ana silva"."""
    return _first(one) == _first(other) and _first(one) in {one, other}


def _has_capital_role(line: str) -> bool:
    """Tell whether a line begins with a role in capitals that is no label: "User: ..."."""
    author = (match[1] or "").strip() if (match := SPEAKER.match(line)) else ""
    return author != author.lower() and author.lower() in ROLE_NAMES - DOUBTFUL_ROLES


def _role_or_user(
    line: str, users: frozenset[str], roles: frozenset[str]
) -> tuple[str, str, str] | None:
    """Return the author, the role and the text of a line that begins with a role or the user.

    roles: those that count in capitals too.
    """
    match = SPEAKER.match(line)
    if match is None:
        return None
    author, role = ((one or "").strip() for one in match.groups()[:2])
    named, role, text = author.lower(), role.lower(), line[match.end() :]
    if role:
        return (author, role, text) if role in ROLES or role in AGENTS else None
    if named in roles or author in ROLE_NAMES:
        return author, named, text
    return (author, "", text) if named in users else None


def _other_name(
    line: str, entities: frozenset[str], *, only_entities: bool, small: bool
) -> tuple[str, str, str] | None:
    """Return the author, no role and the text of a line that begins with a name.

    Args:
        line: A line that begins with neither a role nor the user.
        entities: The names of entities, in lower case.
        only_entities: No other name counts.
        small: One word in small letters counts as a name.
    """
    match = SPEAKER.match(line)
    author = (match[1] or "").strip() if match else ""
    if match is None or match[2] or not author or _is_label(author):
        return None
    text = line[match.end() :]
    if author.lower() in _kin() and not FIRST_PERSON.search(text):
        return None  # "Wife: Mia", but not "Mom: I am allergic to nuts."
    is_apart = match[3] != ":" or not text  # no blank follows in "https://" and "12:30"
    if author.lower() in entities or (
        is_apart and not only_entities and _is_name(author, small=small)
    ):
        return author, "", text
    return None


def _is_name(text: str, *, small: bool) -> bool:
    """Tell whether words before a colon look like a name. small: or like one in small letters."""
    words = text.split()
    if not words or len(words) > MAX_NAME_WORDS or not all(map(WORD.fullmatch, words)):
        return False
    if all(map(str.isdigit, words)):
        return False
    if not text.isascii() and any("\u4e00" <= letter <= "\u9fff" for letter in text):
        return CHINESE_NAME.fullmatch(text) is not None
    if len(words) == 1 and small:
        return True
    return not words[0][0].islower() and all(
        not word[0].islower() or word in PARTICLES for word in words
    )


def _is_label(text: str) -> bool:
    """Tell whether words before a colon are a label: "Blood type: ..."."""
    bare = " ".join(word for word in text.split() if not word.isdigit()).lower()
    chinese_end = bare[-2:] if "\u4e00" <= bare[-1:] <= "\u9fff" else bare  # 出生日期, 家庭住址
    return not _labels().isdisjoint({bare, _first(bare), chinese_end})


@lru_cache
def _labels() -> frozenset[str]:
    """Return the words before a colon that are no names."""
    tables: Iterator[str] = iter(read_rule_file("speakers.toml")["labels"].values())
    return frozenset(word for words in tables for word in words.split())


@lru_cache
def _kin() -> frozenset[str]:
    """Return the words for relatives and pets: "Wife: Mia" says whose name it is."""
    return frozenset({*load_kin_words("en"), *load_kin_words("zh")})
