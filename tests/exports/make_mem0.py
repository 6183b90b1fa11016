"""Writes mem0.sql and mem0_get_all.json with mem0ai 2.2.1, pgvector and no language model.

Run in an environment with the extra `peers`, with the DSN of an empty database that has pgvector:
python tests/exports/make_mem0.py DSN. All names and texts are made up. The tests load mem0.sql into
a database, and read mem0_get_all.json as a file.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import psycopg

HERE = Path(__file__).parent
TOLD = [
    ("ana", "user", "I live in Porto and work as a vet.", {"topic": "home"}),
    ("ana", "user", "My cat is called Miso.", {}),
    ("ana", "assistant", "Miso is a lovely name.", {}),
    ("ben", "user", "I am allergic to peanuts.", {"topic": "health"}),
    ("小明", "user", "我住在上海，喜欢喝龙井茶。", {}),
]
NEVER_CALLED = {"provider": "openai", "config": {"api_key": "none"}}


def tell_mem0(dsn: str, folder: str) -> list[dict[str, Any]]:
    """Let mem0 remember TOLD in a database; return what get_all() returns of each user."""
    os.environ |= {"MEM0_TELEMETRY": "False", "MEM0_DIR": folder}  # read when mem0 is imported
    from mem0 import Memory
    from mem0.embeddings.base import EmbeddingBase

    class Lengths(EmbeddingBase):  # type: ignore[misc, unused-ignore] # mem0 has no types
        def embed(self, text: str, memory_action: str | None = None) -> list[float]:
            return [1.0, len(text) / 100, text.count(" ") / 10]

    store = {"connection_string": dsn, "embedding_model_dims": 3, "collection_name": "mem0"}
    memory: Any = Memory.from_config({"llm": NEVER_CALLED, "embedder": NEVER_CALLED,
        "vector_store": {"provider": "pgvector", "config": store},
        "history_db_path": str(Path(folder) / "history.db")})  # fmt: skip
    memory.embedding_model = Lengths()
    try:
        for user, role, text, about in TOLD:
            said = [{"role": role, "content": text}]
            memory.add(said, user_id=user, metadata=about, infer=False)
        memory.add([{"role": "user", "content": "The agent speaks French."}], agent_id="guide",
                   infer=False)  # fmt: skip
        users = dict.fromkeys(user for user, *_ in TOLD)
        return [memory.get_all(filters={"user_id": user}, top_k=100) for user in users]
    finally:
        memory.close()
        memory.vector_store.connection_pool.close()


def dumped(dsn: str) -> str:
    """Return the rows of the table as SQL, by id."""
    with psycopg.connect(dsn) as connection:
        rows = connection.execute("SELECT id, vector::text, payload FROM mem0 ORDER BY id")
        values = [f"('{row[0]}', '{row[1]}', '{_quoted(row[2])}')" for row in rows.fetchall()]
    return (
        "-- What mem0ai 2.2.1 wrote with pgvector; made by make_mem0.py.\n"
        "CREATE EXTENSION IF NOT EXISTS vector;\n"
        "CREATE TABLE mem0 (id UUID PRIMARY KEY, vector vector(3), payload JSONB);\n"
        "INSERT INTO mem0 VALUES\n" + ",\n".join(values) + ";\n"
    )


def _quoted(payload: object) -> str:
    return json.dumps(payload, ensure_ascii=False).replace("'", "''")


def main() -> None:
    """Write both files."""
    [dsn] = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="mem0-") as folder:
        answers = tell_mem0(dsn, folder)
    (HERE / "mem0.sql").write_text(dumped(dsn), "utf-8")
    results = [one for answer in answers for one in answer["results"]]
    text = json.dumps({"results": results}, ensure_ascii=False, indent=1)
    (HERE / "mem0_get_all.json").write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main()
