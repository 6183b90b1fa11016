"""Reads what Graphiti and Zep hold: episodes, entities and edges, and messages of threads.

Neither has a file format of its own. The document is an object with the lists "episodes", "nodes",
"edges" and "threads", or one such list alone; their entries are the JSON of Graphiti's models
EpisodicNode, EntityNode and EntityEdge, or of Zep Cloud's Episode, Node, Edge and Message.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from shared_core.core.domain import ROLES, USER, Role
from shared_core.transfer.sources.json_file import JsonFile
from shared_core.transfer.sources.records import (
    NO_ID,
    NO_TEXT,
    NO_TIME,
    UNREADABLE,
    FactRecord,
    Record,
    SkippedRecord,
    StatementRecord,
    entries,
    moment,
    name_of,
    readable,
    text_of,
    turn_record,
)

LISTS = frozenset({"episodes", "nodes", "edges", "threads", "messages"})
SPEAKER = re.compile(r"([^\s:(][^:\n]{0,60}?)?(?: {0,4}\((\w{1,40})\))?: {1,4}")
"""Matches who may speak in an episode: "Ana: ...", or "Ana (user): ..."."""
AGENTS = frozenset({"assistant", "ai", "agent", "bot", "model"})
SPEAKERS = AGENTS | {"user", "human"}
"""Roles that stand before a colon in place of a name, in lower case."""
ENDS = ("source", "target")
LATE = datetime.max.replace(tzinfo=UTC)


def fits(kind: str, fields: Sequence[str]) -> bool:
    """Tell whether a document holds episodes, entities, edges or messages."""
    names = set(fields)
    if kind == "object":
        return bool(names & {"episodes", "edges", "threads", "messages"}) and "agents" not in names
    return bool(names & {"source_node_uuid", "source_description", "role_type"}) or {
        "uuid", "content", "role"
    } <= names  # fmt: skip


@dataclass(slots=True)
class _Export:
    """The parts of a document. user: the user whom the document names."""

    user: str | None = None
    episodes: list[dict[str, Any]] = field(default_factory=list)
    nodes: list[dict[str, Any]] = field(default_factory=list)
    edges: list[dict[str, Any]] = field(default_factory=list)
    threads: list[tuple[str | None, str, list[dict[str, Any]]]] = field(default_factory=list)
    unreadable: int = 0


def read(file: JsonFile) -> Iterator[Record]:
    """Yield episodes and messages as turns, text as statements, and edges as facts, by time."""
    export = _graph(file)
    for _ in range(export.unreadable):
        yield SkippedRecord(UNREADABLE)
    names = _names(export)
    for user, thread, messages in export.threads:
        for message in _in_order(messages):
            yield readable(_turn, message, user, thread, names)
    for episode in _in_order(export.episodes):
        yield readable(_episode, episode, export.user, names)
    for node in export.nodes:
        if text_of(node.get("summary")):
            yield SkippedRecord("summaries of entities")
    yield from _facts(export)


def _graph(file: JsonFile) -> _Export:
    """Return the parts of a document: an edge needs the names of its entities."""
    export = _Export()
    kind, _ = file.outline()
    if kind == "array":
        _sort(export, list(file.items("item")))
        return export
    for document in file.items(""):
        user = document.get("user_id") if isinstance(document, dict) else None
        export.user = name_of(user) or None
        export.episodes = _list(export, document.get("episodes"))
        export.nodes = _list(export, document.get("nodes"))
        export.edges = _list(export, document.get("edges"))
        threads = _list(export, document.get("threads"))
        if "messages" in document:
            threads.append(document)
        export.threads = [
            (
                name_of(one.get("user_id")) or export.user,
                _thread_of(one),
                entries(one.get("messages") or one.get("items")),
            )
            for one in threads
        ]
    return export


def _list(export: _Export, value: object) -> list[dict[str, Any]]:
    """Return the objects of a list, or of a page of Zep Cloud; count what is no object."""
    if isinstance(value, dict):
        value = value.get("items") or next(
            (value[name] for name in LISTS if isinstance(value.get(name), list)), None
        )
    found = entries(value)
    export.unreadable += len(value) - len(found) if isinstance(value, list) else 0
    return found


def _sort(export: _Export, found: Sequence[object]) -> None:
    """Put the entries of an array alone to their kind."""
    for one in found:
        if not isinstance(one, dict):
            export.unreadable += 1
        elif "source_node_uuid" in one:
            export.edges.append(one)
        elif "content" in one:
            export.episodes.append(one)
        elif "summary" in one:
            export.nodes.append(one)
        else:
            export.unreadable += 1


def _thread_of(entry: Mapping[str, Any]) -> str:
    names = ("thread_id", "thread_uuid", "session_id", "uuid", "group_id", "graph_uuid")
    return next((found for name in names if (found := name_of(entry.get(name)))), "episodes")


def _in_order(found: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(found, key=lambda one: _said_at(one) or LATE)


def _said_at(entry: Mapping[str, Any]) -> datetime | None:
    names = ("valid_at", "reference_time", "created_at")
    return next((at for name in names if (at := moment(entry.get(name)))), None)


def _user_of(entry: Mapping[str, Any], user: str | None) -> str | None:
    return user or name_of(entry.get("group_id")) or None


def _names(export: _Export) -> frozenset[str]:
    """Return the names of the entities, in lower case."""
    found = [node.get("name") for node in export.nodes]
    found += [edge.get(f"{end}_node_name") for edge in export.edges for end in ENDS]
    return frozenset(name_of(one).lower() for one in found) - {""}


def _episode(episode: Mapping[str, Any], user: str | None, names: frozenset[str]) -> Record:
    source = str(episode.get("source") or "message")
    if source in ("json", "fact_triple"):
        return SkippedRecord(f"episodes of kind {source!r}, whose facts are edges")
    if source == "text" and not episode.get("role"):
        return _document(episode, user)
    ids = ("thread_uuid", "thread_id", "session_id", "group_id", "graph_uuid")
    thread = next((found for name in ids if (found := name_of(episode.get(name)))), "episodes")
    return _turn(episode, user, thread, names)


def _document(episode: Mapping[str, Any], user: str | None) -> Record:
    """Return an episode of plain text, which nobody said, as a statement."""
    text, name = text_of(episode.get("content")), name_of(episode.get("uuid"))
    if not text or not name:
        return SkippedRecord(f"episodes {NO_TEXT if not text else NO_ID}")
    at = _said_at(episode)
    about = text_of(episode.get("source_description"))
    return StatementRecord(
        user=_user_of(episode, user), key=f"zep/{name}", text=text, created_at=at, at=at,
        metadata={"imported_from": "zep", **({"described_as": about} if about else {})},
    )  # fmt: skip


def _turn(
    entry: Mapping[str, Any], given: str | None, thread: str, names: frozenset[str]
) -> Record:
    user = _user_of(entry, given)
    text, event_id, at = text_of(entry.get("content")), name_of(entry.get("uuid")), _said_at(entry)
    named = str(entry.get("role_type") or entry.get("role") or "").lower()
    author = name_of(entry.get("role_name") or entry.get("name"))
    if not named:
        author, named, text = _spoken(text, names | {(user or USER).lower()})
    role: Role | None = "agent" if named in AGENTS else ROLES.get(named, "user")
    if role not in ("user", "agent"):
        return SkippedRecord("tool, system and reasoning messages")
    return turn_record(
        user=user, thread=f"zep/{thread}", event_id=event_id, role=role,
        author=author or ("user" if role == "user" else "assistant"), text=text, at=at,
        metadata={"imported_from": "zep"},
    )  # fmt: skip


def _spoken(content: str, names: frozenset[str]) -> tuple[str, str, str]:
    """Return the author, the role in lower case and the text of "author (role): text".

    Without a role, only one of the names, or a role in place of a name, is an author: other words
    before a colon belong to the text.
    """
    match = SPEAKER.match(content)
    author, role = ((one or "").strip() for one in match.groups()) if match else ("", "")
    named, role = author.lower(), role.lower()
    if role not in ROLES and role not in AGENTS:
        role = named if named in SPEAKERS else USER if named in names else ""
    return (author, role, content[match.end() :]) if match and role else ("", USER, content)


def _facts(export: _Export) -> Iterator[Record]:
    known = {name: node for node in export.nodes if (name := name_of(node.get("uuid")))}
    users = _users(export)
    for edge in _in_order(export.edges):
        yield readable(_fact, edge, known, export.user, users)


def _users(export: _Export) -> set[str]:
    """Return the ids of the entities with the label User, where a user has only one of them."""
    found: dict[str | None, set[str]] = {}
    labelled = [(one, one.get("uuid"), one.get("labels")) for one in export.nodes]
    labelled += [
        (edge, edge.get(f"{end}_node_uuid"), edge.get(f"{end}_node_labels"))
        for edge in export.edges
        for end in ENDS
    ]
    for one, entity, labels in labelled:
        if isinstance(labels, list) and "User" in labels:
            found.setdefault(_user_of(one, export.user), set()).add(name_of(entity))
    return {name for names in found.values() if len(names) == 1 for name in names}


def _fact(
    edge: Mapping[str, Any], known: Mapping[str, Any], given: str | None, users: set[str]
) -> Record:
    """Return an edge as a fact; without the names of its entities as a statement."""
    text, name = text_of(edge.get("fact")), name_of(edge.get("uuid"))
    relation, user = name_of(edge.get("name")), _user_of(edge, given)
    begins = _said_at(edge)
    if not text or not name or begins is None:
        reason = NO_TEXT if not text else NO_ID if not name else NO_TIME
        return SkippedRecord(f"edges {reason}")
    ends = moment(edge.get("invalid_at")) or moment(edge.get("expired_at"))
    subject, object_ = (_entity(edge, end, known, given, users) for end in ENDS)
    if subject and object_ and relation:
        return FactRecord(
            user=user, key=f"zep/{name}", subject=subject, relation=relation, object=object_,
            text=text, valid_from=begins, valid_until=ends and max(begins, ends),
        )  # fmt: skip
    if ends:
        return SkippedRecord("ended edges whose entities are not in the file")
    return StatementRecord(
        user=user, key=f"zep/{name}", text=text, created_at=begins, at=begins,
        metadata={"imported_from": "zep"},
    )  # fmt: skip


def _entity(
    edge: Mapping[str, Any], end: str, known: Mapping[str, Any], given: str | None, users: set[str]
) -> str:
    """Return the name of the entity at an end of an edge, "user" for the user, or ""."""
    entity = name_of(edge.get(f"{end}_node_uuid"))
    name = name_of(edge.get(f"{end}_node_name")) or name_of(known.get(entity, {}).get("name"))
    is_user = entity in users or name.lower() in (USER, (given or USER).lower())
    return USER if name and is_user else name
