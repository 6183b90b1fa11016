"""The same as services.py one folder above: `adk run` looks in the folder of its agent."""

from adk_memory import register

register()
