"""Reads agent files (.af) of Letta, both forms, and lists of archival passages."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any

from shared_core.core.domain import JsonValue
from shared_core.transfer.sources.json_file import JsonFile
from shared_core.transfer.sources.records import (
    NO_ID,
    NO_TEXT,
    NO_TIME,
    UNREADABLE,
    Record,
    SkippedRecord,
    StatementRecord,
    TurnRecord,
    entries,
    moment,
    name_of,
    readable,
    text_of,
)

PERSONA = "persona"
"""Label of the block in which an agent describes itself."""
SPEAKS = "send_message"
"""The tool with which agents of the MemGPT kind answer."""
REMINDER = "<system-reminder>"
"""Begins a message in the name of the user that Letta itself wrote."""
PARAGRAPH = re.compile(r"\n\s*\n")


def fits(kind: str, fields: Sequence[str]) -> bool:
    """Tell whether a document is an agent file, or an array of passages."""
    names = set(fields)
    if kind == "array":
        return "text" in names and bool(names & {"archive_id", "embedding_config"})
    return {"agents", "blocks"} <= names or {"core_memory", "messages"} <= names


def read(file: JsonFile, _user: str | None = None) -> Iterator[Record]:
    """Yield messages as turns, and blocks and passages as statements."""
    kind, _ = file.outline()
    if kind == "array":
        for passage in file.items("item"):
            yield readable(_passage, passage)
        return
    for document in file.items(""):
        agents = entries(document.get("agents")) or [document]
        written_at = moment(document.get("created_at")) if "agents" in document else None
        shared = {name_of(block.get("id")): block for block in entries(document.get("blocks"))}
        for agent in agents:
            yield from _agent(agent, shared, written_at)


def _agent(
    agent: Mapping[str, Any], shared: Mapping[str, dict[str, Any]], written_at: datetime | None
) -> Iterator[Record]:
    name = name_of(agent.get("name"))[:100] or "agent"
    ids = agent.get("block_ids")
    named = (
        [shared[one] for one in map(name_of, ids) if one in shared] if isinstance(ids, list) else []
    )
    at = written_at or moment(agent.get("updated_at"))
    for block in [*named, *entries(agent.get("core_memory"))]:
        yield from _block(block, at)
    for message in entries(agent.get("messages")):
        yield readable(_message, message, name)


def _block(block: Mapping[str, Any], at: datetime | None) -> Iterator[Record]:
    label = name_of(block.get("label")) or "block"
    if label == PERSONA:
        yield SkippedRecord("blocks 'persona', which describe the agent")
        return
    value = block.get("value")
    texts = filter(None, map(text_of, PARAGRAPH.split(value if isinstance(value, str) else "")))
    about: dict[str, JsonValue] = {"imported_from": "letta", "block": label}
    for text in texts:
        # Paragraphs have no ids and change places, and agents share blocks.
        yield StatementRecord(
            user=None, key=f"letta/{_identity(label, text)}", text=text, created_at=at, at=at,
            metadata=about,
        )  # fmt: skip


def _passage(passage: object) -> Record:
    if not isinstance(passage, Mapping):
        return SkippedRecord(UNREADABLE)
    if passage.get("is_deleted"):
        return SkippedRecord("deleted passages")
    text, name = text_of(passage.get("text")), name_of(passage.get("id"))
    if not text or not name:
        return SkippedRecord(f"passages {NO_TEXT if not text else NO_ID}")
    created_at = moment(passage.get("created_at"))
    tags = passage.get("tags")
    about: dict[str, JsonValue] = {"imported_from": "letta"}
    if isinstance(tags, list) and tags:
        about["tags"] = [str(tag) for tag in tags]
    return StatementRecord(
        user=None, key=f"letta/{name}", text=text, created_at=created_at,
        at=moment(passage.get("updated_at")) or created_at, metadata=about,
    )  # fmt: skip


def _message(message: Mapping[str, Any], agent: str) -> Record:
    role = message.get("role")
    text = _answer(message) if role == "assistant" else _said(message) if role == "user" else ""
    at = moment(message.get("created_at"))
    if role not in ("user", "assistant") or (not text and not _text(message)):
        return SkippedRecord("tool, system and reasoning messages")
    if not text or at is None:
        return SkippedRecord("events of the agent" if at else f"messages {NO_TIME}")
    # The ids of an agent file count from 0 in each file, so the words identify a message.
    return TurnRecord(
        user=None,
        thread=f"letta/{agent}",
        event_id=_identity(str(role), at.isoformat(), text),
        role="user" if role == "user" else "agent",
        author="user" if role == "user" else agent,
        text=text,
        at=at,
        metadata={"imported_from": "letta"},
    )


def _identity(*parts: str) -> str:
    return sha256("\n".join(parts).encode()).hexdigest()[:32]


def _text(message: Mapping[str, Any]) -> str:
    """Return the text of a message: a list of parts, or a text in older files."""
    content = message.get("content")
    if isinstance(content, list):
        parts = [text_of(one.get("text")) for one in entries(content) if one.get("type") == "text"]
        return "\n".join(filter(None, parts))
    return text_of(content) or text_of(message.get("text"))


def _said(message: Mapping[str, Any]) -> str:
    """Return what the user said; older agents wrap it into JSON, and their own events too."""
    text = _text(message)
    if text.startswith(REMINDER):
        return ""
    wrapped = _json(text) if text.startswith("{") else None
    if wrapped is None or "type" not in wrapped:
        return text
    return text_of(wrapped.get("message")) if wrapped["type"] == "user_message" else ""


def _answer(message: Mapping[str, Any]) -> str:
    """Return the answer of an agent: what it sent with its tool, else its text.

    Beside a call of a tool, the text is its reasoning.
    """
    calls = [call["function"] for call in entries(message.get("tool_calls"))
             if isinstance(call.get("function"), dict)]  # fmt: skip
    if not calls:
        return _text(message)
    sent = [_json(str(one.get("arguments"))) for one in calls if one.get("name") == SPEAKS]
    return "\n".join(filter(None, (text_of(one.get("message")) for one in sent if one)))


def _json(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
