"""Writes letta.af by hand, in the form of the agent files of github.com/letta-ai/agent-file.

The fields are those of memgpt_agent/memgpt_agent_with_convo.af of that repository (commit 78212eb,
2026-03-24); settings of models and tools are left out. All names and texts are made up.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def message(number: int, role: str, text: str, **more: Any) -> dict[str, Any]:
    """Return a message of an agent file; its id counts within the file."""
    return {
        "type": "message", "role": role,
        "content": [{"type": "text", "text": text}] if text else [],
        "name": None, "otid": None, "sender_id": None, "batch_item_id": None, "group_id": None,
        "id": f"message-{number}", "model": "gpt-4o-mini", "agent_id": "agent-0",
        "tool_calls": None, "tool_call_id": None, "tool_returns": [],
        "created_at": f"2025-10-31T22:5{number}:00.459100+00:00",
    } | more  # fmt: skip


def block(number: int, label: str, value: str) -> dict[str, Any]:
    """Return a block of core memory."""
    return {"value": value, "limit": 20000, "label": label, "read_only": False,
            "description": None, "metadata": {}, "id": f"block-{number}"}  # fmt: skip


def main() -> None:
    """Write the file."""
    sent = {"name": "send_message", "arguments": json.dumps({"message": "And Miso too."})}
    messages = [
        message(0, "system", "<base_instructions> You are a helpful agent."),
        message(1, "user", '{"type": "login", "last_login": "Never (first login)"}'),
        message(2, "user", "I moved to Lisbon."),
        message(3, "assistant", "Lisbon suits you."),
        message(4, "assistant", "The user has a cat; mention it.",
                tool_calls=[{"id": "call-1", "function": sent, "type": "function"}]),
        message(5, "tool", '{"status": "OK", "message": "None"}'),
    ]  # fmt: skip
    agent = {
        "name": "guide", "agent_type": "memgpt_agent", "id": "agent-0",
        "block_ids": ["block-0", "block-1"], "tool_ids": [], "system": "You are a helpful agent.",
        "in_context_message_ids": [one["id"] for one in messages], "messages": messages,
    }  # fmt: skip
    blocks = [
        block(0, "human", "Name: Ana\n\nShe is allergic to peanuts. 她喜欢喝茶。\n"),
        block(1, "persona", "I am Sam, and I am curious."),
    ]
    document = {
        "agents": [agent], "groups": [], "blocks": blocks, "files": [], "sources": [], "tools": [],
        "mcp_servers": [], "metadata": {"revision_id": "f6cd5a1e519d"},
        "created_at": "2025-10-31T22:56:56.879513+00:00",
    }  # fmt: skip
    text = json.dumps(document, ensure_ascii=False, indent=1)
    (HERE / "letta.af").write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main()
