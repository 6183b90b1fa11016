"""Opens LangGraph's stores and langmem's tools as contenders of benchmarks.peers."""

from __future__ import annotations

import json
from typing import Any, cast

from langchain_core.embeddings import Embeddings
from langgraph.store.memory import InMemoryStore
from langgraph.store.postgres import PostgresStore

from benchmarks.contenders import BlockingStore
from benchmarks.operations import BlockingContender, Contender, Operation, Put, Search
from benchmarks.peer_setting import NAMESPACE, Setting, SharedModel


class LangChainModel(Embeddings):
    """The shared model as LangChain's embeddings."""

    def __init__(self, model: SharedModel) -> None:
        self._model = model

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return self._model.embed_documents(texts)

    def embed_query(self, text: str) -> list[float]:
        return self._model.embed_query(text)


def open_postgres_store(setting: Setting) -> Contender:
    """Return PostgresStore, set up as in its documentation."""
    return BlockingStore("postgres_store", "", _postgres_store(setting, "text"))


def open_in_memory_store(setting: Setting) -> Contender:
    """Return InMemoryStore with an index."""
    return BlockingStore("in_memory_store", "", InMemoryStore(index=_index(setting, "text")))


def open_langmem(setting: Setting) -> Contender:
    """Return langmem's tools for managing and searching memories, over a PostgresStore."""
    from langmem import create_manage_memory_tool, create_search_memory_tool

    store = _postgres_store(setting, "content")
    manage = create_manage_memory_tool(namespace=NAMESPACE, store=store)
    search = create_search_memory_tool(namespace=NAMESPACE, store=store)
    turn_of: dict[str, str] = {}

    class Tools(BlockingContender):
        def perform(self, operation: Operation) -> object:
            match operation:
                case Put([entry]):
                    created = str(manage.invoke({"content": entry.text, "action": "create"}))
                    turn_of[created.split()[-1]] = entry.key
                    return created
                case Search(question, limit):
                    return search.invoke({"query": question.text, "limit": limit})
            raise ValueError(f"operation must be Put of one entry or Search, got {operation}")

        def keys_of(self, answer: object) -> list[str]:
            return [turn_of[item["key"]] for item in json.loads(cast(str, answer))]

    return Tools("langmem")


def _postgres_store(setting: Setting, field: str) -> PostgresStore:
    opened = PostgresStore.from_conn_string(
        setting.dsn, pool_config={"min_size": 1, "max_size": 4}, index=_index(setting, field)
    )
    store = setting.stack.enter_context(opened)
    store.setup()
    return store


def _index(setting: Setting, field: str) -> Any:
    embeddings = LangChainModel(setting.model)
    return {"dims": setting.model.dims, "embed": embeddings, "fields": [field]}
