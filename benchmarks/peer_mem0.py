"""Opens mem0 as a contender of benchmarks.peers: pgvector, no language model, no network."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any, cast

from benchmarks.operations import BlockingContender, Contender, Operation, Put, Search
from benchmarks.peer_setting import USER, Setting

NEVER_USED = {"provider": "openai", "config": {"api_key": "none"}}
"""mem0 makes a client of its language model and of its embedder; neither is called."""


def open_mem0(setting: Setting) -> Contender:
    """Return mem0's Memory with infer=False, so that it stores turns as they are."""
    folder = setting.stack.enter_context(tempfile.TemporaryDirectory(prefix="mem0-"))
    # mem0 reads both when it is imported.
    os.environ |= {"MEM0_TELEMETRY": "False", "MEM0_DIR": folder}
    from mem0 import Memory
    from mem0.embeddings.base import EmbeddingBase

    model = setting.model

    class Model(EmbeddingBase):  # type: ignore[misc, unused-ignore] # mem0 has no types
        def embed(self, text: str, memory_action: str | None = None) -> list[float]:
            if memory_action == "search":
                return model.embed_query(text)
            return model.embed_documents([text])[0]

    memory: Any = Memory.from_config(_config(setting, Path(folder)))
    # mem0's own way to a model of LangChain imports a module that LangChain 1 does not have.
    memory.embedding_model = Model()
    setting.stack.callback(memory.close)
    setting.stack.callback(memory.vector_store.connection_pool.close)

    class Mem0(BlockingContender):
        def perform(self, operation: Operation) -> object:
            match operation:
                case Put([entry]):
                    speaker = setting.turns[entry.key].event.author
                    said = {"role": "user", "name": speaker, "content": entry.text}
                    about = {"turn": entry.key}
                    return memory.add([said], user_id=USER, metadata=about, infer=False)
                case Search(question, limit):
                    found = memory.search(question.text, filters={"user_id": USER}, top_k=limit)
                    return found["results"]
            raise ValueError(f"operation must be Put of one entry or Search, got {operation}")

        def keys_of(self, answer: object) -> list[str]:
            return [found["metadata"]["turn"] for found in cast("list[dict[str, Any]]", answer)]

    return Mem0("mem0")


def _config(setting: Setting, folder: Path) -> dict[str, object]:
    return {
        "llm": NEVER_USED,
        "embedder": NEVER_USED,
        "vector_store": {
            "provider": "pgvector",
            "config": {
                "connection_string": setting.dsn,
                "embedding_model_dims": setting.model.dims,
                "collection_name": "turns",
            },
        },
        "history_db_path": str(folder / "history.db"),
    }
