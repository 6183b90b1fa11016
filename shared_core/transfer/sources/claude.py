"""Reads conversations.json of a data export of Claude."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
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
    entries,
    left_turn,
    moment,
    name_of,
    readable,
    text_of,
    turn_record,
)

SPEAKERS: Mapping[str, tuple[Role, str]] = {
    "human": ("user", "user"),
    "user": ("user", "user"),
    "assistant": ("agent", "Claude"),
}

TEXT_KINDS = frozenset({"", "txt", "md", "text", "text/plain", "text/markdown"})
"""Kinds of attachments that hold the user's own words: text that was pasted, and notes."""
FILES = "attached files"
OTHERS = (
    (re.compile(r"(?:^|/)memories(?:\.json|/[^/]{1,200}\.json)$"), "memories of Claude itself"),
    (re.compile(r"(?:^|/)projects(?:\.json|/[^/]{1,200}\.json)$"), "projects"),
)
"""Matches the other members of an archive, and tells what their entries are."""
NO_PARENT = "00000000-0000-4000-8000-000000000000"
"""What the first message names as its parent."""


def fits(kind: str, fields: Sequence[str]) -> bool:
    """Tell whether a document is an array of Claude's conversations."""
    return kind == "array" and "chat_messages" in fields


def read(file: JsonFile, _user: str | None = None) -> Iterator[Record]:
    """Yield the turns of each conversation, on its last branch if messages name their parents."""
    for conversation in file.items("item"):
        messages = conversation.get("chat_messages") if isinstance(conversation, dict) else None
        if not isinstance(messages, list):
            yield SkippedRecord(UNREADABLE)
            continue
        name = name_of(conversation.get("uuid"))
        if not name:
            yield SkippedRecord(f"conversations {NO_ID}")
            continue
        title = text_of(conversation.get("name"))
        about: dict[str, JsonValue] = {"imported_from": "claude"}
        if title:
            about["title"] = title
        account = conversation.get("account")
        user = name_of(account.get("uuid")) if isinstance(account, dict) else ""
        last = moment(conversation.get("created_at"))
        branch = _branch(entries(messages))
        for message in branch:
            last = moment(message.get("created_at")) or last
            yield readable(_turn, message, user or None, f"claude/{name}", about, last)
            for _ in _files(message):
                yield SkippedRecord(FILES)
        shown = {id(message) for message in branch}
        for message in entries(messages):
            if id(message) not in shown:
                yield left_turn(user or None, f"claude/{name}", name_of(message.get("uuid")))


def _turn(
    message: Mapping[str, Any],
    user: str | None,
    thread: str,
    about: Mapping[str, JsonValue],
    at: datetime | None,
) -> Record:
    sender = message.get("sender")
    if sender not in SPEAKERS:
        return SkippedRecord("messages of an unknown sender")
    role, author = SPEAKERS[str(sender)]
    return turn_record(
        user=user, thread=thread, event_id=name_of(message.get("uuid")), role=role,
        author=author, text=_text(message), at=at, metadata=about,
    )  # fmt: skip


def _text(message: Mapping[str, Any]) -> str:
    """Return the texts of the content, or the field text of older exports, and pasted text.

    Tool calls, their results and thoughts are content of other types.
    """
    texts = [
        text_of(part.get("text"))
        for part in entries(message.get("content"))
        if part.get("type") == "text"
    ]
    text = "\n".join(filter(None, texts)) or text_of(message.get("text"))
    return "\n\n".join(filter(None, (text, *map(_pasted, entries(message.get("attachments"))))))


def _pasted(attachment: Mapping[str, Any]) -> str:
    """Return the text of an attachment, or "" for a document such as a PDF."""
    name = text_of(attachment.get("file_name"))
    kind = text_of(attachment.get("file_type")) or name.rpartition(".")[2] * ("." in name)
    return text_of(attachment.get("extracted_content")) if kind.lower() in TEXT_KINDS else ""


def _files(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the files of a message that have no text to import."""
    attachments = [one for one in entries(message.get("attachments")) if not _pasted(one)]
    return [*attachments, *entries(message.get("files"))]


def _branch(messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the messages that lead to the last one, or all if their chain does not reach a root.

    Messages of older exports name no parents.
    """
    by_id = {name: one for one in messages if (name := name_of(one.get("uuid")))}
    parents = [name_of(one.get("parent_message_uuid")) for one in messages]
    if not any(parent in by_id for parent in parents):
        return list(messages)
    found = [messages[-1]]
    by_id.pop(name_of(messages[-1].get("uuid")), None)
    while (parent := name_of(found[-1].get("parent_message_uuid"))) in by_id:
        found.append(by_id.pop(parent))
    if parent != NO_PARENT and found[-1] is not messages[0]:
        return by_time(messages, "created_at")
    return found[::-1]
