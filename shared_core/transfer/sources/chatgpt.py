"""Reads conversations.json of a ChatGPT data export.

A conversation is a tree, because an edited message begins another branch. The branch that ends in
current_node is the one that ChatGPT shows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from shared_core.core.domain import JsonValue, Role
from shared_core.transfer.sources.json_file import JsonFile
from shared_core.transfer.sources.records import (
    NO_ID,
    UNREADABLE,
    Record,
    SkippedRecord,
    by_time,
    left_turn,
    moment,
    name_of,
    readable,
    text_of,
    turn_record,
)

SPEAKERS: Mapping[str, tuple[Role, str]] = {
    "user": ("user", "user"),
    "assistant": ("agent", "ChatGPT"),
}
SPOKEN = frozenset({"text", "multimodal_text"})
"""Types of content that are shown as speech. Others are code, tool output and reasoning."""
MARKER = re.compile("([ \\t]{0,4})\ue200([a-z_]{1,40})\ue202([^\ue200\ue201]{0,4000})\ue201")
"""Matches what ChatGPT shows as a link or a picture: "cite" and places in search results."""
MARKS = re.compile("[\ue200-\ue206]")
"""Matches a character that has no meaning outside of ChatGPT, e.g. around a cited sentence."""
INTERNAL = "tool, system and reasoning messages"


def fits(kind: str, fields: Sequence[str]) -> bool:
    """Tell whether a document is an array of ChatGPT's conversations."""
    return kind == "array" and "mapping" in fields


def read(file: JsonFile, _user: str | None = None) -> Iterator[Record]:
    """Yield the turns of each conversation on its current branch."""
    for conversation in file.items("item"):
        if not isinstance(conversation, dict) or not isinstance(conversation.get("mapping"), dict):
            yield SkippedRecord(UNREADABLE)
            continue
        name = name_of(conversation.get("conversation_id")) or name_of(conversation.get("id"))
        if not name:
            yield SkippedRecord(f"conversations {NO_ID}")
            continue
        yield from _turns(conversation, f"chatgpt/{name}")


def _turns(conversation: Mapping[str, Any], thread: str) -> Iterator[Record]:
    title = text_of(conversation.get("title"))
    about: dict[str, JsonValue] = {
        "imported_from": "chatgpt",
        **({"title": title} if title else {}),
    }
    last = moment(conversation.get("create_time"))
    nodes = {name: node for name, node in conversation["mapping"].items() if isinstance(node, dict)}
    branch = _branch(nodes, conversation.get("current_node"))
    for message in branch:
        last = moment(message.get("create_time")) or last
        yield readable(_turn, message, thread, about, last)
    shown = {id(message) for message in branch}
    for message in _messages(nodes.values()):
        if id(message) not in shown:
            yield left_turn(None, thread, name_of(message.get("id")))


def _turn(
    message: Mapping[str, Any], thread: str, about: Mapping[str, JsonValue], at: datetime | None
) -> Record:
    author, content = message.get("author"), message.get("content")
    role = author.get("role") if isinstance(author, dict) else None
    kind = content.get("content_type") if isinstance(content, dict) else None
    if role not in SPEAKERS or kind not in SPOKEN or _is_internal(message):
        return SkippedRecord(INTERNAL)
    assert isinstance(content, dict)
    speaker, name = SPEAKERS[str(role)]
    return turn_record(
        thread=thread, event_id=name_of(message.get("id")), role=speaker, author=name,
        text=_text(content), at=at, metadata=about,
    )  # fmt: skip


def _is_internal(message: Mapping[str, Any]) -> bool:
    """Tell whether a message is hidden, or is a call of a tool."""
    metadata = message.get("metadata")
    hidden = isinstance(metadata, dict) and metadata.get("is_visually_hidden_from_conversation")
    return bool(hidden) or message.get("recipient", "all") not in ("all", None)


def _text(content: Mapping[str, Any]) -> str:
    """Return the text of the parts of a message; a spoken part has a transcription."""
    parts = content.get("parts")
    texts = [
        text_of(part.get("text") if isinstance(part, dict) else part)
        for part in (parts if isinstance(parts, list) else [])
    ]
    return text_of(MARKS.sub("", MARKER.sub(_shown, "\n".join(filter(None, texts)))))


def _shown(marker: re.Match[str]) -> str:
    """Return the words that ChatGPT shows for a marker: the name of an entity, else nothing."""
    blanks, kind, content = marker.groups()
    if kind != "entity":
        return ""
    try:
        _, name, *_ = json.loads(content)
    except (ValueError, TypeError, RecursionError):
        return ""
    return f"{blanks}{name}" if isinstance(name, str) else ""


def _branch(nodes: Mapping[str, Mapping[str, Any]], current: object) -> list[Mapping[str, Any]]:
    """Return the messages from the root to the current node, or to the latest one without it.

    If the chain of parents does not reach the only root, return all messages by time.
    """
    at = current if isinstance(current, str) and current in nodes else _latest(nodes)
    chain: list[str] = []
    seen: set[str] = set()
    while at in nodes and at not in seen:
        seen.add(at)
        chain.append(at)
        parent = nodes[at].get("parent")
        at = parent if isinstance(parent, str) else ""
    roots = [name for name, node in nodes.items() if node.get("parent") is None]
    if at not in seen and roots != chain[-1:]:
        return by_time(_messages(nodes.values()), "create_time")
    return _messages(nodes[name] for name in reversed(chain))


def _messages(nodes: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [one for node in nodes if isinstance(one := node.get("message"), dict)]


def _latest(nodes: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the name of the node with the latest message."""
    times = {
        name: at
        for name, node in nodes.items()
        if isinstance(node.get("message"), dict)
        and (at := moment(node["message"].get("create_time")))
    }
    return max(times, key=lambda name: times[name], default="")
