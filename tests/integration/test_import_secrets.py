"""What an import writes shows no secret, also where only the words around it give it away."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from shared_core import MemoryEngine, Scope
from shared_core.transfer.record_import import RecordOptions, RecordReport
from shared_core.transfer.sources import open_source

ANA = Scope("app", "ana")
AT = "2024-05-01T00:00:00Z"


async def bring(memory: MemoryEngine, tmp_path: Path, document: object) -> RecordReport:
    file = tmp_path / "export.json"
    file.write_text(json.dumps(document), "utf-8")
    return await memory.imports.run(open_source(file), RecordOptions(app="app", user="ana"))


async def rows(memory: MemoryEngine) -> str:
    return "".join([line async for line in memory.export(app="app")])


def graph(*edges: dict[str, Any]) -> dict[str, Any]:
    nodes = [{"uuid": "a", "name": "Ana", "labels": ["User"]}, {"uuid": "b", "name": "hunter22"}]
    ends = {"source_node_uuid": "a", "target_node_uuid": "b", "valid_at": AT, "created_at": AT}
    return {"user_id": "ana", "nodes": nodes, "edges": [ends | one for one in edges]}


async def test_a_fact_that_tells_a_secret_keeps_only_its_masked_sentence(
    memory: MemoryEngine, tmp_path: Path
) -> None:
    told = {"uuid": "e", "name": "HAS_PASSWORD", "fact": "Ana's password is hunter22"}
    document = graph(told, told | {"uuid": "ended", "invalid_at": "2024-06-01T00:00:00Z"})
    report = await bring(memory, tmp_path, document)
    assert (1, 0) == (report.statements.written, report.facts.read)
    assert {"ended facts that tell a secret": 1} == report.skipped
    assert "Ana's password is [REDACTED: password]" in await rows(memory)
    assert "hunter22" not in await rows(memory)
    assert 1 == (await bring(memory, tmp_path, document)).statements.here


async def test_titles_and_descriptions_are_masked_as_texts_are(
    memory: MemoryEngine, tmp_path: Path
) -> None:
    title = "The password for the wifi is: hunter22"
    said = {"uuid": "m", "sender": "human", "created_at": AT, "text": "Thank you for the wifi."}
    chat = [{"uuid": "c", "name": title, "chat_messages": [said]}]
    assert 1 == (await bring(memory, tmp_path, chat)).turns.written
    noted = {"uuid": "t", "source": "text", "content": "The wifi is fast.", "created_at": AT}
    document = {"episodes": [noted | {"source_description": title}]}
    assert 1 == (await bring(memory, tmp_path, document)).statements.written
    written = await rows(memory)
    assert 2 <= written.count("The password for the wifi is: [REDACTED: password]")
    assert "hunter22" not in written
