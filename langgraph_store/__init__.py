"""The LangGraph face: `graph.compile(store=PgHippocampusStore())`."""

from langgraph_store.executor import DurableReflectionExecutor
from langgraph_store.instructions import (
    get_instruction,
    instruction_history,
    instructions_namespace,
    put_instruction,
    rollback_instruction,
)
from langgraph_store.labels import memories_namespace
from langgraph_store.reflection import create_reflection_node
from langgraph_store.store import PgHippocampusStore
from langgraph_store.tools import memory_tools

__all__ = [
    "DurableReflectionExecutor",
    "PgHippocampusStore",
    "create_reflection_node",
    "get_instruction",
    "instruction_history",
    "instructions_namespace",
    "memories_namespace",
    "memory_tools",
    "put_instruction",
    "rollback_instruction",
]
