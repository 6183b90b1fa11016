"""Writes chatgpt.json and claude.json by hand: both services export, and no package does.

chatgpt.json follows docs/chatgpt-data-export-format.md of github.com/mitkury/chatgpt-export-parser,
claude.json follows docs/providers/claude-ai.md of github.com/Sinity/polylogue. All names and texts
are made up.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
BEGIN = 1_700_000_000.5


def chatgpt_node(
    name: str, parent: str | None, role: str, parts: list[Any], after_s: float | None, **more: Any
) -> dict[str, Any]:
    """Return a node of the tree of a conversation with one message."""
    message = {
        "id": name, "author": {"role": role, "name": None, "metadata": {}},
        "create_time": None if after_s is None else BEGIN + after_s, "update_time": None,
        "content": {"content_type": "text", "parts": parts}, "status": "finished_successfully",
        "end_turn": True, "weight": 1.0, "metadata": {}, "recipient": "all",
    }  # fmt: skip
    return {"id": name, "message": message | more, "parent": parent, "children": []}


def chatgpt_conversation(name: str, title: str, nodes: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a conversation whose current branch ends in the last node."""
    root = {"id": "root", "message": None, "parent": None, "children": []}
    return {
        "title": title, "create_time": BEGIN, "update_time": BEGIN + 60,
        "mapping": {node["id"]: node for node in [root, *nodes]}, "moderation_results": [],
        "current_node": nodes[-1]["id"], "conversation_id": name, "id": name,
    }  # fmt: skip


def chatgpt() -> list[dict[str, Any]]:
    """Return an English conversation with a branch, a tool and a picture, and a Chinese one."""
    node = chatgpt_node
    hidden = {"is_visually_hidden_from_conversation": True}
    picture = {"content_type": "image_asset_pointer", "asset_pointer": "file-service://file-1"}
    spoken = {"content_type": "audio_transcription", "text": "And a dog called Rex."}
    code = {"content_type": "code", "language": "unknown", "text": "search('Miso')"}
    seen = {"content_type": "multimodal_text", "parts": [picture, spoken]}
    english = [
        node("system", "root", "system", [""], None, metadata=hidden),
        node("u1", "system", "user", ["I live in Porto and I work as a vet."], 0),
        node("a1", "u1", "assistant", ["Porto is lovely."], 10),
        node("u2-before", "a1", "user", ["My cat is called Tom."], 20),
        node("a2-before", "u2-before", "assistant", ["Hello Tom!"], 25),
        node("u2", "a1", "user", ["My cat is called Miso."], 30),
        node("call", "u2", "assistant", [], 31, recipient="browser", content=code),
        node("result", "call", "tool", ["nothing"], 32),
        node("u3", "result", "user", [picture, spoken], None, content=seen),
        node("a3", "u3", "assistant", ["Hello Miso and Rex!"], 40),
    ]
    chinese = [
        node("z1", "root", "user", ["我住在上海，我对花生过敏。"], 100),
        node("z2", "z1", "assistant", ["好的，我记住了。"], 110),
    ]
    return [
        chatgpt_conversation("c-zh", "过敏", chinese),
        chatgpt_conversation("c-en", "A vet in Porto", english),
    ]


def claude_message(name: str, sender: str, text: str, minute: int, **more: Any) -> dict[str, Any]:
    """Return a message as Claude exports it."""
    at = f"2024-05-01T10:{minute:02}:00.123456Z"
    block = {"start_timestamp": at, "stop_timestamp": at, "type": "text", "text": text}
    return {
        "uuid": name, "text": text, "content": [block], "sender": sender, "created_at": at,
        "updated_at": at, "attachments": [], "files": [],
    } | more  # fmt: skip


def claude() -> list[dict[str, Any]]:
    """Return a conversation with an edited message and a tool, and one without messages."""
    thinking = {"type": "thinking", "thinking": "The user has moved."}
    call = {"type": "tool_use", "name": "search", "input": {}}
    said = {"type": "text", "text": "Lisbon it is."}
    messages = [
        claude_message("m1", "human", "I moved to Lisbon.", 0),
        claude_message("m2", "assistant", "", 1, content=[thinking, call, said]),
        claude_message("m3-before", "human", "My sister is Eva.", 2),
        claude_message("m3", "human", "My sister is called Mia.", 3),
        claude_message("m4", "assistant", "Hello Mia.", 4),
        claude_message("m5", "human", "", 5, content=[], attachments=[{"file_name": "a.pdf"}]),
    ]
    parents = ["00000000-0000-4000-8000-000000000000", "m1", "m2", "m2", "m3", "m4"]
    for message, parent in zip(messages, parents, strict=True):
        message["parent_message_uuid"] = parent
    of = {"created_at": "2024-05-01T09:59:00Z", "updated_at": "2024-05-01T10:05:00Z",
          "account": {"uuid": "account-1"}}  # fmt: skip
    return [
        {"uuid": "k-1", "name": "Moving", **of, "chat_messages": messages},
        {"uuid": "k-2", "name": "", **of, "chat_messages": []},
    ]


def main() -> None:
    """Write both files."""
    for name, document in (("chatgpt", chatgpt()), ("claude", claude())):
        text = json.dumps(document, ensure_ascii=False, indent=1)
        (HERE / f"{name}.json").write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main()
