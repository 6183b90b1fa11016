"""The LangGraph face: `graph.compile(store=PgHippocampusStore())`."""

from langgraph_store.labels import memories_namespace
from langgraph_store.store import PgHippocampusStore

__all__ = ["PgHippocampusStore", "memories_namespace"]
