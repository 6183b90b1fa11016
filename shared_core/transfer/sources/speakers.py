"""Who says which line of an episode: "Ana: ...", "Ana (user): ...", "assistant: ...". Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from shared_core.core.domain import ROLES, USER, Role
from shared_core.nlp.rules import read_rule_file

SPEAKER = re.compile(
    r"\s{0,8}([^\s:：(（][^:：]{0,60}?)?(?: {0,4}\((\w{1,40})\))?(: {1,4}|：\s{0,4}|:)"
)
"""Matches a possible speaker at the beginning of a line, and the colon with its blanks."""
AGENTS = frozenset({"assistant", "ai", "agent", "bot", "model", "助手"})
USERS = frozenset({"user", "human", "用户"})
ROLE_NAMES = AGENTS | USERS | {"system"}
"""Roles that stand before a colon in place of a name, in lower case."""
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


def said_in(content: str, known: frozenset[str]) -> list[Said]:
    """Return what each speaker of an episode says, in order.

    A line begins with a speaker if a known name or a role stands before the colon. If the first
    line does so, or begins with what looks like a name, other names begin a turn too, but not in
    an answer of an agent, which may hold lists and code. A line without a speaker continues the
    turn before; before the first speaker the user speaks.

    Args:
        content: The text of the episode.
        known: The names of the user and of entities, in lower case.
    """
    found: list[tuple[int, str, str, list[str]]] = []
    for number, line in enumerate(content.splitlines(), 1):
        is_transcript = number == 1 or bool(found[0][1] and found[-1][2] not in AGENTS)
        small = number == 1 or (not found[0][2] and found[0][1].islower())
        speaker = _speaker(line, known, is_transcript=is_transcript, small=small)
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

    These are the names of the user, else the only speaker with the same first name, else those
    with the role of the user. If there is none, and nobody speaks as "user", the only speaker
    with a name is the user.

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
    first_names = {_first(name) for name in names}
    alike = {name for name in named - own if _first(name) in first_names}
    if len(alike) == 1:
        own = own | alike
    if not own:
        own = by_role or (named if len(named) == 1 and not is_entity else set())
    return frozenset(own)


def _first(name: str) -> str:
    return name.split(maxsplit=1)[0] if name.strip() else ""


def _speaker(
    line: str, known: frozenset[str], *, is_transcript: bool, small: bool
) -> tuple[str, str, str] | None:
    """Return the author, the stated role and the text of a line, or None without a speaker."""
    match = SPEAKER.match(line)
    if match is None:
        return None
    author, role = ((one or "").strip() for one in match.groups()[:2])
    named, role, text = author.lower(), role.lower(), line[match.end() :]
    if role in ROLES or role in AGENTS:
        return author, role, text
    if role:
        return None
    if named in ROLE_NAMES:
        return author, named, text
    is_apart = match[3] != ":" or not text  # no blank follows in "https://" and "12:30"
    if named in known or (is_transcript and is_apart and _is_name(author, small=small)):
        return author, "", text
    return None


def _is_name(text: str, *, small: bool) -> bool:
    """Tell whether words before a colon look like a name. small: or like one in small letters."""
    words = text.split()
    if not words or len(words) > MAX_NAME_WORDS or not all(map(WORD.fullmatch, words)):
        return False
    bare = " ".join(word for word in words if not word.isdigit()).lower()
    if not bare or not _labels().isdisjoint({bare, _first(bare)}):
        return False
    if not text.isascii() and any("\u4e00" <= letter <= "\u9fff" for letter in text):
        return CHINESE_NAME.fullmatch(text) is not None
    if len(words) == 1 and small:
        return True
    return not words[0][0].islower() and all(
        not word[0].islower() or word in PARTICLES for word in words
    )


@lru_cache
def _labels() -> frozenset[str]:
    """Return the words before a colon that are no names."""
    tables: Iterator[str] = iter(read_rule_file("speakers.toml")["labels"].values())
    return frozenset(word for words in tables for word in words.split())
