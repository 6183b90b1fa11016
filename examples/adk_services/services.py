"""Tells `adk web` and `adk api_server` what hippocampus:// means; services.yaml says the same."""

from adk_memory import register

register()
