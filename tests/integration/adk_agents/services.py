"""Registers hippocampus:// with `adk web` and `adk api_server`, as services.yaml does."""

from adk_memory import register

register()
