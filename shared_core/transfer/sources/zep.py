"""Reads what Graphiti and Zep hold: episodes, entities and edges, and messages of threads.

Neither has a file format of its own. The document is an object with the lists "episodes", "nodes",
"edges" and "threads", or one such list alone; their entries are the JSON of Graphiti's models
EpisodicNode, EntityNode and EntityEdge, or of Zep Cloud's Episode, Node, Edge and Message.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from shared_core.core.domain import USER
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
from shared_core.transfer.sources.speakers import ROLE_NAMES, Said, own_speakers, role_of, said_in

LISTS = frozenset({"episodes", "nodes", "edges", "threads", "messages"})
DATA = ("json", "fact_triple")
"""Kinds of episodes that hold data."""
ENDS = ("source", "target")
THREADS = ("thread_id", "thread_uuid", "session_id", "uuid", "group_id", "graph_uuid")
EPISODE_THREADS = ("thread_uuid", "thread_id", "session_id", "group_id", "graph_uuid")
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


@dataclass(frozen=True, slots=True)
class _Speakers:
    """Who speaks, in lower case.

    Attributes:
        users: The names of all users.
        entities: The names of the entities.
        own: The names under which each user speaks.
    """

    users: frozenset[str]
    entities: frozenset[str]
    own: Mapping[str | None, frozenset[str]]


def read(file: JsonFile, user: str | None = None) -> Iterator[Record]:
    """Yield episodes and messages as turns, text as statements, and edges as facts, by time.

    user: a name of the user that the document may lack.
    """
    export = _graph(file)
    for _ in range(export.unreadable):
        yield SkippedRecord(UNREADABLE)
    speakers = _speakers(export, user)
    for owner, thread, messages in export.threads:
        for message in _in_order(messages):
            yield from _readable_turns(message, _user_of(message, owner), thread, speakers)
    for episode in _in_order(export.episodes):
        if _is_speech(episode):
            owner, thread = _user_of(episode, export.user), _thread_of(episode, EPISODE_THREADS)
            yield from _readable_turns(episode, owner, thread, speakers)
        else:
            yield readable(_document, episode, export.user)
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


def _thread_of(entry: Mapping[str, Any], names: Sequence[str] = THREADS) -> str:
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
    return _in_lower_case(found)


def _speakers(export: _Export, given: str | None) -> _Speakers:
    """Return who speaks in a document. given: a name of the user, or None."""
    spoken: dict[str | None, list[Mapping[str, Any]]] = {}
    for owner, _, messages in export.threads:
        for message in messages:
            spoken.setdefault(_user_of(message, owner), []).append(message)
    for episode in filter(_is_speech, export.episodes):
        spoken.setdefault(_user_of(episode, export.user), []).append(episode)
    labelled = {user: list(one.values()) for user, one in _labelled(export).items()}
    names = {
        user: _in_lower_case([user, given, *(found if len(found) == 1 else ())])
        for user in spoken
        for found in [labelled.get(user, [])]
    }
    entities = _names(export)
    users = frozenset[str]().union(*names.values())
    own = {
        user: own_speakers(
            (one for entry in found for one in _said(entry, users, entities)),
            names[user],
            is_entity=not entities.isdisjoint(names[user]),
        )
        for user, found in spoken.items()
    }
    return _Speakers(users, entities, own)


def _in_lower_case(names: Iterable[object]) -> frozenset[str]:
    return frozenset(name_of(one).lower() for one in names) - {""}


def _is_speech(episode: Mapping[str, Any]) -> bool:
    """Tell whether somebody says an episode. Nobody says a document or data."""
    source = str(episode.get("source") or "message")
    return source not in DATA and (source != "text" or bool(episode.get("role")))


def _document(episode: Mapping[str, Any], user: str | None) -> Record:
    """Return an episode of plain text, which nobody said, as a statement."""
    source = episode.get("source")
    if source in DATA:
        return SkippedRecord(f"episodes of kind {source!r}, whose facts are edges")
    text, name = text_of(episode.get("content")), name_of(episode.get("uuid"))
    if not text or not name:
        return SkippedRecord(f"episodes {NO_TEXT if not text else NO_ID}")
    at = _said_at(episode)
    about = text_of(episode.get("source_description"))
    return StatementRecord(
        user=_user_of(episode, user), key=f"zep/{name}", text=text, created_at=at, at=at,
        metadata={"imported_from": "zep", **({"described_as": about} if about else {})},
    )  # fmt: skip


def _said(entry: Mapping[str, Any], users: frozenset[str], entities: frozenset[str]) -> list[Said]:
    """Return what each speaker says in a message or an episode."""
    text = text_of(entry.get("content"))
    role = str(entry.get("role_type") or entry.get("role") or "").lower()
    if role or not text:
        author = name_of(entry.get("role_name") or entry.get("name")) if role else ""
        return [Said(1, author, role or USER, text)]
    return said_in(text, users, entities)


def _readable_turns(
    entry: Mapping[str, Any], user: str | None, thread: str, speakers: _Speakers
) -> Iterator[Record]:
    for one in _said(entry, speakers.users, speakers.entities):
        yield readable(_turn, entry, one, user, thread, speakers)


def _turn(
    entry: Mapping[str, Any], said: Said, user: str | None, thread: str, speakers: _Speakers
) -> Record:
    """Return what one speaker says. A speaker who is not the user is stored as an agent."""
    role = role_of(said.role)
    if role not in ("user", "agent"):
        return SkippedRecord("tool, system and reasoning messages")
    is_stated = bool(entry.get("role_type") or entry.get("role"))
    name = said.author.lower()
    if role == "user" and not is_stated and name and name not in ROLE_NAMES:
        role = "user" if name in speakers.own[user] else "agent"
    event_id = name_of(entry.get("uuid"))
    if event_id and said.line > 1:
        event_id = name_of(f"{event_id}/{said.line}")
    return turn_record(
        user=user, thread=f"zep/{thread}", event_id=event_id, role=role,
        author=said.author or ("user" if role == "user" else "assistant"), text=said.text,
        at=_said_at(entry), metadata={"imported_from": "zep"},
    )  # fmt: skip


def _facts(export: _Export) -> Iterator[Record]:
    known = {name: node for node in export.nodes if (name := name_of(node.get("uuid")))}
    users = _users(export)
    for edge in _in_order(export.edges):
        yield readable(_fact, edge, known, export.user, users)


def _users(export: _Export) -> set[str]:
    """Return the ids of the entities with the label User, where a user has only one of them."""
    found = _labelled(export).values()
    return {entity for entities in found if len(entities) == 1 for entity in entities}


def _labelled(export: _Export) -> dict[str | None, dict[str, object]]:
    """Return the entities with the label User of each user: their names by their ids."""
    found: dict[str | None, dict[str, object]] = {}
    labelled = [(node, "") for node in export.nodes]
    labelled += [(edge, f"{end}_node_") for edge in export.edges for end in ENDS]
    for one, start in labelled:
        labels, entity = one.get(f"{start}labels"), name_of(one.get(f"{start}uuid"))
        if isinstance(labels, list) and "User" in labels:
            users = found.setdefault(_user_of(one, export.user), {})
            users[entity] = users.get(entity) or one.get(f"{start}name")
    return found


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
            said_at=moment(edge.get("created_at")),
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
