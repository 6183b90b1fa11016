"""Does the same as services.py one folder above: `adk run` reads the folder of its agent."""

from adk_memory import register

register()
