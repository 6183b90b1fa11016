"""Writes graphiti.json with the models of graphiti-core 0.31.2, and zep.json with zep-cloud 4.0.1.

Run in an environment with both packages: python tests/exports/make_zep.py. All names and texts are
made up. No server is asked: the models are filled by hand and written by themselves.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
BEGIN = datetime(2024, 3, 1, 9, tzinfo=UTC)
TALK = [
    ("Ana: I live in Leeds and work at Acme.", 0), ("assistant: Noted, Ana.", 1),
    ("Ana: I moved to Lisbon last week.", 90), ("Ana: 我的猫叫米索。", 91),
]  # fmt: skip
ENTITIES = {"ana": "Ana", "leeds": "Leeds", "lisbon": "Lisbon", "acme": "Acme", "theo": "Theo"}
FACTS: list[tuple[str, str, str, str, int, int | None]] = [
    ("ana", "LIVES_IN", "leeds", "Ana lives in Leeds.", 0, 83),
    ("ana", "LIVES_IN", "lisbon", "Ana lives in Lisbon.", 83, None),
    ("ana", "WORKS_AT", "acme", "Ana works at Acme.", 0, None),
    ("theo", "PLAYS_CHESS_WITH", "ana", "Theo plays chess with Ana.", 5, None),
]


def graphiti() -> dict[str, Any]:
    """Return episodes, nodes and edges as Graphiti's models write them."""
    from graphiti_core.edges import EntityEdge
    from graphiti_core.nodes import EntityNode, EpisodeType, EpisodicNode

    def episode(key: object, name: str, kind: str, text: str, about: str, days: int = 0) -> Any:
        at = BEGIN + timedelta(days=days)
        return EpisodicNode(
            uuid=f"episode-{key}", name=name, group_id="ana", source=EpisodeType[kind],
            source_description=about, content=text, valid_at=at, created_at=at,
        )  # fmt: skip

    episodes = [
        episode(number, f"message {number}", "message", text, "chat", days)
        for number, (text, days) in enumerate(TALK)
    ]
    note = ("text", "Ana is allergic to peanuts.", "a note of the clinic")
    episodes.append(episode("note", "note", *note))
    episodes.append(episode("json", "account", "json", '{"plan": "free"}', "account"))
    nodes = [
        EntityNode(uuid=f"node-{key}", name=name, group_id="ana", summary=f"About {name}.",
                   created_at=BEGIN)
        for key, name in ENTITIES.items()
    ]  # fmt: skip
    edges = [
        EntityEdge(
            uuid=f"edge-{number}", group_id="ana", source_node_uuid=f"node-{source}",
            target_node_uuid=f"node-{target}", name=relation, fact=text, created_at=BEGIN,
            valid_at=BEGIN + timedelta(days=begins), episodes=[],
            invalid_at=None if ends is None else BEGIN + timedelta(days=ends),
            expired_at=None if ends is None else BEGIN + timedelta(days=ends + 1),
        )
        for number, (source, relation, target, text, begins, ends) in enumerate(FACTS)
    ]  # fmt: skip
    return {
        "user_id": "ana",
        "episodes": [one.model_dump(mode="json") for one in episodes],
        "nodes": [one.model_dump(mode="json") for one in nodes],
        "edges": [one.model_dump(mode="json") for one in edges],
    }


def zep() -> dict[str, Any]:
    """Return threads and edges as the client of Zep Cloud writes its answers."""
    from zep_cloud.types import Edge, EdgePage, Message, MessagePage

    def iso(days: int) -> str:
        return (BEGIN + timedelta(days=days)).isoformat()

    messages = [
        Message(
            uuid=f"message-{number}", content=text.partition(": ")[2], created_at=iso(days),
            name=text.partition(": ")[0], thread_uuid="thread-1",
            role="assistant" if text.startswith("assistant") else "user",
        )
        for number, (text, days) in enumerate(TALK)
    ]  # fmt: skip
    tool = {"content": "42", "created_at": iso(2), "role": "tool", "thread_uuid": "thread-1"}
    messages.append(Message(uuid="message-tool", **tool))
    edges = [
        Edge(
            uuid=f"edge-{number}", name=relation, fact=text, created_at=iso(0),
            valid_at=iso(begins), invalid_at=None if ends is None else iso(ends),
            source_node_uuid=f"node-{source}", source_node_name=ENTITIES[source],
            source_node_labels=["Entity", "User"] if source == "ana" else ["Entity"],
            target_node_uuid=f"node-{target}", target_node_name=ENTITIES[target],
            target_node_labels=["Entity", "User"] if target == "ana" else ["Entity"],
        )
        for number, (source, relation, target, text, begins, ends) in enumerate(FACTS)
    ]  # fmt: skip
    page = json.loads(MessagePage(items=messages).json())
    return {
        "threads": [{"thread_uuid": "thread-1", "messages": page["items"]}],
        "edges": json.loads(EdgePage(items=edges).json())["items"],
    }


def main() -> None:
    """Write both files."""
    for name, document in (("graphiti", graphiti()), ("zep", zep())):
        text = json.dumps(document, ensure_ascii=False, indent=1)
        (HERE / f"{name}.json").write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main()
